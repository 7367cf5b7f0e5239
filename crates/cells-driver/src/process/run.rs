//! One command, from its call to its end.

use std::sync::Arc;

use bytes::Bytes;
use cells_machines::process::{Doubt, OutputStream, ProcessEnd, ProcessEvent, ProcessRun};
use cells_protocol::error::{ErrorKind, Outcome};
use cells_protocol::ids::RequestId;
use cells_protocol::json::to_vec;
use cells_protocol::limits::{
    PROCESS_CANCEL_MS, PROCESS_OUTPUT_KEPT_BYTES, PROCESS_OUTPUT_MAX_BYTES, PROCESS_TIMEOUT_DEFAULT_MS,
    PROCESS_TIMEOUT_MAX_MS,
};
use cells_protocol::process::{
    ProcessStart, ProcessState, ProcessStatus, check_command, check_working_directory, join_virtual_path,
};
use futures::channel::oneshot;

use super::wire::Process;
use super::{EXEC, ExecOptions, OnOutput, ProcessExit, Running, Session};
use crate::budget::Budget;
use crate::cancellation::{CancelHandle, Cancellation, OperationOptions};
use crate::dispatch::{Gate, new_uuid};
use crate::error::{Error, Result};
use crate::host::{Callback, HttpRequest};
use crate::run::stopped;
use crate::sync::lock;
use crate::transport::{Call, JSON};

pub(super) async fn exec(
    session: &Arc<Session>,
    command: &str,
    args: &[String],
    options: ExecOptions,
) -> Result<ProcessExit> {
    let not_started = |error: Error| error.with_outcome(Outcome::NotStarted);
    session.admit().map(drop).map_err(not_started)?;
    let ExecOptions { cwd, timeout_ms, cancel, on_output, on_dispatch } = options;
    let cwd = cwd_of(session, cwd.as_deref()).map_err(not_started)?;
    check_command(command, args).map_err(|problem| not_started(Error::invalid(EXEC, problem)))?;

    // Cancelled by the caller, and when the caller drops this call.
    let (give_up, given_up) = Cancellation::new();
    let _caller = cancel.map(|cancel| {
        let give_up = give_up.clone();
        cancel.on_cancel(Box::new(move |()| give_up.cancel()))
    });
    let timeout_ms = Some(timeout_ms.unwrap_or(PROCESS_TIMEOUT_DEFAULT_MS));
    let budget = session.link.budget(&OperationOptions { timeout_ms, cancel: Some(given_up) });
    let prepare = async {
        let has_live_output = has_live_output(session).await?;
        let has_topic = !has_live_output && has_topic(session).await;
        let root = session.link.file_root().await?;
        let url = format!("{}/v1/processes", root.without_trailing_slash());
        let id = RequestId::new(new_uuid(&session.link.core, EXEC)?).map_err(|error| Error::invalid(EXEC, error))?;
        let body = to_vec(&ProcessStart {
            server_id: session.spec.server_id.clone(),
            epoch: session.spec.epoch.clone(),
            request_id: id.as_str().to_owned(),
            command: command.to_owned(),
            args: args.to_vec(),
            cwd,
            timeout_ms: budget.remaining_ms().clamp(1, PROCESS_TIMEOUT_MAX_MS),
            mounts: session.spec.mounts.clone(),
            project_id: None,
            project_revision: None,
            read_only: false,
            keep_output: has_live_output,
        });
        let start = session.link.prepare(&Call::post(EXEC, url.clone(), JSON, body), &budget).await?;
        Ok((id, url, start, has_live_output, has_topic))
    };
    let (id, url, start, has_live_output, has_topic) = budget.run(EXEC, prepare).await.map_err(not_started)?;

    let gate = Gate::new();
    let (sender, mut receiver) = oneshot::channel();
    let output = Output { on_output, stdout: Vec::new(), stderr: Vec::new(), truncated: false, has_gaps: false };
    let command = Command {
        session: Arc::clone(session),
        budget: budget.clone(),
        id: id.clone(),
        url,
        start,
        has_live_output,
        has_topic,
        output,
        on_dispatch,
    };
    session.link.core.spawner.spawn(EXEC, Box::pin(command.follow(gate.clone(), sender))).map_err(not_started)?;
    let _dropped = CancelOnDrop(give_up);
    let reply = match budget.run(EXEC, async { Ok((&mut receiver).await) }).await {
        Ok(reply) => reply.map_err(|_| stopped(EXEC)),
        Err(error) if gate.give_up() => return Err(not_started(error)),
        Err(error) => {
            // The task sees the same end of the budget, and cancels the process.
            let grace = OperationOptions { timeout_ms: Some(PROCESS_CANCEL_MS + GRACE_MS), cancel: None };
            let reply = session.link.core.budget(&grace).run(EXEC, async { Ok(receiver.await) }).await;
            reply.ok().and_then(Result::ok).ok_or(error)
        }
    };
    match reply {
        Ok(ended) => ended,
        Err(error) if gate.give_up() => Err(not_started(error)),
        Err(error) => Err(error.with_outcome(Outcome::Unknown).with_process_id(id)),
    }
}

