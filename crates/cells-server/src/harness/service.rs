//! The harness service: one door to every tool of every profile (`harness.md` §2, `cells-0.4.md` §12).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use cells_protocol::ids::{Epoch, PrincipalId, ProfileId, RequestId, ServerId};
use cells_protocol::limits::MUTATION_ANSWER_MS;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::arguments::{Arguments, integer, text};
use super::instance::{Instance, create_instances, guarded, random};
use super::outputs::OutputStore;
use super::plugin::{HarnessPlugin, ProfileConfig, ToolError};
use super::polling::poll;
use super::receipts::{OpenError, ReceiptKey, ReceiptLimits, ReceiptState, ReceiptStore};
use super::ring::EventRing;
use super::summary::summarise_page;
use super::tools::{Tool, ToolKind};

/// The agents of a node. Cheap to clone; all clones are the same service.
///
/// ```
/// use std::sync::Arc;
///
/// use cells_protocol::ids::{PrincipalId, ProfileId, ServerId, WorkspaceId};
/// use cells_server::harness::plugin::ProfileConfig;
/// use cells_server::harness::scripted::ScriptedPlugin;
/// use cells_server::harness::{Caller, HarnessOptions, HarnessService};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// let profile = ProfileConfig {
///     id: ProfileId::new("main")?,
///     kind: "scripted".to_owned(),
///     workspaces: vec![(WorkspaceId::new("demo")?, directory.path().to_owned())],
///     home: directory.path().to_owned(),
/// };
/// let options = HarnessOptions::new(directory.path().join("state"), ServerId::new("node-1")?, vec![profile]);
/// let service = HarnessService::start(&[Arc::new(ScriptedPlugin)], options).await?;
/// let (owner, granted) = (PrincipalId::new("owner")?, [ProfileId::new("main")?].into());
/// let caller = Caller { principal: &owner, profiles: &granted };
/// let profiles = service.call(caller, "harness_profiles", Default::default()).await?;
/// assert_eq!(profiles["profiles"][0]["id"], "main");
/// service.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct HarnessService {
    inner: Arc<Inner>,
}

/// Who calls a tool.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// Its name; receipts belong to it.
    pub principal: &'a PrincipalId,
    /// The profiles that exist for it. Their sessions are shared with every other caller who has the profile.
    pub profiles: &'a BTreeSet<ProfileId>,
}

/// What a service is made of.
#[derive(Debug, Clone)]
pub struct HarnessOptions {
    /// Where receipts and command output are kept. Made with mode 0700 when it does not exist.
    pub state: PathBuf,
    /// Identity of the installation; the receipts are bound to it.
    pub server_id: ServerId,
    /// The agents.
    pub profiles: Vec<ProfileConfig>,
    /// A mutation that is not done after this long is answered as running. Default 25 s.
    pub answer_after: Duration,
    /// How many receipts are kept.
    pub receipts: ReceiptLimits,
    /// Bytes of command output that are kept; the oldest bodies make room. Default 256 MiB.
    pub output_bytes: u64,
}

impl HarnessOptions {
    /// The options of `profiles` with every default.
    pub fn new(state: PathBuf, server_id: ServerId, profiles: Vec<ProfileConfig>) -> Self {
        Self {
            state,
            server_id,
            profiles,
            answer_after: Duration::from_millis(MUTATION_ANSWER_MS),
            receipts: ReceiptLimits::default(),
            output_bytes: OUTPUT_BYTES,
        }
    }
}

/// Why the service cannot start. One line that says what to change.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Two plugins have the same kind, or a kind is not a name.
    #[error("agent kind `{kind}`: the name stands twice or is not made of A-Z, a-z, 0-9, _ and -")]
    Plugin {
        /// The kind.
        kind: String,
    },
    /// A profile is not valid. The line names it.
    #[error("{0}")]
    Profile(String),
    /// The receipts cannot be used.
    #[error(transparent)]
    Receipts(#[from] OpenError),
    /// The old command output cannot be removed.
    #[error("outputs: the state directory cannot be used: {0}")]
    Outputs(std::io::ErrorKind),
    /// The operating system gives no random bytes.
    #[error("the operating system gives no random bytes")]
    Random,
}

pub(super) struct Inner {
    pub(super) epoch: Epoch,
    pub(super) instances: BTreeMap<ProfileId, Arc<Instance>>,
    pub(super) receipts: Arc<ReceiptStore>,
    pub(super) outputs: Arc<OutputStore>,
    pub(super) answer_after: Duration,
    pub(super) tasks: TaskTracker,
    closed: AtomicBool,
    stopped: CancellationToken,
}

