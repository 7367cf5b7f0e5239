use std::collections::BTreeSet;

use cells_native::cells_driver::{FileConnection, FileEntry, FileKind};
use clap::Args;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::node::NodeArgs;
use crate::output::{print, print_json, warn};
use crate::remote_path::RemotePath;
use crate::table::{Column, Table, number, time};

/// List a directory.
///
/// Names are sorted by their bytes. What the node leaves out is told on standard error.
#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// The directory, such as notes or notes/2026
    #[arg(value_name = "ALIAS/PATH")]
    path: RemotePath,
    /// Stop after COUNT entries [default: list all]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

impl Ls {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        let files = node.client.files(&FileConnection::new(node.connection.clone(), &self.path.alias))?;
        let limit = self.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let mut entries: Vec<FileEntry> = Vec::new();
        let mut warnings = BTreeSet::new();
        let mut cursor: Option<String> = None;
        let complete = loop {
            let page = files.list(&self.path.path, cursor.as_deref(), node.options()).await;
            let page = page.map_err(|error| Failure::path(error, &self.path))?;
            warnings.extend(page.warnings);
            entries.extend(page.entries);
            match page.next_cursor {
                _ if entries.len() > limit => break false,
                None => break true,
                Some(_) if entries.len() == limit => break false,
                Some(next) => cursor = Some(next),
            }
        };
        entries.truncate(limit);
        if self.node.json {
            let path = self.path.to_string();
            print_json(&json!({"path": path, "entries": entries, "warnings": warnings, "complete": complete}))?;
            return Ok(Exit::Done);
        }
        print(&table(entries))?;
        for warning in &warnings {
            warn(&format!("an entry of {} is left out: {warning}", self.path));
        }
        if !complete {
            warn(&format!("{} has more entries; --limit leaves them out", self.path));
        }
        Ok(Exit::Done)
    }
}

fn table(entries: Vec<FileEntry>) -> String {
    let mut table =
        Table::new([Column::Left("KIND"), Column::Right("SIZE"), Column::Left("MODIFIED"), Column::Left("NAME")]);
    for FileEntry { name, stat } in entries {
        let name = if stat.kind == FileKind::Directory { format!("{name}/") } else { name };
        table.push([stat.kind.as_str().to_owned(), number(stat.size), time(stat.modified_at), name]);
    }
    table.render()
}