/// The directory of a command, which must be at or below a mount.
fn cwd_of(session: &Session, relative: Option<&str>) -> Result<String> {
    let spec = &session.spec;
    let cwd = join_virtual_path(&spec.cwd, relative.unwrap_or_default());
    let checked = cwd.and_then(|cwd| check_working_directory(&cwd, &spec.mounts).map(|()| cwd));
    checked.map_err(|problem| Error::invalid(EXEC, problem))
}

/// Asked once a session.
async fn has_live_output(session: &Arc<Session>) -> Result<bool> {
    let link = session.link.clone();
    let fetch = || async move { Ok(link.capabilities(&OperationOptions::default()).await?.process.has_output()) };
    session.output.get(|| Box::pin(fetch())).await
}

/// Whether the node tells the end of a process in its event stream. Asked once a session; a node that does not say what it
/// is does not.
async fn has_topic(session: &Arc<Session>) -> bool {
    let link = session.link.clone();
    let fetch = || async move {
        let descriptor = link.descriptor().await;
        Ok(descriptor.is_ok_and(|descriptor| descriptor.events_endpoint().is_some()))
    };
    session.topic.get(|| Box::pin(fetch())).await.unwrap_or(false)
}

/// A command that only has to be sent.
struct Command {
    session: Arc<Session>,
    budget: Budget,
    id: RequestId,
    url: String,
    start: HttpRequest,
    has_live_output: bool,
    has_topic: bool,
    output: Output,
    on_dispatch: Option<Callback<RequestId>>,
}

impl Command {
    /// Runs the command to its end, in [`Run`](crate::Run): its caller may be gone by then.
    async fn follow(self, gate: Gate, sender: oneshot::Sender<Result<ProcessExit>>) {
        if !gate.pass() {
            return;
        }
        let Self { session, budget, id, url, start, has_live_output, has_topic, mut output, on_dispatch } = self;
        let running = match Running::start(session, &id) {
            Ok(running) => running,
            Err(error) => {
                // The session was released meanwhile. A caller that is gone is told nothing.
                let _ = sender.send(Err(error.with_outcome(Outcome::NotStarted)));
                return;
            }
        };
        if let Some(on_dispatch) = on_dispatch {
            on_dispatch(id.clone());
        }
        let session = &running.0;
        let mut process = Process { session, url, id: id.clone(), start: Some(start), topic: None };
        let mut run = if has_topic { ProcessRun::with_topic() } else { ProcessRun::new(has_live_output) };
        run.start_process();
        let end = process.drive(&mut run, &budget, &mut |event| output.take(event)).await;
        session.settle(&id, &end);
        let result = output.result(end, has_live_output).map_err(|error| error.with_process_id(id));
        drop(running);
        // A caller that is gone is told nothing.
        let _ = sender.send(result);
    }
}

impl Session {
    /// A process that is over, or never was, is not outstanding any more.
    pub(super) fn settle<E>(&self, id: &RequestId, end: &ProcessEnd<E>) {
        match end {
            ProcessEnd::Over(_) | ProcessEnd::NotStarted(_) | ProcessEnd::Stopped { .. } => {
                lock(&self.state).outstanding.retain(|other| other != id);
            }
            ProcessEnd::Unconfirmed { .. } => {}
        }
    }
}

/// What a command writes.
struct Output {
    on_output: Option<OnOutput>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    truncated: bool,
    has_gaps: bool,
}

