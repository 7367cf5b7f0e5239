use cells_native::cells_driver::{ListOptions, Session};
use clap::Args;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::node::{NodeArgs, ProfileArgs};
use crate::output::{print, print_json, warn};
use crate::table::{Column, Table, time};

/// List the sessions of an agent, most recently used first.
#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    profile: ProfileArgs,
    /// List the archived sessions instead
    #[arg(long)]
    archived: bool,
    /// Stop after COUNT sessions [default: list all]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    pub(in crate::commands) node: NodeArgs,
}

impl List {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        let harness = node.harness()?;
        let profile = node.profile(&harness, self.profile.profile.as_ref()).await?;
        let limit = self.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let mut sessions: Vec<Session> = Vec::new();
        let mut cursor: Option<String> = None;
        let complete = loop {
            let options = ListOptions {
                cursor: cursor.clone(),
                archived: self.archived,
                operation: node.options(),
                ..ListOptions::default()
            };
            let page = harness.list(&profile.id, options).await?;
            sessions.extend(page.sessions);
            match page.next_cursor {
                _ if sessions.len() > limit => break false,
                None => break true,
                Some(_) if sessions.len() == limit => break false,
                Some(next) if cursor.as_ref() == Some(&next) => {
                    return Err(Failure::new(Exit::Failed, "the node gives the same page of sessions again and again"));
                }
                Some(next) => cursor = Some(next),
            }
        };
        sessions.truncate(limit);
        if self.node.json {
            print_json(&json!({"profileId": profile.id, "sessions": sessions, "complete": complete}))?;
            return Ok(Exit::Done);
        }
        print(&table(sessions))?;
        if !complete {
            warn("there are more sessions; --limit leaves them out");
        }
        Ok(Exit::Done)
    }
}

fn table(sessions: Vec<Session>) -> String {
    let columns = [Column::Left("SESSION"), Column::Left("STATUS"), Column::Left("USED"), Column::Left("TITLE")];
    let mut table = Table::new(columns);
    for session in sessions {
        let status = session.status.unwrap_or_else(|| "-".to_owned());
        table.push([session.id.to_string(), status, time(session.updated_at), session.title]);
    }
    table.render()
}
