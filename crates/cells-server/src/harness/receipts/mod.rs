//! Durable receipts of harness mutations (`cells-0.4.md` §12).
//!
//! One SQLite file, one writer. A row is committed before the driver is called and again before the answer is given, so
//! that a mutation happens at most once and its outcome survives the node. All functions here block on the disk; call them
//! through `tokio::task::spawn_blocking`.

mod lookup;
mod open;
mod prove;
mod purge;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cells_protocol::ids::{Epoch, PrincipalId, ProfileId, RequestId};
use cells_protocol::limits::{RECEIPT_EPOCHS_MAX, RECEIPT_RESULT_MAX_BYTES, RECEIPTS_PER_INSTANCE, RECEIPTS_PER_STORE};
use rusqlite::{Connection, OptionalExtension, params};

use super::clock::now_ms;
use super::plugin::ToolError;

pub use crate::receipt_file::OpenError;
pub(crate) use purge::purge_before;

/// The receipts of one installation.
#[derive(Debug)]
pub(crate) struct ReceiptStore {
    epoch: Epoch,
    limits: ReceiptLimits,
    inner: Mutex<Inner>,
}

/// How many receipts are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiptLimits {
    /// Rows of one profile instance and epoch. Default 1024.
    pub per_instance: u64,
    /// Rows in the file. Default 65,536.
    pub per_store: u64,
    /// Epochs in the file. Default 4096.
    pub epochs: u64,
}

impl Default for ReceiptLimits {
    fn default() -> Self {
        Self { per_instance: RECEIPTS_PER_INSTANCE, per_store: RECEIPTS_PER_STORE, epochs: RECEIPT_EPOCHS_MAX }
    }
}

/// What names a row: request ids are unique for each principal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReceiptKey {
    /// Who asked.
    pub(crate) principal: PrincipalId,
    /// Which mutation.
    pub(crate) request_id: RequestId,
}

/// A mutation that asks to be admitted.
#[derive(Debug, Clone)]
pub(crate) struct NewReceipt {
    /// Its name.
    pub(crate) key: ReceiptKey,
    /// The profile it is for.
    pub(crate) profile: ProfileId,
    /// The tool.
    pub(crate) tool: String,
    /// SHA-256 of tool and arguments.
    pub(crate) identity: [u8; 32],
    /// Whether it must wait for another mutation first.
    pub(crate) waits: bool,
}

/// What became of a mutation that asked to be admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is admitted; the caller must execute it.
    Admitted,
    /// The same mutation was admitted before; nothing is to be executed.
    Known(ReceiptState),
}

/// How far a mutation is. Nothing moves backwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReceiptState {
    /// Admitted; it waits or runs.
    Running,
    /// It happened. Compact JSON of the result.
    Committed(String),
    /// It had no effect.
    NotCommitted(String),
    /// It ended, and nobody knows how.
    Unknown(String),
}

impl ReceiptStore {
    /// Admits a mutation and commits its row, or gives what is known of it.
    ///
    /// # Errors
    /// `HARNESS_REQUEST_REUSED`, `HARNESS_OPERATION_LIMIT`, `HARNESS_RECEIPT_LIMIT` or `HARNESS_RECEIPT_STORE`. Nothing
    /// may be executed then.
    pub(crate) fn admit(&self, new: &NewReceipt) -> Result<Admission, ToolError> {
        let mut inner = self.lock();
        match inner.row(new.key.principal.as_str(), new.key.request_id.as_str())? {
            Some(row) if row.identity.as_deref() == Some(&new.identity[..]) => Ok(Admission::Known(row.state)),
            Some(_) => Err(ToolError("HARNESS_REQUEST_REUSED")),
            None => {
                let state = if new.waits { RESERVED } else { STARTED };
                let identity = Some(new.identity.as_slice());
                let row = NewRow { profile: &new.profile, tool: &new.tool, identity, state, code: None };
                self.insert(&mut inner, &new.key, &row)?;
                Ok(Admission::Admitted)
            }
        }
    }

