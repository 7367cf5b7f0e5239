//! Opening the file: lock, checks, schema, and settling what an earlier process left (`cells-0.4.md` §12.1 rule 5, §12.2).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use cells_protocol::ids::{Epoch, ServerId};
use cells_protocol::limits::RECEIPT_RETENTION_MS;
use rusqlite::{Transaction, params};

use super::{Inner, NOT_COMMITTED, RESERVED, ReceiptLimits, ReceiptStore, STARTED, UNKNOWN, prove, purge, time};
use crate::receipt_file::{OpenError, connect, create_schema};

impl ReceiptStore {
    /// Opens or creates the file in the state directory `state`, takes its lock, settles every row an earlier process left unfinished and commits the
    /// row of `epoch`. Call it before the first request is accepted.
    ///
    /// # Errors
    /// [`OpenError`]; nothing was changed then.
    pub(crate) fn open(
        state: &Path,
        server_id: &ServerId,
        epoch: Epoch,
        limits: ReceiptLimits,
    ) -> Result<Self, OpenError> {
        let mut connection = connect(state, FILE_NAME)?;
        let transaction = connection.transaction()?;
        create_schema(&transaction, server_id, TABLES)?;
        settle(&transaction)?;
        purge::delete_before(&transaction, time() - RETENTION_MS, None)?;
        add_epoch(&transaction, &epoch, limits)?;
        let total: i64 = transaction.query_row("SELECT count(*) FROM receipts", [], |row| row.get(0))?;
        transaction.commit()?;
        let inner = Inner {
            unproved: prove::read_unproved(&connection)?,
            connection,
            broken: false,
            unsaved: BTreeMap::new(),
            per_instance: BTreeMap::new(),
            total: u64::try_from(total).unwrap_or(0),
        };
        Ok(Self { epoch, limits, inner: Mutex::new(inner) })
    }
}

/// A reserved row was never started: no effect. A started row: nobody knows.
fn settle(transaction: &Transaction<'_>) -> Result<(), OpenError> {
    let mut settle =
        transaction.prepare("UPDATE receipts SET state = ?1, code = ?2, updatedAt = ?3 WHERE state = ?4")?;
    settle.execute(params![NOT_COMMITTED, "HARNESS_NOT_STARTED", time(), RESERVED])?;
    settle.execute(params![UNKNOWN, "HARNESS_RESTARTED", time(), STARTED])?;
    Ok(())
}

fn add_epoch(transaction: &Transaction<'_>, epoch: &Epoch, limits: ReceiptLimits) -> Result<(), OpenError> {
    let count = || transaction.query_row("SELECT count(*) FROM epochs", [], |row| row.get::<_, i64>(0));
    let limit = i64::try_from(limits.epochs).unwrap_or(i64::MAX);
    let excess = count()? + 1 - limit;
    if excess > 0 {
        transaction.execute(FORGET_EPOCHS_WITHOUT_ROWS, [excess])?;
        if count()? >= limit {
            return Err(OpenError::TooManyEpochs);
        }
    }
    transaction.execute(
        "INSERT INTO epochs(epoch, seq, startedAt) SELECT ?1, coalesce(max(seq), 0) + 1, ?2 FROM epochs",
        params![epoch.as_str(), time()],
    )?;
    Ok(())
}

/// The file below the state directory.
pub(super) const FILE_NAME: &str = "receipts.sqlite";
const RETENTION_MS: i64 = RECEIPT_RETENTION_MS.cast_signed();

const TABLES: &str = "
CREATE TABLE epochs(epoch TEXT PRIMARY KEY, seq INTEGER UNIQUE, startedAt INTEGER);
CREATE TABLE receipts(principal TEXT, profileId TEXT, projectId TEXT, revision INTEGER, readOnly INTEGER, requestId TEXT,
    epoch TEXT REFERENCES epochs, tool TEXT, identity BLOB, state TEXT, code TEXT, result TEXT, createdAt INTEGER,
    updatedAt INTEGER, PRIMARY KEY(principal, requestId));
";

const FORGET_EPOCHS_WITHOUT_ROWS: &str = "DELETE FROM epochs WHERE epoch IN (SELECT epoch FROM epochs \
    WHERE epoch NOT IN (SELECT epoch FROM receipts) ORDER BY seq LIMIT ?1)";
