//! A change of one file of a workspace. It never leaves the workspace and follows no link.

use std::io::{Read, Write};
use std::path::Path;

use cells_protocol::paths::{STAGING_PREFIX, check_path};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde_json::{Value, json};
use similar::TextDiff;

/// A file that is to be made or replaced.
#[derive(Debug)]
pub(super) struct Change {
    directory: std::path::PathBuf,
    path: String,
    text: String,
    /// What the file holds now; `None` when there is none.
    old: Option<Old>,
}

/// What a file holds.
#[derive(Debug)]
enum Old {
    Text(String),
    /// Not UTF-8, or more than [`DIFF_MAX_BYTES`].
    Other,
}

/// Why a file is not written. The message names no path of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("its path leaves the workspace or holds a reserved name")]
    Path,
    #[error("a part of its path is a link, or a file where a folder must be")]
    NotAFolder,
    #[error("it is not an ordinary file")]
    NotAFile,
    #[error("the disk refused it")]
    Failed,
}

impl Change {
    /// Looks at what `path` is now. Changes nothing.
    pub(super) fn plan(directory: &Path, path: &str, text: String) -> Result<Self, Refusal> {
        if path.is_empty() || check_path(path).is_err() {
            return Err(Refusal::Path);
        }
        let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
        let old = match open_folder(directory, parents, false) {
            Ok(folder) => read_old(&folder, name)?,
            Err(Errno::NOENT) => None,
            Err(error) => return Err(refusal(error)),
        };
        Ok(Self { directory: directory.to_owned(), path: path.to_owned(), text, old })
    }

    /// The change as the item shows it: `{path, kind, diff}`.
    pub(super) fn describe(&self) -> Value {
        let (kind, old) = match &self.old {
            None => ("add", ""),
            Some(Old::Text(text)) => ("update", text.as_str()),
            Some(Old::Other) => return json!({"path": self.path, "kind": {"type": "update"}, "diff": ""}),
        };
        let diff = TextDiff::configure().timeout(DIFF_LIMIT).diff_lines(old, &self.text);
        json!({"path": self.path, "kind": {"type": kind}, "diff": diff.unified_diff().to_string()})
    }

    /// Writes the file: whole or not at all, and with the mode of the file it replaces.
    pub(super) fn apply(self) -> Result<(), Refusal> {
        let (parents, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let folder = open_folder(&self.directory, parents, true).map_err(refusal)?;
        let old_mode = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_file() => Some(Mode::from_raw_mode(stat.st_mode)),
            Ok(_) => return Err(Refusal::NotAFile),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(refusal(error)),
        };
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|_| Refusal::Failed)?;
        let staged = format!("{STAGING_PREFIX}{:016x}", u64::from_be_bytes(random));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, &staged, flags, Mode::from_raw_mode(0o666)).map_err(refusal)?;
        let with_mode = old_mode.map_or(Ok(()), |mode| rustix::fs::fchmod(&file, mode)).map_err(refusal);
        let written = std::fs::File::from(file).write_all(self.text.as_bytes()).map_err(|_| Refusal::Failed);
        let result = with_mode
            .and(written)
            .and_then(|()| rustix::fs::renameat(&folder, &staged, &folder, name).map_err(refusal));
        if result.is_err() {
            // The refusal is what matters; a staged file that stays is hidden from listings.
            let _ = rustix::fs::unlinkat(&folder, &staged, AtFlags::empty());
        }
        result
    }
}

/// Opens a folder below `directory` step by step, so that no step can be a link.
fn open_folder(directory: &Path, parents: &str, create: bool) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = rustix::fs::open(directory, flags, Mode::empty())?;
    for name in parents.split('/').filter(|name| !name.is_empty()) {
        if create {
            match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        folder = rustix::fs::openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(folder)
}

fn read_old(folder: &OwnedFd, name: &str) -> Result<Option<Old>, Refusal> {
    // Without blocking, because opening a named pipe would wait for its other end.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Ok(file) => std::fs::File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(Refusal::NotAFile),
        Err(error) => return Err(refusal(error)),
    };
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(Refusal::NotAFile);
    }
    let mut bytes = Vec::new();
    file.take(DIFF_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|_| Refusal::Failed)?;
    let is_small = bytes.len() as u64 <= DIFF_MAX_BYTES;
    Ok(Some(String::from_utf8(bytes).ok().filter(|_| is_small).map_or(Old::Other, Old::Text)))
}

