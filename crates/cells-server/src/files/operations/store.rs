//! The table of writes: each is claimed in it before its effect, and its receipt is kept there for an hour.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cells_protocol::file_receipts::FileReceipt;
use cells_protocol::ids::{Alias, OperationId, PrincipalId, ServerId};
use cells_protocol::json::to_vec;
use cells_protocol::limits::{OPERATION_RETENTION_MS, OPERATIONS_MAX};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, params};

use super::intent::{INTERRUPTED, Intent};
use super::{OperationKey, not_committed, unknown};
use crate::files::staging::Leftover;
use crate::harness::clock::now_ms;
use crate::receipt_file::{OpenError, connect, create_schema};
use crate::refusal::Refusal;

/// The writes of the last hour. All functions block on the disk.
#[derive(Debug)]
pub(super) struct OperationStore {
    connection: Connection,
    /// Receipts that could not be written. Nothing is claimed until they are.
    unsaved: BTreeMap<OperationKey, Unsaved>,
}

/// A receipt, and what proves it as long as it is not in the table.
#[derive(Debug)]
struct Unsaved {
    receipt: FileReceipt,
    evidence: Vec<Arc<Leftover>>,
}

/// What the table holds of the intent of a write that has no receipt.
enum Recorded {
    Nothing,
    Intent(Intent),
    /// Another version of this program wrote it.
    Unreadable,
}

impl OperationStore {
    /// Opens or creates the table, and settles the claims that an earlier process left without a receipt: `look` finds out
    /// what became of those that had an intent; the others had no effect.
    pub(super) fn open(
        state: &Path,
        server_id: &ServerId,
        look: impl Fn(&OperationKey, &Intent) -> FileReceipt,
    ) -> Result<Self, OpenError> {
        let mut connection = connect(state, FILE_NAME)?;
        let transaction = connection.transaction()?;
        create_schema(&transaction, server_id, TABLES)?;
        for (key, intent) in unfinished(&transaction)? {
            let receipt = match intent {
                Recorded::Nothing => not_committed(INTERRUPTED),
                Recorded::Intent(intent) => look(&key, &intent),
                Recorded::Unreadable => unknown(),
            };
            save(&transaction, &key, &receipt)?;
        }
        transaction.commit()?;
        Ok(Self { connection, unsaved: BTreeMap::new() })
    }

    /// Claims an id; from here on it is never executed again.
    pub(super) fn claim(&mut self, key: &OperationKey) -> Result<(), Refusal> {
        if self.insert(key, None)? { Ok(()) } else { Err(Refusal::OPERATION_ID_REUSED) }
    }

    /// The receipt of an id that has one, else claims it as cancelled: a write that comes later is refused.
    pub(super) fn fence(&mut self, key: &OperationKey) -> Result<FileReceipt, Refusal> {
        if let Some(receipt) = self.find(key)? {
            return Ok(receipt);
        }
        let cancelled = not_committed(Refusal::CANCELLED);
        match self.insert(key, Some(&cancelled)) {
            Err(Refusal::OPERATION_LIMIT) => Err(Refusal::OPERATION_UNKNOWN),
            inserted => inserted.map(|_| cancelled),
        }
    }

    /// Records what the write is about to do. It must not be done when this fails.
    pub(super) fn intend(&mut self, key: &OperationKey, intent: &Intent) -> Result<(), Refusal> {
        let intent = String::from_utf8(to_vec(intent)).map_err(|_| Refusal::IO)?;
        let (principal, alias, id) = key.parts();
        let update = self.connection.prepare_cached(INTEND);
        let updated = update.and_then(|mut update| update.execute(params![intent, principal, alias, id]));
        if updated.map_err(|error| refused(&error))? == 1 { Ok(()) } else { Err(Refusal::IO) }
    }

    /// What a write that has no receipt was about to do; none when it had not come so far. An error says that nobody knows.
    pub(super) fn intent(&self, key: &OperationKey) -> Result<Option<Intent>, Refusal> {
        let (principal, alias, id) = key.parts();
        let select = self.connection.prepare_cached(SELECT_INTENT);
        let found = select.and_then(|mut select| select.query_row(params![principal, alias, id], |row| row.get(0)));
        match Recorded::of(found.map_err(|error| refused(&error))?) {
            Recorded::Nothing => Ok(None),
            Recorded::Intent(intent) => Ok(Some(intent)),
            Recorded::Unreadable => Err(Refusal::IO),
        }
    }

    /// Writes the receipt and gives back the evidence, which is not needed then. When that fails both are kept until it
    /// works.
    pub(super) fn finish(
        &mut self,
        key: &OperationKey,
        receipt: FileReceipt,
        evidence: Vec<Arc<Leftover>>,
    ) -> Vec<Arc<Leftover>> {
        match save(&self.connection, key, &receipt) {
            Ok(()) => evidence,
            Err(error) => {
                tracing::error!("the receipt of a write could not be saved; nothing is written until it can: {error}");
                self.unsaved.insert(key.clone(), Unsaved { receipt, evidence });
                Vec::new()
            }
        }
    }

    /// The receipt of an id; none when it is not known.
    pub(super) fn find(&self, key: &OperationKey) -> Result<Option<FileReceipt>, Refusal> {
        if let Some(unsaved) = self.unsaved.get(key) {
            return Ok(Some(unsaved.receipt.clone()));
        }
        let (principal, alias, id) = key.parts();
        let found = self.connection.prepare_cached(SELECT).and_then(|mut select| {
            select.query_row(params![principal, alias, id, expired()], |row| row.get::<_, Option<String>>(0)).optional()
        });
        match found.map_err(|error| refused(&error))? {
            None => Ok(None),
            Some(None) => Ok(Some(FileReceipt::Running)),
            Some(Some(receipt)) => FileReceipt::parse(receipt.as_bytes()).map(Some).map_err(|_| Refusal::IO),
        }
    }

