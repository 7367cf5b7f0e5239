//! Staging files that an earlier process left are removed after a start (`files-http.md` §5.2).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use cells_protocol::paths::STAGING_PREFIX;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::confine::child_kind;
use super::exports::Export;
use super::operations::Operations;
use super::staging::LeftoverKind;

/// Walks through the export in the background until it is done or the node stops.
pub(super) fn start(export: Arc<Export>, operations: &Arc<Operations>) {
    let (stop, current_prefix) = (operations.stop_token(), operations.staging_prefix().to_owned());
    operations.tasks().spawn_blocking(move || {
        let mut sweep = Sweep { left: ENTRIES_MAX, removed: 0, current_prefix, stop };
        let swept = open_directory(export.root.as_fd(), ".").and_then(|root| sweep.directory(root));
        match swept {
            Ok(()) | Err(Errno::CANCELED) => {}
            Err(errno) => tracing::warn!("left-over staging files could not all be looked for: {errno}"),
        }
        if sweep.removed > 0 {
            tracing::info!(removed = sweep.removed, "removed left-over staging files");
        }
    });
}

struct Sweep {
    /// Entries that are still looked at.
    left: u64,
    removed: u64,
    /// How the staging names of this start begin.
    current_prefix: String,
    stop: CancellationToken,
}

impl Sweep {
    /// One directory and all below it, without following links. The way down is kept in a list, not on the stack.
    fn directory(&mut self, root: OwnedFd) -> Result<(), Errno> {
        let mut way = vec![Level::open(root)?];
        while let Some(level) = way.last_mut() {
            let Some(entry) = level.entries.next() else {
                way.pop();
                continue;
            };
            if self.stop.is_cancelled() {
                return Err(Errno::CANCELED);
            }
            self.left = self.left.checked_sub(1).ok_or(Errno::TOOBIG)?;
            let Ok(entry) = entry else { continue };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let is_directory = child_kind(level.directory.as_fd(), name, entry.file_type()) == FileType::Directory;
            if let Some(name) = name.to_str().ok().filter(|name| self.is_left_over(name)) {
                self.removed += u64::from(remove(&level.directory, name, is_directory));
            } else if is_directory
                // What cannot be opened cannot hold anything of this node.
                && let Ok(below) = open_directory(level.directory.as_fd(), name).and_then(Level::open)
                && way.len() < DEPTH_MAX
            {
                way.push(below);
            }
        }
        Ok(())
    }

    /// `.itookit-upload-` and 32 hex digits that this start did not choose.
    fn is_left_over(&self, name: &str) -> bool {
        let Some(digits) = name.strip_prefix(STAGING_PREFIX) else { return false };
        let is_ours = digits.len() == 32 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_ours && !name.starts_with(&self.current_prefix)
    }
}

/// Whether it is gone. A folder with content is none of this node, nor is one whose name was made for a file; both stay
/// hidden.
fn remove(directory: &OwnedFd, name: &str, is_directory: bool) -> bool {
    let flags = match (is_directory, LeftoverKind::of_name(name)) {
        (false, _) => AtFlags::empty(),
        (true, LeftoverKind::Folder) => AtFlags::REMOVEDIR,
        (true, LeftoverKind::File) => return false,
    };
    unlinkat(directory, name, flags).is_ok()
}

struct Level {
    directory: OwnedFd,
    entries: Dir,
}

impl Level {
    fn open(directory: OwnedFd) -> Result<Self, Errno> {
        Ok(Self { entries: Dir::read_from(&directory)?, directory })
    }
}

fn open_directory<P: rustix::path::Arg>(parent: std::os::fd::BorrowedFd<'_>, name: P) -> Result<OwnedFd, Errno> {
    openat(parent, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Entries of one export that are looked at.
const ENTRIES_MAX: u64 = 1_000_000;
/// Each level holds an open directory.
const DEPTH_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::files::confine::Root;

    #[test]
    fn only_what_this_node_staged_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let staged = |random: &str| format!("{STAGING_PREFIX}0123456789abcdef{random}");
        let current = format!("{STAGING_PREFIX}fedcba9876543210");
        let (file, folder) = (staged("00000000000000af"), staged("00000000000000ad"));
        let (full, foreign) = (staged("00000000000000bd"), staged("00000000000000bf"));
        let own = format!("{current}000000000000000f");
        let (short, upper) = (format!("{STAGING_PREFIX}0123"), staged("00000000000000AF"));
        for below in ["", "sub", "sub/deep"] {
            let base = directory.path().join(below);
            fs::create_dir_all(&base).unwrap();
            for name in [&file, &own, &short, &upper] {
                fs::write(base.join(name), "").unwrap();
            }
            for name in [&folder, &full, &foreign] {
                fs::create_dir(base.join(name)).unwrap();
            }
            fs::write(base.join(&full).join("kept"), "").unwrap();
        }
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join(&file), "").unwrap();
        std::os::unix::fs::symlink(outside.path(), directory.path().join("link")).unwrap();

        let stop = CancellationToken::new();
        let mut sweep = Sweep { left: ENTRIES_MAX, removed: 0, current_prefix: current, stop };
        let root = Root::open(directory.path()).unwrap();
        sweep.directory(open_directory(root.as_fd(), ".").unwrap()).unwrap();
        assert_eq!(sweep.removed, 6, "a file and a folder in each of three directories");
        for below in ["", "sub", "sub/deep"] {
            let entries = fs::read_dir(directory.path().join(below)).unwrap();
            let names: BTreeSet<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            for (name, stays) in [
                (&file, false),
                (&folder, false),
                (&full, true),
                (&foreign, true),
                (&own, true),
                (&short, true),
                (&upper, true),
            ] {
                assert_eq!(names.contains(name), stays, "{below} {name}");
            }
        }
        assert!(outside.path().join(&file).exists(), "links are not followed");

        let mut tired = Sweep { left: 2, removed: 0, current_prefix: String::new(), stop: CancellationToken::new() };
        assert_eq!(tired.directory(open_directory(root.as_fd(), ".").unwrap()), Err(Errno::TOOBIG));
        tired.left = ENTRIES_MAX;
        tired.stop.cancel();
        assert_eq!(tired.directory(open_directory(root.as_fd(), ".").unwrap()), Err(Errno::CANCELED));
    }
}
