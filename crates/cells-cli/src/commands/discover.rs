use cells_native::cells_driver::{CellsDescriptor, DiscoverOptions};
use clap::Args;

use crate::failure::{Exit, Failure};
use crate::node::NodeArgs;
use crate::output::{print, print_json};
use crate::text::one_line;

/// Show what a node is and what it offers.
#[derive(Debug, Args)]
pub(crate) struct Discover {
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

impl Discover {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        let options = DiscoverOptions { metadata: None, operation: node.options() };
        let descriptor = node.client.discover(&node.connection, options).await?;
        if self.node.json { print_json(&descriptor) } else { print(&describe(&descriptor)) }?;
        Ok(Exit::Done)
    }
}

fn describe(descriptor: &CellsDescriptor) -> String {
    let document = &descriptor.document;
    let node = document.server_id.as_ref().map_or("(it has no id)".to_owned(), ToString::to_string);
    let principal = document.authorization.as_ref().map(|authorization| authorization.principal_id.to_string());
    let features = [
        ("agents", document.harness),
        ("events", descriptor.events_endpoint().is_some()),
        ("durable receipts", descriptor.has_durable_receipts()),
        ("projects", document.projects),
        ("project execution", document.project_execution_environment),
        ("file search", document.file_search),
        ("file watch", document.file_watch),
        ("sync", document.sync),
        ("directory sync", document.directory_sync),
    ];
    let offered: Vec<&str> = features.iter().filter(|(_, offered)| *offered).map(|(name, _)| *name).collect();
    let mut lines = vec![
        ("node", node),
        ("files", document.http_endpoint.clone()),
        ("mcp", descriptor.mcp_endpoint.clone()),
        ("offers", if offered.is_empty() { "files only".to_owned() } else { offered.join(", ") }),
    ];
    lines.extend(principal.map(|principal| ("you are", principal)));
    if descriptor.legacy {
        lines.push(("note", "it announces itself in the way of an older node".to_owned()));
    }
    lines.into_iter().map(|(name, value)| format!("{name:<8} {}\n", one_line(&value))).collect()
}