    /// Marks a waiting mutation as started.
    ///
    /// # Errors
    /// `HARNESS_RECEIPT_STORE`; the mutation must not be executed then.
    pub(crate) fn start(&self, key: &ReceiptKey) -> Result<(), ToolError> {
        let mut inner = self.lock();
        let started = inner.connection.prepare_cached(START).and_then(|mut start| {
            start.execute(params![STARTED, time(), key.principal.as_str(), key.request_id.as_str(), RESERVED])
        });
        if started == Ok(1) {
            return Ok(());
        }
        inner.broken = true;
        Err(ToolError("HARNESS_RECEIPT_STORE"))
    }

    /// Writes how a mutation ended. When the write fails the outcome is remembered until a later write works, and new
    /// mutations are refused until then.
    pub(crate) fn finish(&self, key: &ReceiptKey, state: ReceiptState) {
        let state = match state {
            ReceiptState::Committed(result) => ReceiptState::Committed(bounded(result)),
            other => other,
        };
        let mut inner = self.lock();
        if inner.save(key, &state).is_err() {
            inner.broken = true;
            inner.unsaved.insert(key.clone(), state);
        }
    }

    fn insert(&self, inner: &mut Inner, key: &ReceiptKey, row: &NewRow<'_>) -> Result<(), ToolError> {
        inner.recover()?;
        let used = inner.per_instance.get(row.profile).copied().unwrap_or(0);
        if used >= self.limits.per_instance {
            return Err(ToolError("HARNESS_OPERATION_LIMIT"));
        }
        if inner.total >= self.limits.per_store {
            return Err(ToolError("HARNESS_RECEIPT_LIMIT"));
        }
        let (principal, request_id) = (key.principal.as_str(), key.request_id.as_str());
        let (epoch, now) = (self.epoch.as_str(), time());
        let inserted = inner.connection.prepare_cached(INSERT).and_then(|mut insert| {
            let (profile, tool) = (row.profile.as_str(), row.tool);
            insert.execute(params![
                principal,
                profile,
                request_id,
                epoch,
                tool,
                row.identity,
                row.state,
                row.code,
                now,
                now
            ])
        });
        if inserted.is_err() {
            inner.broken = true;
            return Err(ToolError("HARNESS_RECEIPT_STORE"));
        }
        inner.total += 1;
        inner.per_instance.insert(row.profile.clone(), used + 1);
        Ok(())
    }

    /// Makes writes fail, or work again.
    #[cfg(test)]
    pub(crate) fn execute(&self, statements: &str) -> rusqlite::Result<()> {
        self.lock().connection.execute_batch(statements)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Inner {
    connection: Connection,
    /// A write failed; no mutation is admitted until one works.
    broken: bool,
    /// Outcomes that could not be written.
    unsaved: BTreeMap<ReceiptKey, ReceiptState>,
    /// What ran when an earlier process ended, and is not known to have happened.
    unproved: prove::Unproved,
    /// Rows of each profile instance in this epoch.
    per_instance: BTreeMap<ProfileId, u64>,
    total: u64,
}

/// What is known of a row when it is inserted.
struct NewRow<'a> {
    profile: &'a ProfileId,
    tool: &'a str,
    /// Absent for a sealed id, so that no mutation equals it.
    identity: Option<&'a [u8]>,
    state: &'a str,
    code: Option<&'a str>,
}

/// A row as it is read.
#[derive(Debug)]
struct Row {
    profile: String,
    epoch: String,
    identity: Option<Vec<u8>>,
    state: ReceiptState,
}

impl Inner {
    fn row(&self, principal: &str, request_id: &str) -> Result<Option<Row>, ToolError> {
        let found = self.connection.prepare_cached(SELECT).and_then(|mut select| {
            select
                .query_row(params![principal, request_id], |row| {
                    let state: String = row.get(3)?;
                    let (code, result): (Option<String>, Option<String>) = (row.get(4)?, row.get(5)?);
                    let state = match state.as_str() {
                        COMMITTED => ReceiptState::Committed(result.unwrap_or_else(|| "null".to_owned())),
                        NOT_COMMITTED => ReceiptState::NotCommitted(code.unwrap_or_else(|| "EIO".to_owned())),
                        UNKNOWN => ReceiptState::Unknown(code.unwrap_or_else(|| "EIO".to_owned())),
                        _ => ReceiptState::Running,
                    };
                    Ok(Row { profile: row.get(0)?, epoch: row.get(1)?, identity: row.get(2)?, state })
                })
                .optional()
        });
        let mut row = found.map_err(|_| ToolError("HARNESS_RECEIPT_STORE"))?;
        let named = |key: &ReceiptKey| key.principal.as_str() == principal && key.request_id.as_str() == request_id;
        let unsaved = self.unsaved.iter().find(|(key, _)| named(key));
        if let (Some(row), Some((_, state))) = (&mut row, unsaved) {
            row.state = state.clone();
        }
        Ok(row)
    }

