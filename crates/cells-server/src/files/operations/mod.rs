//! Writes as operations (`files-http.md` §5.1): an id is claimed durably before its write begins, is never executed again,
//! and has a receipt for an hour, also after a restart.

mod failure;
pub(crate) mod intent;
mod operation;
mod routes;
mod store;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use cells_protocol::file_receipts::FileReceipt;
use cells_protocol::files::FileStat;
use cells_protocol::ids::{Alias, OperationId, PrincipalId, ServerId};
use cells_protocol::mutations::OPERATION_ID_HEADER;
use cells_protocol::paths::STAGING_PREFIX;
use futures::FutureExt;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use self::failure::Failure;
pub(crate) use self::operation::Operation;
pub(super) use self::routes::{cancel, status};

use self::store::OperationStore;
use super::exports::{Export, Exports};
use super::steps::{Step, Steps};
use super::workers::Workers;
use crate::deadline::Deadline;
use crate::headers::Only;
use crate::random;
use crate::receipt_file::OpenError;
use crate::refusal::Refusal;

/// What names a write: ids are unique for each principal and export.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OperationKey {
    pub(crate) principal: PrincipalId,
    pub(crate) alias: Alias,
    pub(crate) id: OperationId,
}

impl OperationKey {
    /// The key of the write that `X-Operation-Id` names.
    pub(crate) fn of(principal: &PrincipalId, alias: &Alias, headers: &HeaderMap) -> Result<Self, Refusal> {
        match Only::of(headers, OPERATION_ID_HEADER) {
            Only::One(id) => Self::new(principal, alias, id.to_str().map_err(|_| Refusal::INVALID)?),
            Only::None | Only::Many => Err(Refusal::INVALID),
        }
    }

    fn new(principal: &PrincipalId, alias: &Alias, id: &str) -> Result<Self, Refusal> {
        let id = OperationId::new(id).map_err(|_| Refusal::INVALID)?;
        Ok(Self { principal: principal.clone(), alias: alias.clone(), id })
    }

    fn parts(&self) -> (&str, &str, &str) {
        (self.principal.as_str(), self.alias.as_str(), self.id.as_str())
    }
}

/// All writes of a node.
pub(crate) struct Operations {
    ledger: Mutex<Ledger>,
    workers: Workers,
    steps: Steps,
    /// How the staging names of this start begin: what an earlier one left begins otherwise.
    staging_prefix: String,
    tasks: TaskTracker,
    /// Cancelled when the node stops; each write has a child of it.
    stop: CancellationToken,
}

struct Ledger {
    store: OperationStore,
    /// The writes that run; cancelling the token asks one to stop.
    running: BTreeMap<OperationKey, CancellationToken>,
}

impl Operations {
    /// Opens the receipts and settles what an earlier process left. Blocks; to be called before the first request.
    pub(crate) fn open(
        state: &Path,
        server_id: &ServerId,
        exports: &Exports,
        workers: Workers,
        steps: Steps,
    ) -> Result<Arc<Self>, OpenError> {
        let start = random::bytes::<8>().map_err(|_| OpenError::Disk("no randomness".to_owned()))?;
        let store = OperationStore::open(state, server_id, |key, intent| match exports.get(&key.alias) {
            Some(export) => intent.look(export),
            None => unknown(),
        })?;
        let ledger = Mutex::new(Ledger { store, running: BTreeMap::new() });
        let staging_prefix = format!("{STAGING_PREFIX}{}", random::hex(&start));
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        Ok(Arc::new(Self { ledger, workers, steps, staging_prefix, tasks, stop }))
    }

