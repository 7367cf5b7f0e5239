//! What all receipts have in common: one SQLite file each in the state directory, for one process, which survives a power
//! cut after every commit (`cells-0.4.md` §12.2).

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use cells_protocol::ids::ServerId;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, params};

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

/// Opens or creates the file `name` below the state directory, and locks it for this process.
pub(crate) fn connect(state: &Path, name: &str) -> Result<Connection, OpenError> {
    DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(|error| disk(&error))?;
    let path = state.join(name);
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

/// Makes `tables` in a new file; refuses a file of another installation or version.
pub(crate) fn create_schema(
    transaction: &Transaction<'_>,
    server_id: &ServerId,
    tables: &str,
) -> Result<(), OpenError> {
    let existing: i64 = transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if existing == 0 {
        transaction.execute_batch(META)?;
        transaction.execute_batch(tables)?;
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

/// Refuses a file that another version made.
pub(crate) fn check_schema(transaction: &Transaction<'_>) -> Result<(), OpenError> {
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

const SCHEMA_VERSION: &str = "1";
const META: &str = "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT)";
