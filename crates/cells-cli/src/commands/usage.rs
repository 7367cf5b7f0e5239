use cells_native::cells_driver::TokenCounts;
use clap::Args;

use crate::failure::{Exit, Failure};
use crate::node::SessionArgs;
use crate::output::{print, print_json};
use crate::table::{Column, Table};

/// Tell the tokens that a session has used, by model.
#[derive(Debug, Args)]
pub(crate) struct Usage {
    #[command(flatten)]
    pub(super) at: SessionArgs,
}

impl Usage {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let at = self.at.find().await?;
        let usage = at.harness.usage(&at.profile_id, &at.session_id, at.node.options()).await?;
        if self.at.node.json {
            print_json(&usage)?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new([
            Column::Left("MODEL"),
            Column::Right("INPUT"),
            Column::Right("CACHE READ"),
            Column::Right("CACHE WRITE"),
            Column::Right("OUTPUT"),
            Column::Right("REASONING"),
        ]);
        let mut add = |model: String, counts: &TokenCounts| {
            table.push([
                model,
                counts.input_tokens.to_string(),
                counts.cache_read_tokens.to_string(),
                counts.cache_write_tokens.to_string(),
                counts.output_tokens.to_string(),
                counts.reasoning_tokens.to_string(),
            ]);
        };
        for entry in &usage.entries {
            add(entry.model_id.clone().unwrap_or_else(|| "-".to_owned()), &entry.counts);
        }
        add("all".to_owned(), &usage.totals.counts);
        print(&table.render())?;
        Ok(Exit::Done)
    }
}
