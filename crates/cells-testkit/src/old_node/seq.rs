//! SeqFiles: a whole SQLite file, read into memory and replaced as one (`files-http.md` §7).

use std::{
    io::{Read as _, Write as _},
    sync::Arc,
};

use axum::{
    Json,
    extract::{Path, State},
    http::HeaderMap,
};
use rusqlite::{Connection, ErrorCode, MAIN_DB, params};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Export, Node, access,
    content::Opened,
    error::{Code, Refusal},
    ledger::{self, Operation, Receipt},
    put::{Condition, Staging},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotRequest {
    path: String,
}

pub(super) async fn snapshot(
    State(node): State<Arc<Node>>,
    Path(alias): Path<String>,
    headers: HeaderMap,
    Json(request): Json<SnapshotRequest>,
) -> Result<Json<Value>, Refusal> {
    node.readable(&headers, &alias)?;
    let deadline = access::deadline(&headers)?;
    let gate = node.share_gate()?;
    let reply = access::blocking(deadline, move || {
        let export = node.exports.get(&alias).ok_or(Code("EACCES"))?;
        let reply = match load(export, &request.path)? {
            None => json!({ "revision": null, "entries": [] }),
            Some((database, revision)) => json!({ "revision": revision, "entries": entries(&database)? }),
        };
        drop(gate);
        Ok(reply)
    })
    .await?;
    Ok(Json(reply))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct TransactionRequest {
    path: String,
    #[serde(default)]
    expected_revision: Option<String>,
    changes: Vec<Change>,
}

#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", deny_unknown_fields)]
enum Change {
    Set { key: String, value: Value },
    Delete { key: String },
}

pub(super) async fn transaction(
    State(node): State<Arc<Node>>,
    Path(alias): Path<String>,
    headers: HeaderMap,
    Json(request): Json<TransactionRequest>,
) -> Result<Receipt, Refusal> {
    node.writable(&headers, &alias)?;
    let deadline = access::deadline(&headers)?;
    let gate = node.share_gate()?;
    let key = (alias.clone(), ledger::operation_id(&headers)?);
    let shared = node.clone();
    ledger::perform(node, key, gate, deadline, |operation| async move {
        let work = move || {
            let export = shared.exports.get(&alias).ok_or(Code("EACCES"))?;
            change(export, request, &operation)
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| Code("EIO"))?
    })
    .await
}

fn change(export: &Export, request: TransactionRequest, operation: &Operation) -> Result<Value, Code> {
    let key_is_wrong = |change: &Change| {
        let (Change::Set { key, .. } | Change::Delete { key }) = change;
        key.is_empty() || key.len() > KEY_MAX_BYTES || key.contains('\0')
    };
    if request.changes.len() > CHANGES_MAX || request.changes.iter().any(key_is_wrong) {
        return Err(Code("EINVAL"));
    }
    let (mut database, condition) = match (load(export, &request.path)?, request.expected_revision) {
        (None, None) => (empty()?, Condition::CreateOnly),
        (Some((database, revision)), Some(expected)) if revision.as_ref() == Some(&expected) => {
            (database, Condition::Match(expected))
        }
        _ => return Err(Code("ECONFLICT")),
    };
    let transaction = database.transaction()?;
    for change in &request.changes {
        match change {
            Change::Set { key, value } => transaction.execute(SET, params![key, value.to_string()]),
            Change::Delete { key } => transaction.execute("DELETE FROM entries WHERE key = ?1", [key]),
        }?;
    }
    transaction.commit()?;
    let bytes = database.serialize(MAIN_DB)?;
    if bytes.len() > FILE_MAX_BYTES {
        return Err(Code("EINVAL"));
    }
    let mut staging = Staging::create(export, &request.path)?;
    staging.file.write_all(&bytes)?;
    staging.commit(export, &condition, operation)
}

/// The file as a database in memory, with the revision of those bytes. None when it is missing.
fn load(export: &Export, path: &str) -> Result<Option<(Connection, Option<String>)>, Code> {
    if !path.ends_with(".seq") {
        return Err(Code("EINVAL"));
    }
    let opened = match Opened::new(export, path) {
        Err(Code("ENOENT")) => return Ok(None),
        opened => opened?,
    };
    let size = usize::try_from(opened.metadata.len()).ok().filter(|size| *size <= FILE_MAX_BYTES);
    let size = size.ok_or(Code("EINVAL"))?;
    let mut database = Connection::open_in_memory()?;
    database.deserialize_read_exact(MAIN_DB, opened.file.take(size as u64), size, false)?;
    Ok(Some((database, opened.revision)))
}

fn empty() -> Result<Connection, Code> {
    let database = Connection::open_in_memory()?;
    database.execute_batch("CREATE TABLE entries (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")?;
    Ok(database)
}

fn entries(database: &Connection) -> Result<Vec<Value>, Code> {
    let mut rows = database.prepare("SELECT key, value FROM entries ORDER BY key")?;
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.map(|row| {
        let (key, value): (String, String) = row?;
        let value: Value = serde_json::from_str(&value).map_err(|_| Code("EIO"))?;
        Ok(json!({ "key": key, "value": value }))
    })
    .collect()
}

/// Whatever else SQLite says, the file is not what it should be.
impl From<rusqlite::Error> for Code {
    fn from(error: rusqlite::Error) -> Code {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Code("ENOSPC"),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Code("EBUSY"),
            Some(_) | None => Code("EIO"),
        }
    }
}

const SET: &str =
    "INSERT INTO entries (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const FILE_MAX_BYTES: usize = 16_777_216;
const CHANGES_MAX: usize = 256;
const KEY_MAX_BYTES: usize = 1_024;
