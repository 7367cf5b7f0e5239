//! One write from its claim to its receipt.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};

use cells_protocol::file_receipts::FileReceipt;
use rustix::io::Errno;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::intent::Intent;
use super::{INTERRUPTED, OperationKey, Operations, Step};
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
    leftovers: Mutex<Vec<Arc<Leftover>>>,
}

impl Operation {
    pub(super) fn new(
        operations: Arc<Operations>,
        key: OperationKey,
        export: Arc<Export>,
        deadline: Deadline,
        cancelled: CancellationToken,
    ) -> Self {
        let leftovers = Mutex::default();
        Self { inner: Arc::new(Inner { operations, key, export, deadline, cancelled, leftovers }) }
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
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Self) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
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
            Err(_) => Err(Refusal::IO),
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
    pub(crate) fn intend(&self, intent: &Intent, leftover: Option<Arc<Leftover>>) -> Result<(), Refusal> {
        if let Some(leftover) = leftover {
            leftover.set_evidence(true);
            self.inner.leftovers.lock().unwrap_or_else(PoisonError::into_inner).push(leftover);
        }
        self.inner.operations.lock().store.intend(&self.inner.key, intent)
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

    /// What became of a write that did not say.
    pub(super) fn look(&self) -> FileReceipt {
        let intent = self.inner.operations.lock().store.intent(&self.inner.key);
        match intent {
            Some(intent) => intent.look(&self.inner.export),
            None => FileReceipt::NotCommitted { code: INTERRUPTED.to_owned() },
        }
    }

    /// Writes the receipt, then tidies up.
    pub(super) fn finish(&self, receipt: FileReceipt) {
        let mut ledger = self.inner.operations.lock();
        ledger.store.finish(&self.inner.key, receipt);
        ledger.running.remove(&self.inner.key);
        drop(ledger);
        let leftovers = std::mem::take(&mut *self.inner.leftovers.lock().unwrap_or_else(PoisonError::into_inner));
        leftovers.iter().for_each(|leftover| leftover.set_evidence(false));
        drop(leftovers);
        let _ = self.step(Step::Recorded);
    }
}
