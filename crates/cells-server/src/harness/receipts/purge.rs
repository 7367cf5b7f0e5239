//! Forgetting whole earlier epochs (`cells-0.4.md` §12.3). "Epoch known, row absent" stays a proof, because an epoch goes
//! with all its rows or not at all.

use std::path::Path;

use cells_protocol::ids::Epoch;
use cells_protocol::limits::RECEIPT_RETENTION_MS;
use rusqlite::{Transaction, params};

use super::{OpenError, ReceiptStore, open, time};
use crate::receipt_file::{check_schema, connect};

/// Forgets every epoch below the state directory `state` whose last change is before `before_ms` (Unix milliseconds) and
/// gives how many. For a node that is stopped.
///
/// # Errors
/// [`OpenError`]; nothing was changed then.
pub(crate) fn purge_before(state: &Path, before_ms: u64) -> Result<u64, OpenError> {
    if !state.join(open::FILE_NAME).exists() {
        return Ok(0);
    }
    let mut connection = connect(state, open::FILE_NAME)?;
    let transaction = connection.transaction()?;
    check_schema(&transaction)?;
    let before = i64::try_from(before_ms).unwrap_or(i64::MAX);
    let count = delete_before(&transaction, before, None)?;
    transaction.commit()?;
    Ok(count)
}

impl ReceiptStore {
    /// Forgets the earlier epochs whose last change is 30 days ago and gives how many. To be called daily.
    ///
    /// # Errors
    /// [`OpenError`]; nothing was changed then.
    pub(crate) fn purge_old(&self) -> Result<u64, OpenError> {
        let mut inner = self.lock();
        let transaction = inner.connection.transaction()?;
        let before = time() - RECEIPT_RETENTION_MS.cast_signed();
        let count = delete_before(&transaction, before, Some(&self.epoch))?;
        let total: i64 = transaction.query_row("SELECT count(*) FROM receipts", [], |row| row.get(0))?;
        transaction.commit()?;
        inner.total = u64::try_from(total).unwrap_or(0);
        Ok(count)
    }
}

pub(super) fn delete_before(
    transaction: &Transaction<'_>,
    before: i64,
    keep: Option<&Epoch>,
) -> Result<u64, OpenError> {
    let keep = keep.map_or("", Epoch::as_str);
    let mut old: Vec<String> = Vec::new();
    let mut select = transaction.prepare(OLD_EPOCHS)?;
    for epoch in select.query_map(params![before, keep], |row| row.get(0))? {
        old.push(epoch?);
    }
    for epoch in &old {
        transaction.execute("DELETE FROM receipts WHERE epoch = ?1", [epoch])?;
        transaction.execute("DELETE FROM epochs WHERE epoch = ?1", [epoch])?;
    }
    Ok(old.len() as u64)
}

const OLD_EPOCHS: &str = "SELECT epoch FROM epochs LEFT JOIN receipts USING (epoch) WHERE epoch <> ?2 \
    GROUP BY epoch HAVING max(startedAt, coalesce(max(updatedAt), 0)) < ?1";
