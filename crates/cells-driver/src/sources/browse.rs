//! Directories of a node, for choosing one (`files-http.md` §9.6).

use cells_protocol::files::FileKind;
use cells_protocol::ids::Alias;

use crate::cancellation::OperationOptions;
use crate::error::{Error, Result};
use crate::files::FileClient;
use crate::node::Link;

/// Some directories of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowsePage {
    /// Their full paths: the alias of the export comes first, as in `/notes/2024`.
    pub paths: Vec<String>,
    /// Asks for the next page; `None` at the end. A page may be empty while there is a next one.
    pub next_cursor: Option<String>,
}

pub(crate) async fn browse(
    link: Link,
    path: &str,
    cursor: Option<&str>,
    options: OperationOptions,
) -> Result<BrowsePage> {
    if path == "/" {
        let exports = link.exports(&options).await.map_err(|error| error.called(BROWSE))?.exports;
        let paths = exports.into_iter().map(|export| format!("/{}", export.alias)).collect();
        return Ok(BrowsePage { paths, next_cursor: None });
    }
    let invalid = || Error::invalid(BROWSE, "the path must be `/`, or `/`, an alias, and names with `/` between them");
    let absolute = path.strip_prefix('/').ok_or_else(invalid)?;
    let (alias, directory) = absolute.split_once('/').unwrap_or((absolute, ""));
    let alias = Alias::new(alias).map_err(|_| invalid())?;
    if absolute.ends_with('/') || directory.starts_with('/') {
        return Err(invalid());
    }
    let page = FileClient::new(link, alias).list(directory, cursor, options).await;
    let page = page.map_err(|error| error.called(BROWSE))?;
    let directories = page.entries.into_iter().filter(|entry| entry.stat.kind == FileKind::Directory);
    let paths = directories.map(|entry| format!("{path}/{}", entry.name)).collect();
    Ok(BrowsePage { paths, next_cursor: page.next_cursor })
}

const BROWSE: &str = "browse";
