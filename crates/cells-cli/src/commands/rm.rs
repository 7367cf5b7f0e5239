use clap::Args;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::node::NodeArgs;
use crate::output::print_json;
use crate::remote_path::RemotePath;

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
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        for path in &self.paths {
            let export = node.writable(&path.alias).await?;
            let removed = export.mutations.remove(&path.path, node.write_options()).await;
            let removed = removed.map_err(|error| node.write_failure(path, error))?;
            if self.node.json {
                let operation_id = removed.operation_id.as_str();
                print_json(&json!({ "path": path.to_string(), "operationId": operation_id }))?;
            }
        }
        Ok(Exit::Done)
    }
}
