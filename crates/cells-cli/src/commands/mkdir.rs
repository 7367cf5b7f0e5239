use cells_native::cells_driver::ErrorKind;
use clap::Args;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::node::NodeArgs;
use crate::output::print_json;
use crate::remote_path::RemotePath;

/// Make directories.
#[derive(Debug, Args)]
pub(crate) struct Mkdir {
    /// The directories, such as notes/drafts
    #[arg(value_name = "ALIAS/PATH", required = true)]
    paths: Vec<RemotePath>,
    /// Make the directories above, too, and accept those that exist
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

impl Mkdir {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        for path in &self.paths {
            let export = node.writable(&path.alias).await?;
            let mut made = Vec::new();
            for directory in directories(&path.path, self.parents) {
                let here = RemotePath { alias: path.alias.clone(), path: directory.to_owned() };
                match export.mutations.mkdir(directory, node.write_options()).await {
                    Ok(_) => made.push(here.to_string()),
                    Err(error) if self.parents && error.kind() == ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(node.write_failure(&here, error)),
                }
            }
            if self.node.json {
                print_json(&json!({ "path": path.to_string(), "made": made }))?;
            }
        }
        Ok(Exit::Done)
    }
}

/// The directory, after all those above it if `parents` is set.
fn directories(path: &str, parents: bool) -> impl Iterator<Item = &str> {
    let above = path.match_indices('/').map(|(end, _)| &path[..end]).filter(move |_| parents);
    above.chain([path])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_first() {
        assert_eq!(directories("a/b/c", true).collect::<Vec<_>>(), ["a", "a/b", "a/b/c"]);
        assert_eq!(directories("a/b/c", false).collect::<Vec<_>>(), ["a/b/c"]);
    }
}