    fn save(&self, key: &ReceiptKey, state: &ReceiptState) -> rusqlite::Result<()> {
        let (word, code, result) = match state {
            ReceiptState::Running => return Ok(()),
            ReceiptState::Committed(result) => (COMMITTED, None, Some(result)),
            ReceiptState::NotCommitted(code) => (NOT_COMMITTED, Some(code), None),
            ReceiptState::Unknown(code) => (UNKNOWN, Some(code), None),
        };
        let (principal, request_id) = (key.principal.as_str(), key.request_id.as_str());
        let mut finish = self.connection.prepare_cached(FINISH)?;
        finish.execute(params![word, code, result, time(), principal, request_id, RESERVED, STARTED])?;
        Ok(())
    }

    /// After a failed write: proves that writing works again, and writes what could not be written.
    fn recover(&mut self) -> Result<(), ToolError> {
        if !self.broken {
            return Ok(());
        }
        let recovered = (|| {
            let transaction = self.connection.unchecked_transaction()?;
            transaction.execute("INSERT OR REPLACE INTO meta(key, value) VALUES('probe', ?1)", [time().to_string()])?;
            for (key, state) in &self.unsaved {
                self.save(key, state)?;
            }
            transaction.commit()
        })();
        recovered.map_err(|_: rusqlite::Error| ToolError("HARNESS_RECEIPT_STORE"))?;
        self.broken = false;
        self.unsaved.clear();
        Ok(())
    }
}

/// A result as a row keeps it.
fn bounded(result: String) -> String {
    if result.len() > RECEIPT_RESULT_MAX_BYTES { TRUNCATED.to_owned() } else { result }
}

/// Now, as SQLite keeps it.
fn time() -> i64 {
    i64::try_from(now_ms()).unwrap_or(i64::MAX)
}

const RESERVED: &str = "reserved";
const STARTED: &str = "started";
const COMMITTED: &str = "committed";
const NOT_COMMITTED: &str = "not-committed";
const UNKNOWN: &str = "unknown";

/// Stands for a result that is larger than 64 KiB.
const TRUNCATED: &str = r#"{"truncated":true}"#;

const SELECT: &str =
    "SELECT profileId, epoch, identity, state, code, result FROM receipts WHERE principal = ?1 AND requestId = ?2";
const INSERT: &str = "INSERT INTO receipts(principal, profileId, projectId, revision, readOnly, requestId, epoch, tool, \
                      identity, state, code, createdAt, updatedAt) \
                      VALUES(?1, ?2, '', NULL, 0, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const START: &str =
    "UPDATE receipts SET state = ?1, updatedAt = ?2 WHERE principal = ?3 AND requestId = ?4 AND state = ?5";
const FINISH: &str = "UPDATE receipts SET state = ?1, code = ?2, result = ?3, updatedAt = ?4 \
                      WHERE principal = ?5 AND requestId = ?6 AND state IN (?7, ?8)";
