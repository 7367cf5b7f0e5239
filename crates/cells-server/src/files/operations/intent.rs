//! What a write is about to do, kept with its claim, so that a later start of the node can find out by looking whether it
//! was done.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cells_protocol::file_receipts::FileReceipt;
use cells_protocol::files::{FileKind, FileStat};
use rustix::fs::Statx;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{not_committed, unknown};
use crate::files::confine::{ExportPath, Root, stat_child, stat_open};
use crate::files::exports::Export;
use crate::files::revision::file_stat;
use crate::refusal::Refusal;

/// Which file something is, whatever its name and content. The time of birth tells apart two files that had the same
/// number one after the other; file systems that do not have it give zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    device: (u32, u32),
    inode: u64,
    born: (i64, u32),
}

impl Identity {
    /// Whether another file can never be taken for this one, not even when this one is gone.
    fn is_unique(self) -> bool {
        self.born != (0, 0)
    }
}

impl From<&Statx> for Identity {
    fn from(stat: &Statx) -> Self {
        Self {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            born: (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec),
        }
    }
}

/// What tells whether a file still has the content that a write gave it. A new name does not change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    size: u64,
    modified: (i64, u32),
}

impl From<&Statx> for Content {
    fn from(stat: &Statx) -> Self {
        Self { size: stat.stx_size, modified: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec) }
    }
}

/// A name in a directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Place {
    path: String,
    /// The directory that the name is in.
    parent: Identity,
}

/// An open directory and a name in it.
#[derive(Debug)]
pub(crate) struct OpenPlace {
    pub(crate) directory: OwnedFd,
    pub(crate) name: String,
    place: Place,
}

impl OpenPlace {
    /// Opens the directory that holds `path`. The root of the export has none: 400.
    pub(crate) fn open(root: &Root, path: &ExportPath) -> Result<Self, Refusal> {
        let (parent, name) = match path.as_str().rsplit_once('/') {
            Some((parent, name)) => (parent, name),
            None => ("", path.as_str()),
        };
        if name.is_empty() {
            return Err(Refusal::INVALID);
        }
        let parent = ExportPath::parse(parent).ok_or(Refusal::INVALID)?;
        let directory = root.open_directory(&parent)?;
        let identity = Identity::from(&stat_open(directory.as_fd())?);
        let place = Place { path: path.as_str().to_owned(), parent: identity };
        Ok(Self { directory, name: name.to_owned(), place })
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// What has the name; none when nothing has.
    pub(crate) fn stat(&self) -> Result<Option<Statx>, Errno> {
        match stat_child(self.as_fd(), &self.name) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Whether the path still leads to this directory.
    pub(crate) fn is_current(&self, root: &Root) -> bool {
        self.place.open(root).is_some()
    }

    /// Which file has `name` in this directory; none also when that cannot be told.
    fn identity(&self, name: &str) -> Option<Identity> {
        stat_child(self.as_fd(), name).ok().as_ref().map(Identity::from)
    }
}

impl Place {
    /// None when the directory is another one, or none.
    fn open(&self, root: &Root) -> Option<OpenPlace> {
        let place = OpenPlace::open(root, &ExportPath::parse(self.path.as_str())?).ok()?;
        (place.place.parent == self.parent).then_some(place)
    }
}

/// What a write is about to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Intent {
    /// A staged file or folder gets its name: content is put in place, or a folder is made.
    Place {
        /// Where it goes.
        at: Place,
        /// Its name before, in the same directory.
        staged: String,
        object: Identity,
        /// None for a folder.
        content: Option<Content>,
        /// The file that has the name now, if it is gone for good when the name is taken from it.
        old: Option<Identity>,
    },
    /// Something gets another name.
    Move { from: Place, to: Place, object: Identity },
    /// Something is removed. What is no directory is put aside first and removed when the receipt is written.
    Remove { at: Place, aside: Option<String>, object: Identity },
}

impl Intent {
    /// Whether it was done. Only what the directories prove counts; everything else is unknown.
    pub(crate) fn look(&self, export: &Export) -> FileReceipt {
        self.proof(export).unwrap_or_else(unknown)
    }

    fn proof(&self, export: &Export) -> Option<FileReceipt> {
        let not_committed = || not_committed(INTERRUPTED);
        match self {
            Self::Place { at, staged, object, content, old } => {
                let place = at.open(&export.root)?;
                let stat = place.stat().ok()?;
                let (here, staged) = (stat.as_ref().map(Identity::from), place.identity(staged));
                Some(match was_placed(here, staged, *object, *old)? {
                    true => {
                        let result = stat.filter(|stat| *content == Some(Content::from(stat)));
                        FileReceipt::Committed { result: result.and_then(|stat| file(&stat, export)) }
                    }
                    false => not_committed(),
                })
            }
            Self::Move { from, to, object } => {
                let (from, to) = (from.open(&export.root)?, to.open(&export.root)?);
                let there = |place: &OpenPlace| place.identity(&place.name) == Some(*object);
                match (there(&from), there(&to)) {
                    (true, false) => Some(not_committed()),
                    (false, true) => Some(FileReceipt::Committed { result: None }),
                    _ => None,
                }
            }
            Self::Remove { at, aside, object } => {
                let place = at.open(&export.root)?;
                let here = place.identity(&place.name);
                let aside = aside.as_ref().map(|aside| place.identity(aside));
                Some(match was_removed(here, aside, *object)? {
                    true => FileReceipt::Committed { result: None },
                    false => not_committed(),
                })
            }
        }
    }
}

/// Whether a staged object got its name, by what has that name and what has its staging name.
pub(super) fn was_placed(
    here: Option<Identity>,
    staged: Option<Identity>,
    object: Identity,
    old: Option<Identity>,
) -> Option<bool> {
    match (here == Some(object), staged == Some(object)) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        // The effect would have ended the old file. A later one could look like it, if nothing tells them apart.
        (false, false) if old.is_some_and(|old| here == Some(old) && old.is_unique()) => Some(false),
        _ => None,
    }
}

/// Whether an object was removed, by what has its name and, if it was to be put aside, what has that name.
pub(super) fn was_removed(here: Option<Identity>, aside: Option<Option<Identity>>, object: Identity) -> Option<bool> {
    let stands = here == Some(object);
    match aside {
        // Nobody else uses that name, but something else may have been taken from the other one.
        Some(Some(aside)) => (aside == object).then_some(true),
        Some(None) => stands.then_some(false),
        // The effect ends the directory. A later one could look like it, if nothing tells them apart.
        None => (stands && object.is_unique()).then_some(false),
    }
}

/// The attributes of a file, which a receipt tells; none for a directory.
fn file(stat: &Statx, export: &Export) -> Option<FileStat> {
    file_stat(stat, export.is_writable()).filter(|stat| stat.kind == FileKind::File)
}

/// Why a write that the end of the node interrupted did not happen.
pub(super) const INTERRUPTED: Refusal = Refusal::CANCELLED;
