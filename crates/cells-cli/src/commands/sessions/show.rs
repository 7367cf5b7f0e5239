use cells_native::cells_driver::{HarnessItem, HistoryOptions, HistoryPage, ItemContent, Session, ToolSummary};
use clap::Args;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::node::{SessionArgs, SessionAt};
use crate::output::{print, print_json, warn};
use crate::table::time;
use crate::text::{one_line, visible};

/// Show what a session is, and its history, oldest first.
#[derive(Debug, Args)]
pub(super) struct Show {
    #[command(flatten)]
    pub(super) at: SessionArgs,
    /// Read at most COUNT pages of history, the newest; 0 = none [default: all]
    #[arg(long, value_name = "COUNT")]
    pages: Option<usize>,
}

impl Show {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let at = self.at.find().await?;
        let (session, pages, complete) = read(&at, self.pages.unwrap_or(PAGES_MAX)).await?;
        if self.at.node.json {
            let turns: Vec<_> = pages.iter().rev().flat_map(|page| &page.turns).collect();
            print_json(&json!({"session": session, "turns": turns, "complete": complete}))?;
            return Ok(Exit::Done);
        }
        let mut text = head(&session);
        for item in pages.iter().rev().flat_map(|page| &page.turns).flat_map(|turn| turn.read_items()) {
            text.push_str(&line(&item));
        }
        print(&text)?;
        if !complete && self.pages != Some(0) {
            warn("there is more history before this");
        }
        Ok(Exit::Done)
    }
}

/// The session, its pages from the newest to the oldest, and whether these are all.
async fn read(at: &SessionAt, wanted: usize) -> Result<(Session, Vec<HistoryPage>, bool), Failure> {
    let inspected = at.harness.inspect(&at.profile_id, &at.session_id, at.node.options()).await?.session;
    let mut pages: Vec<HistoryPage> = Vec::new();
    let mut cursor: Option<String> = None;
    while pages.len() < wanted {
        let options = HistoryOptions { cursor: cursor.clone(), operation: at.node.options() };
        let page = at.harness.read(&at.profile_id, &at.session_id, options).await?;
        let next = page.next_cursor.clone();
        pages.push(page);
        match next {
            None => return Ok((inspected, pages, true)),
            Some(next) if cursor.as_ref() == Some(&next) => {
                return Err(Failure::new(Exit::Failed, "the node gives the same page of history again and again"));
            }
            Some(next) => cursor = Some(next),
        }
    }
    Ok((inspected, pages, false))
}

fn head(session: &Session) -> String {
    let mut lines = vec![
        ("session", session.id.to_string()),
        ("title", session.title.clone()),
        ("status", session.status.clone().unwrap_or_else(|| "-".to_owned())),
        ("created", time(session.created_at)),
        ("used", time(session.updated_at)),
    ];
    lines.extend(session.cwd.clone().map(|cwd| ("cwd", cwd)));
    lines.extend(session.parent_session_id.as_ref().map(|id| ("fork of", id.to_string())));
    lines.extend(session.active_turn_id.as_ref().map(|id| ("turn", format!("{id} runs"))));
    if session.archived {
        lines.push(("archived", "yes".to_owned()));
    }
    lines.extend(session.usage.as_ref().map(|usage| ("tokens", usage.totals.total_tokens.to_string())));
    lines.into_iter().map(|(name, value)| format!("{name:<8} {}\n", one_line(&value))).collect()
}

fn line(item: &HarnessItem) -> String {
    let tool = |tool: &ToolSummary| {
        let what = if tool.command_preview.is_empty() { tool.paths.join(", ") } else { tool.command_preview.clone() };
        let status = item.status.as_deref().unwrap_or("-");
        format!("\n$ {} {} ({status})\n", one_line(&tool.name), one_line(&what))
    };
    match &item.content {
        ItemContent::User { text, .. } => format!("\n> {}\n", visible(text).replace('\n', "\n> ")),
        ItemContent::Agent { text } => format!("\n{}\n", visible(text)),
        ItemContent::Reasoning { text } => format!("\n({})\n", one_line(text)),
        ItemContent::CommandExecution(summary)
        | ItemContent::FileChange(summary)
        | ItemContent::McpToolCall(summary)
        | ItemContent::Tool(summary) => tool(summary),
        ItemContent::CommandResult(command) => format!("\n/{}\n{}\n", command.name, visible(&command.preview)),
        ItemContent::Unknown => String::new(),
    }
}

/// 10,000 items, as the driver's own conversation.
const PAGES_MAX: usize = 100;
