//! One write from its claim to its receipt.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use cells_protocol::file_receipts::FileReceipt;
use rustix::io::Errno;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::intent::Intent;
use super::{OperationKey, Operations, Step, not_committed, unknown};
use crate::deadline::Deadline;
use crate::files::exports::Export;
use crate::files::staging::Leftover;
use crate::refusal::Refusal;

/// A write that was claimed. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Operation {
    inner: Arc<Inner>,
}

struct Inner {
    operations: Arc<Operations>,
    key: OperationKey,
    export: Arc<Export>,
    deadline: Deadline,
    cancelled: CancellationToken,
    /// What is removed when the receipt is written. Until then it proves what happened.
    evidence: Mutex<Vec<Arc<Leftover>>>,
}

impl Operation {
    pub(super) fn new(
        operations: Arc<Operations>,
        key: OperationKey,
        export: Arc<Export>,
        deadline: Deadline,
        cancelled: CancellationToken,
    ) -> Self {
        let evidence = Mutex::default();
        Self { inner: Arc::new(Inner { operations, key, export, deadline, cancelled, evidence }) }
    }

    pub(crate) fn export(&self) -> &Arc<Export> {
        &self.inner.export
    }

    /// Refuses to go on when the write was cancelled, the node stops or the deadline has passed. For blocking work, which
    /// asks between its steps; the last time just before its effect.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.inner.cancelled.is_cancelled() {
            return Err(Refusal::CANCELLED);
        }
        self.inner.deadline.check()
    }

    /// What `work` gives, unless [`Operation::check`] would refuse first. For work without effect.
    pub(crate) async fn bound<T>(&self, work: impl Future<Output = T>) -> Result<T, Refusal> {
        tokio::select! {
            biased;
            () = self.inner.cancelled.cancelled() => Err(Refusal::CANCELLED),
            result = self.inner.deadline.bound(work) => result,
        }
    }

    /// Runs `job` on a thread that may block. Only the wait for a thread is bound; the job runs to its end.
    pub(crate) async fn blocking<T, E>(&self, job: impl FnOnce(&Self) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Refusal> + Send + 'static,
    {
        let slot = self.bound(self.inner.operations.workers.slot()).await??;
        let operation = self.clone();
        let job = move || {
            let result = job(&operation);
            drop(slot);
            result
        };
        match spawn_blocking(job).await {
            Ok(result) => result,
            // Nobody knows how far it came: the receipt is found by looking.
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // It was never started.
            Err(_) => Err(Refusal::IO.into()),
        }
    }

    /// How the staging names of this start of the node begin; 16 hex digits follow.
    pub(crate) fn staging_prefix(&self) -> &str {
        &self.inner.operations.staging_prefix
    }

    /// A step that a test may make fail.
    pub(crate) fn step(&self, step: Step) -> Result<(), Errno> {
        self.inner.operations.steps.at(step)
    }

    /// Records what is about to be done, durably. `leftover` is removed when the receipt is written.
    pub(crate) fn intend(&self, intent: &Intent, leftover: Option<&Arc<Leftover>>) -> Result<(), Refusal> {
        self.inner.operations.lock().store.intend(&self.inner.key, intent)?;
        if let Some(leftover) = leftover {
            leftover.set_evidence(true);
            self.inner.evidence.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(leftover));
        }
        Ok(())
    }

    pub(super) fn claim(&self) -> Result<(), Refusal> {
        let operations = &self.inner.operations;
        let mut ledger = operations.lock();
        if operations.stop.is_cancelled() {
            return Err(Refusal::STOPPING);
        }
        ledger.store.claim(&self.inner.key)?;
        ledger.running.insert(self.inner.key.clone(), self.inner.cancelled.clone());
        Ok(())
    }

    /// What became of a write that failed for this reason and does not know whether it had an effect.
    pub(super) fn settle(&self, why: Refusal) -> (StatusCode, FileReceipt) {
        let intent = self.inner.operations.lock().store.intent(&self.inner.key);
        let found = match intent {
            Ok(Some(intent)) => intent.look(&self.inner.export),
            Ok(None) => not_committed(why),
            Err(_) => unknown(),
        };
        match found {
            FileReceipt::Committed { .. } => (StatusCode::OK, found),
            FileReceipt::NotCommitted { .. } => (why.status, not_committed(why)),
            FileReceipt::Unknown { .. } | FileReceipt::Running => (Refusal::IO.status, unknown()),
        }
    }

    /// Writes the receipt, then tidies up.
    pub(super) fn finish(&self, receipt: FileReceipt) {
        let evidence = std::mem::take(&mut *self.inner.evidence.lock().unwrap_or_else(PoisonError::into_inner));
        let mut ledger = self.inner.operations.lock();
        let evidence = ledger.store.finish(&self.inner.key, receipt, evidence);
        ledger.running.remove(&self.inner.key);
        drop(ledger);
        evidence.iter().for_each(|leftover| leftover.set_evidence(false));
        drop(evidence);
        let _ = self.step(Step::Recorded);
    }
}