    #[cfg(test)]
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Forgets what is old enough and adds a row. False: the id is known.
    fn insert(&mut self, key: &OperationKey, receipt: Option<&FileReceipt>) -> Result<bool, Refusal> {
        let inserted = self.transact(key, receipt).map_err(|error| refused(&error))?;
        for unsaved in std::mem::take(&mut self.unsaved).into_values() {
            unsaved.evidence.iter().for_each(|leftover| leftover.set_evidence(false));
        }
        match inserted {
            Inserted::New => Ok(true),
            Inserted::Known => Ok(false),
            Inserted::Full => Err(Refusal::OPERATION_LIMIT),
        }
    }

    fn transact(&mut self, key: &OperationKey, receipt: Option<&FileReceipt>) -> rusqlite::Result<Inserted> {
        let transaction = self.connection.transaction()?;
        for (key, unsaved) in &self.unsaved {
            save(&transaction, key, &unsaved.receipt)?;
        }
        transaction.execute(FORGET, [expired()])?;
        let (principal, alias, id) = key.parts();
        let known = transaction.prepare_cached(KNOWN)?.exists(params![principal, alias, id])?;
        let count: i64 = transaction.query_row(COUNT, [], |row| row.get(0))?;
        let inserted = if known {
            Inserted::Known
        } else if count >= OPERATIONS_MAX.cast_signed() {
            Inserted::Full
        } else {
            let mut insert = transaction.prepare_cached(INSERT)?;
            insert.execute(params![principal, alias, id, receipt.map(text), time()])?;
            Inserted::New
        };
        transaction.commit()?;
        Ok(inserted)
    }
}

enum Inserted {
    New,
    Known,
    Full,
}

impl Recorded {
    fn of(text: Option<String>) -> Self {
        match text.map(|text| serde_json::from_str(&text)) {
            None => Self::Nothing,
            Some(Ok(intent)) => Self::Intent(intent),
            Some(Err(_)) => Self::Unreadable,
        }
    }
}

fn save(connection: &Connection, key: &OperationKey, receipt: &FileReceipt) -> rusqlite::Result<()> {
    let (principal, alias, id) = key.parts();
    let mut finish = connection.prepare_cached(FINISH)?;
    finish.execute(params![text(receipt), principal, alias, id])?;
    Ok(())
}

fn unfinished(transaction: &Transaction<'_>) -> Result<Vec<(OperationKey, Recorded)>, OpenError> {
    let mut select = transaction.prepare(UNFINISHED)?;
    let mut rows = select.query([])?;
    let mut unfinished = Vec::new();
    while let Some(row) = rows.next()? {
        let (principal, alias, id): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let key = OperationKey {
            principal: PrincipalId::new(principal).map_err(|_| OpenError::Damaged)?,
            alias: Alias::new(alias).map_err(|_| OpenError::Damaged)?,
            id: OperationId::new(id).map_err(|_| OpenError::Damaged)?,
        };
        unfinished.push((key, Recorded::of(row.get(3)?)));
    }
    Ok(unfinished)
}

fn text(receipt: &FileReceipt) -> String {
    String::from_utf8_lossy(&to_vec(receipt)).into_owned()
}

fn refused(error: &rusqlite::Error) -> Refusal {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Refusal::DISK_FULL,
        _ => Refusal::IO,
    }
}

/// Now, as SQLite keeps it.
fn time() -> i64 {
    i64::try_from(now_ms()).unwrap_or(i64::MAX)
}

/// What was claimed before this and has a receipt is forgotten.
fn expired() -> i64 {
    time() - OPERATION_RETENTION_MS.cast_signed()
}

const FILE_NAME: &str = "operations.sqlite";
const TABLES: &str = "
CREATE TABLE file_operations(principal TEXT, alias TEXT, operationId TEXT, intent TEXT, receipt TEXT, createdAt INTEGER,
    PRIMARY KEY(principal, alias, operationId)) WITHOUT ROWID;
CREATE INDEX file_operations_by_age ON file_operations(createdAt);
";
const FORGET: &str = "DELETE FROM file_operations WHERE createdAt < ?1 AND receipt IS NOT NULL";
const COUNT: &str = "SELECT count(*) FROM file_operations";
const KNOWN: &str = "SELECT 1 FROM file_operations WHERE principal = ?1 AND alias = ?2 AND operationId = ?3";
const INSERT: &str = "INSERT INTO file_operations(principal, alias, operationId, receipt, createdAt) \
                      VALUES(?1, ?2, ?3, ?4, ?5)";
const INTEND: &str = "UPDATE file_operations SET intent = ?1 \
                      WHERE principal = ?2 AND alias = ?3 AND operationId = ?4 AND receipt IS NULL";
const SELECT_INTENT: &str = "SELECT intent FROM file_operations \
                             WHERE principal = ?1 AND alias = ?2 AND operationId = ?3 AND receipt IS NULL";
const SELECT: &str = "SELECT receipt FROM file_operations WHERE principal = ?1 AND alias = ?2 AND operationId = ?3 \
                      AND (receipt IS NULL OR createdAt >= ?4)";
const FINISH: &str = "UPDATE file_operations SET receipt = ?1 \
                      WHERE principal = ?2 AND alias = ?3 AND operationId = ?4 AND receipt IS NULL";
const UNFINISHED: &str = "SELECT principal, alias, operationId, intent FROM file_operations WHERE receipt IS NULL";