impl HarnessService {
    /// Checks the profiles, opens the receipts, settles what an earlier process left and makes the drivers. Accept
    /// requests only after it.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(plugins: &[Arc<dyn HarnessPlugin>], options: HarnessOptions) -> Result<Self, StartError> {
        let epoch = Epoch::from_bytes(random()?);
        let instances = create_instances(plugins, &options.profiles)?;
        let (state, server_id, limits) = (options.state, options.server_id, options.receipts);
        let (stored_epoch, output_bytes) = (epoch.clone(), options.output_bytes);
        let (receipts, outputs) = blocking(move || {
            let receipts = ReceiptStore::open(&state, &server_id, stored_epoch.clone(), limits)?;
            let outputs = OutputStore::open(&state, stored_epoch, output_bytes);
            Ok::<_, StartError>((receipts, outputs.map_err(|error| StartError::Outputs(error.kind()))?))
        })
        .await
        .unwrap_or(Err(StartError::Random))?;
        let inner = Inner {
            epoch,
            instances,
            receipts: Arc::new(receipts),
            outputs: Arc::new(outputs),
            answer_after: options.answer_after,
            tasks: TaskTracker::new(),
            closed: AtomicBool::new(false),
            stopped: CancellationToken::new(),
        };
        let service = Self { inner: Arc::new(inner) };
        service.inner.tasks.spawn(purge_daily(Arc::downgrade(&service.inner.receipts), service.inner.stopped.clone()));
        Ok(service)
    }

    /// The process epoch; every mutation must carry it.
    pub fn epoch(&self) -> &Epoch {
        &self.inner.epoch
    }

    /// The events of a profile.
    pub fn ring(&self, profile: &ProfileId) -> Option<Arc<EventRing>> {
        self.inner.instances.get(profile).map(|instance| Arc::clone(&instance.ring))
    }

    /// Calls a tool for `caller`. A mutation goes on when this future is dropped.
    ///
    /// # Errors
    /// The code of a failed read, or of a mutation that was not admitted. An admitted mutation that fails gives a receipt.
    pub async fn call(&self, caller: Caller<'_>, tool: &str, arguments: Arguments) -> Result<Value, ToolError> {
        self.inner.check_open()?;
        if arguments.contains_key("projectId") {
            return Err(ToolError("ECAPABILITY"));
        }
        let principal = caller.principal;
        let instance = self.inner.instance(&arguments, caller.profiles);
        let Some(tool) = Tool::find(tool) else {
            return Err(instance.err().unwrap_or(ToolError("ECAPABILITY")));
        };
        match tool.kind {
            ToolKind::Profiles => Ok(self.profiles(caller.profiles)),
            // Needs no instance: receipts outlive the profile they are for.
            ToolKind::Operation => self.operation(principal, arguments).await,
            ToolKind::Events => poll(&instance?.ring, &arguments),
            ToolKind::Read => self.inner.read(instance?, tool.name, arguments).await,
            ToolKind::Seal => {
                let instance = instance?;
                self.seal(&instance, self.inner.admissible(principal, &arguments)?).await
            }
            ToolKind::Output => {
                let instance = instance?;
                self.output(&instance, self.inner.admissible(principal, &arguments)?, &arguments).await
            }
            ToolKind::Mutation | ToolKind::PassingMutation | ToolKind::Steer => {
                self.inner.mutate(principal, instance?, tool, arguments).await
            }
        }
    }

    /// Refuses every further call, ends what runs and waits until its outcome is written, for at most 10 s. Does nothing
    /// the second time.
    pub async fn shutdown(&self) {
        if self.inner.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        self.inner.stopped.cancel();
        for instance in self.inner.instances.values() {
            instance.driver.stop();
        }
        let drained = async {
            join_all(self.inner.instances.values().map(|instance| instance.driver.drain())).await;
            self.inner.tasks.close();
            self.inner.tasks.wait().await;
        };
        // What does not end in time is settled at the next start.
        let _ = tokio::time::timeout(DRAIN_MAX, drained).await;
    }

    #[cfg(test)]
    pub(super) fn receipts(&self) -> &ReceiptStore {
        &self.inner.receipts
    }

    fn profiles(&self, granted: &BTreeSet<ProfileId>) -> Value {
        let instances = self.inner.instances.values().filter(|instance| granted.contains(&instance.id));
        let profiles: Vec<_> = instances.map(|instance| instance.descriptor()).collect();
        json!({"epoch": self.inner.epoch, "profiles": profiles})
    }

    async fn operation(&self, principal: &PrincipalId, arguments: Arguments) -> Result<Value, ToolError> {
        let (receipts, principal) = (Arc::clone(&self.inner.receipts), principal.clone());
        let found = blocking(move || {
            let (profile, epoch) = (text(&arguments, "profileId")?, text(&arguments, "epoch")?);
            let request_id = text(&arguments, "requestId")?;
            let state = receipts.find(&principal, request_id, profile, epoch)?;
            let mut receipt = receipt(request_id, state);
            receipt["epoch"] = epoch.into();
            Ok(receipt)
        });
        found.await.unwrap_or(Err(ToolError("EIO")))
    }

    async fn seal(&self, instance: &Instance, key: ReceiptKey) -> Result<Value, ToolError> {
        let (receipts, profile) = (Arc::clone(&self.inner.receipts), instance.id.clone());
        let sealed = blocking(move || Ok(receipt(key.request_id.as_str(), receipts.seal(&key, &profile)?)));
        sealed.await.unwrap_or(Err(ToolError("EIO")))
    }

    async fn output(&self, instance: &Instance, key: ReceiptKey, arguments: &Arguments) -> Result<Value, ToolError> {
        let (offset, limit) = (integer(arguments, "offset")?, integer(arguments, "limit")?);
        let (outputs, profile) = (Arc::clone(&self.inner.outputs), instance.id.clone());
        let page = blocking(move || {
            let page = outputs.page(&key, &profile, offset, limit)?;
            serde_json::to_value(page).map_err(|_| ToolError("EIO"))
        });
        page.await.unwrap_or(Err(ToolError("EIO")))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stopped.cancel();
    }
}