impl Output {
    /// Takes a piece of live output, and keeps the newest bytes.
    fn take(&mut self, event: ProcessEvent<Error>) {
        let ProcessEvent::Output { stream, data, truncated } = event else { return };
        let kept = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        kept.extend_from_slice(&data);
        let excess = kept.len().saturating_sub(PROCESS_OUTPUT_KEPT_BYTES);
        kept.drain(..excess);
        self.has_gaps |= truncated;
        self.truncated |= truncated || excess > 0;
        self.tell(stream, data.into());
    }

    fn tell(&mut self, stream: OutputStream, data: Bytes) {
        if let Some(on_output) = &mut self.on_output
            && !data.is_empty()
        {
            on_output(stream, data);
        }
    }

    /// What the caller gets.
    fn result(mut self, end: ProcessEnd<Error>, has_live_output: bool) -> Result<ProcessExit> {
        if let ProcessEnd::Over(status) | ProcessEnd::Stopped { status, .. } = &end
            && !has_live_output
        {
            self.tell(OutputStream::Stdout, status.stdout.clone().into());
            self.tell(OutputStream::Stderr, status.stderr.clone().into());
        }
        match end {
            ProcessEnd::Over(status) if status.state == ProcessState::Exited && has_live_output => Ok(ProcessExit {
                stdout: text(&self.stdout),
                stderr: text(&self.stderr),
                code: status.code,
                truncated: self.truncated,
                has_gaps: self.has_gaps,
            }),
            ProcessEnd::Over(status) if status.state == ProcessState::Exited && !status.truncated => {
                let ProcessStatus { stdout, stderr, code, .. } = status;
                Ok(ProcessExit { stdout, stderr, code, truncated: false, has_gaps: false })
            }
            ProcessEnd::Over(status) => Err(failed(&status)),
            ProcessEnd::NotStarted(error) => Err(error),
            ProcessEnd::Stopped { cause, .. } => Err(cause.with_outcome(Outcome::Partial)),
            ProcessEnd::Unconfirmed { cause, doubt } => Err(unconfirmed(cause, doubt)),
        }
    }
}

/// The error of a process that the node ended, or could not start.
fn failed(status: &ProcessStatus) -> Error {
    let too_much =
        format!("the command wrote more than {PROCESS_OUTPUT_MAX_BYTES} bytes, which this node does not allow");
    let (kind, message) = match status.state {
        ProcessState::TimedOut => (ErrorKind::TimedOut, "the node ended the command, because its time was up"),
        ProcessState::Cancelled if !status.truncated => (ErrorKind::Cancelled, "the command was cancelled at the node"),
        ProcessState::Cancelled => (ErrorKind::Cancelled, too_much.as_str()),
        ProcessState::Failed => {
            let error = Error::new(ErrorKind::Io, EXEC, "the node could not start the command");
            return error.with_remote_code(SPAWN_FAILED).with_outcome(Outcome::NotCommitted);
        }
        ProcessState::Exited | ProcessState::Running | ProcessState::Unknown => (ErrorKind::Io, too_much.as_str()),
    };
    Error::new(kind, EXEC, message).with_outcome(Outcome::Partial)
}

fn unconfirmed(cause: Option<Error>, doubt: Doubt<Error>) -> Error {
    let why = match &doubt {
        Doubt::NodeDoesNotKnow => "the node does not know",
        Doubt::StillRunning => "it was cancelled, and still runs",
        Doubt::NoAnswer(_) => "the node does not answer",
    };
    let error = Error::new(ErrorKind::Io, EXEC, format!("whether the command has ended is not proven: {why}"));
    let source = match doubt {
        Doubt::NoAnswer(error) => Some(cause.unwrap_or(error)),
        Doubt::NodeDoesNotKnow | Doubt::StillRunning => cause,
    };
    let error = match source {
        Some(source) => error.with_source(source),
        None => error,
    };
    error.with_outcome(Outcome::Unknown)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct CancelOnDrop(CancelHandle);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// What a caller waits longer than the task that follows its command.
const GRACE_MS: u64 = 1_000;

/// The node's word for a command that it could not start.
const SPAWN_FAILED: &str = "SPAWN_FAILED";
