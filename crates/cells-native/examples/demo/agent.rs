//! The steps that talk to the agent.

use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use cells_driver::{
    CommandName, CommandState, EventCursor, HarnessClient, HistoryOptions, MutationOptions, NativeId, NativeMessage,
    OperationOptions, OutputLoadOptions, ProfileId, Subscription, TopicState,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{expect_equal, files::hex, stage::Stage};

/// A new session in the scratch export.
pub(crate) struct Session {
    pub(crate) harness: HarnessClient,
    pub(crate) profile: ProfileId,
    pub(crate) id: NativeId,
}

impl Session {
    pub(crate) async fn create(stage: &Stage) -> anyhow::Result<Session> {
        let harness = stage.harness()?;
        let profiles = harness.profiles(OperationOptions::default()).await?.profiles;
        let profile = profiles.first().context("the node has no agent")?;
        let workspace = profile.workspaces.iter().find(|workspace| workspace.id.as_str() == "scratch");
        let workspace = workspace.context("the scratch export is no workspace of the agent")?;
        let created = harness.create(&profile.id, &workspace.id, MutationOptions::default()).await?;
        Ok(Session { harness, profile: profile.id.clone(), id: created.value.session.id })
    }

    /// Every item of the history, oldest first.
    pub(crate) async fn items(&self) -> anyhow::Result<Vec<Value>> {
        let (mut pages, mut cursor) = (Vec::new(), None);
        loop {
            let options = HistoryOptions { cursor, ..HistoryOptions::default() };
            let page = self.harness.read(&self.profile, &self.id, options).await?;
            pages.push(page.turns.into_iter().flat_map(|turn| turn.items).collect::<Vec<_>>());
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(pages.into_iter().rev().flatten().collect());
            }
        }
    }

    /// The texts of all messages of one kind, such as `userMessage`.
    pub(crate) async fn messages(&self, kind: &str) -> anyhow::Result<Vec<String>> {
        let items = self.items().await?;
        Ok(items.iter().filter(|item| item["type"] == kind).map(item_text).collect())
    }
}

pub(crate) async fn conversation(stage: &Stage) -> anyhow::Result<String> {
    let session = Session::create(stage).await?;
    let mut watch = Watch::open(&session).await?;
    let prompt = "say The text of a turn arrives word by word, and the history has it whole.";
    session.harness.turn(&session.profile, &session.id, prompt, MutationOptions::default()).await?;
    let turn = watch.until_completed(&session, |_| bail!("the agent asked although nothing needs approval")).await?;
    let closing = session.messages("agentMessage").await?.pop().context("no answer in the history")?;
    expect_equal("streamed text", &turn.text, &closing)?;
    ensure!(turn.deltas > 1, "the text came in one piece");
    Ok(format!("{} deltas: “{}”", turn.deltas, turn.text))
}

pub(crate) async fn approval(stage: &Stage) -> anyhow::Result<String> {
    let command = "ls entries | tail -n 3; wc -c < large.bin; echo $((6 * 7))";
    let session = Session::create(stage).await?;
    let mut watch = Watch::open(&session).await?;
    let prompt = format!("run {command}");
    session.harness.turn(&session.profile, &session.id, &prompt, MutationOptions::default()).await?;
    let mut asked = Vec::new();
    watch
        .until_completed(&session, |request| {
            expect_equal("request", request.method.as_str(), "item/commandExecution/requestApproval")?;
            asked.push(request.params["command"].clone());
            Ok(json!({ "decision": "accept" }))
        })
        .await?;
    expect_equal("approvals", asked, vec![Value::from(command)])?;
    let direct = Command::new("sh").arg("-c").arg(command).current_dir(&stage.scratch).output()?;
    let direct = String::from_utf8(direct.stdout)?;
    let closing = session.messages("agentMessage").await?.pop().context("no answer in the history")?;
    let quoted = closing.split_once("```\n").and_then(|(_, rest)| rest.rsplit_once("```"));
    let (quoted, _) = quoted.context("the closing message quotes no output")?;
    expect_equal("output", quoted, direct.as_str())?;
    Ok(format!("approved `{command}`; its output is quoted unchanged: {direct:?}"))
}

