//! `POST /v1/fs/{alias}/mutate`: mkdir, rename, remove (`files-http.md` §5.3).

use std::{
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt as _,
    sync::{Arc, PoisonError},
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
    ledger::{self, Operation, Receipt},
    paths, put,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MutateRequest {
    action: String,
    path: String,
    to: Option<String>,
    #[serde(default)]
    recursive: bool,
}

pub(super) async fn mutate(
    State(node): State<Arc<Node>>,
    Path(alias): Path<String>,
    headers: HeaderMap,
    Json(request): Json<MutateRequest>,
) -> Result<Receipt, Refusal> {
    let deadline = access::deadline(&headers)?;
    if request.recursive {
        return Err(Code("ECAPABILITY").into());
    }
    let action = Action::new(request)?;
    let gate = node.share_gate()?;
    node.writable(&headers, &alias)?;
    let key = (alias.clone(), ledger::operation_id(&headers)?);
    let shared = node.clone();
    ledger::perform(node, key, gate, deadline, |operation| async move {
        let work = move || {
            let export = shared.exports.get(&alias).ok_or(Code("EACCES"))?;
            action.perform(export, &operation)
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| Code("EIO"))?
    })
    .await
}

enum Action {
    Mkdir(String),
    Rename(String, String),
    Remove(String),
}

impl Action {
    fn new(request: MutateRequest) -> Result<Action, Code> {
        paths::check(&request.path)?;
        match request.action.as_str() {
            "mkdir" => Ok(Action::Mkdir(request.path)),
            "remove" => Ok(Action::Remove(request.path)),
            "rename" => {
                let to = request.to.ok_or(Code("EINVAL"))?;
                paths::check(&to)?;
                Ok(Action::Rename(request.path, to))
            }
            _ => Err(Code("EINVAL")),
        }
    }

    fn perform(&self, export: &Export, operation: &Operation) -> Result<Value, Code> {
        let entry = |path: &str| paths::resolve_entry(&export.root, path);
        let mut revisions = export.revisions.lock().unwrap_or_else(PoisonError::into_inner);
        operation.check()?;
        match self {
            Action::Mkdir(path) => DirBuilder::new().mode(0o755).create(entry(path)?)?,
            Action::Rename(from, to) => {
                let (from, to) = (entry(from)?, entry(to)?);
                if to.starts_with(&from) && to != from {
                    return Err(Code("EIO")); // what the system calls an invalid argument
                }
                put::rename_new(&from, &to)?;
            }
            Action::Remove(path) => {
                let place = entry(path)?;
                if fs::symlink_metadata(&place)?.is_dir() { fs::remove_dir(place)? } else { fs::remove_file(place)? }
            }
        }
        revisions.clear();
        Ok(json!({}))
    }
}
