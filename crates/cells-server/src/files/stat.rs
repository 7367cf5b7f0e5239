//! `POST /v1/fs/{alias}/stat` (`files-http.md` §4.3).

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use cells_protocol::files::{FileStat, StatRequest};
use cells_protocol::limits::{STAT_BATCH_MAX_PATH_BYTES, STAT_BATCH_MAX_PATHS};
use serde::Serialize;

use super::admit;
use super::confine::ExportPath;
use super::exports::Export;
use super::revision::file_stat;
use crate::app::AppState;
use crate::extract::TimedJsonBody;
use crate::refusal::Refusal;

#[derive(Debug, Serialize)]
pub(super) struct StatReply {
    results: Vec<Item>,
}

/// The answer for one path. A failed path never fails the batch.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum Item {
    /// None: it, or one of its ancestors, does not exist.
    Stat(Option<FileStat>),
    Error(&'static str),
}

pub(super) async fn stat(
    State(app): State<AppState>,
    Path(alias): Path<String>,
    headers: HeaderMap,
    TimedJsonBody { body: request, deadline }: TimedJsonBody<StatRequest>,
) -> Result<Json<StatReply>, Refusal> {
    let (_, _, export) = admit(&app, &headers, &alias)?;
    let deadline = deadline?;
    let bytes: usize = request.paths.iter().map(String::len).sum();
    if request.paths.len() > STAT_BATCH_MAX_PATHS || bytes > STAT_BATCH_MAX_PATH_BYTES {
        return Err(Refusal::INVALID);
    }
    let job = move || {
        let item = |path| {
            deadline.check()?;
            Ok(stat_one(&export, path))
        };
        request.paths.into_iter().map(item).collect::<Result<Vec<_>, Refusal>>()
    };
    let results = app.files.workers.run(deadline, job).await?;
    Ok(Json(StatReply { results }))
}

fn stat_one(export: &Export, path: String) -> Item {
    let Some(path) = ExportPath::parse(path) else { return Item::Error(Refusal::INVALID.code) };
    match export.root.stat(&path).map_err(Refusal::from) {
        Ok(stat) => match file_stat(&stat, export.is_writable()) {
            Some(stat) => Item::Stat(Some(stat)),
            None => Item::Error(Refusal::UNSUPPORTED.code),
        },
        Err(Refusal::NOT_FOUND) => Item::Stat(None),
        Err(refusal @ (Refusal::INVALID | Refusal::DENIED | Refusal::NOT_A_DIRECTORY)) => Item::Error(refusal.code),
        Err(_) => Item::Error(Refusal::IO.code),
    }
}
