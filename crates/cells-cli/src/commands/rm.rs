use clap::Args;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::node::NodeArgs;
use crate::output::print_json;
use crate::remote_path::RemotePath;
use crate::under_way::UnderWay;
use crate::writes::Writer;

/// Remove files, links and empty directories.
///
/// It stops at the first one that cannot be removed.
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// What to remove, such as notes/old.md
    #[arg(value_name = "ALIAS/PATH", required = true)]
    paths: Vec<RemotePath>,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

impl Rm {
    pub(super) async fn run(self, under_way: UnderWay) -> Result<Exit, Failure> {
        let writer = Writer::new(&self.node, under_way)?;
        let exports = writer.exports(&self.paths).await?;
        for (path, export) in self.paths.iter().zip(&exports) {
            writer.check()?;
            let removed = export.remove(path).await?;
            if self.node.json {
                let operation_id = removed.operation_id.as_str();
                print_json(&json!({ "path": path.to_string(), "operationId": operation_id }))?;
            }
        }
        Ok(Exit::Done)
    }
}
