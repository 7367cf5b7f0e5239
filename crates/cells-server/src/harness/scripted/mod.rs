//! The built-in agent: offline, deterministic, and real. It does what a prompt spells out: streams text, runs commands,
//! changes files, asks. `docs/scripted-agent.md` is its manual.
//!
//! Modules in reading order: `script` (the prompt language), `order` (what a prompt orders), `slash` and `command` (the
//! slash commands), `turn` (does the work), `shell`, `edit` and `report` (its tools), `session`, `active` and `requests`
//! (what a session shows, its running turn, what that asks), `record`, `lines`, `history` and `store` (the native history
//! on disk), `driver` (from tools to sessions).

mod active;
mod arguments;
mod command;
mod digest;
mod driver;
mod edit;
mod history;
mod lines;
mod manage;
mod message;
mod metadata;
mod models;
mod order;
mod output;
mod record;
mod report;
mod requests;
mod runtime;
mod script;
mod search;
mod session;
mod shell;
mod slash;
mod store;
mod texts;
mod tokens;
mod turn;

use std::sync::Arc;

use super::plugin::{DriverContext, HarnessDriver, HarnessPlugin, ProfileConfig};

/// Makes drivers for profiles of the kind `scripted`.
///
/// ```
/// use std::sync::Arc;
/// use cells_protocol::ids::{ProfileId, WorkspaceId};
/// use cells_server::harness::plugin::{DriverContext, HarnessPlugin, ProfileConfig};
/// use cells_server::harness::ring::EventRing;
/// use cells_server::harness::scripted::ScriptedPlugin;
///
/// let profile = ProfileConfig {
///     id: ProfileId::new("main")?,
///     kind: "scripted".to_owned(),
///     workspaces: vec![(WorkspaceId::new("demo")?, std::env::temp_dir())],
///     home: std::env::temp_dir(),
/// };
/// let context = DriverContext { ring: Arc::new(EventRing::new([7; 16])) };
/// let driver = ScriptedPlugin.create(&profile, context)?;
/// assert!(driver.descriptor().capabilities.slash_commands);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct ScriptedPlugin;

impl HarnessPlugin for ScriptedPlugin {
    fn kind(&self) -> &'static str {
        "scripted"
    }

    fn validate(&self, profile: &ProfileConfig) -> Result<(), String> {
        if profile.workspaces.is_empty() {
            return Err(format!("profile {}: a scripted agent needs at least one workspace", profile.id));
        }
        match profile.workspaces.iter().find(|(_, path)| path.to_str().is_none()) {
            Some((id, _)) => Err(format!("profile {}: the path of workspace {id} is not UTF-8", profile.id)),
            None => Ok(()),
        }
    }

    fn create(&self, profile: &ProfileConfig, context: DriverContext) -> Result<Arc<dyn HarnessDriver>, String> {
        self.validate(profile)?;
        Ok(Arc::new(driver::ScriptedDriver::new(profile.clone(), context)))
    }
}

#[cfg(test)]
mod tests;
