//! The table of writes: each is claimed in it before its effect, and its receipt is kept there for an hour.

use std::collections::BTreeMap;
use std::path::Path;

use cells_protocol::file_receipts::FileReceipt;
use cells_protocol::ids::{Alias, OperationId, PrincipalId, ServerId};
use cells_protocol::json::to_vec;
use cells_protocol::limits::{OPERATION_RETENTION_MS, OPERATIONS_MAX};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, params};

use super::OperationKey;
use super::intent::{INTERRUPTED, Intent};
use crate::harness::clock::now_ms;
use crate::receipt_file::{OpenError, connect, create_schema};
use crate::refusal::Refusal;

/// The writes of the last hour. All functions block on the disk.
#[derive(Debug)]
pub(super) struct OperationStore {
    connection: Connection,
    /// Receipts that could not be written. Nothing is claimed until they are.
    unsaved: BTreeMap<OperationKey, FileReceipt>,
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
                None => FileReceipt::NotCommitted { code: INTERRUPTED.to_owned() },
                Some(intent) => look(&key, &intent),
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
        let cancelled = FileReceipt::NotCommitted { code: Refusal::CANCELLED.code.to_owned() };
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

    /// What a write that has no receipt was about to do.
    pub(super) fn intent(&self, key: &OperationKey) -> Option<Intent> {
        let (principal, alias, id) = key.parts();
        let select = self.connection.prepare_cached(SELECT_INTENT);
        let found = select.and_then(|mut select| {
            select.query_row(params![principal, alias, id], |row| row.get::<_, Option<String>>(0)).optional()
        });
        serde_json::from_str(&found.ok()???).ok()
    }

    /// Writes the receipt. When that fails it is kept in memory until it works.
    pub(super) fn finish(&mut self, key: &OperationKey, receipt: FileReceipt) {
        if save(&self.connection, key, &receipt).is_err() {
            tracing::error!("the receipt of a write could not be saved; nothing is written until it can");
            self.unsaved.insert(key.clone(), receipt);
        }
    }

    /// The receipt of an id; none when it is not known.
    pub(super) fn find(&self, key: &OperationKey) -> Result<Option<FileReceipt>, Refusal> {
        if let Some(receipt) = self.unsaved.get(key) {
            return Ok(Some(receipt.clone()));
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

    /// Forgets what is old enough and adds a row. False: the id is known.
    fn insert(&mut self, key: &OperationKey, receipt: Option<&FileReceipt>) -> Result<bool, Refusal> {
        let transaction = self.connection.transaction().map_err(|error| refused(&error))?;
        for (key, receipt) in &self.unsaved {
            save(&transaction, key, receipt).map_err(|error| refused(&error))?;
        }
        let inserted = insert(&transaction, key, receipt)?;
        transaction.commit().map_err(|error| refused(&error))?;
        self.unsaved.clear();
        Ok(inserted)
    }
}

fn insert(transaction: &Transaction<'_>, key: &OperationKey, receipt: Option<&FileReceipt>) -> Result<bool, Refusal> {
    let run = || {
        transaction.execute(FORGET, [expired()])?;
        let count: i64 = transaction.query_row(COUNT, [], |row| row.get(0))?;
        let (principal, alias, id) = key.parts();
        let mut known = transaction.prepare_cached(KNOWN)?;
        let known = known.exists(params![principal, alias, id])?;
        let is_full = !known && count >= i64::try_from(OPERATIONS_MAX).unwrap_or(i64::MAX);
        if !known && !is_full {
            let mut insert = transaction.prepare_cached(INSERT)?;
            insert.execute(params![principal, alias, id, receipt.map(text), time()])?;
        }
        Ok((known, is_full))
    };
    match run().map_err(|error| refused(&error))? {
        (_, true) => Err(Refusal::OPERATION_LIMIT),
        (known, false) => Ok(!known),
    }
}

fn save(connection: &Connection, key: &OperationKey, receipt: &FileReceipt) -> rusqlite::Result<()> {
    let (principal, alias, id) = key.parts();
    let mut finish = connection.prepare_cached(FINISH)?;
    finish.execute(params![text(receipt), principal, alias, id])?;
    Ok(())
}

fn unfinished(transaction: &Transaction<'_>) -> Result<Vec<(OperationKey, Option<Intent>)>, OpenError> {
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
        let intent = row.get::<_, Option<String>>(3)?;
        let intent = intent.map(|text| serde_json::from_str(&text)).transpose().map_err(|_| OpenError::Damaged)?;
        unfinished.push((key, intent));
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
