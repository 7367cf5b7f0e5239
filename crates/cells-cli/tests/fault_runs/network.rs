//! Runs whose fault is one of the network, or none: a node in this process, a proxy before it for each lane.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use cells_native::cells_driver::{
    Client, ClientConfig, Connection, FileConnection, FileMutationOptions, FileRecovery, FileStorage, OperationOptions,
    Outcome, Result, Secret,
};
use cells_server::{Credential, Node, ServeConfig};
use cells_testkit::{
    fault_proxy::{FaultProxy, Plan},
    fault_runs::{FileMutation, RunFault},
    old_node::{OldCredential, OldExport, OldNode, OldNodeOptions},
};
use futures::future::join_all;
use tokio::sync::oneshot;

use crate::{
    Passed, Planned, Queue, Report,
    judge::{self, Direct, Reported},
    scene::Scene,
};

/// All these runs on one fresh node.
pub(crate) async fn run(runs: Vec<Planned>, report: &Report) {
    let root = tempfile::tempdir().unwrap();
    for name in ["work", "state"] {
        std::fs::create_dir(root.path().join(name)).unwrap();
    }
    let config = ServeConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        state: Some(root.path().join("state")),
        exports: vec![format!("work={}:rw", root.path().join("work").display()).parse().unwrap()],
        credential: Credential::ApiKey(None),
        ..ServeConfig::default()
    };
    let node = Node::bind(config).await.unwrap();
    let (endpoint, api_key) = (node.endpoint().to_owned(), node.api_key().unwrap().to_owned());
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(node.run(async {
        let _ = stopped.await;
    }));
    let queue = Queue::new(runs);
    let lanes = (0..LANES).map(|_| async {
        let lane = Lane::new(&endpoint, &api_key, root.path().join("work")).await;
        while let Some(planned) = queue.take() {
            report.add(&planned, lane.run(&planned).await);
        }
    });
    join_all(lanes).await;
    drop(stop);
    served.await.unwrap().unwrap();
}

/// All these runs on old nodes, one for each lane: there every directory that somebody makes changes every revision.
pub(crate) async fn run_old(runs: Vec<Planned>, report: &Report) {
    let queue = Queue::new(runs);
    let lanes = (0..LANES).map(|_| async {
        let root = tempfile::tempdir().unwrap();
        let export = OldExport { alias: "work".into(), path: root.path().into(), writable: true };
        let credential = OldCredential::Token { token: OLD_KEY.into() };
        let node = OldNode::start(OldNodeOptions::new(credential, [export])).await.unwrap();
        let lane = Lane::new(&node.endpoint(), OLD_KEY, root.path().to_owned()).await;
        while let Some(planned) = queue.take() {
            report.add(&planned, lane.run(&planned).await);
        }
    });
    join_all(lanes).await;
}

struct Lane {
    proxy: FaultProxy,
    client: Client,
    connection: Connection,
    storage: FileStorage,
    direct: Direct,
    export: PathBuf,
}

impl Lane {
    async fn new(endpoint: &str, api_key: &str, export: PathBuf) -> Lane {
        let proxy = FaultProxy::start(endpoint.strip_prefix("http://").unwrap().parse().unwrap()).await.unwrap();
        let client = cells_native::spawn(ClientConfig::default()).unwrap();
        client.set_credential("node", Secret::new(api_key));
        let connection = Connection::new(proxy.url(), "node");
        let storage = open(&client, &connection).await.unwrap();
        Lane { proxy, client, connection, storage, direct: Direct::new(endpoint, api_key), export }
    }

    async fn run(&self, planned: &Planned) -> std::result::Result<Passed, String> {
        let mut patience_ms = match planned.run.fault {
            RunFault::Delayed => FIRST_PATIENCE_MS,
            _ => PATIENCE_MS,
        };
        for attempt in 1.. {
            let mut scene = Scene::prepare(planned, attempt, &self.export);
            scene.look(&self.storage).await.map_err(|error| format!("before the fault: {error}"))?;
            if let Some(passed) = self.attempt(planned, &scene, patience_ms).await? {
                return Ok(passed);
            }
            // The machine was so slow that the deadline came before the fault: once more, with more patience.
            if patience_ms > PATIENCE_MS {
                break;
            }
            patience_ms *= 4;
        }
        Err("the planned fault did not take effect in time".into())
    }

