use cells_native::cells_driver::CommandKind;
use clap::Args;

use crate::failure::{Exit, Failure};
use crate::node::SessionArgs;
use crate::output::{print, print_json};
use crate::table::{Column, Table};

/// List the slash commands of a session. `cells run` runs one.
#[derive(Debug, Args)]
pub(crate) struct Commands {
    #[command(flatten)]
    pub(super) at: SessionArgs,
}

impl Commands {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let at = self.at.find().await?;
        let catalog = at.harness.commands(&at.profile_id, &at.session_id, at.node.options()).await?;
        if self.at.node.json {
            print_json(&catalog)?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new([Column::Left("COMMAND"), Column::Left("KIND"), Column::Left("WHAT IT DOES")]);
        for command in catalog.commands {
            let hint = command.argument_hint.map(|hint| format!(" {hint}")).unwrap_or_default();
            let kind = match command.kind {
                CommandKind::Prompt => "prompt",
                CommandKind::Action => "action",
            };
            table.push([format!("{}{hint}", command.name), kind.to_owned(), command.description.unwrap_or_default()]);
        }
        print(&table.render())?;
        Ok(Exit::Done)
    }
}
