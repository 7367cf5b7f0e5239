use cells_native::cells_driver::{HarnessSearchMode, HarnessSearchQuery};
use clap::{Args, ValueEnum};

use crate::failure::{Exit, Failure};
use crate::node::{NodeArgs, ProfileArgs};
use crate::output::{print, print_json, warn};
use crate::table::{Column, Table};

/// Find sessions by their titles, by what was said in them, or by what was typed.
///
/// All words must stand in one title or message, in any order and case.
#[derive(Debug, Args)]
pub(super) struct Search {
    /// Words, or several lines that are found as they stand
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    /// Where to look
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = Mode::Content)]
    mode: Mode,
    /// Search the archived sessions instead
    #[arg(long)]
    archived: bool,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// In titles
    Title,
    /// In what users and agents said
    Content,
    /// In what users typed
    Prompt,
}

impl Search {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        let harness = node.harness()?;
        let profile = node.profile(&harness, self.profile.profile.as_ref()).await?;
        let mode = match self.mode {
            Mode::Title => HarnessSearchMode::Title,
            Mode::Content => HarnessSearchMode::Content,
            Mode::Prompt => HarnessSearchMode::Prompt,
        };
        let query = HarnessSearchQuery { query: self.words.join(" "), mode, archived: self.archived };
        let found = harness.search(&profile.id, &query, node.options()).await?;
        if self.node.json {
            print_json(&found)?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new([Column::Left("SESSION"), Column::Left("TITLE"), Column::Left("FOUND")]);
        for hit in found.matches {
            table.push([hit.session_id.to_string(), hit.title, hit.summary]);
        }
        print(&table.render())?;
        if found.truncated {
            warn("there may be more; search for something narrower");
        }
        if found.literal {
            warn("the node does not know keywords: it looked for the query as it stands");
        }
        Ok(Exit::Done)
    }
}
