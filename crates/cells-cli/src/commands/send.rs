use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cells_native::cells_driver::{
    CommandName, HarnessAttachment, HarnessClient, HarnessModelSelection, InvalidId, ListOptions, NativeId,
    PROMPT_MAX_BYTES, Profile, Subscription, WorkspaceId, check_attachments,
};
use clap::{Args, ValueEnum};

use super::managed::{leave, options, told};
use crate::conversation::{Follow, Printer, Prompt, start};
use crate::dispatch::Dispatch;
use crate::failure::{Exit, Failure};
use crate::interrupts::Interrupts;
use crate::node::{Node, NodeArgs, ProfileArgs};

/// Send a prompt or a slash command to an agent, and follow it to its end.
///
/// Answers go to standard output while they are written. Everything else goes to standard error: the session, the epoch
/// and the request id before the reply, what the agent does, and what it asks. Ctrl-C interrupts the turn; a second one
/// leaves at once, and the turn goes on at the node.
#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The prompt, or the arguments of the command; `-` reads standard input, as does a prompt that is left out
    #[arg(value_name = "PROMPT")]
    words: Vec<String>,
    #[command(flatten)]
    profile: ProfileArgs,
    /// Go on with this session, and resume it if the node does not control it [default: a new session]
    #[arg(long, value_name = "ID", value_parser = |text: &str| NativeId::new(text))]
    session: Option<NativeId>,
    /// Make the new session in this workspace [default: the only one]
    #[arg(long, value_name = "NAME", conflicts_with = "session", value_parser = |text: &str| WorkspaceId::new(text))]
    workspace: Option<WorkspaceId>,
    /// Run the slash command NAME
    #[arg(long, value_name = "NAME", value_parser = command_name)]
    command: Option<CommandName>,
    /// Send FILE with the prompt: a text, or a PNG, JPEG or WebP image; up to five times
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    attach: Vec<PathBuf>,
    /// Use this model [default: the one that the session uses]
    #[arg(long, value_name = "ID")]
    model: Option<String>,
    /// How much the model shall think
    #[arg(long, value_name = "EFFORT", requires = "model")]
    effort: Option<String>,
    /// Answer all approvals so [default: ask on the terminal; without one, the turn is interrupted]
    #[arg(long, value_name = "ANSWER")]
    approve: Option<Approve>,
    /// How long to wait for a node that is lost while the turn runs
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    reconnect: u64,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Approve {
    /// Allow everything
    Yes,
    /// Allow nothing
    No,
}

