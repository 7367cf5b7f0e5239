//! `POST /v1/fs/{alias}/stat`, and the stat object (`files-http.md` §4.1, §4.3).

use std::{
    fs::{self, Metadata},
    path::Path as FsPath,
    sync::{Arc, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{
    Json,
    extract::{Path, State},
    http::HeaderMap,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Export, Node, access,
    error::{Code, Refusal},
    paths,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StatRequest {
    paths: Vec<String>,
}

pub(super) async fn stat(
    State(node): State<Arc<Node>>,
    Path(alias): Path<String>,
    headers: HeaderMap,
    Json(request): Json<StatRequest>,
) -> Result<Json<Value>, Refusal> {
    node.readable(&headers, &alias)?;
    let deadline = access::deadline(&headers)?;
    let bytes: usize = request.paths.iter().map(String::len).sum();
    if request.paths.len() > PATHS_MAX || bytes > PATHS_MAX_BYTES {
        return Err(Code("EINVAL").into());
    }
    let gate = node.share_gate()?;
    let results = access::blocking(deadline, move || {
        let export = node.exports.get(&alias).ok_or(Code("EACCES"))?;
        let results = request.paths.iter().map(|path| match stat_one(export, path) {
            Ok(stat) => json!({ "stat": stat }),
            Err(code) => json!({ "error": code.0 }),
        });
        let results: Vec<Value> = results.collect();
        drop(gate);
        Ok(results)
    })
    .await?;
    Ok(Json(json!({ "results": results })))
}

/// Null when the path, or a directory on its way, is missing.
fn stat_one(export: &Export, path: &str) -> Result<Value, Code> {
    let place = paths::resolve(&export.root, path);
    match place.and_then(|place| export.stat(&place)) {
        Err(Code("ENOENT")) => Ok(Value::Null),
        other => other,
    }
}

impl Export {
    /// The stat object of what lies at a place; a link is not followed.
    pub(super) fn stat(&self, place: &FsPath) -> Result<Value, Code> {
        let metadata = fs::symlink_metadata(place)?;
        self.stat_object(&metadata).ok_or(Code("ECAPABILITY"))
    }

    /// None for what is neither file, directory nor link.
    pub(super) fn stat_object(&self, metadata: &Metadata) -> Option<Value> {
        let kind = metadata.file_type();
        let kind = match (kind.is_file(), kind.is_dir(), kind.is_symlink()) {
            (true, ..) => "file",
            (_, true, _) => "directory",
            (.., true) => "symlink",
            (false, false, false) => return None,
        };
        let mut stat = json!({
            "kind": kind, "size": metadata.len(), "modifiedAt": unix_ms(metadata.modified().ok()),
            "createdAt": unix_ms(metadata.created().ok()),
        });
        if let Some(revision) = self.revision(metadata) {
            stat["revision"] = revision.into();
        }
        Some(stat)
    }

    /// Only writable exports have revisions.
    pub(super) fn revision(&self, metadata: &Metadata) -> Option<String> {
        self.writable.then(|| self.revisions.lock().unwrap_or_else(PoisonError::into_inner).of(metadata))
    }
}

/// 0 when the file system does not say.
fn unix_ms(time: Option<SystemTime>) -> u64 {
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(0)
}

const PATHS_MAX: usize = 256;
const PATHS_MAX_BYTES: usize = 65_536;