    /// Claims the id and executes `work`, which goes on when the client is gone. Answers with the receipt, with a refusal
    /// when nothing was claimed, or with `unknown` when the deadline comes first.
    pub(crate) async fn run<W, F>(
        self: &Arc<Self>,
        key: OperationKey,
        export: Arc<Export>,
        deadline: Deadline,
        work: W,
    ) -> Response
    where
        W: FnOnce(Operation) -> F + Send + 'static,
        F: Future<Output = Result<Option<FileStat>, Failure>> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let operation = Operation::new(Arc::clone(self), key, export, deadline, self.stop.child_token());
        self.tasks.spawn(async move {
            let done = Self::execute(operation, work).await;
            // A client that is gone asks for the receipt.
            let _ = answer.send(done);
        });
        match deadline.later(ANSWER_GRACE).bound(answered).await {
            Ok(Ok(Ok((status, receipt)))) => reply(status, &receipt),
            Ok(Ok(Err(refusal))) => refusal.into_response(),
            // The task is gone without an answer: the node ends.
            Ok(Err(_)) => reply(Refusal::IO.status, &unknown()),
            Err(late) => reply(late.status, &FileReceipt::Unknown { code: Some(late.code.to_owned()) }),
        }
    }

    async fn execute<W, F>(operation: Operation, work: W) -> Result<(StatusCode, FileReceipt), Refusal>
    where
        W: FnOnce(Operation) -> F,
        F: Future<Output = Result<Option<FileStat>, Failure>>,
    {
        let claimed = operation.clone();
        blocking(move || claimed.claim()).await?;
        let done = AssertUnwindSafe(work(operation.clone())).catch_unwind().await;
        let finish = move || {
            let (status, receipt) = match done {
                Ok(Ok(result)) => (StatusCode::OK, FileReceipt::Committed { result }),
                Ok(Err(Failure::Refused(refusal))) => (refusal.status, not_committed(refusal)),
                Ok(Err(Failure::Unsure(refusal))) => operation.settle(refusal),
                // It panicked, and nobody knows how far it came.
                Err(_) => operation.settle(Refusal::IO),
            };
            operation.finish(receipt.clone());
            Ok((status, receipt))
        };
        // From the claim on, no answer may say that nothing happened unless that is known.
        Ok(blocking(finish).await.unwrap_or_else(|refusal| (refusal.status, unknown())))
    }

    /// What is known of an id; none when it is not known.
    pub(crate) async fn status(self: &Arc<Self>, key: OperationKey) -> Result<Option<FileReceipt>, Refusal> {
        let operations = Arc::clone(self);
        blocking(move || operations.lock().store.find(&key)).await
    }

    /// Asks a write to stop, and gives what is known of it. An id that is not known is claimed, so that a write that comes
    /// later is refused.
    pub(crate) async fn cancel(self: &Arc<Self>, key: OperationKey) -> Result<FileReceipt, Refusal> {
        let operations = Arc::clone(self);
        blocking(move || {
            let mut ledger = operations.lock();
            if let Some(running) = ledger.running.get(&key) {
                running.cancel();
                return Ok(FileReceipt::Running);
            }
            ledger.store.fence(&key)
        })
        .await
    }

    /// Asks all writes to stop, and claims no more.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Cancelled when [`Operations::stop`] was called.
    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Waits until no write runs, 5 s at most. The next start settles what still runs then.
    pub(crate) async fn drained(&self) {
        self.tasks.close();
        if tokio::time::timeout(DRAIN, self.tasks.wait()).await.is_err() {
            tracing::warn!("writes still run; their receipts are settled by the next start");
        }
    }

    pub(super) fn staging_prefix(&self) -> &str {
        &self.staging_prefix
    }

    /// The tasks that [`Operations::drained`] waits for.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A receipt with the status of a write.
fn reply(status: StatusCode, receipt: &FileReceipt) -> Response {
    (status, axum::Json(receipt)).into_response()
}

fn not_committed(why: Refusal) -> FileReceipt {
    FileReceipt::NotCommitted { code: why.code.to_owned() }
}

/// Nobody can find out.
fn unknown() -> FileReceipt {
    FileReceipt::Unknown { code: Some(Refusal::IO.code.to_owned()) }
}

async fn blocking<T: Send + 'static>(job: impl FnOnce() -> Result<T, Refusal> + Send + 'static) -> Result<T, Refusal> {
    spawn_blocking(job).await.map_err(|_| Refusal::IO)?
}

/// How long an answer may come after the deadline: a write that notices its deadline tells its outcome.
const ANSWER_GRACE: Duration = Duration::from_millis(250);
const DRAIN: Duration = Duration::from_secs(5);
