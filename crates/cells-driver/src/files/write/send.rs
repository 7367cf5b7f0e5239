//! One write: one id, one HTTP request, one honest outcome (`files-http.md` §5.6, §9.3).

use std::sync::Arc;

use bytes::Bytes;
use cells_machines::file_writes::{WriteVerdict, classify_write};
use cells_protocol::error::{Outcome, code_of_body, kind_of_tool_code};
use cells_protocol::file_receipts::FileReceipt;
use cells_protocol::file_recovery::{FileChange, FileRecovery};
use cells_protocol::files::FileStat;
use cells_protocol::ids::{OperationId, Sha256Hex};
use cells_protocol::limits::{ERROR_BODY_MAX_BYTES, FENCE_MS, MUTATION_REPLY_MAX_BYTES};
use cells_protocol::mutations::OPERATION_ID_HEADER;
use futures::channel::oneshot;
use sha2::{Digest, Sha256};

use super::receipts::{fence, stop};
use super::upload::{Sending, Upload};
use super::{FileCommitted, FileMutationOptions, not_started};
use crate::budget::{Budget, cancelled};
use crate::cancellation::OperationOptions;
use crate::dispatch::{Gate, GiveUpOnDrop, new_uuid};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::host::{Callback, HttpRequest, HttpResponse};
use crate::run::stopped;
use crate::transport::{Call, is_success, read_all, retry_after_ms, was_not_sent};

/// A write before it has an id.
pub(in crate::files) struct Request {
    /// Its headers, and its body unless that is `content`. The address is not known yet.
    pub(in crate::files) call: Call,
    /// Below the export.
    pub(in crate::files) route: String,
    pub(in crate::files) content: Option<Upload>,
    pub(in crate::files) change: FileChange,
}

/// Sends a write and says how it ended.
pub(in crate::files) async fn commit(
    files: &Arc<Files>,
    request: Request,
    options: FileMutationOptions,
) -> Result<FileCommitted<Option<FileStat>>> {
    let Request { mut call, route, content, change } = request;
    let operation = call.operation;
    files.link.check_open(operation).map_err(not_started)?;
    let budget = files.link.budget(&options.operation);
    let prepare = async {
        call.url = files.url(&route).await?;
        let operation_id = match options.operation_id {
            Some(operation_id) => operation_id,
            None => OperationId::new(new_uuid(&files.link.core, operation)?)
                .map_err(|error| Error::invalid(operation, error))?,
        };
        call.headers.push((OPERATION_ID_HEADER, operation_id.as_str().to_owned()));
        Ok((files.link.prepare(&call, &budget).await?, operation_id))
    };
    let (mut http, operation_id) = budget.run(operation, prepare).await.map_err(not_started)?;

    let in_memory = content.as_ref().and_then(Upload::in_memory);
    let sending = content.map(|content| {
        let (body, sending) = content.into_body(files.link.core.host.streams_requests(), options.progress);
        http.body = Some(body);
        sending
    });
    let recovery = FileRecovery {
        operation_id,
        alias: files.alias.clone(),
        sent_at_ms: files.link.core.host.now_ms(),
        durable: files.kept.durable,
        process_epoch: files.kept.process_epoch.clone(),
        change,
    };
    let gate = Gate::new();
    let (sender, mut receiver) = oneshot::channel();
    let write = Write {
        files: Arc::clone(files),
        operation,
        http,
        sending,
        in_memory,
        recovery: recovery.clone(),
        budget: budget.clone(),
    };
    let task = write.follow(gate.clone(), options.on_dispatch, sender);
    files.link.core.spawner.spawn(operation, Box::pin(task)).map_err(not_started)?;
    let _guard = GiveUpOnDrop(&gate);
    let reply = match budget.run(operation, async { Ok((&mut receiver).await) }).await {
        Ok(reply) => reply.map_err(|_| stopped(operation)),
        Err(error) if gate.give_up() => return Err(not_started(error)),
        Err(error) => {
            // The task sees the same end of the budget, and finds out what became of the write.
            let grace = OperationOptions { timeout_ms: Some(FENCE_MS + GRACE_MS), cancel: None };
            let reply = files.link.core.budget(&grace).run(operation, async { Ok(receiver.await) }).await;
            reply.ok().and_then(std::result::Result::ok).ok_or(error)
        }
    };
    match reply {
        Ok(ended) => ended,
        Err(error) if gate.give_up() => Err(not_started(error)),
        Err(error) => Err(error.with_outcome(Outcome::Unknown).with_file_recovery(recovery)),
    }
}

/// A write that only has to be sent.
struct Write {
    files: Arc<Files>,
    operation: &'static str,
    http: HttpRequest,
    sending: Option<Sending>,
    in_memory: Option<Bytes>,
    recovery: FileRecovery,
    budget: Budget,
}

/// How a write ended.
type Ended = Result<FileCommitted<Option<FileStat>>>;

/// The reply to a write.
struct Reply {
    status: u16,
    retry_after_ms: Option<u64>,
    /// The whole body, if it can be read.
    body: Result<Bytes>,
}

