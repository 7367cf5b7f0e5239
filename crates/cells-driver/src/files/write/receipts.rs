//! Receipts of writes, and the request that stops one (`files-http.md` §5.4–5.5).

use std::sync::Arc;

use cells_protocol::error::Outcome;
use cells_protocol::file_receipts::FileReceipt;
use cells_protocol::file_recovery::FileRecovery;
use cells_protocol::ids::OperationId;
use cells_protocol::limits::{FENCE_MS, MUTATION_REPLY_MAX_BYTES, OPERATION_RETENTION_MS};

use crate::budget::Budget;
use crate::cancellation::OperationOptions;
use crate::discovery::parsed;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::transport::{Call, JSON};

/// [`FileStorage::operation_status`](crate::FileStorage::operation_status).
pub(in crate::files) async fn operation_status(
    files: &Files,
    operation_id: &OperationId,
    options: &OperationOptions,
) -> Result<FileReceipt> {
    let ask = async {
        files.link.check_open(STATUS)?;
        let budget = files.link.budget(options);
        budget.run(STATUS, status(files, operation_id, &budget)).await
    };
    ask.await.map_err(still_unknown)
}

/// [`FileStorage::cancel_operation`](crate::FileStorage::cancel_operation).
pub(in crate::files) async fn cancel_operation(
    files: &Files,
    operation_id: &OperationId,
    options: &OperationOptions,
) -> Result<FileReceipt> {
    let ask = async {
        files.link.check_open(CANCEL)?;
        let budget = files.link.budget(options);
        budget.run(CANCEL, cancel(files, operation_id, &budget)).await
    };
    ask.await.map_err(still_unknown)
}

/// When a question about a write fails, nothing more is known of the write.
fn still_unknown(error: Error) -> Error {
    error.with_outcome(Outcome::Unknown)
}

/// The receipt of a write; an error of kind `ENOENT` when the node has none.
pub(super) async fn status(files: &Files, operation_id: &OperationId, budget: &Budget) -> Result<FileReceipt> {
    let call = Call::get(STATUS, files.url(&format!("operations/{operation_id}")).await?);
    receipt(files, &call, budget).await
}

/// Asks the node to stop a write, and gives its receipt. A write that the node has not seen can then no longer happen.
pub(super) async fn cancel(files: &Files, operation_id: &OperationId, budget: &Budget) -> Result<FileReceipt> {
    let url = files.url(&format!("operations/{operation_id}/cancel")).await?;
    receipt(files, &Call::post(CANCEL, url, JSON, Vec::new()), budget).await
}

async fn receipt(files: &Files, call: &Call, budget: &Budget) -> Result<FileReceipt> {
    let body = files.link.fetch(call, MUTATION_REPLY_MAX_BYTES, budget).await?;
    parsed(call.operation, FileReceipt::parse(&body))
}

/// The receipt of a write once it does not run any more; `Running` when the budget ends before.
pub(super) async fn ended(
    files: &Files,
    operation_id: &OperationId,
    mut receipt: FileReceipt,
    budget: &Budget,
) -> Result<FileReceipt> {
    let mut delay_ms = POLL_FIRST_MS;
    while is_running(&receipt) && budget.remaining_ms() > delay_ms {
        files.link.core.host.sleep(delay_ms).await;
        delay_ms = (delay_ms * 2).min(POLL_MAX_MS);
        receipt = status(files, operation_id, budget).await?;
    }
    Ok(receipt)
}

/// Stops a write and finds out how it ended; `None` when that is not known in time, or not proven.
pub(super) async fn fence(files: &Arc<Files>, recovery: &FileRecovery) -> Option<FileReceipt> {
    let budget = fence_budget(files);
    let find_out = async {
        let receipt = cancel(files, &recovery.operation_id, &budget).await?;
        if is_never_seen(&receipt) && !remembers(files, recovery, &budget).await? {
            return Ok(FileReceipt::Running);
        }
        ended(files, &recovery.operation_id, receipt, &budget).await
    };
    let receipt = budget.run(CANCEL, find_out).await.ok()?;
    (!is_running(&receipt)).then_some(receipt)
}

/// Whether the write may still end one way or the other.
pub(super) fn is_running(receipt: &FileReceipt) -> bool {
    match receipt {
        FileReceipt::Running => true,
        // What a node says of a write that takes longer than its caller waits.
        FileReceipt::Unknown { code } => code.as_deref() == Some("ETIMEDOUT"),
        FileReceipt::Committed { .. } | FileReceipt::NotCommitted { .. } => false,
    }
}

/// Stops a write whose outcome is not known. Whether that works shows when somebody asks for the receipt.
pub(super) async fn stop(files: &Arc<Files>, operation_id: &OperationId) {
    let budget = fence_budget(files);
    let _ = budget.run(CANCEL, cancel(files, operation_id, &budget)).await;
}

/// Whether this is what a node answers to the request to stop a write that it has not seen.
pub(super) fn is_never_seen(receipt: &FileReceipt) -> bool {
    matches!(receipt, FileReceipt::NotCommitted { code } if code == "ECANCELLED")
}

/// Whether the node would know of the write if it had seen it: its table of receipts reaches back to when it was sent.
pub(super) async fn remembers(files: &Files, recovery: &FileRecovery, budget: &Budget) -> Result<bool> {
    let age_ms = files.link.core.host.now_ms().saturating_sub(recovery.sent_at_ms);
    if age_ms >= OPERATION_RETENTION_MS {
        return Ok(false);
    }
    if recovery.durable || recovery.process_epoch.is_none() {
        return Ok(recovery.durable);
    }
    // Receipts in memory go with the process, and another process has another epoch.
    let kept = files.link.kept(budget).await?;
    Ok(kept.process_epoch == recovery.process_epoch)
}

fn fence_budget(files: &Files) -> Budget {
    files.link.budget(&OperationOptions { timeout_ms: Some(FENCE_MS), cancel: None })
}

const STATUS: &str = "operation_status";
const CANCEL: &str = "cancel_operation";

/// Wait before the receipt of a write that runs is asked for again, in milliseconds; it doubles.
const POLL_FIRST_MS: u64 = 100;
/// Longest such wait.
const POLL_MAX_MS: u64 = 1_000;
