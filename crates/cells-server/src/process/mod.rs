//! Processes (`files-http.md` §6): commands that work in exports, with a record of each until the node restarts.
//!
//! Files stay usable while a process runs; their revisions come from the files themselves.

mod execution;
mod host;
mod mark;
mod mounts;
mod output;
mod record;
mod request;
mod routes;
mod run;
mod sandbox;
mod spawner;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use cells_protocol::ids::{PrincipalId, ServerId};
use cells_protocol::limits::{PROCESS_OUTPUT_MAX_BYTES, PROCESSES_MAX};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::execution::Model;
use self::request::Plan;
use self::spawner::Spawner;
use crate::auth::Principal;
use crate::refusal::Refusal;
use crate::{Execution, ServeError};

pub(crate) use self::execution::ModelWords;
pub(crate) use self::record::Record;
pub(crate) use self::routes::router;

/// The processes of a node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Processes {
    inner: Arc<Inner>,
}

struct Inner {
    epoch: ServerId,
    /// None: there are no processes.
    model: Option<Model>,
    spawner: Spawner,
    registry: Mutex<Registry>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// Who started it, and its request id.
type Key = (PrincipalId, String);

#[derive(Default)]
struct Registry {
    records: BTreeMap<Key, Arc<Record>>,
    running: usize,
    /// Ended processes whose output is kept, the oldest first, and how much that is.
    kept: VecDeque<(Arc<Record>, usize)>,
    kept_bytes: usize,
}

impl Processes {
    /// Finds out how processes can run. `state` is the state directory.
    pub(crate) async fn start(execution: Execution, state: &Path, epoch: ServerId) -> Result<Self, ServeError> {
        let failed = |error| ServeError::Failed(format!("the thread that starts commands: {error}"));
        let spawner = Spawner::new().map_err(failed)?;
        let model = Model::choose(execution, &spawner, state, epoch.as_str()).await?;
        let (registry, stop, tasks) = (Mutex::default(), CancellationToken::new(), TaskTracker::new());
        Ok(Self { inner: Arc::new(Inner { epoch, model, spawner, registry, stop, tasks }) })
    }

    /// How processes run for this caller. None = not at all.
    pub(crate) fn words(&self, principal: &Principal) -> Option<ModelWords> {
        let model = self.inner.model.as_ref().filter(|_| principal.may_run_processes());
        model.map(Model::words)
    }

    /// Ends all processes. Starts are refused from now on.
    pub(crate) async fn shutdown(&self) {
        {
            // Under the lock: a start either sees the stop or is seen by it.
            let _registry = self.inner.registry();
            self.inner.stop.cancel();
            self.inner.tasks.close();
        }
        self.inner.tasks.wait().await;
    }

    /// Checks what every route checks first.
    fn admit(&self, principal: &Principal, epoch: &str) -> Result<(), Refusal> {
        if !principal.may_run_processes() {
            return Err(Refusal::DENIED);
        }
        if self.inner.model.is_none() || self.inner.stop.is_cancelled() {
            return Err(Refusal::UNSUPPORTED);
        }
        if epoch == self.inner.epoch.as_str() { Ok(()) } else { Err(STALE_EPOCH) }
    }

    /// The process that `principal` started or cancelled under this request id.
    pub(crate) fn record(&self, principal: &Principal, epoch: &str, request_id: &str) -> Result<Arc<Record>, Refusal> {
        self.admit(principal, epoch)?;
        self.find(&(principal.id().clone(), request_id.to_owned())).ok_or(PROCESS_UNKNOWN)
    }

    fn find(&self, key: &Key) -> Option<Arc<Record>> {
        self.inner.registry().records.get(key).cloned()
    }

    /// Whether one more process can start now.
    fn check_room(&self) -> Result<(), Refusal> {
        self.inner.registry().check_room()
    }

    /// Starts a process, unless one of this key was started or cancelled meanwhile.
    fn launch(&self, key: Key, plan: Plan) -> Result<Arc<Record>, Refusal> {
        self.inner.model.as_ref().ok_or(Refusal::UNSUPPORTED)?.check(&plan)?;
        let mut registry = self.inner.registry();
        if self.inner.stop.is_cancelled() {
            return Err(Refusal::UNSUPPORTED);
        }
        if let Some(record) = registry.records.get(&key) {
            return Ok(Arc::clone(record));
        }
        registry.check_room()?;
        let record = Arc::new(Record::running(self.inner.stop.child_token(), plan.keep_output));
        registry.records.insert(key, Arc::clone(&record));
        registry.running += 1;
        let (inner, followed) = (Arc::clone(&self.inner), Arc::clone(&record));
        self.inner.tasks.spawn(async move { inner.follow(plan, followed).await });
        Ok(record)
    }

    /// Asks a process to end; one that is not known never starts.
    fn cancel(&self, key: Key) -> Result<Arc<Record>, Refusal> {
        let mut registry = self.inner.registry();
        if let Some(record) = registry.records.get(&key) {
            record.cancel.cancel();
            return Ok(Arc::clone(record));
        }
        registry.check_records()?;
        let record = Arc::new(Record::cancelled());
        registry.records.insert(key, Arc::clone(&record));
        Ok(record)
    }
}

impl Inner {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn follow(&self, plan: Plan, record: Arc<Record>) {
        let Some(model) = &self.model else { return };
        let end = run::run(model, &self.spawner, plan, &record).await;
        if end == record::End::NotReaped {
            tracing::error!("a command could not be ended");
        }
        record.finish(end);
        self.registry().finished(record);
    }
}

impl Registry {
    fn check_records(&self) -> Result<(), Refusal> {
        if self.records.len() < PROCESSES_MAX { Ok(()) } else { Err(PROCESS_LIMIT) }
    }

    fn check_room(&self) -> Result<(), Refusal> {
        self.check_records()?;
        if self.running < RUNNING_MAX { Ok(()) } else { Err(BUSY) }
    }

    /// Keeps the long outputs of the processes that ended last.
    fn finished(&mut self, record: Arc<Record>) {
        self.running -= 1;
        let bytes = record.kept_bytes();
        if bytes > 2 * PROCESS_OUTPUT_MAX_BYTES {
            self.kept.push_back((record, bytes));
            self.kept_bytes += bytes;
        }
        while self.kept_bytes > ENDED_OUTPUT_MAX_BYTES {
            let Some((record, bytes)) = self.kept.pop_front() else { return };
            record.shrink(PROCESS_OUTPUT_MAX_BYTES);
            self.kept_bytes -= bytes;
        }
    }
}

const STALE_EPOCH: Refusal = Refusal::new(StatusCode::CONFLICT, "STALE_SERVER_EPOCH");
const SERVER_ID_CHANGED: Refusal = Refusal::new(StatusCode::CONFLICT, "SERVER_ID_CHANGED");
const BUSY: Refusal = Refusal::new(StatusCode::CONFLICT, "EBUSY");
const PROCESS_UNKNOWN: Refusal = Refusal::new(StatusCode::NOT_FOUND, "PROCESS_UNKNOWN");
const PROCESS_LIMIT: Refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, "PROCESS_LIMIT");

/// Processes that run at a time, of all principals together.
const RUNNING_MAX: usize = 16;
/// Output that is kept of ended processes, beyond what their status holds.
const ENDED_OUTPUT_MAX_BYTES: usize = 64 * 1024 * 1024;
/// How long the kernel may take to end what was killed.
const REAP_LIMIT: Duration = Duration::from_secs(5);
/// How long a pipe may stay open after the end of its process.
const PIPE_LIMIT: Duration = Duration::from_secs(5);
