//! One export, opened: what may be done with it is known.

use cells_protocol::capabilities::Access;
use cells_protocol::error::ErrorKind;
use cells_protocol::file_receipts::FileReceipt;
use cells_protocol::file_recovery::FileRecovery;
use cells_protocol::ids::{Alias, OperationId};

use super::write::{self, FileMutations};
use super::{FileClient, SeqClient};
use crate::cancellation::{CancelHandle, OperationOptions};
use crate::error::{Error, Result};
use crate::node::Link;

/// One export of a node: its files, and its writes if it allows them. Cheap to clone; [`close`](Self::close) ends all
/// clones. Made by [`Client::file_storage`](crate::Client::file_storage).
///
/// ```no_run
/// use cells_driver::{Client, FileConnection, FileMutationOptions, OperationOptions, ReplaceCondition, Result, Upload};
/// # async fn example(client: Client, connection: FileConnection) -> Result<()> {
/// let storage = client.file_storage(&connection, OperationOptions::default()).await?;
/// let before = storage.files().read("todo.md", Default::default()).await?;
/// if let (Some(writes), Some(revision)) = (storage.mutations(), before.revision) {
///     let content = Upload::bytes([&before.data[..], b"- bread\n"].concat());
///     let same = ReplaceCondition::Match(revision);
///     writes.replace("todo.md", content, same, FileMutationOptions::default()).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FileStorage {
    files: FileClient,
    mutations: Option<FileMutations>,
    close: CancelHandle,
}

impl FileStorage {
    pub(crate) async fn open(link: &Link, alias: Alias, options: &OperationOptions) -> Result<Self> {
        link.check_open(OPEN)?;
        let (close, link) = link.closable();
        let budget = link.budget(options);
        let (export, kept) = budget
            .run(OPEN, async {
                let exports = link.exports_within(&budget).await?;
                let export = exports.exports.into_iter().find(|export| export.alias == alias).ok_or_else(|| {
                    let message = format!("the node has no export {alias}, or this credential may not see it");
                    Error::new(ErrorKind::AccessDenied, OPEN, message)
                })?;
                Ok((export, link.kept(&budget).await?))
            })
            .await?;
        let files = FileClient::opened(link, alias, kept);
        let mutations = export.allows_writes().then(|| FileMutations::new(&files.0));
        Ok(Self { files, mutations, close })
    }

    /// Attributes, listings and content.
    pub fn files(&self) -> &FileClient {
        &self.files
    }

    /// Writes; `None` unless the export is writable for this credential, has strong revisions and takes names as they are
    /// (`files-http.md` §3.2).
    pub fn mutations(&self) -> Option<&FileMutations> {
        self.mutations.as_ref()
    }

    /// SeqFiles. On a read-only export they can be read.
    pub fn seq(&self) -> SeqClient {
        SeqClient::new(&self.files.0, self.mutations.is_some())
    }

    /// Read-write if there are [`mutations`](Self::mutations).
    pub fn access(&self) -> Access {
        if self.mutations.is_some() { Access::Rw } else { Access::Ro }
    }

    /// The receipt of a write, as the node has it.
    ///
    /// # Errors
    /// `ENOENT` when the node has none: it never saw the write, or has forgotten it, which happens after an hour, and on
    /// nodes without durable receipts at every restart. The outcome is then still unknown.
    pub async fn operation_status(&self, operation_id: &OperationId, options: OperationOptions) -> Result<FileReceipt> {
        write::operation_status(&self.files.0, operation_id, &options).await
    }

    /// Asks the node to stop a write, and gives its receipt as it is then: `Running` when it still has to stop, and
    /// unchanged when it had ended. A write that the node has not seen is refused from then on.
    ///
    /// # Errors
    /// As any call. The outcome is then still unknown.
    pub async fn cancel_operation(&self, operation_id: &OperationId, options: OperationOptions) -> Result<FileReceipt> {
        write::cancel_operation(&self.files.0, operation_id, &options).await
    }

    /// Finds out how a write ended whose outcome is unknown: by its receipt, for which it waits while the write runs; else
    /// by what the export shows, where that proves it. A write that the node has not seen is stopped for good.
    ///
    /// The result is `Unknown` when nothing proves anything, and `Running` when the budget ended before the write.
    ///
    /// # Errors
    /// As any call; `EINVAL` for a write of another export. The outcome is then still unknown.
    pub async fn settle(&self, recovery: &FileRecovery, options: OperationOptions) -> Result<FileReceipt> {
        write::settle(&self.files, recovery, &options).await
    }

    /// Ends what was made of this export: calls under way end with `ECANCELLED`, later ones with `EACCES`. A write that was
    /// sent goes on at the node, and its caller gets `unknown`.
    pub fn close(&self) {
        self.close.cancel();
    }
}

impl std::fmt::Debug for FileStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileStorage({}, {:?})", self.files.0.alias, self.access())
    }
}

const OPEN: &str = "open";
