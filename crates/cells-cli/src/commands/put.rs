use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use cells_native::cells_driver::{FileKind, FileStat, ReadOptions, ReplaceCondition};
use cells_native::upload_file;
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::failure::{Exit, Failure};
use crate::node::NodeArgs;
use crate::output::{bytes_bar, failed, print, print_json, warn};
use crate::remote_path::RemotePath;
use crate::text::one_line;
use crate::transfer::{Ended, Hash, for_all};
use crate::under_way::UnderWay;
use crate::writes::{Writable, Writer, Written};

/// Copy files of this machine to the node.
///
/// A file appears there only when it is complete. What the node has already, byte for byte, is left as it is, so that a copy
/// that broke can be repeated. A file that is there with other content is an error, unless --replace is given. With -r, a file
/// that cannot be copied does not keep the others back. Links and devices are left out, and named; only LOCAL itself may be a
/// link.
#[derive(Debug, Args)]
pub(crate) struct Put {
    /// A file, or a directory with -r; `-` is standard input
    #[arg(value_name = "LOCAL")]
    local: PathBuf,
    /// Its name on the node, such as notes/today.md; an existing directory gets the file under its own name
    #[arg(value_name = "ALIAS/PATH")]
    remote: RemotePath,
    /// Copy a directory and all below it; the content of LOCAL becomes the content of ALIAS/PATH
    #[arg(short, long)]
    recursive: bool,
    /// Replace files that have other content
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

/// One file to copy.
struct Source {
    local: PathBuf,
    remote: RemotePath,
    /// Not known of a pipe or a device.
    size: Option<u64>,
}

/// What is below a local directory.
#[derive(Default)]
struct Tree {
    /// Those above come before those below.
    directories: Vec<RemotePath>,
    files: Vec<Source>,
    /// What cannot be copied, and why.
    left_out: Vec<(PathBuf, &'static str)>,
}

/// What was done with a file.
enum Done {
    Written(Written, u64),
    Same,
}

impl Put {
    pub(super) async fn run(mut self, under_way: UnderWay) -> Result<Exit, Failure> {
        if self.local.as_os_str() == "-" {
            self.local = PathBuf::from(STANDARD_INPUT);
        }
        let writer = Writer::new(&self.node, under_way)?;
        let export = writer.export(&self.remote.alias).await?;
        let is_directory = fs::metadata(&self.local).map_err(|error| failed(&self.local, &error))?.is_dir();
        match (is_directory, self.recursive) {
            (true, false) => Err(Failure::usage(format!("{} is a directory; -r copies it", self.local.display()))),
            (true, true) => self.directory(&writer, &export).await,
            (false, _) => self.file(&export).await,
        }
    }

    async fn file(&self, export: &Writable<'_>) -> Result<Exit, Failure> {
        let source = self.source(export).await?;
        let progress = bytes_bar(source.size.unwrap_or(0));
        let done = self.copy(export, &source, &progress).await;
        progress.finish_and_clear();
        let (done, path) = (done?, source.remote.to_string());
        match (self.node.json, done) {
            (false, Done::Written(_, bytes)) => print(&format!("{}: {bytes} bytes written\n", one_line(&path)))?,
            (false, Done::Same) => print(&format!("{}: was there already\n", one_line(&path)))?,
            (true, Done::Written(written, bytes)) => print_json(&json!({
                "path": path, "written": 1, "same": 0, "bytes": bytes,
                "operationId": written.operation_id.as_str(),
                "revision": written.stat.and_then(|stat| stat.revision),
            }))?,
            (true, Done::Same) => print_json(&json!({ "path": path, "written": 0, "same": 1, "bytes": 0 }))?,
        }
        Ok(Exit::Done)
    }

    async fn directory(&self, writer: &Writer, export: &Writable<'_>) -> Result<Exit, Failure> {
        let Tree { directories, files, left_out } = self.walk(writer)?;
        if !self.node.json {
            for (path, why) in &left_out {
                warn(&format!("{} {why}, and is left out", path.display()));
            }
        }
        let left_out: Vec<String> = left_out.iter().map(|(path, _)| path.display().to_string()).collect();
        export.make_missing(&directories).await?;
        let progress = bytes_bar(files.iter().filter_map(|source| source.size).sum());
        let load = Semaphore::new(LOAD_MAX as usize);
        let copies = files.iter().map(async |source| {
            let weight = u32::try_from(source.size.unwrap_or(0) / LOAD_BYTES + 1).unwrap_or(LOAD_MAX).min(LOAD_MAX);
            // Fails only when it is closed.
            let _turn = load.acquire_many(weight).await;
            writer.check()?;
            self.copy(export, source, &progress).await
        });
        let Ended { done, failed, exit } = for_all(copies, self.node.json, &progress).await;
        let sizes = done.iter().filter_map(|done| if let Done::Written(_, bytes) = done { Some(bytes) } else { None });
        let (written, bytes) = (sizes.clone().count(), sizes.sum::<u64>());
        let same = done.len() - written;
        if self.node.json {
            let path = self.remote.to_string();
            print_json(&json!({
                "path": path, "written": written, "same": same, "bytes": bytes, "failed": failed, "leftOut": left_out,
            }))?;
        } else {
            let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
            print(&format!("{written} files written ({bytes} bytes), {same} were there already{failed}\n"))?;
        }
        let exit = if writer.is_stopped() { exit.and(Exit::Interrupted) } else { exit };
        Ok(exit)
    }

