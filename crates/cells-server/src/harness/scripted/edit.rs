//! A change of one file of a workspace. It never leaves the workspace and follows no link.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use cells_protocol::paths::STAGING_PREFIX;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use serde_json::{Value, json};
use similar::TextDiff;

use crate::files::confine::{ExportPath, Root, kind, stat_child};

/// A file that is to be made or replaced.
#[derive(Debug)]
pub(super) struct Change {
    directory: PathBuf,
    path: ExportPath,
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
    #[error("a part of its path is a link")]
    Link,
    #[error("a part of its path is not a folder")]
    NotAFolder,
    #[error("it is not an ordinary file")]
    NotAFile,
    #[error("the disk refused it")]
    Failed,
}

impl Change {
    /// Looks at what `path` is now. Changes nothing.
    pub(super) fn plan(directory: &Path, path: &str, text: String) -> Result<Self, Refusal> {
        let path = ExportPath::parse(path).filter(|path| !path.as_str().is_empty()).ok_or(Refusal::Path)?;
        let old = match Root::open(directory)?.open_file(&path) {
            Ok((file, _)) => Some(Old::read(File::from(file))?),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { directory: directory.to_owned(), path, text, old })
    }

    /// The change as the item shows it: `{path, kind, diff}`.
    pub(super) fn describe(&self) -> Value {
        let (kind, old) = match &self.old {
            None => ("add", ""),
            Some(Old::Text(text)) => ("update", text.as_str()),
            Some(Old::Other) => return json!({"path": self.path.as_str(), "kind": {"type": "update"}, "diff": ""}),
        };
        let diff = TextDiff::configure().timeout(DIFF_LIMIT).diff_lines(old, &self.text);
        json!({"path": self.path.as_str(), "kind": {"type": kind}, "diff": diff.unified_diff().to_string()})
    }

    /// Writes the file: whole or not at all, and with the mode of the file it replaces.
    pub(super) fn apply(self) -> Result<(), Refusal> {
        let (parents, name) = self.path.as_str().rsplit_once('/').unwrap_or(("", self.path.as_str()));
        let folder = make_folder(&self.directory, parents)?;
        let old_mode = match stat_child(folder.as_fd(), name) {
            Ok(stat) => match kind(&stat) {
                FileType::RegularFile => Some(Mode::from_raw_mode(stat.stx_mode.into())),
                FileType::Symlink => return Err(Refusal::Link),
                _ => return Err(Refusal::NotAFile),
            },
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|_| Refusal::Failed)?;
        let staged = format!("{STAGING_PREFIX}{:016x}", u64::from_be_bytes(random));
        let result = write_new(&folder, &staged, old_mode, self.text.as_bytes())
            .and_then(|()| Ok(renameat(&folder, &staged, &folder, name)?));
        if result.is_err() {
            // The refusal is what matters; a staged file that stays is hidden from listings.
            let _ = unlinkat(&folder, &staged, AtFlags::empty());
        }
        result
    }
}

impl Old {
    fn read(file: File) -> Result<Self, Refusal> {
        let mut bytes = Vec::new();
        file.take(DIFF_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|_| Refusal::Failed)?;
        let is_small = bytes.len() as u64 <= DIFF_MAX_BYTES;
        Ok(String::from_utf8(bytes).ok().filter(|_| is_small).map_or(Self::Other, Self::Text))
    }
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Self {
        match error {
            Errno::LOOP => Self::Link,
            Errno::NOTDIR => Self::NotAFolder,
            Errno::NOTSUP | Errno::ISDIR => Self::NotAFile,
            _ => Self::Failed,
        }
    }
}

/// Opens a folder below `directory` and makes what is missing of it.
fn make_folder(directory: &Path, path: &str) -> Result<OwnedFd, Refusal> {
    let root = Root::open(directory)?;
    let open = |path: &str| Ok::<_, Refusal>(root.open_directory(&ExportPath::parse(path).ok_or(Refusal::Path)?)?);
    let mut folder = open("")?;
    let ends = path.match_indices('/').map(|(end, _)| end).chain(Some(path.len()).filter(|end| *end > 0));
    for path in ends.map(|end| &path[..end]) {
        let name = path.rsplit('/').next().unwrap_or(path);
        match mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        folder = open(path)?;
    }
    Ok(folder)
}

fn write_new(folder: &OwnedFd, name: &str, mode: Option<Mode>, bytes: &[u8]) -> Result<(), Refusal> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::from_raw_mode(0o666))?;
    if let Some(mode) = mode {
        fchmod(&file, mode)?;
    }
    File::from(file).write_all(bytes).map_err(|_| Refusal::Failed)
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
            ("link/file", Refusal::Link),
            ("plain/file", Refusal::NotAFolder),
            ("file-link", Refusal::Link),
            ("dangling", Refusal::Link),
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
        assert_eq!(change.apply().unwrap_err(), Refusal::Link);
        let change = Change::plan(root, "file", "bad".to_owned()).unwrap();
        symlink(outside.path().join("file"), root.join("file")).unwrap();
        assert_eq!(change.apply().unwrap_err(), Refusal::Link);
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
