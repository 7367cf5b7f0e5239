//! The files of a source under virtual paths (`files-http.md` §10).

use std::sync::Arc;

use cells_protocol::capabilities::Access;
use cells_protocol::error::{ErrorKind, Outcome};
use cells_protocol::files::{FileEntry, FileKind, FileStat};
use cells_protocol::limits::DIRECTORY_MAX_ENTRIES;
use cells_protocol::mutations::ReplaceCondition;

use super::{Hold, PoolHandle};
use crate::cancellation::OperationOptions;
use crate::error::{Error, Result};
use crate::files::{FileCommitted, FileContent, FileMutationOptions, FileMutations, FileStorage, ReadOptions, Upload};

/// An opened export as a file system: virtual paths such as `/notes/todo.md`, whole listings. Cheap to clone; every clone
/// ends with the [`FileSource`](super::FileSource) it came from.
///
/// What the shape of a virtual file system has beyond this is not there, because a node has none of it: writes without a
/// condition, metadata and tags.
///
/// ```no_run
/// use cells_driver::{Client, FileConnection, OperationOptions, Result};
/// # async fn example(client: Client, connection: FileConnection) -> Result<()> {
/// let source = client.open(&connection, OperationOptions::default()).await?;
/// for entry in source.fs().list("/notes", OperationOptions::default()).await? {
///     println!("{} {:?}", entry.name, entry.stat.size);
/// }
/// source.dispose();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FileStorageAdapter {
    pub(super) hold: Arc<Hold>,
    view_id: Arc<str>,
}

impl FileStorageAdapter {
    pub(super) fn new(view_id: String, storage: FileStorage, handle: Option<PoolHandle>) -> Self {
        let hold = Hold { storage, handle, is_released: false.into() };
        Self { hold: Arc::new(hold), view_id: view_id.into() }
    }

    /// Names the view: `http:` and the credential reference for a shared source, `http:` and the alias for another.
    pub fn view_id(&self) -> &str {
        &self.view_id
    }

    /// Read-write if the export allows writes to this credential.
    pub fn access(&self) -> Access {
        self.hold.storage.access()
    }

    /// The export itself, with export-relative paths: streams, pages, receipts, SeqFiles.
    ///
    /// # Errors
    /// `EACCES` after the source was disposed of.
    pub fn storage(&self) -> Result<&FileStorage> {
        self.hold.storage("open")
    }

    /// Attributes of `path`; `None` when it does not exist.
    ///
    /// # Errors
    /// As [`FileClient::stat`](crate::FileClient::stat).
    pub async fn stat(&self, path: &str, options: OperationOptions) -> Result<Option<FileStat>> {
        let path = relative("stat", path)?;
        self.hold.storage("stat")?.files().stat(path, options).await
    }

    /// What `path` names; `None` when it does not exist.
    ///
    /// # Errors
    /// As [`stat`](Self::stat).
    pub async fn stat_type(&self, path: &str, options: OperationOptions) -> Result<Option<FileKind>> {
        Ok(self.stat(path, options).await?.map(|stat| stat.kind))
    }

    /// The whole directory `path`, sorted by the bytes of the names. The time budget is that of each page.
    ///
    /// # Errors
    /// As [`FileClient::list`](crate::FileClient::list). `ECAPABILITY` when the node had to leave entries out, because
    /// this list would be taken for all of them; [`FileClient::list`](crate::FileClient::list) gives the others. `EIO`
    /// when the pages do not end.
    pub async fn list(&self, path: &str, options: OperationOptions) -> Result<Vec<FileEntry>> {
        let path = relative(LIST, path)?;
        let files = self.hold.storage(LIST)?.files();
        let (mut entries, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page = files.list(path, cursor.as_deref(), options.clone()).await?;
            if !page.warnings.is_empty() {
                let n_left_out = page.warnings.len();
                let message = format!("{n_left_out} entries of the directory cannot be shown; list it page by page");
                return Err(Error::new(ErrorKind::Unsupported, LIST, message));
            }
            entries.extend(page.entries);
            match page.next_cursor {
                None => return Ok(entries),
                Some(next) if cursor.as_ref() == Some(&next) || entries.len() > DIRECTORY_MAX_ENTRIES => {
                    return Err(Error::protocol(LIST, "the pages of the directory do not end"));
                }
                Some(next) => cursor = Some(next),
            }
        }
    }

    /// Content of the file `path`, or a range of it, of at most 32 MiB, with the revision that it belongs to.
    ///
    /// # Errors
    /// As [`FileClient::read`](crate::FileClient::read).
    pub async fn read(&self, path: &str, options: ReadOptions) -> Result<FileContent> {
        let path = relative("read", path)?;
        self.hold.storage("read")?.files().read(path, options).await
    }

    /// Puts `content` in place as the file `path`, under a condition.
    ///
    /// # Errors
    /// As [`FileMutations::replace`]; `EROFS` on an export without writes.
    pub async fn replace(
        &self,
        path: &str,
        content: Upload,
        condition: ReplaceCondition,
        options: FileMutationOptions,
    ) -> Result<FileCommitted<FileStat>> {
        let path = entry("replace", path)?;
        self.writes("replace")?.replace(path, content, condition, options).await
    }

    /// Makes the directory `path`, in a directory that exists.
    ///
    /// # Errors
    /// As [`FileMutations::mkdir`]; `EROFS` on an export without writes.
    pub async fn mkdir(&self, path: &str, options: FileMutationOptions) -> Result<FileCommitted<FileStat>> {
        let path = entry("mkdir", path)?;
        self.writes("mkdir")?.mkdir(path, options).await
    }

    /// Removes the entry `path`: a file, a link or an empty directory.
    ///
    /// # Errors
    /// As [`FileMutations::remove`]; `EROFS` on an export without writes.
    pub async fn delete(&self, path: &str, options: FileMutationOptions) -> Result<FileCommitted<()>> {
        let path = entry("delete", path)?;
        self.writes("delete")?.remove(path, options).await
    }

    /// Gives the entry `from` the path `to`. Never overwrites.
    ///
    /// # Errors
    /// As [`FileMutations::rename`]; `EROFS` on an export without writes.
    pub async fn rename(&self, from: &str, to: &str, options: FileMutationOptions) -> Result<FileCommitted<()>> {
        let (from, to) = (entry("rename", from)?, entry("rename", to)?);
        self.writes("rename")?.rename(from, to, options).await
    }

    fn writes(&self, operation: &'static str) -> Result<&FileMutations> {
        let not_started = |error: Error| error.with_outcome(Outcome::NotStarted);
        let storage = self.hold.storage(operation).map_err(not_started)?;
        storage.mutations().ok_or_else(|| {
            let message = "the export cannot be written with this credential";
            not_started(Error::new(ErrorKind::ReadOnly, operation, message))
        })
    }
}

impl std::fmt::Debug for FileStorageAdapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileStorageAdapter({}, {:?})", self.view_id, self.access())
    }
}

/// The export-relative path of a virtual one: `/x` is `x`, and `/` the export itself.
fn relative<'a>(operation: &'static str, path: &'a str) -> Result<&'a str> {
    path.strip_prefix('/').ok_or_else(|| Error::invalid(operation, "the path does not start with `/`"))
}

/// As [`relative`], for a write.
fn entry<'a>(operation: &'static str, path: &'a str) -> Result<&'a str> {
    relative(operation, path).map_err(|error| error.with_outcome(Outcome::NotStarted))
}

const LIST: &str = "list";
