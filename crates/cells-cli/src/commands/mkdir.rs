use clap::Args;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::node::NodeArgs;
use crate::output::print_json;
use crate::remote_path::RemotePath;
use crate::under_way::UnderWay;
use crate::writes::Writer;

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
    pub(super) async fn run(self, under_way: UnderWay) -> Result<Exit, Failure> {
        let writer = Writer::new(&self.node, under_way)?;
        let exports = writer.exports(&self.paths).await?;
        for (path, export) in self.paths.iter().zip(&exports) {
            writer.check()?;
            let made: Vec<String> = match self.parents {
                true => export.make_missing(&with_parents(path)).await?.iter().map(ToString::to_string).collect(),
                false => {
                    export.mkdir(path).await?;
                    vec![path.to_string()]
                }
            };
            if self.node.json {
                print_json(&json!({ "path": path.to_string(), "made": made }))?;
            }
        }
        Ok(Exit::Done)
    }
}

/// The directory, after all those above it.
fn with_parents(path: &RemotePath) -> Vec<RemotePath> {
    let above = path.path.match_indices('/').map(|(end, _)| &path.path[..end]);
    let named = |path_in_export: &str| RemotePath { alias: path.alias.clone(), path: path_in_export.to_owned() };
    above.chain([path.path.as_str()]).map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_first() {
        let paths = with_parents(&"notes/a/b/c".parse().unwrap());
        let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
        assert_eq!(paths, ["notes/a", "notes/a/b", "notes/a/b/c"]);
    }
}
