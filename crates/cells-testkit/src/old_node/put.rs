//! `PUT /v1/fs/{alias}/content`: staged, then renamed into place (`files-http.md` §5.2).

use std::{
    fs::{self, File, Metadata, OpenOptions, Permissions},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path as FsPath, PathBuf},
    sync::{Arc, PoisonError},
};

use axum::{
    body::{Body, Bytes},
    extract::{Path, Query, State},
    http::HeaderMap,
};
use futures::StreamExt as _;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use super::{
    Export, Node, access,
    content::ContentQuery,
    error::{Code, Refusal},
    ledger::{self, Operation, Receipt},
    paths, random_hex,
};

pub(super) async fn put(
    State(node): State<Arc<Node>>,
    Path(alias): Path<String>,
    Query(query): Query<ContentQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Receipt, Refusal> {
    let deadline = access::deadline(&headers)?;
    paths::check(&query.path)?;
    let condition = condition(&headers)?;
    let gate = node.share_gate()?;
    node.writable(&headers, &alias)?;
    let key = (alias.clone(), ledger::operation_id(&headers)?);
    let shared = node.clone();
    ledger::perform(node, key, gate, deadline, |operation| {
        upload(shared, alias, query.path, condition, body, operation)
    })
    .await
}

/// What must be true of the target at the moment of the rename.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    CreateOnly,
    Match(String),
}

fn condition(headers: &HeaderMap) -> Result<Condition, Code> {
    let value = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match (value("if-none-match") == Some("*"), value("if-match")) {
        (true, None) => Ok(Condition::CreateOnly),
        (false, Some(revision)) => Ok(Condition::Match(revision.to_owned())),
        (true, Some(_)) | (false, None) => Err(Code("REVISION_REQUIRED")),
    }
}

async fn upload(
    node: Arc<Node>,
    alias: String,
    path: String,
    condition: Condition,
    body: Body,
    operation: Operation,
) -> Result<Value, Code> {
    let export = node.exports.get(&alias).ok_or(Code("EACCES"))?;
    operation.check()?;
    let staging = Staging::create(export, &path)?;
    let mut file = tokio::fs::File::from_std(staging.file.try_clone()?);
    let mut pieces = body.into_data_stream();
    let mut bytes = 0;
    while let Some(piece) = next(&mut pieces, &operation).await? {
        bytes += piece.len();
        if bytes > UPLOAD_MAX_BYTES {
            return Err(Code("UPLOAD_LIMIT"));
        }
        file.write_all(&piece).await?;
    }
    file.flush().await?;
    let commit_on = node.clone();
    let work = move || {
        let export = commit_on.exports.get(&alias).ok_or(Code("EACCES"))?;
        staging.commit(export, &condition, &operation)
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Code("EIO"))?
}

/// The next piece of the body; an error when the client, a cancel or the deadline ends it.
async fn next(
    pieces: &mut (impl futures::Stream<Item = Result<Bytes, axum::Error>> + Unpin),
    operation: &Operation,
) -> Result<Option<Bytes>, Code> {
    tokio::select! {
        biased;
        () = operation.stop.cancelled() => operation.check().map(|()| None),
        () = tokio::time::sleep_until(operation.deadline) => Err(Code("ETIMEDOUT")),
        piece = pieces.next() => piece.transpose().map_err(|_| Code("EINVAL")),
    }
}

/// A file beside its target that has not become it. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Staging {
    pub(super) file: File,
    place: PathBuf,
    target: PathBuf,
    parent: PathBuf,
    parent_object: (u64, u64),
}

impl Staging {
    pub(super) fn create(export: &Export, path: &str) -> Result<Staging, Code> {
        let target = paths::resolve_entry(&export.root, path)?;
        let parent = target.parent().ok_or(Code("EINVAL"))?.to_owned();
        let parent_object = object(&fs::symlink_metadata(&parent)?);
        let place = parent.join(format!("{}{}", paths::STAGING_PREFIX, random_hex::<16>()?));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place)?;
        Ok(Staging { file, place, target, parent, parent_object })
    }

    /// Makes it the target, when the condition still holds. Gives the stat object of the new file.
    pub(super) fn commit(self, export: &Export, condition: &Condition, operation: &Operation) -> Result<Value, Code> {
        let mut revisions = export.revisions.lock().unwrap_or_else(PoisonError::into_inner);
        operation.check()?;
        if fs::symlink_metadata(&self.parent).map(|parent| object(&parent)).ok() != Some(self.parent_object) {
            return Err(Code("ECONFLICT"));
        }
        match condition {
            Condition::CreateOnly => {
                self.file.set_permissions(Permissions::from_mode(0o644))?;
                rename_new(&self.place, &self.target).map_err(|code| match code {
                    Code("EEXIST") => Code("ECONFLICT"),
                    other => other,
                })?;
            }
            Condition::Match(expected) => {
                let old = match fs::symlink_metadata(&self.target) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Code("ECONFLICT")),
                    old => old?,
                };
                if !old.is_file() || revisions.of(&old) != *expected {
                    return Err(Code("ECONFLICT"));
                }
                self.file.set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
                fs::rename(&self.place, &self.target)?;
                revisions.retire(&old);
            }
        }
        let new = self.file.metadata()?;
        revisions.retire(&new);
        drop(revisions);
        export.stat_object(&new).ok_or(Code("EIO"))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // After the commit it lies there no more.
        let _ = fs::remove_file(&self.place);
    }
}

fn object(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// A rename that replaces nothing: `EEXIST`.
pub(super) fn rename_new(from: &FsPath, to: &FsPath) -> Result<(), Code> {
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Removes what uploads of an earlier run left in a writable export.
pub(super) fn sweep(root: &FsPath, writable: bool) -> io::Result<()> {
    let mut directories = if writable { vec![root.to_owned()] } else { Vec::new() };
    let mut left = SWEEP_MAX;
    while let Some(directory) = directories.pop() {
        for child in fs::read_dir(directory)?.take(left) {
            left -= 1;
            let child = child?;
            let kind = child.file_type()?;
            if kind.is_dir() {
                directories.push(child.path());
            } else if child.file_name().to_string_lossy().starts_with(paths::STAGING_PREFIX) {
                fs::remove_file(child.path())?;
            }
        }
    }
    Ok(())
}

const UPLOAD_MAX_BYTES: usize = 268_435_456;
const SWEEP_MAX: usize = 1_000_000;
