//! Paths that cannot leave their export (`files-http.md` §2): no `..`, no link anywhere on the way, no magic link.
//!
//! Everything is resolved by the kernel from the descriptor of the export's root, never from a text that was checked
//! before, so that a directory that is swapped for a link at the same moment gains nothing.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use cells_protocol::paths::check_path;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, open, openat, openat2, statx};
use rustix::io::Errno;
use rustix::path::Arg;

/// A path that keeps the rules of export-relative paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExportPath(String);

impl ExportPath {
    /// None: the path breaks a rule.
    pub(crate) fn parse(path: impl Into<String>) -> Option<Self> {
        let path = path.into();
        check_path(&path).is_ok().then_some(Self(path))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The root directory of an export.
#[derive(Debug)]
pub(crate) struct Root {
    directory: OwnedFd,
    resolver: Resolver,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resolver {
    /// One `openat2`, confined by the kernel.
    Kernel,
    /// One `openat` for each component; where `openat2` is missing or forbidden (old kernels, some containers).
    Walk,
}

impl Root {
    /// Opens the directory, links in `path` itself included: the person who started the node chose it.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        let directory = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let resolver = match open_confined(directory.as_fd(), ".", OFlags::PATH) {
            Ok(_) => Resolver::Kernel,
            Err(Errno::NOSYS | Errno::PERM) => Resolver::Walk,
            Err(errno) => return Err(errno),
        };
        Ok(Self { directory, resolver })
    }

    /// The directory itself, for its lock.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Attributes of what the path names. A link at the end is described, not followed.
    pub(crate) fn stat(&self, path: &ExportPath) -> Result<Statx, Errno> {
        let node = self.resolve(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        stat_open(node.as_fd())
    }

    /// Opens a directory for listing.
    pub(crate) fn open_directory(&self, path: &ExportPath) -> Result<OwnedFd, Errno> {
        match self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW) {
            // The kernel says ENOTDIR for a link, too.
            Err(Errno::NOTDIR) if self.stat(path).is_ok_and(|stat| kind(&stat) == FileType::Symlink) => {
                Err(Errno::LOOP)
            }
            other => other,
        }
    }

    /// Opens a regular file for reading; other kinds give [`Errno::LOOP`] (links) or [`Errno::NOTSUP`], and are never
    /// opened: opening a device or a pipe can have effects.
    pub(crate) fn open_file(&self, path: &ExportPath) -> Result<(OwnedFd, Statx), Errno> {
        require_regular(&self.stat(path)?)?;
        let file = self.resolve(path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let stat = stat_open(file.as_fd())?;
        require_regular(&stat)?;
        Ok((file, stat))
    }

    fn resolve(&self, path: &ExportPath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = if path.as_str().is_empty() { "." } else { path.as_str() };
        match self.resolver {
            Resolver::Kernel => match open_confined(self.as_fd(), path, flags) {
                // The kernel could not rule out an escape, because a directory was being renamed; or the path is one that
                // it takes in parts only.
                Err(Errno::AGAIN | Errno::NAMETOOLONG) => walk(self.as_fd(), path, flags),
                other => other,
            },
            Resolver::Walk => walk(self.as_fd(), path, flags),
        }
    }
}

/// Attributes of an open file.
pub(crate) fn stat_open(file: BorrowedFd<'_>) -> Result<Statx, Errno> {
    statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}

/// Attributes of a child of an open directory; a link is described, not followed.
pub(crate) fn stat_child(directory: BorrowedFd<'_>, name: impl Arg) -> Result<Statx, Errno> {
    statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}

/// The kind of a file.
pub(crate) fn kind(stat: &Statx) -> FileType {
    FileType::from_raw_mode(stat.stx_mode.into())
}

/// The kind of a child of an open directory, as its list says it. Some file systems do not say it there. Unknown when it
/// cannot be told.
pub(crate) fn child_kind(directory: BorrowedFd<'_>, name: impl Arg, listed: FileType) -> FileType {
    match listed {
        FileType::Unknown => stat_child(directory, name).map_or(FileType::Unknown, |stat| kind(&stat)),
        listed => listed,
    }
}

fn require_regular(stat: &Statx) -> Result<(), Errno> {
    match kind(stat) {
        FileType::RegularFile => Ok(()),
        FileType::Symlink => Err(Errno::LOOP),
        _ => Err(Errno::NOTSUP),
    }
}

fn open_confined(root: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn walk(root: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let (parents, last) = path.rsplit_once('/').map_or((None, path), |(parents, last)| (Some(parents), last));
    let mut directory: Option<OwnedFd> = None;
    for name in parents.into_iter().flat_map(|parents| parents.split('/')) {
        let here = directory.as_ref().map_or(root, AsFd::as_fd);
        let next = openat(here, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        match kind(&stat_open(next.as_fd())?) {
            FileType::Directory => directory = Some(next),
            FileType::Symlink => return Err(Errno::LOOP),
            _ => return Err(Errno::NOTDIR),
        }
    }
    let here = directory.as_ref().map_or(root, AsFd::as_fd);
    openat(here, last, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests;
