//! Writes: content and names of one export (`files-http.md` §5).

mod receipts;
mod send;
mod settle;
mod upload;

use std::sync::Arc;

use bytes::Bytes;
use cells_protocol::endpoint::push_query;
use cells_protocol::error::Outcome;
use cells_protocol::file_recovery::{FileChange, FileRecovery};
use cells_protocol::files::{FileKind, FileStat};
use cells_protocol::ids::{Alias, OperationId};
use cells_protocol::json::to_vec;
use cells_protocol::mutations::{MutateAction, MutateRequest, ReplaceCondition};

pub use upload::Upload;

pub(super) use receipts::{cancel_operation, operation_status};
pub(super) use send::{Request, commit};
pub(super) use settle::settle;

use super::{FileClient, Files, check};
use crate::cancellation::OperationOptions;
use crate::error::{Error, Result};
use crate::host::{Callback, Method, Progress};
use crate::node::Link;
use crate::transport::{Call, JSON};

/// Writes of one export, where the export allows them; see [`FileStorage::mutations`](crate::FileStorage::mutations).
/// Cheap to clone.
///
/// Each write gets an id and is sent in one HTTP request, ever. What comes back is either [`FileCommitted`], or an error
/// whose [`outcome`](Error::outcome) says what is known:
///
/// * `not-started`: nothing was sent.
/// * `not-committed`: the node refused, and nothing has changed.
/// * `committed`: it happened, only the node's description of the result cannot be read.
/// * `unknown`: the reply is missing or damaged. The error's [`file_recovery`](Error::file_recovery) is all that
///   [`FileStorage::settle`](crate::FileStorage::settle) needs to find out. The node is asked to stop the write, if it
///   still runs; it is never sent again.
///
/// A cancelled write is stopped at the node, and is reported with what became of it: as committed, if it was too late, else
/// as `ECANCELLED` with its outcome. That takes at most 5 s. A write whose time budget ends is reported as `unknown` at
/// once. When the call is dropped, [`Run`](crate::Run) follows the write to its end; dropped before it was sent, it is not
/// sent.
///
/// A node gives one write at most 30 s.
///
/// ```no_run
/// use cells_driver::{FileMutationOptions, FileMutations, Outcome, ReplaceCondition, Result, Upload};
/// # async fn example(storage: cells_driver::FileStorage, writes: FileMutations) -> Result<()> {
/// let new = ReplaceCondition::CreateOnly;
/// match writes.replace("todo.md", Upload::bytes("- milk"), new, FileMutationOptions::default()).await {
///     Ok(committed) => println!("revision {:?}", committed.value.revision),
///     Err(error) if error.outcome() == Some(Outcome::Unknown) => {
///         if let Some(recovery) = error.file_recovery() {
///             println!("{:?}", storage.settle(recovery, Default::default()).await?);
///         }
///     }
///     Err(error) => println!("nothing was written: {error}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FileMutations(Arc<Files>);

/// Options of a write of a file, a directory, a name or a SeqFile.
#[derive(Default)]
pub struct FileMutationOptions {
    /// How long the write may take, from the call to the last byte of the reply (default 30 s), and what stops it.
    pub operation: OperationOptions,
    /// The id of the write, 1 to 128 characters of A-Z, a-z, 0-9, `_` and `-`. Default: a new one. An id that was used before
    /// is refused by the node, and the outcome is then `unknown`, because it may have been used by this very write.
    pub operation_id: Option<OperationId>,
    /// Is told how many bytes of the content the transfer has taken, and how many there are in all; while that is not known,
    /// again how many it has taken. Where the platform takes the content as a whole, it is told of the start and the end only.
    pub progress: Option<Progress>,
    /// Called right before the only HTTP request of the write is sent. Whoever stores the value can ask for the outcome
    /// with [`FileStorage::settle`](crate::FileStorage::settle), whatever happens to this process.
    pub on_dispatch: Option<Callback<FileRecovery>>,
}

impl std::fmt::Debug for FileMutationOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileMutationOptions")
            .field("operation", &self.operation)
            .field("operation_id", &self.operation_id)
            .finish_non_exhaustive()
    }
}

/// The result of a write that happened: everybody sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCommitted<T> {
    /// The result.
    pub value: T,
    /// Names the write.
    pub operation_id: OperationId,
}

impl FileMutations {
    pub(super) fn new(files: &Arc<Files>) -> Self {
        Self(Arc::clone(files))
    }

    /// Puts `content` in place as the file `path`, all of it or nothing. The result describes the new file; its revision
    /// is the one to match next time.
    ///
    /// # Errors
    /// `ECONFLICT` when the condition does not hold: the file exists already, or has another revision. `ENOENT` when the
    /// directory of the file does not exist. `EFBIG` above 256 MiB. `EINVAL` for a path that no file can have, for a
    /// revision that is none, and for a source that gives another number of bytes than it announced.
    pub async fn replace(
        &self,
        path: &str,
        content: Upload,
        condition: ReplaceCondition,
        options: FileMutationOptions,
    ) -> Result<FileCommitted<FileStat>> {
        let prepare = || {
            check_entry(REPLACE, path)?;
            if !condition.is_valid() {
                return Err(Error::invalid(REPLACE, "the revision to match is not one; pass it as it was read"));
            }
            content.check(REPLACE, self.0.link.core.host.streams_requests())
        };
        prepare().map_err(not_started)?;
        let (header, value) = condition.header();
        let mut call = Call::get(REPLACE, String::new());
        call.method = Method::Put;
        call.headers.push(("content-type", "application/octet-stream".to_owned()));
        call.headers.push((header, value.to_owned()));
        let revision = match condition {
            ReplaceCondition::CreateOnly => None,
            ReplaceCondition::Match(revision) => Some(revision),
        };
        let sha256 = content.sha256().cloned();
        let change = FileChange::Replace { path: path.to_owned(), revision, size: content.size(), sha256 };
        let mut route = "content".to_owned();
        push_query(&mut route, "path", path);
        commit(&self.0, Request { call, route, content: Some(content), change }, options).await?.into_file(REPLACE)
    }

