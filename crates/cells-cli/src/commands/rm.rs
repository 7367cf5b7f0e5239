use cells_native::cells_driver::FileKind;
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::listing::list_all;
use crate::node::NodeArgs;
use crate::output::print_json;
use crate::remote_path::RemotePath;
use crate::transfer::{Ended, for_all};
use crate::under_way::UnderWay;
use crate::writes::{Writable, Writer};

/// Remove files, links and empty directories.
///
/// It stops at the first path that cannot be removed. With -r, what is below a directory is removed one by one before it; links
/// are removed, and not followed.
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// What to remove, such as notes/old.md
    #[arg(value_name = "ALIAS/PATH", required = true)]
    paths: Vec<RemotePath>,
    /// Remove directories with all that is below them
    #[arg(short, long)]
    recursive: bool,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

/// What is below a directory.
#[derive(Default)]
struct Tree {
    /// Files and links.
    entries: Vec<RemotePath>,
    /// Those above come before those below.
    directories: Vec<RemotePath>,
}

impl Rm {
    pub(super) async fn run(self, under_way: UnderWay) -> Result<Exit, Failure> {
        if let Some(path) = self.paths.iter().find(|path| path.path.is_empty()) {
            return Err(Failure::usage(format!("{path} is an export, which stays")));
        }
        let writer = Writer::new(&self.node, under_way)?;
        let exports = writer.exports(&self.paths).await?;
        for (path, export) in self.paths.iter().zip(&exports) {
            writer.check()?;
            let is_tree =
                self.recursive && export.stat(path).await?.is_some_and(|stat| stat.kind == FileKind::Directory);
            if is_tree {
                let exit = self.tree(&writer, export, path).await?;
                if exit != Exit::Done {
                    return Ok(exit);
                }
                continue;
            }
            let removed = export.remove(path).await?;
            if self.node.json {
                let operation_id = removed.operation_id.as_str();
                print_json(&json!({ "path": path.to_string(), "operationId": operation_id }))?;
            }
        }
        Ok(Exit::Done)
    }

    /// Removes a directory and all below it.
    async fn tree(&self, writer: &Writer, export: &Writable<'_>, path: &RemotePath) -> Result<Exit, Failure> {
        let Tree { entries, directories } = walk(writer, export, path).await?;
        let remove = async |path: &RemotePath| {
            writer.check()?;
            export.remove(path).await
        };
        let no_bar = ProgressBar::hidden();
        let Ended { done, failed, mut exit } = for_all(entries.iter().map(remove), self.node.json, &no_bar).await;
        let (mut removed, mut failed) = (done.len(), failed);
        if exit == Exit::Done {
            for directory in directories.iter().rev() {
                match remove(directory).await {
                    Ok(_) => removed += 1,
                    Err(failure) => {
                        failure.tell(self.node.json);
                        (failed, exit) = (failed + 1, failure.exit());
                        break;
                    }
                }
            }
        }
        if self.node.json {
            print_json(&json!({ "path": path.to_string(), "removed": removed, "failed": failed }))?;
        }
        Ok(exit)
    }
}

async fn walk(writer: &Writer, export: &Writable<'_>, path: &RemotePath) -> Result<Tree, Failure> {
    let mut tree = Tree::default();
    let mut waiting = vec![path.clone()];
    while let Some(directory) = waiting.pop() {
        writer.check()?;
        for entry in list_all(export.storage.files(), &directory, || export.options()).await?.entries {
            let path = directory.child(&entry.name);
            match entry.stat.kind {
                FileKind::Directory => waiting.push(path),
                FileKind::File | FileKind::Symlink => tree.entries.push(path),
            }
        }
        tree.directories.push(directory);
    }
    Ok(tree)
}