impl Write {
    /// Sends the write and waits for its reply, in [`Run`](crate::Run): its caller may be gone by then.
    async fn follow(mut self, gate: Gate, on_dispatch: Option<Callback<FileRecovery>>, sender: oneshot::Sender<Ended>) {
        if !gate.pass() {
            return;
        }
        if let Some(on_dispatch) = on_dispatch {
            on_dispatch(self.recovery.clone());
        }
        let ended = self.exchange().await;
        let is_unknown = ended.as_ref().is_err_and(|error| error.outcome() == Some(Outcome::Unknown));
        // A caller that is gone is told nothing.
        let _ = sender.send(ended);
        if is_unknown && !self.budget.is_closed() {
            stop(&self.files, &self.recovery.operation_id).await;
        }
    }

    async fn exchange(&mut self) -> Ended {
        let (link, operation) = (self.files.link.clone(), self.operation);
        let http = std::mem::replace(&mut self.http, HttpRequest::empty());
        let exchange = async {
            let response = link.send(operation, http).await?;
            Ok(Reply::read(operation, response).await)
        };
        match self.budget.run(operation, exchange).await {
            Ok(reply) => self.judge(reply),
            Err(error) if was_not_sent(&error) => Err(not_started(error)),
            Err(error) => match self.sending.as_ref().and_then(|sending| sending.problem(operation)) {
                // The request was never whole, so that no node can have done what it asks.
                Some(problem) => Err(self.rejected(problem)),
                None if self.budget.is_cancelled() && !self.budget.is_closed() => {
                    self.withdraw(cancelled(operation)).await
                }
                None => Err(self.unknown(error)),
            },
        }
    }

    fn judge(&mut self, reply: Reply) -> Ended {
        let Reply { status, retry_after_ms, body } = reply;
        let bytes = body.as_deref().unwrap_or_default();
        let code = code_of_body(bytes);
        match classify_write(status, FileReceipt::parse(bytes).ok(), code.as_deref()) {
            WriteVerdict::Committed { result } => {
                if let Some(sending) = &mut self.sending {
                    sending.finish();
                }
                Ok(self.committed(result))
            }
            WriteVerdict::Rejected { .. } => {
                let error = self.files.link.error_of(self.operation, status, bytes, retry_after_ms);
                Err(self.rejected(error))
            }
            WriteVerdict::Unknown { .. } if !is_success(status) => {
                let error = self.files.link.error_of(self.operation, status, bytes, retry_after_ms);
                Err(self.unknown(error))
            }
            WriteVerdict::Unknown { code } => {
                let error = match (body, code) {
                    (Err(error), _) => error,
                    (Ok(_), Some(code)) => {
                        let message = format!("the node does not know whether it happened; its code is {code}");
                        Error::new(kind_of_tool_code(&code), self.operation, message).with_remote_code(code)
                    }
                    (Ok(_), None) => Error::protocol(self.operation, "it holds no final receipt"),
                };
                Err(self.unknown(error))
            }
        }
    }

    /// Stops a write that is under way because of `error`, and finds out what became of it.
    async fn withdraw(&mut self, error: Error) -> Ended {
        match fence(&self.files, &self.recovery).await {
            Some(FileReceipt::Committed { result }) => Ok(self.committed(result)),
            Some(FileReceipt::NotCommitted { .. }) => Err(self.rejected(error)),
            Some(FileReceipt::Unknown { .. } | FileReceipt::Running) | None => Err(self.unknown(error)),
        }
    }

    fn committed(&self, value: Option<FileStat>) -> FileCommitted<Option<FileStat>> {
        FileCommitted { value, operation_id: self.recovery.operation_id.clone() }
    }

    fn rejected(&self, error: Error) -> Error {
        error.with_outcome(Outcome::NotCommitted).with_operation_id(self.recovery.operation_id.clone())
    }

    fn unknown(&mut self, error: Error) -> Error {
        if let (FileChange::Replace { sha256: sha256 @ None, .. }, Some(content)) =
            (&mut self.recovery.change, self.in_memory.take())
            && content.len() <= HASHED_MAX_BYTES
        {
            *sha256 = Some(Sha256Hex::from_bytes(Sha256::digest(&content).into()));
        }
        error.with_outcome(Outcome::Unknown).with_file_recovery(self.recovery.clone())
    }
}

impl Reply {
    async fn read(operation: &'static str, response: HttpResponse) -> Self {
        let (status, retry_after_ms) = (response.status, retry_after_ms(&response));
        let max_bytes = if is_success(status) { MUTATION_REPLY_MAX_BYTES } else { ERROR_BODY_MAX_BYTES };
        Self { status, retry_after_ms, body: read_all(operation, response, max_bytes).await }
    }
}

/// What a caller waits longer than the task that follows its write.
const GRACE_MS: u64 = 1_000;

/// Content in memory is hashed if it is not larger than this, when its write ends in doubt.
const HASHED_MAX_BYTES: usize = 32 * 1024 * 1024;
