use std::fs;
use std::path::PathBuf;

use cells_native::cells_driver::{ErrorKind, FileKind, FileStat, ReadOptions, ReplaceCondition};
use cells_native::upload_file;
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
use crate::writes::Writable;

/// Copy files of this machine to the node.
///
/// A file appears there only when it is complete. What the node has already, byte for byte, is left as it is, so that a copy
/// that broke can be repeated. A file that is there with other content is an error, unless --replace is given.
#[derive(Debug, Args)]
pub(crate) struct Put {
    /// A file, or a directory with -r
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
    size: u64,
}

/// What is below a local directory.
#[derive(Default)]
struct Tree {
    /// Those above come before those below.
    directories: Vec<RemotePath>,
    files: Vec<Source>,
    /// Neither of both, or without a name that is text.
    left_out: Vec<PathBuf>,
}

/// What was done with it.
enum Done {
    Written(u64),
    Same,
}

impl Put {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        let export = node.writable(&self.remote.alias).await?;
        let is_directory = fs::metadata(&self.local).map_err(|error| failed(&self.local, &error))?.is_dir();
        let Tree { directories, files: sources, left_out } = match (is_directory, self.recursive) {
            (true, false) => {
                return Err(Failure::usage(format!("{} is a directory; -r copies it", self.local.display())));
            }
            (true, true) => self.walk()?,
            (false, _) => Tree { files: vec![self.single(&node, &export).await?], ..Tree::default() },
        };
        for path in &left_out {
            let name = path.display().to_string();
            eprintln!("cells: warning: {} is no file and no directory, and is left out", one_line(&name));
        }
        for directory in &directories {
            match export.mutations.mkdir(&directory.path, node.write_options()).await {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(node.write_failure(directory, error));
                }
                _ => {}
            }
        }
        let progress = bytes_bar(sources.iter().map(|source| source.size).sum());
        let copies = sources.iter().map(|source| self.copy(&node, &export, source, &progress));
        let done: Vec<Done> = stream::iter(copies).buffer_unordered(TRANSFERS_AT_A_TIME).try_collect().await?;
        progress.finish_and_clear();
        let written = done.iter().filter(|done| matches!(done, Done::Written(_))).count();
        let bytes: u64 = done.iter().map(|done| if let Done::Written(bytes) = done { *bytes } else { 0 }).sum();
        let same = done.len() - written;
        if self.node.json {
            let path = self.remote.to_string();
            print_json(
                &json!({ "path": path, "written": written, "same": same, "bytes": bytes, "leftOut": left_out.len() }),
            )?;
        } else if self.recursive {
            eprintln!("{written} files written ({bytes} bytes), {same} were there already");
        }
        Ok(Exit::Done)
    }

    /// The one file, under the name it gets.
    async fn single(&self, node: &Node, export: &Writable) -> Result<Source, Failure> {
        let mut remote = self.remote.clone();
        let stat = export.storage.files().stat(&remote.path, node.options()).await;
        let stat = stat.map_err(|error| Failure::path(error, &remote))?;
        if stat.is_some_and(|stat| stat.kind == FileKind::Directory) {
            let name = self.local.file_name().and_then(|name| name.to_str());
            let name = name.ok_or_else(|| Failure::usage(format!("{} has no name to keep", self.local.display())))?;
            remote = remote.child(name);
        }
        let size = fs::metadata(&self.local).map_err(|error| failed(&self.local, &error))?.len();
        Ok(Source { local: self.local.clone(), remote, size })
    }

    /// Everything below the local directory. Links are not followed.
    fn walk(&self) -> Result<Tree, Failure> {
        let mut tree = Tree::default();
        let mut waiting = vec![(self.local.clone(), self.remote.clone())];
        while let Some((local, remote)) = waiting.pop() {
            for entry in fs::read_dir(&local).map_err(|error| failed(&local, &error))? {
                let entry = entry.map_err(|error| failed(&local, &error))?;
                let (path, name) = (entry.path(), entry.file_name());
                let kind = entry.file_type().map_err(|error| failed(&path, &error))?;
                match name.to_str() {
                    Some(name) if kind.is_dir() => waiting.push((path, remote.child(name))),
                    Some(name) if kind.is_file() => {
                        let size = entry.metadata().map_err(|error| failed(&path, &error))?.len();
                        tree.files.push(Source { local: path, remote: remote.child(name), size });
                    }
                    _ => tree.left_out.push(path),
                }
            }
            if !remote.path.is_empty() {
                tree.directories.push(remote);
            }
        }
        tree.files.sort_by(|one, other| one.remote.path.cmp(&other.remote.path));
        tree.directories.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(tree)
    }

    async fn copy(
        &self,
        node: &Node,
        export: &Writable,
        source: &Source,
        progress: &ProgressBar,
    ) -> Result<Done, Failure> {
        let there = export.storage.files().stat(&source.remote.path, node.options()).await;
        let there = there.map_err(|error| Failure::path(error, &source.remote))?;
        let condition = match &there {
            None => ReplaceCondition::CreateOnly,
            Some(stat) if is_same(node, export, source, stat).await? => {
                progress.inc(source.size);
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
        let upload = upload_file(&source.local).await.map_err(|error| failed(&source.local, &error))?;
        let mut options = node.write_options();
        let (bar, mut before) = (progress.clone(), 0);
        options.progress = Some(Box::new(move |done, _| {
            bar.inc(done - before);
            before = done;
        }));
        let written = export.mutations.replace(&source.remote.path, upload, condition, options).await;
        let written = written.map_err(|error| node.write_failure(&source.remote, error))?;
        Ok(Done::Written(written.value.size.unwrap_or(source.size)))
    }
}

/// Whether the node has the same bytes.
async fn is_same(node: &Node, export: &Writable, source: &Source, stat: &FileStat) -> Result<bool, Failure> {
    if stat.kind != FileKind::File || stat.size != Some(source.size) {
        return Ok(false);
    }
    let local = Hash::of_file(&source.local).map_err(|error| failed(&source.local, &error))?;
    let about = |error| Failure::path(error, &source.remote);
    let options = ReadOptions { operation: node.options(), ..ReadOptions::default() };
    let mut content = export.storage.files().read_stream(&source.remote.path, options).await.map_err(about)?;
    let mut remote = Hash::default();
    while let Some(piece) = content.next().await.map_err(about)? {
        remote.add(&piece);
    }
    Ok(remote.finish() == local)
}
