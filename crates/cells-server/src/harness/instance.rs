//! A profile instance: its driver, its ring and the order of its mutations.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use cells_protocol::harness::Profile;
use cells_protocol::ids::ProfileId;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::Mutex;

use super::plugin::{DriverContext, HarnessDriver, HarnessPlugin, ProfileConfig, ToolError};
use super::ring::EventRing;
use super::service::StartError;

/// One configured profile that runs.
pub(crate) struct Instance {
    pub(crate) id: ProfileId,
    pub(crate) driver: Arc<dyn HarnessDriver>,
    pub(crate) ring: Arc<EventRing>,
    /// Held by the mutation that runs; hands itself over in the order of arrival.
    pub(crate) queue: Arc<Mutex<()>>,
    /// The line of messages to running turns.
    pub(crate) steers: Arc<Mutex<()>>,
}

impl Instance {
    /// What `harness_profiles` says: the words of the driver. Output is kept only of commands.
    pub(crate) fn descriptor(&self) -> Profile {
        let profile = self.driver.descriptor();
        let mut capabilities = profile.capabilities;
        capabilities.command_outputs &= capabilities.slash_commands;
        Profile { id: self.id.clone(), project_runtime: false, capabilities, ..profile }
    }
}

/// Makes one instance of each profile, sorted by id. Every profile is checked before any driver is made.
pub(crate) fn create_instances(
    plugins: &[Arc<dyn HarnessPlugin>],
    profiles: &[ProfileConfig],
) -> Result<BTreeMap<ProfileId, Arc<Instance>>, StartError> {
    let mut kinds: BTreeMap<&str, &Arc<dyn HarnessPlugin>> = BTreeMap::new();
    for plugin in plugins {
        let kind = plugin.kind();
        let valid = ProfileId::new(kind).is_ok();
        if !valid || kinds.insert(kind, plugin).is_some() {
            return Err(StartError::Plugin { kind: kind.to_owned() });
        }
    }
    let mut made = BTreeMap::new();
    let mut checked = Vec::new();
    for profile in profiles {
        let ProfileConfig { id, kind, .. } = profile;
        let plugin = kinds.get(kind.as_str()).ok_or_else(|| {
            let known: Vec<&str> = kinds.keys().copied().collect();
            let known = known.join(", ");
            StartError::Profile(format!("profile {id}: kind `{kind}` does not exist; write one of: {known}"))
        })?;
        plugin.validate(profile).map_err(StartError::Profile)?;
        checked.push((plugin, profile));
    }
    for (plugin, profile) in checked {
        let ring = Arc::new(EventRing::new(random()?));
        let context = DriverContext { ring: Arc::clone(&ring) };
        let driver = plugin.create(profile, context).map_err(StartError::Profile)?;
        let instance = Instance { id: profile.id.clone(), driver, ring, queue: Arc::default(), steers: Arc::default() };
        if made.insert(profile.id.clone(), Arc::new(instance)).is_some() {
            return Err(StartError::Profile(format!("profile {}: the id stands twice", profile.id)));
        }
    }
    Ok(made)
}

/// Runs a call of a driver. A driver that panics leaves the effect undetermined; the node goes on.
pub(crate) async fn guarded(
    call: impl FnOnce() -> BoxFuture<'static, Result<Value, ToolError>>,
) -> Result<Value, ToolError> {
    AssertUnwindSafe(async { call().await }).catch_unwind().await.unwrap_or(Err(ToolError("EIO")))
}

/// Random bytes of the operating system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], StartError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| StartError::Random)?;
    Ok(bytes)
}