    /// Makes the directory `path`, in a directory that exists.
    ///
    /// # Errors
    /// `EEXIST` when something has that name; `ENOENT` when its parent does not exist.
    pub async fn mkdir(&self, path: &str, options: FileMutationOptions) -> Result<FileCommitted<FileStat>> {
        check_entry(MKDIR, path).map_err(not_started)?;
        let change = FileChange::Mkdir { path: path.to_owned() };
        let committed = self.mutate(MKDIR, MutateAction::Mkdir, path, None, change, options).await?;
        let directory =
            FileStat { kind: FileKind::Directory, size: None, modified_at: None, created_at: None, revision: None };
        Ok(committed.map(|result| result.unwrap_or(directory)))
    }

    /// Gives the entry `from` the path `to`, in the same export. Never overwrites.
    ///
    /// # Errors
    /// `ENOENT` when `from` does not exist; `EEXIST` when `to` does.
    pub async fn rename(&self, from: &str, to: &str, options: FileMutationOptions) -> Result<FileCommitted<()>> {
        check_entry(RENAME, from).and_then(|()| check_entry(RENAME, to)).map_err(not_started)?;
        let change = FileChange::Rename { path: from.to_owned(), to: to.to_owned() };
        let committed = self.mutate(RENAME, MutateAction::Rename, from, Some(to), change, options).await?;
        Ok(committed.map(drop))
    }

    /// Removes the entry `path`: a file, a link or an empty directory.
    ///
    /// # Errors
    /// `ENOENT` when it does not exist; `ENOTEMPTY` when the directory holds something.
    pub async fn remove(&self, path: &str, options: FileMutationOptions) -> Result<FileCommitted<()>> {
        check_entry(REMOVE, path).map_err(not_started)?;
        let change = FileChange::Remove { path: path.to_owned() };
        Ok(self.mutate(REMOVE, MutateAction::Remove, path, None, change, options).await?.map(drop))
    }

    async fn mutate(
        &self,
        operation: &'static str,
        action: MutateAction,
        path: &str,
        to: Option<&str>,
        change: FileChange,
        options: FileMutationOptions,
    ) -> Result<FileCommitted<Option<FileStat>>> {
        let body = MutateRequest {
            action: action.as_str().to_owned(),
            path: path.to_owned(),
            to: to.map(str::to_owned),
            recursive: false,
        };
        let call = Call::post(operation, String::new(), JSON, to_vec(&body));
        commit(&self.0, Request { call, route: "mutate".to_owned(), content: None, change }, options).await
    }
}

impl std::fmt::Debug for FileMutations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileMutations({})", self.0.alias)
    }
}

impl<T> FileCommitted<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> FileCommitted<U> {
        FileCommitted { value: change(self.value), operation_id: self.operation_id }
    }
}

impl FileCommitted<Option<FileStat>> {
    /// The new file. One that cannot be read changes nothing: it happened.
    pub(super) fn into_file(self, operation: &'static str) -> Result<FileCommitted<FileStat>> {
        match self.value {
            Some(value) if value.kind == FileKind::File => Ok(FileCommitted { value, operation_id: self.operation_id }),
            Some(_) | None => {
                let error = Error::protocol(operation, "it does not describe the file that was written");
                Err(error.with_outcome(Outcome::Committed).with_operation_id(self.operation_id))
            }
        }
    }
}

/// Sends a write of JSON to any route below the export `alias`.
pub(crate) async fn post_write(
    link: &Link,
    alias: Alias,
    route: &str,
    body: Bytes,
    options: FileMutationOptions,
) -> Result<FileCommitted<Option<FileStat>>> {
    let call = Call { body: Some(body), ..Call::post(MUTATE, String::new(), JSON, Vec::new()) };
    let change = FileChange::Other { route: route.to_owned() };
    let files = FileClient::new(link.clone(), alias).0;
    commit(&files, Request { call, route: route.to_owned(), content: None, change }, options).await
}

/// Checks the path of an entry: any but the root of the export.
pub(super) fn check_entry(operation: &'static str, path: &str) -> Result<()> {
    check(operation, path)?;
    if path.is_empty() {
        return Err(Error::invalid(operation, "the path is empty; the root of an export cannot be changed"));
    }
    Ok(())
}

pub(crate) fn not_started(error: Error) -> Error {
    error.with_outcome(Outcome::NotStarted)
}

const REPLACE: &str = "replace";
const MKDIR: &str = "mkdir";
const RENAME: &str = "rename";
const REMOVE: &str = "remove";
const MUTATE: &str = "mutate";
