//! Files of one export: attributes, listings, content (`files-http.md` §4).

mod content;
mod list;
mod read;
mod seq;
mod stat;
mod storage;
mod stream;
mod write;

use std::sync::Arc;

use cells_protocol::endpoint::push_query;
use cells_protocol::files::{EntriesPage, FileKind, FileStat};
use cells_protocol::ids::Alias;
use cells_protocol::paths::check_path;

pub(crate) use read::read_from;
pub use read::{FileContent, ReadOptions};
pub use seq::SeqClient;
pub(crate) use seq::seq_of;
pub use stat::StatFuture;
pub use storage::FileStorage;
pub use stream::ReadStream;
pub use write::{FileCommitted, FileMutationOptions, FileMutations, Upload};
pub(crate) use write::{not_started, post_write};

use crate::cancellation::OperationOptions;
use crate::discovery::Kept;
use crate::error::{Error, Result};
use crate::host::Callback;
use crate::node::Link;
use stat::StatPump;

/// A client of one export. Cheap to clone; clones share their stat batches.
///
/// Paths are relative to the export, with `/` between names; the empty string is the export itself.
#[derive(Clone)]
pub struct FileClient(Arc<Files>);

/// What the clones share.
struct Files {
    link: Link,
    alias: Alias,
    stats: StatPump,
    kept: Kept,
}

impl FileClient {
    pub(crate) fn new(link: Link, alias: Alias) -> Self {
        Self::opened(link, alias, Kept::default())
    }

    fn opened(link: Link, alias: Alias, kept: Kept) -> Self {
        let stats = StatPump::new(link.core.timeout_ms);
        Self(Arc::new(Files { link, alias, stats, kept }))
    }

    /// Attributes of `path`; `None` when it does not exist. A failure is never reported as missing.
    ///
    /// The call joins the batch when it is made, not when it is awaited: calls made in one turn share requests of at most
    /// 256 distinct paths, also when they are awaited one by one. The batch goes out when one of them is awaited.
    /// Dropping the future leaves the batch; the last one out aborts the request.
    ///
    /// # Errors
    /// `EINVAL` for a path that no export can have; `EACCES`, `ENOTDIR`, `ECAPABILITY` of this path; any error of the
    /// shared request. The time budget is this caller's own.
    ///
    /// ```no_run
    /// # use cells_driver::{FileClient, OperationOptions, Result};
    /// # async fn example(files: FileClient) -> Result<()> {
    /// let calls = ["a.md", "b.md", "a.md"].map(|path| files.stat(path, OperationOptions::default()));
    /// for stat in futures::future::join_all(calls).await {
    ///     println!("{:?}", stat?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stat(&self, path: &str, options: OperationOptions) -> StatFuture {
        stat::start(&self.0, path, options)
    }

    /// As [`FileClient::stat`], without a future: `on_settled` gets the result. For adapters to other languages, where
    /// thousands of futures would cost more than the request.
    ///
    /// `on_settled` is called exactly once, from the task that drives the client, or before this function returns when
    /// nothing has to be asked. It must return quickly.
    pub fn stat_with(&self, path: &str, options: OperationOptions, on_settled: Callback<Result<Option<FileStat>>>) {
        stat::start_with(&self.0, path, options, on_settled);
    }

    /// What `path` names; `None` when it does not exist. The call is one of the same batch as [`FileClient::stat`].
    ///
    /// # Errors
    /// As [`FileClient::stat`].
    pub async fn stat_type(&self, path: &str, options: OperationOptions) -> Result<Option<FileKind>> {
        Ok(self.stat(path, options).await?.map(|stat| stat.kind))
    }

    /// One page of the directory `path`: at most 512 entries, sorted by the bytes of their names. Pass `next_cursor` of a
    /// page to get the one after it. The pages are not a snapshot: what changes meanwhile may be missed.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `EACCES` of the directory; `EINVAL` for a cursor that is older than 300 s or foreign.
    pub async fn list(&self, path: &str, cursor: Option<&str>, options: OperationOptions) -> Result<EntriesPage> {
        list::list(&self.0, path, cursor, &options).await
    }

    /// Content of the file `path`, or a range of it, of at most 32 MiB.
    ///
    /// A range that reaches beyond the end of the file gives what there is. A range that starts at the end gives no bytes.
    ///
    /// # Errors
    /// `EFBIG` when there are more than 32 MiB: read a range, or use [`FileClient::read_stream`]. `EINVAL` when the
    /// range starts beyond the end. `ECONFLICT` when the file does not have the revision `if_revision`. Nothing of a
    /// reply that is cut off is handed out.
    ///
    /// ```no_run
    /// # use cells_driver::{FileClient, ReadOptions, Result};
    /// # async fn example(files: FileClient) -> Result<()> {
    /// let head = files.read("log.txt", ReadOptions { length: Some(1024), ..ReadOptions::default() }).await?;
    /// println!("{} bytes of revision {:?}", head.data.len(), head.revision);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read(&self, path: &str, options: ReadOptions) -> Result<FileContent> {
        read::read(&self.0, path, &options).await
    }

    /// Content of the file `path`, or a range of it, of any size, piece by piece. See [`ReadStream`] for what holds the
    /// pieces together when the connection breaks.
    ///
    /// # Errors
    /// As [`FileClient::read`], without `EFBIG`.
    pub async fn read_stream(&self, path: &str, options: ReadOptions) -> Result<ReadStream> {
        stream::open(self, path, options).await
    }
}

impl std::fmt::Debug for FileClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileClient({})", self.0.alias)
    }
}

impl Files {
    /// The address of `route` below the export.
    async fn url(&self, route: &str) -> Result<String> {
        let root = self.link.file_root().await?;
        Ok(format!("{}/v1/fs/{}/{route}", root.without_trailing_slash(), self.alias))
    }

    /// The address of `route` for `path`.
    async fn url_of(&self, route: &str, path: &str) -> Result<String> {
        let mut url = self.url(route).await?;
        push_query(&mut url, "path", path);
        Ok(url)
    }
}

/// Checks a path before anything is sent.
fn check(operation: &'static str, path: &str) -> Result<()> {
    check_path(path).map_err(|problem| Error::invalid(operation, problem))
}
