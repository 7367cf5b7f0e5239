//! The contract between the harness service and the agents behind it (`harness.md` §8.1).
//!
//! A [`HarnessPlugin`] is compiled in and looked up by the `kind` of a profile; it makes one [`HarnessDriver`] for each
//! profile instance. The service owns epoch, request ids, receipts, serial order, the 25 s answer, ownership of the event
//! ring and the bodies of command output; a driver only does what it is told, once.

use std::path::PathBuf;
use std::sync::Arc;

use cells_protocol::harness::Profile;
use cells_protocol::ids::{ProfileId, RequestId, WorkspaceId};
use futures::future::BoxFuture;
use serde_json::{Map, Value};

use super::ring::EventRing;

/// A kind of agent.
pub trait HarnessPlugin: Send + Sync {
    /// The `kind` of the profiles this plugin serves: `[A-Za-z0-9_-]+`, unique.
    fn kind(&self) -> &'static str;

    /// Checks a profile at start.
    ///
    /// # Errors
    /// One line that names the profile and says what is wrong with its configuration; it ends the start.
    fn validate(&self, profile: &ProfileConfig) -> Result<(), String>;

    /// Makes the driver of one profile instance. Nothing native is started before it is needed.
    ///
    /// # Errors
    /// One line that names the profile and says why it cannot be made.
    fn create(&self, profile: &ProfileConfig, context: DriverContext) -> Result<Arc<dyn HarnessDriver>, String>;
}

/// A configured profile.
#[derive(Debug, Clone)]
pub struct ProfileConfig {
    /// Its name.
    pub id: ProfileId,
    /// The kind of agent.
    pub kind: String,
    /// Where its sessions work: names and existing absolute directories.
    pub workspaces: Vec<(WorkspaceId, PathBuf)>,
    /// Where the agent keeps its own files. Exists, mode 0700.
    pub home: PathBuf,
}

/// What the service gives a driver.
#[derive(Clone)]
pub struct DriverContext {
    /// Where the driver puts its events and its outstanding requests.
    pub ring: Arc<EventRing>,
}

/// One running profile instance.
pub trait HarnessDriver: Send + Sync {
    /// What `harness_profiles` says of it.
    fn descriptor(&self) -> Profile;

    /// A tool without effect: sessions, history, search, commands. Shapes as in `harness.md` §3–5.
    fn read(&self, tool: &str, arguments: Map<String, Value>) -> BoxFuture<'static, Result<Value, ToolError>>;

    /// Checks the arguments of a mutation before it is admitted: what is refused here has no receipt. Default: nothing.
    ///
    /// # Errors
    /// The code of the refusal, for example `HARNESS_SELECTION_INVALID`.
    fn check(&self, _tool: &str, _arguments: &Map<String, Value>) -> Result<(), ToolError> {
        Ok(())
    }

    /// What `page`, a reply of `harness_session_read` for this session, proves of mutations that ran when an earlier
    /// process of the node ended (`cells-0.4.md` §12.1 rule 7). Only for agents whose history names request ids; the
    /// service checks each proof against what was asked. Default: nothing.
    fn proofs(&self, _session_id: &str, _page: &Value) -> Vec<Proof> {
        Vec::new()
    }

    /// A mutation, called at most once for each request id. The value becomes `result` of the receipt.
    ///
    /// `harness_command` returns the `result` of `cells-0.4.md` §5.2 in its inline form, whole text in `output`; where
    /// the caller asked for a reference, the service keeps the body and replaces the text.
    fn execute(&self, call: MutationCall) -> BoxFuture<'static, Result<Value, ToolError>>;

    /// Refuse further work.
    fn stop(&self);

    /// End and reap everything that runs.
    fn drain(&self) -> BoxFuture<'static, ()>;
}

/// One admitted mutation.
#[derive(Debug, Clone)]
pub struct MutationCall {
    /// The tool, for example `harness_turn`.
    pub tool: String,
    /// Its identity.
    pub request_id: RequestId,
    /// All its arguments.
    pub arguments: Map<String, Value>,
}

/// Evidence in the native history that a mutation happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Proof {
    /// Which mutation.
    pub request_id: RequestId,
    /// Its tool.
    pub tool: &'static str,
    /// Its arguments as the history shows them, without `profileId`, `epoch` and `requestId`.
    pub arguments: Map<String, Value>,
    /// The `result` that its receipt would have.
    pub result: Value,
}

/// The code of a failed tool, for example `ENOENT`. `EIO` and `ETIMEDOUT` leave the effect of a mutation undetermined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolError(pub &'static str);
