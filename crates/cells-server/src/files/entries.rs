//! `GET /v1/fs/{alias}/entries` (`files-http.md` §4.4).

use std::collections::BinaryHeap;
use std::os::fd::{AsFd, OwnedFd};
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
use super::confine::{ExportPath, kind, stat_child};
use super::exports::Export;
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
    let after = match query.cursor {
        None => None,
        Some(cursor) => Some(app.files.cursors.open(&cursor, &binding, unix_seconds()).ok_or(Refusal::INVALID)?),
    };
    let path = ExportPath::parse(query.path).ok_or(Refusal::INVALID)?;
    let job = move || Scan { deadline, after }.page(&export, &path);
    let (entries, more, warnings) = app.files.workers.run(deadline, job).await?;
    let last = entries.last().filter(|_| more);
    let next_cursor = last.map(|last| app.files.cursors.issue(&binding, &last.name, unix_seconds()));
    Ok(Json(EntriesPage { entries, next_cursor, warnings }))
}

/// One pass over a directory, which finds one page.
struct Scan {
    deadline: Deadline,
    /// Only names after this one.
    after: Option<String>,
}

impl Scan {
    /// The entries of the page, whether more follow, and the warnings of the whole directory.
    fn page(&self, export: &Export, path: &ExportPath) -> Result<(Vec<FileEntry>, bool, Vec<String>), Refusal> {
        let directory = export.root.open_directory(path)?;
        let mut warnings = Vec::new();
        let mut names = self.names(&directory, path, &mut warnings)?;
        let more = names.len() > ENTRIES_PAGE_MAX;
        names.truncate(ENTRIES_PAGE_MAX);
        let mut entries = Vec::with_capacity(names.len());
        for name in names {
            self.deadline.check()?;
            match stat_child(directory.as_fd(), &name) {
                Ok(stat) => match file_stat(&stat, export.is_writable()) {
                    Some(stat) => entries.push(FileEntry { name, stat }),
                    None => warnings.push(UNSUPPORTED_NODE.to_owned()),
                },
                Err(Errno::NOENT) => {} // removed since it was read
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok((entries, more, warnings))
    }

    /// The first names after [`Self::after`] in byte order: one page and one more.
    fn names(
        &self,
        directory: &OwnedFd,
        path: &ExportPath,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<String>, Refusal> {
        let mut first = BinaryHeap::with_capacity(ENTRIES_PAGE_MAX + 2);
        let mut seen = 0_usize;
        let mut child = match path.as_str() {
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
                warnings.push(NON_UTF8_NAME.to_owned());
                continue;
            };
            child.truncate(parent_bytes);
            child.push_str(name);
            if check_path(&child).is_err() {
                warnings.push(UNSUPPORTED_NAME.to_owned());
                continue;
            }
            if is_special(directory, name, entry.file_type()) {
                warnings.push(UNSUPPORTED_NODE.to_owned());
                continue;
            }
            let on_this_page = self.after.as_deref().is_none_or(|after| name > after)
                && (first.len() <= ENTRIES_PAGE_MAX || first.peek().is_some_and(|last: &String| name < last.as_str()));
            if on_this_page {
                first.push(name.to_owned());
                if first.len() > ENTRIES_PAGE_MAX + 1 {
                    first.pop();
                }
            }
        }
        Ok(first.into_sorted_vec())
    }
}

/// Sockets, pipes and devices. Some file systems do not say the kind in the directory itself.
fn is_special(directory: &OwnedFd, name: &str, listed: FileType) -> bool {
    let kind = match listed {
        FileType::Unknown => stat_child(directory.as_fd(), name).map_or(FileType::RegularFile, |stat| kind(&stat)),
        listed => listed,
    };
    !matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink)
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

const NON_UTF8_NAME: &str = "NON_UTF8_NAME";
const UNSUPPORTED_NODE: &str = "UNSUPPORTED_NODE";
/// A name that no export-relative path can hold, such as one with a backslash.
const UNSUPPORTED_NAME: &str = "UNSUPPORTED_NAME";
const NAMES_BETWEEN_CHECKS: usize = 1024;
