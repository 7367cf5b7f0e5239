//! `PUT /v1/fs/{alias}/content` (`files-http.md` §5.2).

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use cells_protocol::files::FileStat;
use cells_protocol::limits::{UPLOAD_HELD_MAX_BYTES, UPLOAD_MAX_BYTES};
use cells_protocol::mutations::ReplaceCondition;
use futures::{Stream, StreamExt, stream};

use super::admit_write;
use super::confine::ExportPath;
use super::content::ContentQuery;
use super::operations::{Failure, Operation, OperationKey};
use super::staging::Staging;
use crate::app::AppState;
use crate::deadline::Deadline;
use crate::extract::{StrictQuery, Upload};
use crate::headers::Only;
use crate::refusal::Refusal;

pub(super) async fn put(
    State(app): State<AppState>,
    Path(alias): Path<String>,
    StrictQuery(query): StrictQuery<ContentQuery>,
    headers: HeaderMap,
    upload: Upload,
) -> Result<Response, Refusal> {
    let deadline = Deadline::start(&headers)?;
    let path = ExportPath::parse(query.path).ok_or(Refusal::INVALID)?;
    let condition = condition(&headers)?;
    let (principal, alias, export) = admit_write(&app, &headers, &alias)?;
    let key = OperationKey::of(principal.id(), &alias, &headers)?;
    let work = move |operation| receive(operation, path, condition, upload);
    Ok(app.files.operations.run(key, export, deadline, work).await)
}

/// Exactly one of `If-None-Match: *` and `If-Match`.
fn condition(headers: &HeaderMap) -> Result<ReplaceCondition, Refusal> {
    let create_only = match Only::of(headers, header::IF_NONE_MATCH.as_str()) {
        Only::None => false,
        Only::One(value) => value == "*",
        Only::Many => return Err(Refusal::REVISION_REQUIRED),
    };
    match (create_only, Only::of(headers, header::IF_MATCH.as_str())) {
        (true, Only::None) => Ok(ReplaceCondition::CreateOnly),
        // A revision is plain text: what is not one is equal to none.
        (false, Only::One(revision)) => {
            Ok(ReplaceCondition::Match(String::from_utf8_lossy(revision.as_bytes()).into_owned()))
        }
        (true, Only::One(_)) | (false, Only::None) | (_, Only::Many) => Err(Refusal::REVISION_REQUIRED),
    }
}

async fn receive(
    operation: Operation,
    path: ExportPath,
    condition: ReplaceCondition,
    mut upload: Upload,
) -> Result<Option<FileStat>, Failure> {
    if upload.announced_bytes().is_some_and(|bytes| bytes > UPLOAD_MAX_BYTES) {
        return Err(Refusal::UPLOAD_LIMIT.into());
    }
    let staging = operation.blocking(move |operation| Staging::begin(operation, &path, condition)).await?;
    let staging = Arc::new(staging);
    let write = |piece: Result<(u64, Bytes), Refusal>| {
        let (operation, staging) = (operation.clone(), Arc::clone(&staging));
        async move {
            let (at, bytes) = piece?;
            operation.blocking(move |operation| staging.write_at(operation, at, &bytes)).await
        }
    };
    let mut writes = pieces(&mut upload).map(write).buffered(WRITES_AT_A_TIME).boxed();
    let written = async {
        while let Some(result) = writes.next().await {
            result?;
        }
        Ok::<_, Refusal>(())
    };
    operation.bound(written).await??;
    drop(writes);
    operation.blocking(move |operation| staging.commit(operation)).await
}

/// The body in pieces of a good size to write, each with its place in the file.
fn pieces(upload: &mut Upload) -> impl Stream<Item = Result<(u64, Bytes), Refusal>> + Send {
    stream::unfold(Some((upload, 0_u64)), async |state| {
        let (upload, at) = state?;
        match piece(upload).await {
            Ok(bytes) if bytes.is_empty() => None,
            Ok(bytes) => {
                let end = at + bytes.len() as u64;
                if end > UPLOAD_MAX_BYTES {
                    return Some((Err(Refusal::UPLOAD_LIMIT), None));
                }
                Some((Ok((at, bytes)), Some((upload, end))))
            }
            Err(refusal) => Some((Err(refusal), None)),
        }
    })
}

/// Empty at the end of the body.
async fn piece(upload: &mut Upload) -> Result<Bytes, Refusal> {
    let mut piece = BytesMut::new();
    while piece.len() < PIECE_BYTES {
        match upload.chunk().await {
            None => break,
            Some(Ok(chunk)) if piece.is_empty() && chunk.len() >= PIECE_BYTES => return Ok(chunk),
            Some(Ok(chunk)) => piece.extend_from_slice(&chunk),
            Some(Err(_)) => return Err(Refusal::INVALID), // the client went away
        }
    }
    Ok(piece.freeze())
}

/// Two pieces are written while a third is received.
const WRITES_AT_A_TIME: usize = 2;
const PIECE_BYTES: usize = UPLOAD_HELD_MAX_BYTES / 4;
