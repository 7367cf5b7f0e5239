use cells_native::cells_driver::Access;
use clap::Args;

use crate::failure::{Exit, Failure};
use crate::node::NodeArgs;
use crate::output::{print, print_json};
use crate::table::{Column, Table};

/// List the directories that a node exports.
#[derive(Debug, Args)]
pub(crate) struct Exports {
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

impl Exports {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        let exports = node.client.exports(&node.connection, node.options()).await?;
        if self.node.json {
            print_json(&exports)?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new([Column::Left("ALIAS"), Column::Left("ACCESS")]);
        for export in exports.exports {
            let access = match export.access {
                Access::Ro => "read",
                Access::Rw => "read, write",
            };
            table.push([export.alias.to_string(), access.to_owned()]);
        }
        print(&table.render())?;
        Ok(Exit::Done)
    }
}