    /// The one file, under the name it gets.
    async fn source(&self, export: &Writable<'_>) -> Result<Source, Failure> {
        let mut remote = self.remote.clone();
        if export.stat(&remote).await?.is_some_and(|stat| stat.kind == FileKind::Directory) {
            let name = self.local.file_name().and_then(|name| name.to_str());
            let name = name.filter(|_| self.local.as_os_str() != STANDARD_INPUT);
            let name = name.ok_or_else(|| {
                Failure::usage(format!("{remote} is a directory, and {} has no name to keep", self.local.display()))
            })?;
            remote = remote.child(name);
        }
        let metadata = fs::metadata(&self.local).map_err(|error| failed(&self.local, &error))?;
        let size = metadata.is_file().then_some(metadata.len());
        Ok(Source { local: self.local.clone(), remote, size })
    }

    /// Everything below the local directory. Links are not followed.
    fn walk(&self, writer: &Writer) -> Result<Tree, Failure> {
        let mut tree = Tree::default();
        let mut waiting = vec![(self.local.clone(), self.remote.clone())];
        while let Some((local, remote)) = waiting.pop() {
            writer.check()?;
            for entry in fs::read_dir(&local).map_err(|error| failed(&local, &error))? {
                let entry = entry.map_err(|error| failed(&local, &error))?;
                let (path, name) = (entry.path(), entry.file_name());
                let kind = entry.file_type().map_err(|error| failed(&path, &error))?;
                match name.to_str() {
                    Some(name) if kind.is_dir() => waiting.push((path, remote.child(name))),
                    Some(name) if kind.is_file() => {
                        let size = Some(entry.metadata().map_err(|error| failed(&path, &error))?.len());
                        tree.files.push(Source { local: path, remote: remote.child(name), size });
                    }
                    _ if kind.is_symlink() => tree.left_out.push((path, "is a link")),
                    None => tree.left_out.push((path, "has a name that is not UTF-8")),
                    Some(_) => tree.left_out.push((path, "is a pipe or a device")),
                }
            }
            if !remote.path.is_empty() {
                tree.directories.push(remote);
            }
        }
        tree.files.sort_by(|one, other| one.remote.path.cmp(&other.remote.path));
        tree.directories.sort_by(|one, other| one.path.cmp(&other.path));
        tree.left_out.sort();
        Ok(tree)
    }

    async fn copy(&self, export: &Writable<'_>, source: &Source, progress: &ProgressBar) -> Result<Done, Failure> {
        let there = export.stat(&source.remote).await?;
        let condition = match &there {
            None => ReplaceCondition::CreateOnly,
            Some(stat) if stat.kind != FileKind::File => {
                let line = format!("{} exists, and is no file ({})", source.remote, stat.kind.as_str());
                return Err(Failure::new(Exit::Failed, line));
            }
            Some(stat) if is_same(export, source, stat).await? => {
                progress.inc(source.size.unwrap_or(0));
                return Ok(Done::Same);
            }
            Some(FileStat { revision: Some(revision), .. }) if self.replace => {
                ReplaceCondition::Match(revision.clone())
            }
            Some(_) => {
                let line = format!("{} exists with other content; --replace replaces it", source.remote);
                return Err(Failure::new(Exit::Failed, line));
            }
        };
        let before = version(source);
        let upload = upload_file(&source.local).await.map_err(|error| failed(&source.local, &error))?;
        let (bar, mut taken) = (progress.clone(), 0);
        let progress = Box::new(move |done, _| {
            bar.inc(done - taken);
            taken = done;
        });
        let written = export.replace(&source.remote, upload, condition, progress).await;
        let written = written.map_err(|failure| {
            if version(source) == before || !failure.is_of_one_file() {
                return failure;
            }
            let line = format!("{} changed while it was copied, and was not written", source.local.display());
            Failure::new(Exit::Failed, line)
        })?;
        let bytes = written.stat.as_ref().and_then(|stat| stat.size).or(source.size).unwrap_or(0);
        Ok(Done::Written(written, bytes))
    }
}

/// What changes with the content of the file. A pipe has nothing of the kind.
fn version(source: &Source) -> Option<(u64, SystemTime)> {
    let metadata = fs::metadata(&source.local).ok().filter(fs::Metadata::is_file)?;
    Some((metadata.len(), metadata.modified().ok()?))
}

/// Whether the node has the same bytes.
async fn is_same(export: &Writable<'_>, source: &Source, stat: &FileStat) -> Result<bool, Failure> {
    if source.size.is_none() || stat.size != source.size {
        return Ok(false);
    }
    let local = Hash::of_file(&source.local).await.map_err(|error| failed(&source.local, &error))?;
    let about = |error| Failure::path(error, &source.remote);
    let options = ReadOptions { operation: export.options(), ..ReadOptions::default() };
    let mut content = export.storage.files().read_stream(&source.remote.path, options).await.map_err(about)?;
    let mut remote = Hash::default();
    while let Some(piece) = content.next().await.map_err(about)? {
        remote.add(&piece);
    }
    Ok(remote.finish() == local)
}

const STANDARD_INPUT: &str = "/dev/stdin";
/// A node gives one upload at most 30 s, so that large files do not share the line: so much of a file is one part of the load …
const LOAD_BYTES: u64 = 1024 * 1024;
/// … and so many parts are on their way at a time.
const LOAD_MAX: u32 = 8;
