//! All entries of a directory of the node.

use cells_native::cells_driver::{FileClient, FileEntry, OperationOptions};

use crate::failure::Failure;
use crate::remote_path::RemotePath;

/// The whole of a directory.
#[derive(Default)]
pub(crate) struct Listing {
    /// Sorted by the bytes of their names.
    pub(crate) entries: Vec<FileEntry>,
    /// What the node says that it leaves out.
    pub(crate) warnings: Vec<String>,
}

/// Lists all pages of `path`. `options` are those of each request.
pub(crate) async fn list_all(
    files: &FileClient,
    path: &RemotePath,
    options: impl Fn() -> OperationOptions,
) -> Result<Listing, Failure> {
    let mut listing = Listing::default();
    let mut cursor: Option<String> = None;
    loop {
        let page = files.list(&path.path, cursor.as_deref(), options()).await;
        let page = page.map_err(|error| Failure::path(error, path))?;
        listing.entries.extend(page.entries);
        listing.warnings.extend(page.warnings);
        cursor = page.next_cursor;
        if cursor.is_none() {
            listing.warnings.sort();
            listing.warnings.dedup();
            return Ok(listing);
        }
    }
}