fn refusal(error: Errno) -> Refusal {
    match error {
        Errno::LOOP | Errno::NOTDIR => Refusal::NotAFolder,
        Errno::ISDIR => Refusal::NotAFile,
        _ => Refusal::Failed,
    }
}

/// Largest old file that is compared.
const DIFF_MAX_BYTES: u64 = 256 * 1024;
/// Where the comparison takes longer, its result is right but larger than it could be.
const DIFF_LIMIT: std::time::Duration = std::time::Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_made_with_its_folders_and_replaced() {
        let workspace = tempfile::tempdir().unwrap();
        let root = workspace.path();
        let change = Change::plan(root, "a/b/new.txt", "one\n".to_owned()).unwrap();
        assert!(!root.join("a").exists());
        let shown = change.describe();
        assert_eq!((&shown["path"], &shown["kind"]), (&json!("a/b/new.txt"), &json!({"type": "add"})));
        assert_eq!(shown["diff"], "@@ -0,0 +1 @@\n+one\n");
        change.apply().unwrap();
        assert_eq!(fs::read_to_string(root.join("a/b/new.txt")).unwrap(), "one\n");

        let change = Change::plan(root, "a/b/new.txt", "one\ntwo\n".to_owned()).unwrap();
        assert_eq!(change.describe()["kind"], json!({"type": "update"}));
        assert_eq!(change.describe()["diff"], "@@ -1 +1,2 @@\n one\n+two\n");
        change.apply().unwrap();
        assert_eq!(fs::read_to_string(root.join("a/b/new.txt")).unwrap(), "one\ntwo\n");
        assert_eq!(fs::read_dir(root.join("a/b")).unwrap().count(), 1);
    }

    #[test]
    fn the_mode_of_a_replaced_file_stays() {
        use std::os::unix::fs::PermissionsExt;
        let workspace = tempfile::tempdir().unwrap();
        let file = workspace.path().join("script.sh");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).unwrap();
        Change::plan(workspace.path(), "script.sh", "new".to_owned()).unwrap().apply().unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn nothing_outside_the_workspace_is_touched() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("file"), "safe").unwrap();
        let workspace = tempfile::tempdir().unwrap();
        let root = workspace.path();
        symlink(outside.path(), root.join("link")).unwrap();
        symlink(outside.path().join("file"), root.join("file-link")).unwrap();
        symlink("missing", root.join("dangling")).unwrap();
        fs::write(root.join("plain"), "x").unwrap();
        fs::create_dir(root.join("folder")).unwrap();
        for (path, expected) in [
            ("../file", Refusal::Path),
            ("/etc/hosts", Refusal::Path),
            ("", Refusal::Path),
            ("folder/../../file", Refusal::Path),
            (".itookit-upload-x", Refusal::Path),
            ("link/file", Refusal::NotAFolder),
            ("plain/file", Refusal::NotAFolder),
            ("file-link", Refusal::NotAFile),
            ("dangling", Refusal::NotAFile),
            ("folder", Refusal::NotAFile),
        ] {
            assert_eq!(Change::plan(root, path, "bad".to_owned()).unwrap_err(), expected, "{path}");
        }
        assert_eq!(fs::read_to_string(outside.path().join("file")).unwrap(), "safe");
    }

    #[test]
    fn what_changes_between_plan_and_writing_is_looked_at_again() {
        let outside = tempfile::tempdir().unwrap();
        let workspace = tempfile::tempdir().unwrap();
        let root = workspace.path();
        let change = Change::plan(root, "a/file", "bad".to_owned()).unwrap();
        symlink(outside.path(), root.join("a")).unwrap();
        assert_eq!(change.apply().unwrap_err(), Refusal::NotAFolder);
        let change = Change::plan(root, "file", "bad".to_owned()).unwrap();
        symlink(outside.path().join("file"), root.join("file")).unwrap();
        assert_eq!(change.apply().unwrap_err(), Refusal::NotAFile);
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn old_content_that_is_not_text_is_not_shown() {
        let workspace = tempfile::tempdir().unwrap();
        fs::write(workspace.path().join("binary"), [0xFF, 0xFE]).unwrap();
        let change = Change::plan(workspace.path(), "binary", "text\n".to_owned()).unwrap();
        assert_eq!(change.describe()["diff"], "");
        change.apply().unwrap();
        assert_eq!(fs::read(workspace.path().join("binary")).unwrap(), b"text\n");
    }
}
