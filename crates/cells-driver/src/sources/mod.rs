//! File sources: exports that are opened once and shared (`files-http.md` §9.5–9.6, `driver-api.md` §9.1).

mod adapter;
mod browse;
mod pool;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cells_machines::source_pool::HandleId;
use cells_protocol::error::ErrorKind;
use cells_protocol::ids::Alias;

pub use adapter::FileStorageAdapter;
pub use browse::BrowsePage;
pub(crate) use browse::browse;
pub(crate) use pool::Sources;

use crate::cancellation::OperationOptions;
use crate::client::Core;
use crate::config::Identity;
use crate::error::{Error, Result};
use crate::files::FileStorage;
use crate::node::Link;

/// A handle to an opened export. Made by [`Client::open`](crate::Client::open) and
/// [`Client::open_http_file_source`](crate::Client::open_http_file_source).
///
/// Handles of equal connections share one source: one request finds out what may be done, and stat calls share batches.
/// Each handle is disposed of for itself; the last one closes the source, which ends its calls under way.
#[derive(Debug)]
pub struct FileSource(FileStorageAdapter);

impl FileSource {
    /// Opens a source that others share.
    pub(crate) async fn open(link: &Link, alias: Alias, options: &OperationOptions) -> Result<Self> {
        let view_id = match &link.node.binding.identity {
            Identity::Anonymous => "http:anonymous".to_owned(),
            Identity::Bearer { reference } | Identity::Basic { reference, .. } => format!("http:{reference}"),
        };
        let (handle, storage) = pool::open(link, alias, options).await?;
        Ok(Self(FileStorageAdapter::new(view_id, storage, Some(handle))))
    }

    /// Opens a source of its own.
    pub(crate) async fn open_unshared(
        link: &Link,
        alias: Alias,
        view_id: Option<String>,
        options: &OperationOptions,
    ) -> Result<Self> {
        let view_id = view_id.unwrap_or_else(|| format!("http:{alias}"));
        let storage = FileStorage::open(link, alias, options).await?;
        Ok(Self(FileStorageAdapter::new(view_id, storage, None)))
    }

    /// The files of the source, under virtual paths such as `/notes/todo.md`.
    pub fn fs(&self) -> &FileStorageAdapter {
        &self.0
    }

    /// Lets go of the source: calls through this handle fail with `EACCES` from now on. Calling it again does nothing, and
    /// dropping the handle does the same.
    pub fn dispose(&self) {
        self.0.hold.release();
    }
}

impl Drop for FileSource {
    fn drop(&mut self) {
        self.dispose();
    }
}

/// What keeps a source open.
struct Hold {
    storage: FileStorage,
    /// The place in the pool; `None` for a source that nobody shares.
    handle: Option<PoolHandle>,
    is_released: AtomicBool,
}

impl Hold {
    fn release(&self) {
        self.is_released.store(true, Ordering::Release);
        match &self.handle {
            Some(handle) => handle.release(),
            None => self.storage.close(),
        }
    }

    /// The source, unless the handle was disposed of.
    fn storage(&self, operation: &'static str) -> Result<&FileStorage> {
        if self.is_released.load(Ordering::Acquire) {
            let message = "the source was disposed of; open it again";
            return Err(Error::new(ErrorKind::AccessDenied, operation, message));
        }
        Ok(&self.storage)
    }
}

/// A handle of the pool. Releases itself.
struct PoolHandle {
    core: Arc<Core>,
    id: HandleId,
}

impl PoolHandle {
    fn release(&self) {
        Sources::update(&self.core, |pool| pool.start_release(self.id));
    }
}

impl Drop for PoolHandle {
    fn drop(&mut self) {
        self.release();
    }
}
