use clap::Args;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::node::NodeArgs;
use crate::output::print_json;
use crate::remote_path::RemotePath;

/// Give a file or a directory another name in its export.
///
/// Nothing is overwritten: the new name must be free.
#[derive(Debug, Args)]
pub(crate) struct Mv {
    /// The name now, such as notes/a.md
    #[arg(value_name = "ALIAS/FROM")]
    from: RemotePath,
    /// The new name, in the same export
    #[arg(value_name = "ALIAS/TO")]
    to: RemotePath,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

impl Mv {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        if self.from.alias != self.to.alias {
            return Err(Failure::usage("a file keeps its export; copy it with `cells get` and `cells put`"));
        }
        let node = self.node.connect()?;
        let export = node.writable(&self.from.alias).await?;
        let moved = export.mutations.rename(&self.from.path, &self.to.path, node.write_options()).await;
        let moved = moved.map_err(|error| node.write_failure(&self.from, error))?;
        if self.node.json {
            let (from, to) = (self.from.to_string(), self.to.to_string());
            print_json(&json!({ "from": from, "to": to, "operationId": moved.operation_id.as_str() }))?;
        }
        Ok(Exit::Done)
    }
}
