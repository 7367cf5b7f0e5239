//! `GET /v1/fs/{alias}/entries` (`files-http.md` §4.4).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use cells_protocol::files::{EntriesPage, FileEntry};
use cells_protocol::limits::{DIRECTORY_MAX_ENTRIES, ENTRIES_PAGE_MAX};
use cells_protocol::paths::{STAGING_PREFIX, check_path};
use rustix::fs::{Dir, FileType};
use rustix::io::Errno;
use serde::Deserialize;

use super::admit;
use super::confine::{ExportPath, child_kind, stat_child};
use super::cursor::Place;
use super::exports::Export;
use super::listings::Listing;
use super::revision::file_stat;
use crate::app::AppState;
use crate::deadline::Deadline;
use crate::extract::StrictQuery;
use crate::refusal::Refusal;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntriesQuery {
    path: String,
    cursor: Option<String>,
}

pub(super) async fn entries(
    State(app): State<AppState>,
    Path(alias): Path<String>,
    StrictQuery(query): StrictQuery<EntriesQuery>,
    headers: HeaderMap,
) -> Result<Json<EntriesPage>, Refusal> {
    let (principal, alias, export) = admit(&app, &headers, &alias)?;
    let deadline = Deadline::start(&headers)?;
    // Neither an id nor an alias holds a colon, so that no two listings have the same binding.
    let binding = format!("{}:{alias}:{}", principal.id(), query.path);
    let place = match query.cursor {
        None => None,
        Some(cursor) => Some(app.files.cursors.open(&cursor, &binding, unix_seconds()).ok_or(Refusal::INVALID)?),
    };
    let path = ExportPath::parse(query.path).ok_or(Refusal::INVALID)?;
    let kept = place.as_ref().and_then(|place| {
        let listing = app.files.listings.find(place.listing, unix_seconds())?;
        Some((place.listing, listing))
    });
    let (kept_id, kept) = kept.unzip();
    let last = place.map(|place| place.last);
    let job = move || Reader { deadline, export: &export, path: &path }.page(kept, last.as_deref());
    let page = app.files.workers.run(deadline, job).await?;
    let next_cursor = page.next.map(|last| {
        let listing = kept_id.unwrap_or_else(|| app.files.listings.keep(page.listing, unix_seconds()));
        app.files.cursors.issue(&binding, Place { listing, last }, unix_seconds())
    });
    Ok(Json(EntriesPage { entries: page.entries, next_cursor, warnings: page.warnings }))
}

/// Reads a directory.
struct Reader<'a> {
    deadline: Deadline,
    export: &'a Export,
    path: &'a ExportPath,
}

struct Page {
    listing: Arc<Listing>,
    entries: Vec<FileEntry>,
    /// The last name of this page, if more follow.
    next: Option<String>,
    warnings: Vec<String>,
}

impl Reader<'_> {
    /// The page after `last` of a listing that is kept, or else of one that is read. Names that have vanished are skipped.
    fn page(&self, kept: Option<Arc<Listing>>, last: Option<&str>) -> Result<Page, Refusal> {
        let directory = self.export.root.open_directory(self.path)?;
        let listing = match kept {
            Some(listing) => listing,
            None => Arc::new(self.read(&directory)?),
        };
        let mut warnings: Vec<String> = listing.warnings.iter().map(|word| (*word).to_owned()).collect();
        let mut entries = Vec::new();
        let mut next = None;
        let mut names = listing.after(last).iter().peekable();
        while let Some(name) = names.next() {
            self.deadline.check()?;
            match stat_child(directory.as_fd(), &**name) {
                Ok(stat) => match file_stat(&stat, self.export.is_writable()) {
                    Some(stat) => entries.push(FileEntry { name: name.to_string(), stat }),
                    None => warnings.push(UNSUPPORTED_NODE.to_owned()),
                },
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
            if entries.len() == ENTRIES_PAGE_MAX {
                next = names.peek().map(|_| name.to_string());
                break;
            }
        }
        Ok(Page { listing, entries, next, warnings })
    }

    /// All names of a directory that can be told.
    fn read(&self, directory: &OwnedFd) -> Result<Listing, Refusal> {
        let Listing { mut names, mut warnings } = Listing::default();
        let mut seen = 0_usize;
        let mut child = match self.path.as_str() {
            "" => String::new(),
            parent => format!("{parent}/"),
        };
        let parent_bytes = child.len();
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || name.starts_with(STAGING_PREFIX.as_bytes()) {
                continue;
            }
            if seen == DIRECTORY_MAX_ENTRIES {
                return Err(Refusal::DIRECTORY_LIMIT);
            }
            seen += 1;
            if seen.is_multiple_of(NAMES_BETWEEN_CHECKS) {
                self.deadline.check()?;
            }
            let Ok(name) = std::str::from_utf8(name) else {
                warnings.push(NON_UTF8_NAME);
                continue;
            };
            child.truncate(parent_bytes);
            child.push_str(name);
            if check_path(&child).is_err() {
                warnings.push(UNSUPPORTED_NAME);
            } else if is_special(child_kind(directory.as_fd(), name, entry.file_type())) {
                warnings.push(UNSUPPORTED_NODE);
            } else {
                names.push(Box::from(name));
            }
        }
        names.sort_unstable();
        Ok(Listing { names, warnings })
    }
}

/// Sockets, pipes and devices.
fn is_special(kind: FileType) -> bool {
    !matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink | FileType::Unknown)
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

const NON_UTF8_NAME: &str = "NON_UTF8_NAME";
const UNSUPPORTED_NODE: &str = "UNSUPPORTED_NODE";
/// A name that no export-relative path can hold, such as one with a backslash.
const UNSUPPORTED_NAME: &str = "UNSUPPORTED_NAME";
const NAMES_BETWEEN_CHECKS: usize = 1024;
