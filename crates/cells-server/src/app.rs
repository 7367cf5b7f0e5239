//! What every route shares.

use std::sync::Arc;

use cells_protocol::ids::ServerId;
use tokio_util::sync::CancellationToken;

use crate::auth::Principals;
use crate::files::Files;
use crate::harness::plugin::ProfileConfig;
use crate::origins::Origins;

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
    /// Cancelled when the node stops: streams that never end by themselves end then.
    pub(crate) stopping: CancellationToken,
    /// The agent profiles, with homes and workspaces filled in.
    pub(crate) profiles: Vec<ProfileConfig>,
    #[allow(dead_code)] // read by the MCP routes
    pub(crate) legacy_discovery: bool,
}

/// Where MCP is served, relative to the root.
pub(crate) const MCP_PATH: &str = "/mcp";