pub(crate) async fn command_output(stage: &Stage) -> anyhow::Result<String> {
    let session = Session::create(stage).await?;
    let commands = session.harness.commands(&session.profile, &session.id, OperationOptions::default()).await?;
    let name = CommandName::new("output")?;
    ensure!(commands.commands.iter().any(|command| command.name == name), "the agent has no command `output`");
    let arguments = format!("{OUTPUT_BYTES} demo");
    let done = session
        .harness
        .command(&session.profile, &session.id, &name, &arguments, MutationOptions::default())
        .await?
        .value;
    expect_equal("state", done.state, CommandState::Completed)?;
    let reference = done.output_ref.context("the output is not kept behind a reference")?;
    stage.count();
    let output =
        session.harness.load_command_output(&session.profile, &reference, OutputLoadOptions::default()).await?;
    let pages = stage.counts().tools.get("harness_command_output").copied().unwrap_or_default();
    expect_equal("bytes", output.len(), OUTPUT_BYTES)?;
    let digest = hex(&Sha256::digest(&output));
    expect_equal("SHA-256", digest.as_str(), reference.sha256.as_str())?;
    expect_equal("SHA-256", &digest, &hex(&Sha256::digest(expected_output())))?;
    Ok(format!("{} bytes in {pages} pages, SHA-256 {}…", output.len(), &digest[..16]))
}

/// What one turn showed while it ran.
pub(crate) struct Turn {
    pub(crate) text: String,
    pub(crate) deltas: usize,
}

/// Follows the events of a profile.
pub(crate) struct Watch {
    subscription: Subscription,
    cursor: Option<EventCursor>,
}

impl Watch {
    pub(crate) async fn open(session: &Session) -> anyhow::Result<Watch> {
        let subscription = session.harness.subscribe(&session.profile);
        subscription.ready().await?;
        let cursor = subscription.snapshot(None).cursor;
        Ok(Watch { subscription, cursor })
    }

    /// Until a turn of the session is completed; `answer` gives the response to each request of the agent.
    pub(crate) async fn until_completed(
        &mut self,
        session: &Session,
        mut answer: impl FnMut(&NativeMessage) -> anyhow::Result<Value>,
    ) -> anyhow::Result<Turn> {
        let mut turn = Turn { text: String::new(), deltas: 0 };
        let mut answered = Vec::new();
        let is_own = |message: &NativeMessage| message.params["threadId"] == session.id.as_str();
        loop {
            let snapshot = self.subscription.snapshot(self.cursor.as_ref());
            ensure!(snapshot.state != TopicState::Failed, "the event stream failed: {:?}", snapshot.error);
            ensure!(!snapshot.gap, "events were lost");
            self.cursor = snapshot.cursor;
            for message in snapshot.events.iter().map(|event| &event.message).filter(|message| is_own(message)) {
                match message.method.as_str() {
                    "item/agentMessage/delta" => {
                        turn.text.push_str(message.params["delta"].as_str().unwrap_or_default());
                        turn.deltas += 1;
                    }
                    "turn/completed" => {
                        expect_equal("end of the turn", &message.params["turn"]["status"], &Value::from("completed"))?;
                        return Ok(turn);
                    }
                    _ => {}
                }
            }
            for request in snapshot.requests.iter().filter(|request| is_own(request)) {
                let Some(id) = request.id.clone().filter(|id| !answered.contains(id)) else { continue };
                let response = answer(request)?;
                session.harness.respond(&session.profile, id.clone(), response, MutationOptions::default()).await?;
                answered.push(id);
            }
            self.subscription.changed().await;
        }
    }
}

fn item_text(item: &Value) -> String {
    match (&item["text"], item["content"].as_array()) {
        (Value::String(text), _) => text.clone(),
        (_, Some(parts)) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        (_, None) => String::new(),
    }
}

/// The text of the agent's command `output`, by the recipe of docs/scripted-agent.md.
fn expected_output() -> String {
    let mut text = String::with_capacity(OUTPUT_BYTES + 128);
    for number in 0.. {
        if text.len() >= OUTPUT_BYTES {
            break;
        }
        text.push_str(&format!("{number:010} demo naïve café – 日本語 😀\n"));
    }
    text.truncate(text.floor_char_boundary(OUTPUT_BYTES));
    text.extend(std::iter::repeat_n('.', OUTPUT_BYTES - text.len()));
    text
}

const OUTPUT_BYTES: usize = 8 * 1024 * 1024;
