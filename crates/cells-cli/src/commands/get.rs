use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cells_native::cells_driver::{FileClient, FileConnection, FileKind, FileStat, ReadOptions};
use clap::Args;
use indicatif::ProgressBar;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::listing::list_all;
use crate::node::{Node, NodeArgs};
use crate::output::{bytes_bar, failed, print, print_json, warn};
use crate::remote_path::RemotePath;
use crate::text::one_line;
use crate::transfer::{Ended, Hash, blocking, for_all};

/// Copy files of the node to this machine.
///
/// A file appears only when it is complete; what came of it before is kept beside it and taken up again by the next `get`, if
/// the file on the node is still the same. A file that is here already is an error, unless it is the same or --force is
/// given. Times are kept: what has the same size and time is taken to be here. With -r, a file that cannot be copied does not
/// keep the others back. Links are left out, and named.
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// A file, or a directory with -r, such as notes/today.md
    #[arg(value_name = "ALIAS/PATH")]
    remote: RemotePath,
    /// Its name here; an existing directory gets the file under its own name
    #[arg(value_name = "LOCAL", default_value = ".")]
    local: PathBuf,
    /// Copy a directory and all below it; the content of ALIAS/PATH becomes the content of LOCAL
    #[arg(short, long)]
    recursive: bool,
    /// Replace files that are here
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

/// One file to copy.
struct Wanted {
    remote: RemotePath,
    local: PathBuf,
    stat: FileStat,
}

/// What is below a directory of the node.
#[derive(Default)]
struct Tree {
    files: Vec<Wanted>,
    /// Links.
    left_out: Vec<String>,
    /// What the node says that it leaves out.
    warnings: BTreeSet<String>,
}

/// What was done with a file.
struct Done {
    is_new: bool,
    bytes: u64,
    /// Not known of a file that was here and was not read.
    sha256: Option<String>,
}

