//! SeqFiles: small tables of keys and JSON values, each in an SQLite file (`files-http.md` §7).

mod table;

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use cells_protocol::files::FileStat;
use cells_protocol::limits::SEQ_FILE_MAX_BYTES;
use cells_protocol::mutations::ReplaceCondition;
use cells_protocol::seq::{SeqChange, SeqSnapshotRequest, SeqTransactionRequest, check_changes, check_seq_name};
use rustix::io::Errno;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use self::table::Entries;
use super::confine::{ExportPath, stat_open};
use super::operations::{Failure, Operation, OperationKey};
use super::revision::revision;
use super::staging::replace_from_bytes;
use super::{Export, admit, admit_write};
use crate::app::AppState;
use crate::extract::TimedJsonBody;
use crate::refusal::Refusal;

/// All entries, with the revision that the next transaction must name.
#[derive(Debug, Serialize)]
pub(super) struct Snapshot {
    revision: Option<String>,
    entries: Vec<Entry>,
}

/// As `cells_protocol::seq::SeqEntry`; the value stays the text that it is.
#[derive(Debug, Serialize)]
struct Entry {
    key: String,
    value: Box<RawValue>,
}

pub(super) async fn snapshot(
    State(app): State<AppState>,
    Path(alias): Path<String>,
    headers: HeaderMap,
    TimedJsonBody { body: request, deadline }: TimedJsonBody<SeqSnapshotRequest>,
) -> Result<Json<Snapshot>, Refusal> {
    let (_, _, export) = admit(&app, &headers, &alias)?;
    let deadline = deadline?;
    let job = move || {
        let loaded = load(&export, &parse_path(request.path)?, move || deadline.check())?;
        let (revision, entries) =
            loaded.map_or((None, Entries::new()), |(revision, entries)| (Some(revision), entries));
        let entries = entries.into_iter().map(|(key, value)| Entry { key, value }).collect();
        Ok(Snapshot { revision: revision.filter(|_| export.is_writable()), entries })
    };
    Ok(Json(app.files.workers.run(deadline, job).await?))
}

pub(super) async fn transaction(
    State(app): State<AppState>,
    Path(alias): Path<String>,
    headers: HeaderMap,
    TimedJsonBody { body: request, deadline }: TimedJsonBody<SeqTransactionRequest>,
) -> Result<Response, Refusal> {
    let (principal, alias, export) = admit_write(&app, &headers, &alias)?;
    let deadline = deadline?;
    let key = OperationKey::of(principal.id(), &alias, &headers)?;
    let work = async move |operation: Operation| operation.blocking(move |operation| apply(operation, request)).await;
    Ok(app.files.operations.run(key, export, deadline, work).await)
}

/// Publishes the file with all changes.
fn apply(operation: &Operation, request: SeqTransactionRequest) -> Result<Option<FileStat>, Failure> {
    let path = parse_path(request.path)?;
    check_changes(&request.changes).map_err(|_| Refusal::INVALID)?;
    let (mut entries, condition) = match request.expected_revision {
        None => (Entries::new(), ReplaceCondition::CreateOnly),
        Some(expected) => {
            let check = {
                let operation = operation.clone();
                move || operation.check()
            };
            // The condition is checked once more when the new file is put in place.
            match load(operation.export(), &path, check)? {
                Some((revision, entries)) if revision == expected => (entries, ReplaceCondition::Match(expected)),
                Some(_) | None => return Err(Refusal::CONFLICT.into()),
            }
        }
    };
    for change in request.changes {
        match change {
            SeqChange::Set { key, value } => {
                entries.insert(key, to_raw_value(&value).map_err(|_| Refusal::INVALID)?);
            }
            SeqChange::Delete { key } => {
                entries.remove(&key);
            }
        }
    }
    operation.check()?;
    let bytes = table::write(&entries)?;
    if bytes.len() as u64 > SEQ_FILE_MAX_BYTES {
        return Err(Refusal::INVALID.into());
    }
    replace_from_bytes(operation, &path, &condition, &bytes)
}

fn parse_path(path: String) -> Result<ExportPath, Refusal> {
    let path = ExportPath::parse(path).ok_or(Refusal::INVALID)?;
    check_seq_name(path.as_str()).map_err(|_| Refusal::INVALID)?;
    Ok(path)
}

/// Revision and entries; none when there is no such file. Blocks.
fn load<C>(export: &Export, path: &ExportPath, check: C) -> Result<Option<(String, Entries)>, Refusal>
where
    C: Fn() -> Result<(), Refusal> + Clone + Send + 'static,
{
    let (file, stat) = match export.root.open_file(path) {
        Ok(opened) => opened,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    if stat.stx_size > SEQ_FILE_MAX_BYTES {
        return Err(Refusal::INVALID);
    }
    let file = File::from(file);
    let mut bytes = Vec::new();
    (&file).take(SEQ_FILE_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|_| Refusal::IO)?;
    let revision_read = revision(&stat);
    if revision(&stat_open(file.as_fd())?) != revision_read {
        return Err(BUSY); // another program writes into it
    }
    Ok(Some((revision_read, table::read(&bytes, check)?)))
}

const BUSY: Refusal = Refusal::new(StatusCode::CONFLICT, "EBUSY");