impl Send {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        // First, because it may wait for input, and Ctrl-C must end that.
        let prompt = self.prompt()?;
        let mut interrupts = Interrupts::listen()?;
        let mut second = interrupts.clone();
        let node = self.node.connect()?;
        let dispatch = Dispatch::default();
        tokio::select! {
            result = self.converse(&node, prompt, &dispatch, &mut interrupts) => result,
            () = second.second() => Err(leave(&node, &dispatch)),
        }
    }

    async fn converse(
        &self,
        node: &Node,
        prompt: Prompt,
        dispatch: &Dispatch,
        interrupts: &mut Interrupts,
    ) -> Result<Exit, Failure> {
        let harness = node.harness()?;
        let printer = Printer::new(self.node.json);
        let prepared = tokio::select! {
            prepared = self.prepare(node, &harness, dispatch) => prepared,
            () = interrupts.first() => Err(leave(node, dispatch)),
        };
        let (profile, session_id, subscription) = prepared?;
        dispatch.settled();
        printer.session(&profile.id, &session_id)?;
        let follow = Follow {
            node,
            harness: &harness,
            profile_id: &profile.id,
            session_id: &session_id,
            approve: self.approve.map(|answer| answer == Approve::Yes),
            patience: Duration::from_secs(self.reconnect),
            printer,
            dispatch: dispatch.clone(),
        };
        follow.run(subscription, start(&follow, prompt), interrupts).await
    }

    /// A session that the node controls, and its events.
    async fn prepare(
        &self,
        node: &Node,
        harness: &HarnessClient,
        dispatch: &Dispatch,
    ) -> Result<(Profile, NativeId, Subscription), Failure> {
        let profile = node.profile(harness, self.profile.profile.as_ref()).await?;
        let subscription = harness.subscribe(&profile.id);
        node.within(subscription.ready(), "the event stream").await??;
        let session_id = match &self.session {
            Some(session_id) => {
                let session = harness.inspect(&profile.id, session_id, node.options()).await;
                let session = session.map_err(|error| Failure::from(error).about("--session"))?.session;
                if session.owned != Some(true) {
                    let resumed = harness.resume(&profile.id, session_id, options(node, dispatch)).await;
                    resumed.map_err(|error| told(node, error))?;
                }
                session_id.clone()
            }
            None => {
                let workspace_id = self.workspace_of(&profile)?;
                self.check_command(node, harness, &profile).await?;
                let created = harness.create(&profile.id, &workspace_id, options(node, dispatch)).await;
                created.map_err(|error| told(node, error))?.value.session.id
            }
        };
        Ok((profile, session_id, subscription))
    }

    /// Refuses a command that the agent does not have, before a session is made for it. Only a session knows its commands,
    /// so the newest one is asked; without any, the agent says it later.
    async fn check_command(&self, node: &Node, harness: &HarnessClient, profile: &Profile) -> Result<(), Failure> {
        let Some(name) = &self.command else { return Ok(()) };
        let options = ListOptions { operation: node.options(), ..ListOptions::default() };
        let Some(newest) = harness.list(&profile.id, options).await?.sessions.into_iter().next() else { return Ok(()) };
        let catalog = harness.commands(&profile.id, &newest.id, node.options()).await?;
        if catalog.commands.is_empty() || catalog.commands.iter().any(|command| command.name == *name) {
            return Ok(());
        }
        let names: Vec<String> = catalog.commands.iter().map(|command| command.name.to_string()).collect();
        let message = format!("the agent has no command {name}; it has {}", names.join(", "));
        Err(Failure::new(Exit::NotFound, message))
    }

    fn workspace_of(&self, profile: &Profile) -> Result<WorkspaceId, Failure> {
        let names: Vec<&str> = profile.workspaces.iter().map(|workspace| workspace.id.as_str()).collect();
        match (&self.workspace, profile.workspaces.as_slice()) {
            (Some(wanted), _) if names.contains(&wanted.as_str()) => Ok(wanted.clone()),
            (None, [only]) => Ok(only.id.clone()),
            (_, []) => Err(Failure::new(Exit::NotFound, format!("the profile {} has no workspace", profile.id))),
            (Some(wanted), _) => Err(Failure::new(
                Exit::NotFound,
                format!("the profile {} has no workspace {wanted}; it has {}", profile.id, names.join(", ")),
            )),
            (None, _) => Err(Failure::usage(format!(
                "the profile {} has the workspaces {}; choose one with --workspace",
                profile.id,
                names.join(", ")
            ))),
        }
    }

    fn prompt(&self) -> Result<Prompt, Failure> {
        let text = match (self.words.as_slice(), &self.command) {
            ([], Some(_)) => String::new(),
            ([], None) if std::io::stdin().is_terminal() => {
                return Err(Failure::usage("no prompt: give it as arguments, or on standard input"));
            }
            ([], None) => read_stdin()?,
            ([word], _) if word == "-" => read_stdin()?,
            (words, _) => words.join(" "),
        };
        if text.len() > PROMPT_MAX_BYTES {
            return Err(Failure::usage(format!(
                "the prompt has {} bytes; at most {PROMPT_MAX_BYTES} can be sent",
                text.len()
            )));
        }
        let selection = self
            .model
            .clone()
            .map(|model_id| HarnessModelSelection { model_id, reasoning_effort: self.effort.clone() });
        Ok(match &self.command {
            Some(name) => Prompt::Command { name: name.clone(), args: text, selection },
            None if text.trim().is_empty() => return Err(Failure::usage("the prompt is empty")),
            None => {
                let attachments = self.attach.iter().map(|path| attachment(path)).collect::<Result<_, _>>()?;
                Prompt::Text { text, attachments, selection }
            }
        })
    }
}

/// All of standard input, without the line breaks at its end.
fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(STDIN_MAX_BYTES).read_to_string(&mut text);
    read.map_err(|error| Failure::usage(format!("the prompt on standard input cannot be read: {error}")))?;
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    Ok(text)
}

/// A file as an attachment. What it is, its first bytes tell.
fn attachment(path: &Path) -> Result<HarnessAttachment, Failure> {
    let wrong = |problem: String| Failure::usage(format!("--attach {}: {problem}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(ATTACHMENT_MAX_BYTES).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let images: [(&str, &[u8]); 3] = [("png", b"\x89PNG"), ("jpeg", b"\xff\xd8\xff"), ("webp", b"RIFF")];
    let attachment = match images.iter().find(|(_, magic)| bytes.starts_with(magic)) {
        Some((kind, _)) => HarnessAttachment::image(name, &format!("image/{kind}"), &bytes),
        None => match String::from_utf8(bytes) {
            Ok(text) => HarnessAttachment::text(name, text),
            Err(_) => return Err(wrong("is neither text nor a PNG, JPEG or WebP image".to_owned())),
        },
    };
    let checked = check_attachments(std::slice::from_ref(&attachment));
    checked.map_err(|problem| wrong(problem.to_string()))?;
    Ok(attachment)
}

fn command_name(text: &str) -> Result<CommandName, InvalidId> {
    CommandName::new(text.strip_prefix('/').unwrap_or(text))
}

/// More than any attachment.
const ATTACHMENT_MAX_BYTES: u64 = 1024 * 1024;
/// More than any prompt.
const STDIN_MAX_BYTES: u64 = 1024 * 1024;