impl Get {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        let files = node.client.files(&FileConnection::new(node.connection.clone(), &self.remote.alias))?;
        let stat = files.stat(&self.remote.path, node.options()).await;
        let stat = stat.map_err(|error| Failure::path(error, &self.remote))?;
        let stat =
            stat.ok_or_else(|| Failure::new(Exit::NotFound, format!("{} does not exist (ENOENT)", self.remote)))?;
        match (stat.kind, self.recursive) {
            (FileKind::Directory, true) => self.directory(&node, &files).await,
            (FileKind::Directory, false) => {
                Err(Failure::usage(format!("{} is a directory; -r copies it", self.remote)))
            }
            (FileKind::Symlink, _) => {
                Err(Failure::new(Exit::Failed, format!("{} is a link, which no node follows", self.remote)))
            }
            (FileKind::File, _) => self.file(&node, &files, stat).await,
        }
    }

    async fn file(&self, node: &Node, files: &FileClient, stat: FileStat) -> Result<Exit, Failure> {
        let wanted = self.wanted(stat)?;
        let progress = bytes_bar(wanted.stat.size.unwrap_or(0));
        let done = self.copy(node, files, &wanted, &progress).await;
        progress.finish_and_clear();
        let Done { is_new, bytes, sha256 } = done?;
        if self.node.json {
            let sha256 = match sha256 {
                Some(sha256) => sha256,
                None => Hash::of_file(&wanted.local).await.map_err(|error| failed(&wanted.local, &error))?,
            };
            let (written, same) = if is_new { (1, 0) } else { (0, 1) };
            let (path, local) = (self.remote.to_string(), wanted.local.display().to_string());
            let bytes = if is_new { bytes } else { 0 };
            print_json(&json!({
                "path": path, "local": local, "written": written, "same": same, "bytes": bytes, "sha256": sha256,
            }))?;
        } else {
            let local = wanted.local.display().to_string();
            let what = if is_new { format!("{bytes} bytes written") } else { "was here already".to_owned() };
            print(&format!("{}: {what}\n", one_line(&local)))?;
        }
        Ok(Exit::Done)
    }

    async fn directory(&self, node: &Node, files: &FileClient) -> Result<Exit, Failure> {
        let Tree { files: wanted, left_out, warnings } = self.walk(node, files).await?;
        let progress = bytes_bar(wanted.iter().filter_map(|wanted| wanted.stat.size).sum());
        let copies = wanted.iter().map(|wanted| self.copy(node, files, wanted, &progress));
        let Ended { done, failed, exit } = for_all(copies, self.node.json, &progress).await;
        let written = done.iter().filter(|done| done.is_new).count();
        let bytes: u64 = done.iter().filter(|done| done.is_new).map(|done| done.bytes).sum();
        let same = done.len() - written;
        if self.node.json {
            let path = self.remote.to_string();
            print_json(&json!({
                "path": path, "written": written, "same": same, "bytes": bytes, "failed": failed,
                "leftOut": left_out, "warnings": warnings,
            }))?;
        } else {
            let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
            print(&format!("{written} files written ({bytes} bytes), {same} were here already{failed}\n"))?;
        }
        Ok(exit)
    }

    /// The one file, under the name it gets.
    fn wanted(&self, stat: FileStat) -> Result<Wanted, Failure> {
        let mut local = self.local.clone();
        if local.is_dir() {
            local.push(self.remote.name().ok_or_else(|| Failure::usage("an export itself is a directory"))?);
        }
        Ok(Wanted { remote: self.remote.clone(), local, stat })
    }

    /// All that is below; makes the directories here.
    async fn walk(&self, node: &Node, files: &FileClient) -> Result<Tree, Failure> {
        let mut tree = Tree::default();
        let mut waiting = vec![(self.remote.clone(), self.local.clone())];
        while let Some((remote, local)) = waiting.pop() {
            fs::create_dir_all(&local).map_err(|error| failed(&local, &error))?;
            let listing = list_all(files, &remote, || node.options()).await?;
            for warning in listing.warnings {
                if !self.node.json {
                    warn(&format!("an entry of {remote} is left out: {warning}"));
                }
                tree.warnings.insert(warning);
            }
            for entry in listing.entries {
                // A name that is none here cannot come: the driver refuses separators and dots.
                let (remote, local) = (remote.child(&entry.name), local.join(&entry.name));
                match entry.stat.kind {
                    FileKind::Directory => waiting.push((remote, local)),
                    FileKind::File => tree.files.push(Wanted { remote, local, stat: entry.stat }),
                    FileKind::Symlink => {
                        if !self.node.json {
                            warn(&format!("{remote} is a link, and is left out"));
                        }
                        tree.left_out.push(remote.to_string());
                    }
                }
            }
        }
        Ok(tree)
    }

    async fn copy(
        &self,
        node: &Node,
        files: &FileClient,
        wanted: &Wanted,
        progress: &ProgressBar,
    ) -> Result<Done, Failure> {
        let Wanted { remote, local, stat } = wanted;
        if is_here(local, stat) {
            progress.inc(stat.size.unwrap_or(0));
            return Ok(Done { is_new: false, bytes: stat.size.unwrap_or(0), sha256: None });
        }
        self.check_free(local, stat)?;
        let part = part_name(local, stat);
        let path = part.clone();
        let opened = blocking(move || open_part(&path)).await;
        let (mut file, mut hash, mut size) = opened.map_err(|error| failed(&part, &error))?;
        if stat.size.is_some_and(|total| size > total) {
            file.set_len(0).map_err(|error| failed(&part, &error))?;
            (hash, size) = (Hash::default(), 0);
        }
        progress.inc(size);
        let about = |error| Failure::path(error, remote);
        if stat.size != Some(size) {
            let options = ReadOptions {
                offset: size,
                if_revision: stat.revision.clone(),
                operation: node.options(),
                ..ReadOptions::default()
            };
            let mut content = files.read_stream(&remote.path, options).await.map_err(about)?;
            while let Some(piece) = content.next().await.map_err(about)? {
                file.write_all(&piece).map_err(|error| failed(&part, &error))?;
                hash.add(&piece);
                size += piece.len() as u64;
                progress.inc(piece.len() as u64);
            }
        }
        // Without a revision the times tell whether it was one and the same file all the time.
        if stat.revision.is_none() {
            let after = files.stat(&remote.path, node.options()).await.map_err(about)?;
            if after.as_ref() != Some(stat) {
                let _ = fs::remove_file(&part);
                return Err(Failure::new(Exit::Failed, format!("{remote} changed while it was copied; try again")));
            }
        }
        if let Some(modified) = modified(stat) {
            // It tells the next `get` that the file is here.
            file.set_modified(modified).map_err(|error| failed(&part, &error))?;
        }
        file.sync_all().map_err(|error| failed(&part, &error))?;
        let sha256 = hash.finish();
        let is_new = self.place(&part, local, &sha256).await?;
        Ok(Done { is_new, bytes: size, sha256: Some(sha256) })
    }

    /// Refuses at once what cannot have its name in the end. A file of the same size may turn out to be the same.
    fn check_free(&self, local: &Path, stat: &FileStat) -> Result<(), Failure> {
        match local.symlink_metadata() {
            Ok(here) if here.is_dir() => Err(Failure::new(Exit::Failed, format!("{} is a directory", local.display()))),
            Ok(here) if !self.force && (!here.is_file() || Some(here.len()) != stat.size) => Err(is_taken(local)),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Gives the complete file its name. False: the same file has it already.
    async fn place(&self, part: &Path, local: &Path, sha256: &str) -> Result<bool, Failure> {
        let is_file = local.symlink_metadata().is_ok_and(|here| here.is_file());
        if is_file && Hash::of_file(local).await.is_ok_and(|here| here == sha256) {
            fs::remove_file(part).map_err(|error| failed(part, &error))?;
            return Ok(false);
        }
        let placed = if self.force { fs::rename(part, local) } else { rename_new(part, local, rename_kernel) };
        placed.map(|()| true).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                let _ = fs::remove_file(part);
                is_taken(local)
            }
            _ => failed(local, &error),
        })
    }
}

