//! Opening the file: lock, checks, schema, and settling what an earlier process left (`cells-0.4.md` §12.1 rule 5, §12.2).

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Mutex;

use cells_protocol::ids::{Epoch, ServerId};
use cells_protocol::limits::RECEIPT_RETENTION_MS;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, params};

use super::{Inner, NOT_COMMITTED, RESERVED, ReceiptLimits, ReceiptStore, STARTED, UNKNOWN, prove, purge, time};

/// Why the receipts cannot be opened. The node must not start then: without them it could do something twice.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has them open.
    #[error("receipts: another node uses this state directory; stop it or choose another --state")]
    InUse,
    /// They are of another installation.
    #[error("receipts: the file belongs to another server id; restore that id or choose another --state")]
    OtherServer,
    /// They are of another version of this program.
    #[error("receipts: the file has a schema this version does not know; use the version that wrote it")]
    UnknownSchema,
    /// They are not a healthy database.
    #[error("receipts: the file is damaged; restore it from a backup or choose another --state")]
    Damaged,
    /// 4096 earlier epochs have receipts.
    #[error(
        "receipts: 4096 earlier starts have receipts; forget old ones with `cells receipts purge --before DATE`, or choose another --state"
    )]
    TooManyEpochs,
    /// The disk does not work.
    #[error("receipts: the state directory cannot be used: {0}")]
    Disk(String),
}

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
        let mut connection = connect(state)?;
        let transaction = connection.transaction()?;
        create_schema(&transaction, server_id)?;
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

/// Opens the file and takes the lock of the process.
pub(super) fn connect(state: &Path) -> Result<Connection, OpenError> {
    DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(|error| disk(&error))?;
    let path = state.join(FILE_NAME);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    file.and_then(|file| file.set_permissions(Permissions::from_mode(0o600))).map_err(|error| disk(&error))?;
    let connection = Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::ZERO)?;
    // Set before the first access, so that the write-ahead log needs no shared memory and no second process gets in.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.execute_batch("BEGIN IMMEDIATE; COMMIT")?;
    let health: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if health == "ok" { Ok(connection) } else { Err(OpenError::Damaged) }
}

fn create_schema(transaction: &Transaction<'_>, server_id: &ServerId) -> Result<(), OpenError> {
    let tables: i64 = transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables == 0 {
        transaction.execute_batch(SCHEMA)?;
        let mut insert = transaction.prepare("INSERT INTO meta(key, value) VALUES(?1, ?2)")?;
        insert.execute(params!["schema", SCHEMA_VERSION])?;
        insert.execute(params!["serverId", server_id.as_str()])?;
        return Ok(());
    }
    check_schema(transaction)?;
    if meta(transaction, "serverId")?.as_deref() != Some(server_id.as_str()) {
        return Err(OpenError::OtherServer);
    }
    Ok(())
}

pub(super) fn check_schema(transaction: &Transaction<'_>) -> Result<(), OpenError> {
    let known = meta(transaction, "schema")?.as_deref() == Some(SCHEMA_VERSION);
    if known { Ok(()) } else { Err(OpenError::UnknownSchema) }
}

fn meta(transaction: &Transaction<'_>, key: &str) -> Result<Option<String>, OpenError> {
    let found = transaction.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0)).optional();
    match found {
        // A database without this table is not one of ours.
        Err(rusqlite::Error::SqliteFailure(error, _)) if error.code == ErrorCode::Unknown => {
            Err(OpenError::UnknownSchema)
        }
        other => Ok(other?),
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

fn disk(error: &std::io::Error) -> OpenError {
    OpenError::Disk(error.kind().to_string())
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::InUse,
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::Damaged,
            Some(code) => Self::Disk(format!("{code:?}")),
            None => Self::Damaged,
        }
    }
}

/// The file below the state directory.
pub(super) const FILE_NAME: &str = "receipts.sqlite";
const SCHEMA_VERSION: &str = "1";
const RETENTION_MS: i64 = RECEIPT_RETENTION_MS.cast_signed();

const SCHEMA: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE epochs(epoch TEXT PRIMARY KEY, seq INTEGER UNIQUE, startedAt INTEGER);
CREATE TABLE receipts(principal TEXT, profileId TEXT, projectId TEXT, revision INTEGER, readOnly INTEGER, requestId TEXT,
    epoch TEXT REFERENCES epochs, tool TEXT, identity BLOB, state TEXT, code TEXT, result TEXT, createdAt INTEGER,
    updatedAt INTEGER, PRIMARY KEY(principal, requestId));
";

const FORGET_EPOCHS_WITHOUT_ROWS: &str = "DELETE FROM epochs WHERE epoch IN (SELECT epoch FROM epochs \
    WHERE epoch NOT IN (SELECT epoch FROM receipts) ORDER BY seq LIMIT ?1)";
