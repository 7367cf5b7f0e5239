//! What every route shares.

use std::sync::Arc;

use cells_protocol::ids::ServerId;

use crate::auth::Principals;
use crate::events::Streams;
use crate::files::Files;
use crate::harness::HarnessService;
use crate::origins::Origins;
use crate::process::Processes;

/// The state of the axum router. Cheap to clone.
pub(crate) type AppState = Arc<App>;

/// A running node.
pub(crate) struct App {
    pub(crate) server_id: ServerId,
    /// New at every start.
    pub(crate) process_epoch: ServerId,
    pub(crate) principals: Principals,
    pub(crate) origins: Origins,
    pub(crate) files: Files,
    pub(crate) processes: Processes,
    /// The agents.
    pub(crate) harness: HarnessService,
    /// The event streams that are open.
    pub(crate) events: Arc<Streams>,
    pub(crate) legacy_discovery: bool,
}

/// Where MCP is served, relative to the root.
pub(crate) const MCP_PATH: &str = "/mcp";
