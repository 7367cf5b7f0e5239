use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cells_native::cells_driver::{FileClient, FileConnection, FileKind, FileStat, ReadOptions};
use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::ProgressBar;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::node::{Node, NodeArgs};
use crate::output::{bytes_bar, failed, print_json};
use crate::remote_path::RemotePath;
use crate::text::one_line;
use crate::transfer::{Hash, TRANSFERS_AT_A_TIME};

/// Copy files of the node to this machine.
///
/// A file appears only when it is complete; what came of it before is kept beside it and taken up again by the next `get`, if
/// the file on the node is still the same. A file that is here already is an error, unless it is the same or --force is given. Times are kept: what has the same size and
/// time is taken to be here.
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

/// What was done with it.
struct Done {
    is_new: bool,
    bytes: u64,
    sha256: String,
}

impl Get {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        let files = node.client.files(&FileConnection::new(node.connection.clone(), &self.remote.alias))?;
        let stat = files.stat(&self.remote.path, node.options()).await;
        let stat = stat.map_err(|error| Failure::path(error, &self.remote))?;
        let stat =
            stat.ok_or_else(|| Failure::new(Exit::NotFound, format!("{} does not exist (ENOENT)", self.remote)))?;
        let wanted = match (stat.kind, self.recursive) {
            (FileKind::Directory, true) => self.walk(&node, &files).await?,
            (FileKind::Directory, false) => {
                return Err(Failure::usage(format!("{} is a directory; -r copies it", self.remote)));
            }
            (FileKind::Symlink, _) => {
                return Err(Failure::new(Exit::Failed, format!("{} is a link, which no node follows", self.remote)));
            }
            (FileKind::File, _) => vec![self.single(stat)?],
        };
        let progress = bytes_bar(wanted.iter().filter_map(|wanted| wanted.stat.size).sum());
        let copies = wanted.iter().map(|wanted| self.copy(&node, &files, wanted, &progress));
        let done: Vec<Done> = stream::iter(copies).buffer_unordered(TRANSFERS_AT_A_TIME).try_collect().await?;
        progress.finish_and_clear();
        let written = done.iter().filter(|done| done.is_new).count();
        let bytes: u64 = done.iter().filter(|done| done.is_new).map(|done| done.bytes).sum();
        let same = done.len() - written;
        if self.node.json {
            let mut object =
                json!({ "path": self.remote.to_string(), "written": written, "same": same, "bytes": bytes });
            if let ([done], false) = (done.as_slice(), self.recursive) {
                object["sha256"] = json!(done.sha256);
            }
            print_json(&object)?;
        } else if self.recursive {
            eprintln!("{written} files written ({bytes} bytes), {same} were here already");
        }
        Ok(Exit::Done)
    }

    fn single(&self, stat: FileStat) -> Result<Wanted, Failure> {
        let mut local = self.local.clone();
        if local.is_dir() {
            let name = self.remote.path.rsplit('/').next().filter(|name| !name.is_empty());
            local.push(name.ok_or_else(|| Failure::usage("an export itself is a directory"))?);
        }
        Ok(Wanted { remote: self.remote.clone(), local, stat })
    }

    /// All files below; makes the directories here.
    async fn walk(&self, node: &Node, files: &FileClient) -> Result<Vec<Wanted>, Failure> {
        let mut wanted = Vec::new();
        let mut waiting = vec![(self.remote.clone(), self.local.clone())];
        while let Some((remote, local)) = waiting.pop() {
            fs::create_dir_all(&local).map_err(|error| failed(&local, &error))?;
            let mut cursor: Option<String> = None;
            loop {
                let page = files.list(&remote.path, cursor.as_deref(), node.options()).await;
                let page = page.map_err(|error| Failure::path(error, &remote))?;
                if cursor.is_none() && !page.warnings.is_empty() {
                    eprintln!("cells: warning: the node leaves {} entries of {remote} out", page.warnings.len());
                }
                for entry in page.entries {
                    // A name that is none here cannot come: the driver refuses separators and dots.
                    let (remote, local) = (remote.child(&entry.name), local.join(&entry.name));
                    match entry.stat.kind {
                        FileKind::Directory => waiting.push((remote, local)),
                        FileKind::File => wanted.push(Wanted { remote, local, stat: entry.stat }),
                        FileKind::Symlink => {
                            eprintln!("cells: warning: {} is a link, and is left out", one_line(&remote.to_string()));
                        }
                    }
                }
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
        }
        Ok(wanted)
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
            let sha256 = Hash::of_file(local).map_err(|error| failed(local, &error))?;
            return Ok(Done { is_new: false, bytes: stat.size.unwrap_or(0), sha256 });
        }
        let part = part_name(local, stat);
        let mut hash = Hash::default();
        let mut size = match part.exists() {
            true => hash.add_file(&part).map_err(|error| failed(&part, &error))?,
            false => 0,
        };
        if stat.size.is_some_and(|total| size > total) {
            (hash, size) = (Hash::default(), 0);
        }
        progress.inc(size);
        let about = |error| Failure::path(error, remote);
        let mut file = OpenOptions::new();
        let file = file.create(true).append(size > 0).write(true).truncate(size == 0).open(&part);
        let mut file = file.map_err(|error| failed(&part, &error))?;
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
        let is_new = self.place(&part, local, &sha256)?;
        Ok(Done { is_new, bytes: size, sha256 })
    }

    /// Gives the complete file its name. False: the same file has it already.
    fn place(&self, part: &Path, local: &Path, sha256: &str) -> Result<bool, Failure> {
        if local.is_file() && Hash::of_file(local).is_ok_and(|here| here == sha256) {
            fs::remove_file(part).map_err(|error| failed(part, &error))?;
            return Ok(false);
        }
        let placed = match self.force {
            true => fs::rename(part, local),
            // Fails when something has the name, whatever it is.
            false => fs::hard_link(part, local).and_then(|()| fs::remove_file(part)),
        };
        placed.map(|()| true).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                let _ = fs::remove_file(part);
                let line = format!("{} exists with other content; --force replaces it", local.display());
                Failure::new(Exit::Failed, line)
            }
            _ => failed(local, &error),
        })
    }
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
    let mut hash = Hash::default();
    hash.add(format!("{:?} {:?} {:?}", stat.revision, stat.size, stat.modified_at).as_bytes());
    let version = hash.finish();
    let name = local.file_name().unwrap_or_default().to_string_lossy();
    local.with_file_name(format!(".{name}.{}.cells-part", version.get(..16).unwrap_or_default()))
}