fn is_taken(local: &Path) -> Failure {
    let line = format!("{} exists with other content; --force replaces it", local.display());
    Failure::new(Exit::Failed, line)
}

/// Whether an earlier `get` has brought the file: size and time are equal.
fn is_here(local: &Path, stat: &FileStat) -> bool {
    let here = local.symlink_metadata().ok().filter(fs::Metadata::is_file);
    here.is_some_and(|here| {
        Some(here.len()) == stat.size
            && modified(stat).is_some_and(|time| here.modified().is_ok_and(|here| here == time))
    })
}

fn modified(stat: &FileStat) -> Option<SystemTime> {
    stat.modified_at.filter(|time_ms| *time_ms > 0).map(|time_ms| UNIX_EPOCH + Duration::from_millis(time_ms))
}

/// Where the beginning of a file is kept: beside it, under a name that changes with the file on the node.
fn part_name(local: &Path, stat: &FileStat) -> PathBuf {
    let name = local.file_name().unwrap_or_default();
    let mut hash = Hash::default();
    hash.add(name.as_bytes());
    hash.add(format!(" {:?} {:?} {:?}", stat.revision, stat.size, stat.modified_at).as_bytes());
    let (version, name) = (hash.finish(), name.to_string_lossy());
    let start = &name[..name.floor_char_boundary(PART_NAME_MAX_BYTES)];
    local.with_file_name(format!(".{start}.{}.cells-part", version.get(..16).unwrap_or_default()))
}

/// What came of a file before: opened to go on at its end, its hash and its size. Blocks.
fn open_part(part: &Path) -> io::Result<(File, Hash, u64)> {
    let mut options = OpenOptions::new();
    // A link in its place would lead elsewhere.
    options.read(true).append(true).create(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let mut file = options.open(part)?;
    // Where no file can be locked, nothing guards it.
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        return Err(io::Error::other("another `cells get` is writing it"));
    }
    let (hash, size) = Hash::of_rest(&mut file)?;
    Ok((file, hash, size))
}

/// Gives a file a name that is free. Fails when something has the name, whatever it is.
fn rename_new(from: &Path, to: &Path, rename: impl Fn(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
    match rename(from, to) {
        // Not every file system can do it in one step.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            File::create_new(to)?;
            fs::rename(from, to).inspect_err(|_| drop(fs::remove_file(to)))
        }
        renamed => renamed,
    }
}

fn rename_kernel(from: &Path, to: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// So much of a name is part of the name beside it, which must not become longer than the 255 bytes of a name.
const PART_NAME_MAX_BYTES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_only_a_free_name_on_every_file_system() {
        let (unable, unknown) = (io::ErrorKind::InvalidInput, io::ErrorKind::Unsupported);
        for without in [None, Some(unable), Some(unknown)] {
            let folder = tempfile::tempdir().unwrap();
            let [part, free, taken] = ["part", "free", "taken"].map(|name| folder.path().join(name));
            fs::write(&part, "new").unwrap();
            fs::write(&taken, "old").unwrap();
            let rename = |from: &Path, to: &Path| match without {
                Some(kind) => Err(kind.into()),
                None => rename_kernel(from, to),
            };
            let kind = rename_new(&part, &taken, rename).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::AlreadyExists, "{without:?}");
            rename_new(&part, &free, rename).unwrap();
            assert_eq!([&free, &taken].map(|path| fs::read_to_string(path).unwrap()), ["new", "old"]);
            assert!(!part.exists());
        }
    }

    #[test]
    fn what_is_kept_of_a_file_has_a_name_that_can_be() {
        let stat = |revision: &str| FileStat {
            kind: FileKind::File,
            size: Some(1),
            modified_at: None,
            created_at: None,
            revision: Some(revision.to_owned()),
        };
        let part = |name: &str, revision| part_name(Path::new(name), &stat(revision)).display().to_string();
        assert!(part("dir/a", "1").starts_with("dir/.a.") && part("dir/a", "1").ends_with(".cells-part"));
        let long = "\u{20ac}".repeat(85);
        let names = [part("a", "1"), part("a", "2"), part(&long, "1"), part(&format!("{long}x"), "1")];
        let different: BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), 4, "{names:?}");
        assert!(names.iter().all(|name| name.len() <= 255), "{names:?}");
    }
}
