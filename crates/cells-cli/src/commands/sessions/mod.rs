//! The sessions of an agent.

mod list;
mod manage;
mod search;
mod show;

use clap::{Args, Subcommand};

use crate::failure::{Exit, Failure};

/// List, search, show and manage the sessions of an agent. Without a verb: list them.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Sessions {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    list: list::List,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(list::List),
    Search(search::Search),
    Show(show::Show),
    Fork(manage::Fork),
    Rename(manage::Rename),
    Archive(manage::Archive),
    Unarchive(manage::Unarchive),
    Delete(manage::Delete),
}

impl Sessions {
    /// Whether programs read what is printed.
    pub(super) fn json(&self) -> bool {
        match &self.verb {
            None => self.list.node.json,
            Some(Verb::List(verb)) => verb.node.json,
            Some(Verb::Search(verb)) => verb.node.json,
            Some(Verb::Show(verb)) => verb.at.node.json,
            Some(Verb::Fork(verb)) => verb.at.node.json,
            Some(Verb::Rename(verb)) => verb.at.node.json,
            Some(Verb::Archive(verb)) => verb.at.node.json,
            Some(Verb::Unarchive(verb)) => verb.at.node.json,
            Some(Verb::Delete(verb)) => verb.at.node.json,
        }
    }

    /// Whether Ctrl-C has a meaning of its own there.
    pub(super) fn changes_something(&self) -> bool {
        matches!(
            self.verb,
            Some(Verb::Fork(_) | Verb::Rename(_) | Verb::Archive(_) | Verb::Unarchive(_) | Verb::Delete(_))
        )
    }

    pub(super) async fn run(self) -> Result<Exit, Failure> {
        match self.verb {
            None => self.list.run().await,
            Some(Verb::List(verb)) => verb.run().await,
            Some(Verb::Search(verb)) => verb.run().await,
            Some(Verb::Show(verb)) => verb.run().await,
            Some(Verb::Fork(verb)) => verb.run().await,
            Some(Verb::Rename(verb)) => verb.run().await,
            Some(Verb::Archive(verb)) => verb.run().await,
            Some(Verb::Unarchive(verb)) => verb.run().await,
            Some(Verb::Delete(verb)) => verb.run().await,
        }
    }
}