    /// None when the deadline came before the fault.
    async fn attempt(
        &self,
        planned: &Planned,
        scene: &Scene,
        patience_ms: u64,
    ) -> std::result::Result<Option<Passed>, String> {
        if scene.mutation == FileMutation::ProcessStart {
            let session = scene.session(&self.client, &self.connection).await.map_err(|error| error.to_string())?;
            self.arm(planned, scene).await;
            let result = scene.execute(&session, false, patience_ms).await;
            let outcome = result.as_ref().err().and_then(|error| error.outcome());
            let fired = self.disarm(planned, scene, outcome).await?;
            let passed = judge::command(planned, scene, &session, result, false).await?;
            return Ok(fired.then_some(passed));
        }
        self.arm(planned, scene).await;
        let (options, sent) = options(patience_ms);
        let result = scene.mutate(&self.storage, options).await;
        let reported = Reported::new(result, sent.lock().unwrap().take())?;
        let fired = self.disarm(planned, scene, Some(reported.outcome)).await?;
        let passed = judge::write(planned, scene, &self.storage, &self.direct, reported).await?;
        Ok(fired.then_some(passed))
    }

    async fn arm(&self, planned: &Planned, scene: &Scene) {
        let (method, path) = scene.mutation.request();
        self.proxy.set_plan(Plan::new(planned.run.rule(method, path)));
        self.proxy.reset_counts();
        if planned.run.fault == RunFault::Refused {
            self.proxy.refuse().await;
        }
    }

    /// Stops the fault. False when it was a delay and came too late; an error when any other did not take effect.
    async fn disarm(
        &self,
        planned: &Planned,
        scene: &Scene,
        outcome: Option<Outcome>,
    ) -> std::result::Result<bool, String> {
        let counts = self.proxy.counts();
        self.proxy.set_plan(Plan::default());
        self.proxy.listen().await;
        let (method, path) = scene.mutation.request();
        let sent = counts.paths.get(&format!("{method} {path}")).copied().unwrap_or_default();
        let fired = match planned.run.fault {
            RunFault::None => counts.faults == 0 && sent == 1,
            RunFault::Refused => sent == 0 && outcome.is_some_and(|outcome| outcome != Outcome::Committed),
            _ => counts.faults == 1 && sent == 1,
        };
        let is_late = counts.faults == 0 && sent <= 1 && outcome.is_some_and(|outcome| outcome != Outcome::Committed);
        match (fired, planned.run.fault) {
            (true, _) => Ok(true),
            (false, RunFault::Delayed) if is_late => Ok(false),
            (false, _) => Err(format!("the planned fault did not take effect: {counts:?}, reported {outcome:?}")),
        }
    }
}

/// The export of all runs.
pub(crate) async fn open(client: &Client, connection: &Connection) -> Result<FileStorage> {
    client.file_storage(&FileConnection::new(connection.clone(), "work"), OperationOptions::default()).await
}

type Sent = Arc<Mutex<Option<FileRecovery>>>;

/// Options with this time budget, and what was handed out before the request left.
pub(crate) fn options(patience_ms: u64) -> (FileMutationOptions, Sent) {
    let sent = Sent::default();
    let keep = sent.clone();
    let options = FileMutationOptions {
        operation: OperationOptions { timeout_ms: Some(patience_ms), cancel: None },
        on_dispatch: Some(Box::new(move |recovery| *keep.lock().unwrap() = Some(recovery))),
        ..FileMutationOptions::default()
    };
    (options, sent)
}

const LANES: usize = 8;
const OLD_KEY: &str = "a-key-that-only-tests-know";
/// What a caller waits that must not give up.
pub(crate) const PATIENCE_MS: u64 = 25_000;
/// What a caller waits that must give up; more when the machine is slow.
const FIRST_PATIENCE_MS: u64 = 300;
