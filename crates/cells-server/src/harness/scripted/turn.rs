//! A running turn: does the steps of a script, one after another.

use std::sync::Arc;
use std::time::Duration;

use cells_protocol::harness::{AttachmentKind, HarnessAttachment};
use cells_protocol::ids::NativeId;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::active::{Channel, Stop};
use super::driver::Agent;
use super::edit;
use super::message::Message;
use super::order::{Order, Work};
use super::record::{Item, TurnStatus};
use super::report::{Report, code_span};
use super::requests::{Answer, Decision, RequestKind, questions};
use super::script::Step;
use super::session::Session;
use super::shell::{self, End};
use crate::harness::clock::now_ms;
use crate::harness::plugin::ToolError;

/// A turn and what it has done so far.
pub(super) struct Turn {
    agent: Arc<Agent>,
    session: Arc<Session>,
    id: NativeId,
    attachments: Vec<HarnessAttachment>,
    stop: CancellationToken,
    /// Items made so far; numbers the next one.
    items: u32,
    pace: Option<Duration>,
    report: Report,
}

/// What ends the agent process, for which the turn asks the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessEnd {
    /// It stays dead.
    Die,
    /// It is started again.
    Restart,
}

impl Turn {
    /// A turn for which `session` is reserved.
    pub(super) fn new(agent: Arc<Agent>, session: Arc<Session>, id: NativeId, stop: CancellationToken) -> Self {
        Self { agent, session, id, attachments: Vec::new(), stop, items: 0, pace: None, report: Report::default() }
    }

    /// Makes the message durable, says so to `started`, and works until the turn has ended or the agent process has.
    pub(super) async fn run(
        mut self,
        message: Message,
        work: Work,
        started: oneshot::Sender<Result<(), ToolError>>,
    ) -> Option<ProcessEnd> {
        let user_message = self.item("userMessage", message.content());
        let start = self.session.start_turn(&self.id, &message.text, user_message).await;
        self.attachments = message.attachments;
        let has_started = start.is_ok();
        // Nobody listens any more when the node stops; the turn ends by its token then.
        let _ = started.send(start);
        if !has_started {
            return None;
        }
        let (status, error) = match self.work(work).await {
            Ok(None) => (TurnStatus::Completed, None),
            Ok(Some(process_end)) => return Some(process_end),
            Err(Stop::Interrupted) => (TurnStatus::Interrupted, None),
            Err(Stop::Failed(error)) => (TurnStatus::Failed, Some(error)),
            Err(Stop::Gone) => return None,
        };
        self.session.end_turn(&self.id, status, error).await;
        None
    }

    async fn work(&mut self, work: Work) -> Result<Option<ProcessEnd>, Stop> {
        match work {
            Work::Answer(text) => self.message(&text).await?,
            Work::Plan(text) => self.text_item("plan", Channel::Plan, json!({"text": ""}), deltas(&text)).await?,
            Work::Steps(steps) => {
                for step in steps {
                    match step {
                        Step::Die => return Ok(Some(ProcessEnd::Die)),
                        Step::Restart => return Ok(Some(ProcessEnd::Restart)),
                        Step::Fail(error) => {
                            self.close().await?;
                            return Err(Stop::Failed(error));
                        }
                        step => self.step(step).await?,
                    }
                }
                self.close().await?;
            }
        }
        Ok(None)
    }

    async fn step(&mut self, step: Step) -> Result<(), Stop> {
        match step {
            Step::Say(text) => self.message(&text).await,
            Step::Stream { count, text } => {
                let delta = |number: usize| if text.is_empty() { format!("{number} ") } else { format!("{text} ") };
                self.text_item("agentMessage", Channel::Message, json!({"text": ""}), (1..=count).map(delta)).await
            }
            Step::Think(text) => {
                let members = json!({"summary": [""], "content": []});
                self.text_item("reasoning", Channel::Reasoning, members, deltas(&text)).await
            }
            Step::Run(command) => self.run_command(&command).await,
            Step::Write { path, text } => self.write_file(&path, &text).await,
            Step::Ask { question, options } => self.ask_user(&question, &options).await,
            Step::Quote(name) => self.quote(&name).await,
            Step::Listen => {
                let added = self.until_stopped(self.session.next_steer(&self.id)).await??;
                self.message(&format!("You added: {added}")).await
            }
            Step::Spawn(prompt) => self.spawn(&prompt).await,
            Step::Pace(pace) => {
                self.pace = Some(pace).filter(|pace| !pace.is_zero());
                Ok(())
            }
            Step::Sleep(duration) => self.until_stopped(tokio::time::sleep(duration)).await,
            Step::Wait => self.until_stopped(std::future::pending()).await,
            Step::Fail(_) | Step::Die | Step::Restart => Ok(()),
        }
    }

    async fn message(&mut self, text: &str) -> Result<(), Stop> {
        self.text_item("agentMessage", Channel::Message, json!({"text": ""}), deltas(text)).await
    }

