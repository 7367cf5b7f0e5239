use clap::Args;

use crate::failure::{Exit, Failure};
use crate::node::NodeArgs;
use crate::output::{print, print_json};
use crate::table::{Column, Table};

/// List the agents of a node.
#[derive(Debug, Args)]
pub(crate) struct Profiles {
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

impl Profiles {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        let profiles = node.harness()?.profiles(node.options()).await?;
        if self.node.json {
            print_json(&profiles)?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new([Column::Left("PROFILE"), Column::Left("KIND"), Column::Left("WORKSPACES")]);
        for profile in profiles.profiles {
            let workspaces: Vec<&str> = profile.workspaces.iter().map(|workspace| workspace.id.as_str()).collect();
            table.push([profile.id.to_string(), profile.kind, workspaces.join(", ")]);
        }
        print(&table.render())?;
        Ok(Exit::Done)
    }
}
