//! The SQLite file of a SeqFile, in memory: bytes to entries and back (`files-http.md` §7).
//!
//! A file may come from anywhere. It is only read, from a copy, with everything off that a file could bring along; what is
//! published is a new database that holds the entries and nothing else.

use std::collections::BTreeMap;

use cells_protocol::seq::is_key;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, params};
use serde_json::value::RawValue;

use crate::refusal::Refusal;

/// Values as JSON text, by key.
pub(super) type Entries = BTreeMap<String, Box<RawValue>>;

/// Reads the entries of a database. `check` is asked again and again, and its refusal ends the work.
///
/// Refuses what is not a database of one table `entries`, or is damaged.
pub(super) fn read<C>(bytes: &[u8], check: C) -> Result<Entries, Refusal>
where
    C: Fn() -> Result<(), Refusal> + Clone + Send + 'static,
{
    read_entries(bytes, check.clone()).map_err(|failure| match failure {
        Failure::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            check().err().unwrap_or(Refusal::IO)
        }
        Failure::Sqlite(_) | Failure::NotASeqFile => Refusal::IO,
    })
}

/// A database that holds these entries.
pub(super) fn write(entries: &Entries) -> Result<Vec<u8>, Refusal> {
    let write = || -> rusqlite::Result<Vec<u8>> {
        let mut database = Connection::open_in_memory()?;
        let transaction = database.transaction()?;
        transaction.execute(CREATE, [])?;
        let mut insert = transaction.prepare("INSERT INTO entries (key, value) VALUES (?1, ?2)")?;
        for (key, value) in entries {
            insert.execute(params![key, value.get()])?;
        }
        drop(insert);
        transaction.commit()?;
        Ok(database.serialize("main")?.to_vec())
    };
    write().map_err(|_| Refusal::IO)
}

enum Failure {
    Sqlite(rusqlite::Error),
    NotASeqFile,
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn read_entries<C>(bytes: &[u8], check: C) -> Result<Entries, Failure>
where
    C: Fn() -> Result<(), Refusal> + Send + 'static,
{
    let mut database = Connection::open_in_memory()?;
    for (setting, value) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    ] {
        database.set_db_config(setting, value)?;
    }
    database.progress_handler(STEPS_BETWEEN_CHECKS, Some(move || check().is_err()))?;
    database.deserialize_read_exact("main", bytes, bytes.len(), true)?;
    // The constraints of a foreign table are expressions, and none is evaluated.
    database
        .execute_batch("PRAGMA cell_size_check = ON; PRAGMA ignore_check_constraints = ON; PRAGMA query_only = ON")?;
    check_schema(&database)?;
    let sound: String = database.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if sound != "ok" {
        return Err(Failure::NotASeqFile);
    }

    let mut entries = Entries::new();
    let mut select = database.prepare("SELECT key, value FROM entries")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let key = row.get_ref(0)?.as_str().map_err(|_| Failure::NotASeqFile)?;
        let value = row.get_ref(1)?.as_str().map_err(|_| Failure::NotASeqFile)?;
        let value = serde_json::from_str(value).map_err(|_| Failure::NotASeqFile)?;
        if !is_key(key) || entries.insert(key.to_owned(), value).is_some() {
            return Err(Failure::NotASeqFile);
        }
    }
    Ok(entries)
}

/// The table, and nothing but the table: no view, no trigger, no virtual table, no computed column.
fn check_schema(database: &Connection) -> Result<(), Failure> {
    let count: i64 = database.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let plain = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'entries' AND rootpage > 0";
    let plain: i64 = database.query_row(plain, [], |row| row.get(0))?;
    if (count, plain) != (1, 1) {
        return Err(Failure::NotASeqFile);
    }
    let mut columns = database.prepare("SELECT name, upper(type), pk, hidden FROM pragma_table_xinfo('entries')")?;
    let columns = columns.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let columns: Vec<(String, String, i64, i64)> = columns.collect::<Result<_, _>>()?;
    let column = |name: &str, key| (name.to_owned(), "TEXT".to_owned(), key, 0);
    let without_rowid: bool =
        database
            .query_row("SELECT wr FROM pragma_table_list('entries') WHERE schema = 'main'", [], |row| row.get(0))?;
    if columns == [column("key", 1), column("value", 0)] && without_rowid { Ok(()) } else { Err(Failure::NotASeqFile) }
}

const CREATE: &str = "CREATE TABLE entries (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) WITHOUT ROWID";
/// Steps of the SQLite machine; a hundred thousand take about a millisecond.
const STEPS_BETWEEN_CHECKS: i32 = 100_000;

#[cfg(test)]
mod tests;