    /// Makes an item whose text is streamed. What was streamed before a stop stays.
    async fn text_item(
        &mut self,
        kind: &'static str,
        channel: Channel,
        members: Value,
        deltas: impl IntoIterator<Item = String>,
    ) -> Result<(), Stop> {
        let mut item = self.item(kind, members);
        set_status(&mut item, "inProgress");
        self.session.start_item(&self.id, item)?;
        let mut streamed = Ok(());
        for delta in deltas {
            let pace = self.pace;
            streamed = self.until_stopped(async move { pause(pace).await }).await;
            if streamed.is_err() {
                break;
            }
            self.session.delta(&self.id, channel, &delta)?;
        }
        let status = if streamed.is_ok() { "completed" } else { "failed" };
        self.finish(|item| set_status(item, status)).await?;
        streamed
    }

    async fn run_command(&mut self, command: &str) -> Result<(), Stop> {
        let session = Arc::clone(&self.session);
        let cwd = &session.header.cwd;
        let item = self.item(
            "commandExecution",
            json!({
                "command": command, "cwd": cwd, "status": "inProgress", "commandActions": [],
                "aggregatedOutput": "", "exitCode": null, "durationMs": null,
            }),
        );
        session.start_item(&self.id, item)?;
        let params = json!({"command": command, "cwd": cwd, "reason": "The prompt asks for it."});
        if !self.approve(RequestKind::CommandApproval, params).await? {
            self.report.paragraph(&format!("Command {} was declined.", code_span(command)));
            return Ok(());
        }
        let id = self.id.clone();
        let output = |piece: &str| {
            // When the turn is gone its token is cancelled as well, which ends the command.
            let _ = session.delta(&id, Channel::CommandOutput, piece);
        };
        let finished = shell::run(command, cwd.as_ref(), COMMAND_LIMIT, self.stop.cancelled(), output).await;
        let Ok(finished) = finished else {
            self.finish(|item| set_status(item, "failed")).await?;
            self.report.paragraph(&format!("Command {} could not be started.", code_span(command)));
            return Ok(());
        };
        let item = self
            .finish(|item| {
                set_status(item, if finished.end == End::Exited(0) { "completed" } else { "failed" });
                if let End::Exited(code) = finished.end {
                    item.insert("exitCode".to_owned(), json!(code));
                }
                let duration = u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX);
                item.insert("durationMs".to_owned(), json!(duration));
            })
            .await?;
        let output = item.get("aggregatedOutput").and_then(Value::as_str).unwrap_or_default();
        self.report.command(command, finished.end, output, finished.cut);
        if finished.end == End::Stopped { Err(Stop::Interrupted) } else { Ok(()) }
    }

    async fn write_file(&mut self, path: &str, text: &str) -> Result<(), Stop> {
        let session = Arc::clone(&self.session);
        let change = {
            let (directory, path, text) = (session.header.cwd.clone(), path.to_owned(), text.to_owned());
            blocking(move || edit::Change::plan(directory.as_ref(), &path, text)).await
        };
        let label = code_span(path);
        let changes = change.as_ref().map_or_else(|_| json!([]), |change| json!([change.describe()]));
        let item = self.item("fileChange", json!({"changes": changes, "status": "inProgress"}));
        session.start_item(&self.id, item)?;
        let change = match change {
            Ok(change) => change,
            Err(refusal) => {
                self.finish(|item| set_status(item, "failed")).await?;
                self.report.paragraph(&format!("File {label} was not written: {refusal}."));
                return Ok(());
            }
        };
        let params = json!({"path": path, "reason": "The prompt asks for it."});
        if !self.approve(RequestKind::FileApproval, params).await? {
            self.report.paragraph(&format!("File {label} was not written: the change was declined."));
            return Ok(());
        }
        let bytes = text.len();
        let written = blocking(move || change.apply()).await;
        let status = if written.is_ok() { "completed" } else { "failed" };
        self.finish(|item| set_status(item, status)).await?;
        self.report.paragraph(&match written {
            Ok(()) => format!("File {label} was written: {bytes} bytes."),
            Err(refusal) => format!("File {label} was not written: {refusal}."),
        });
        Ok(())
    }

    /// Asks for approval of the item that is being made. Where it is not given, the item ends as declined.
    async fn approve(&mut self, kind: RequestKind, params: Value) -> Result<bool, Stop> {
        if self.session.is_allowed(kind) {
            return Ok(true);
        }
        let answer = self.answer(kind, params).await;
        let result = match answer {
            Ok(Answer::Decision(Decision::Accept | Decision::AcceptForSession)) => return Ok(true),
            Ok(Answer::Decision(Decision::Decline)) => Ok(false),
            Ok(Answer::Decision(Decision::Cancel) | Answer::Text(_)) => Err(Stop::Interrupted),
            Err(stop) => Err(stop),
        };
        self.finish(|item| set_status(item, "declined")).await?;
        result
    }

    async fn ask_user(&mut self, question: &str, options: &[String]) -> Result<(), Stop> {
        let params = json!({"questions": questions(question, options)});
        let members = json!({"tool": "requestUserInput", "arguments": params, "status": "inProgress"});
        let item = self.item("dynamicToolCall", members);
        self.session.start_item(&self.id, item)?;
        let answer = self.answer(RequestKind::Question, params).await;
        let status = if answer.is_ok() { "completed" } else { "failed" };
        self.finish(|item| set_status(item, status)).await?;
        match answer? {
            Answer::Text(text) => self.message(&format!("You answered: {text}")).await,
            Answer::Decision(_) => Ok(()),
        }
    }

    /// Gives an attachment of the prompt back: a text as it is, of an image what it is.
    async fn quote(&mut self, name: &str) -> Result<(), Stop> {
        let attachment = self.attachments.iter().find(|attachment| attachment.name == name);
        let text = match attachment {
            None => format!("There is no attachment {}.", code_span(name)),
            Some(attachment) => match attachment.kind {
                AttachmentKind::Text => attachment.content.clone(),
                AttachmentKind::Image => {
                    let mime_type = attachment.mime_type.as_deref().unwrap_or_default();
                    format!("{} is an {mime_type} of {} characters.", code_span(name), attachment.content.len())
                }
            },
        };
        self.message(&text).await
    }

    /// Has another session answer `prompt`.
    async fn spawn(&mut self, prompt: &str) -> Result<(), Stop> {
        let members = json!({"tool": "spawnAgent", "prompt": prompt, "receiverThreadIds": [], "status": "inProgress"});
        let item = self.item("collabAgentToolCall", members);
        self.session.start_item(&self.id, item)?;
        let child = self.agent.spawn(&self.session, prompt, &Order::new(prompt).describe()).await;
        self.finish(|item| {
            set_status(item, if child.is_ok() { "completed" } else { "failed" });
            let ids: Vec<_> = child.iter().collect();
            item.insert("receiverThreadIds".to_owned(), json!(ids));
        })
        .await?;
        Ok(())
    }

    async fn answer(&self, kind: RequestKind, params: Value) -> Result<Answer, Stop> {
        let answered = self.session.ask(&self.id, kind, params)?;
        self.until_stopped(answered).await?.map_err(|_| Stop::Gone)
    }

    /// The closing message.
    async fn close(&mut self) -> Result<(), Stop> {
        match self.report.take() {
            Some(text) => self.message(&text).await,
            None => Ok(()),
        }
    }

    async fn finish(&self, complete: impl FnOnce(&mut Item)) -> Result<Item, Stop> {
        self.session.finish_item(&self.id, complete).await
    }

    async fn until_stopped<T>(&self, future: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Stop::Interrupted),
            output = future => Ok(output),
        }
    }

    /// The next item of the turn; `members` say what its type has beyond the common ones.
    fn item(&mut self, kind: &'static str, members: Value) -> Item {
        self.items += 1;
        let Value::Object(mut item) = members else { return Item::new() };
        item.insert("id".to_owned(), json!(format!("{}-{}", self.id, self.items)));
        item.insert("type".to_owned(), json!(kind));
        item.insert("turnId".to_owned(), json!(self.id));
        item.insert("timestamp".to_owned(), json!(now_ms()));
        item
    }
}

