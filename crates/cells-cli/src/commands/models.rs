use cells_native::cells_driver::{HarnessModelSelection, NativeId};
use clap::Args;

use crate::failure::{Exit, Failure};
use crate::node::{NodeArgs, ProfileArgs};
use crate::output::{print, print_json};
use crate::table::{Column, Table};

/// List the models of an agent; `*` marks the one that is used.
#[derive(Debug, Args)]
pub(crate) struct Models {
    /// Mark the model that this session uses [default: what is used where nothing is chosen]
    #[arg(long, value_name = "ID", value_parser = |text: &str| NativeId::new(text))]
    session: Option<NativeId>,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

impl Models {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        let harness = node.harness()?;
        let profile = node.profile(&harness, self.profile.profile.as_ref()).await?;
        let catalog = harness.models(&profile.id, self.session.as_ref(), node.options()).await?;
        if self.node.json {
            print_json(&catalog)?;
            return Ok(Exit::Done);
        }
        let used = catalog.current.or(catalog.default);
        let is_used = |id: &str| used.as_ref().is_some_and(|used: &HarnessModelSelection| used.model_id == id);
        let columns = [Column::Left(" "), Column::Left("MODEL"), Column::Left("EFFORTS"), Column::Left("NAME")];
        let mut table = Table::new(columns);
        for model in catalog.models {
            let efforts: Vec<String> = model.reasoning_efforts.into_iter().map(|effort| effort.id).collect();
            let mark = if is_used(&model.id) { "*" } else { "" };
            table.push([mark.to_owned(), model.id, efforts.join(", "), model.label]);
        }
        print(&table.render())?;
        Ok(Exit::Done)
    }
}