impl Inner {
    pub(super) fn check_open(&self) -> Result<(), ToolError> {
        if self.closed.load(Ordering::SeqCst) { Err(ToolError("EIO")) } else { Ok(()) }
    }

    fn instance(&self, arguments: &Arguments, granted: &BTreeSet<ProfileId>) -> Result<Arc<Instance>, ToolError> {
        let profile = text(arguments, "profileId")?;
        let mut instances = self.instances.values().filter(|instance| granted.contains(&instance.id));
        let found = instances.find(|instance| instance.id.as_str() == profile);
        found.map(Arc::clone).ok_or(ToolError("ENOENT"))
    }

    async fn read(
        &self,
        instance: Arc<Instance>,
        tool: &'static str,
        arguments: Arguments,
    ) -> Result<Value, ToolError> {
        let session = text(&arguments, "sessionId").map(str::to_owned);
        let summary = arguments.get("toolDetail") == Some(&json!("summary"));
        let mut value = guarded(|| instance.driver.read(tool, arguments)).await?;
        if tool != "harness_session_read" {
            return Ok(value);
        }
        if let Ok(session) = session {
            value = self.prove(instance, session, value).await?;
        }
        if summary {
            summarise_page(&mut value);
        }
        Ok(value)
    }

    /// Settles what a page of history proves, before the page is shown.
    async fn prove(&self, instance: Arc<Instance>, session: String, page: Value) -> Result<Value, ToolError> {
        let receipts = Arc::clone(&self.receipts);
        let proved = blocking(move || {
            for proof in instance.driver.proofs(&session, &page) {
                if let Err(error) = receipts.prove(&instance.id, &proof) {
                    tracing::warn!(code = error.0, "a proved outcome was not written");
                }
            }
            page
        });
        proved.await.ok_or(ToolError("EIO"))
    }

    /// Checks `epoch` and `requestId` of a call that only the current epoch can answer.
    pub(super) fn admissible(&self, principal: &PrincipalId, arguments: &Arguments) -> Result<ReceiptKey, ToolError> {
        if text(arguments, "epoch")? != self.epoch.as_str() {
            return Err(ToolError("HARNESS_EPOCH_CHANGED"));
        }
        let request_id = RequestId::new(text(arguments, "requestId")?).map_err(|_| ToolError("EINVAL"))?;
        Ok(ReceiptKey { principal: principal.clone(), request_id })
    }
}

/// The receipt as it stands on the wire (`harness.md` §2.3).
pub(super) fn receipt(request_id: &str, state: ReceiptState) -> Value {
    match state {
        ReceiptState::Running => json!({"outcome": "unknown", "requestId": request_id}),
        ReceiptState::Committed(result) => {
            let result: Value = serde_json::from_str(&result).unwrap_or_default();
            json!({"outcome": "committed", "requestId": request_id, "result": result})
        }
        ReceiptState::NotCommitted(code) => json!({"outcome": "not-committed", "requestId": request_id, "code": code}),
        ReceiptState::Unknown(code) => json!({"outcome": "unknown", "requestId": request_id, "code": code}),
    }
}

/// Runs what waits for the disk away from the threads that serve. `None` when it panicked.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

async fn purge_daily(receipts: Weak<ReceiptStore>, stopped: CancellationToken) {
    while stopped.run_until_cancelled(tokio::time::sleep(DAY)).await.is_some() {
        let Some(receipts) = receipts.upgrade() else { return };
        if let Some(Err(error)) = blocking(move || receipts.purge_old()).await {
            tracing::warn!("{error}");
        }
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const DRAIN_MAX: Duration = Duration::from_secs(10);
const OUTPUT_BYTES: u64 = 256 * 1024 * 1024;