/// A text in at most [`DELTAS_MAX`] deltas that end between words.
fn deltas(text: &str) -> Vec<String> {
    let least_bytes = text.len() / DELTAS_MAX;
    let mut deltas = Vec::new();
    let mut delta = String::new();
    for word in text.split_inclusive(char::is_whitespace) {
        delta.push_str(word);
        if delta.len() > least_bytes {
            deltas.push(std::mem::take(&mut delta));
        }
    }
    deltas.extend(Some(delta).filter(|delta| !delta.is_empty()));
    deltas
}

async fn pause(pace: Option<Duration>) {
    match pace {
        Some(pace) => tokio::time::sleep(pace).await,
        // Lets others work: a long stream must not hold its thread.
        None => tokio::task::yield_now().await,
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, edit::Refusal> + Send + 'static,
) -> Result<T, edit::Refusal> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(edit::Refusal::Failed))
}

fn set_status(item: &mut Item, status: &str) {
    item.insert("status".to_owned(), json!(status));
}

/// A message of this many deltas still leaves room for others in the event ring.
const DELTAS_MAX: usize = 128;
/// How long a command may run.
const COMMAND_LIMIT: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_together_are_the_text_and_not_too_many() {
        let long = "word ".repeat(10_000);
        for (text, count) in [("", 0), ("one", 1), ("one  two\nthree ", 4), (long.as_str(), 128)] {
            let deltas = deltas(text);
            assert_eq!(deltas.concat(), text);
            assert!(deltas.len() <= count, "{} of {count}", deltas.len());
        }
    }
}
