//! Runs in which the program `cells` is killed with SIGKILL, and started again.

use std::{os::unix::process::ExitStatusExt as _, path::PathBuf, time::Duration};

use cells_native::cells_driver::{Client, ClientConfig, Connection, Secret};
use cells_testkit::{
    fault_proxy::{Fault, FaultProxy, Plan, Rule},
    fault_runs::FileMutation,
    local_node::{LocalNode, NodeOptions},
};
use tempfile::TempDir;

use crate::{
    Passed, Planned, Queue, Report,
    judge::{self, Direct, Reported},
    network::{self, PATIENCE_MS},
    scene::Scene,
};

/// Runs until the queue is empty, one node after the other.
pub(crate) async fn lane(queue: Queue, report: Report) {
    while let Some(planned) = queue.take() {
        let end = match planned.mutation {
            FileMutation::ProcessStart => command(&planned).await,
            _ => write(&planned).await,
        };
        report.add(&planned, end);
    }
}

/// A node on directories of its own, which outlive its process.
struct Place {
    root: TempDir,
    options: NodeOptions,
}

impl Place {
    fn new() -> Place {
        let root = tempfile::tempdir().unwrap();
        let work = root.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let options = NodeOptions {
            program: PathBuf::from(env!("CARGO_BIN_EXE_cells")),
            exports: vec![format!("work={}:rw", work.display()).into()],
            state: root.path().join("state"),
            listen: ([127, 0, 0, 1], 0).into(),
            api_key: KEY.to_owned(),
        };
        Place { root, options }
    }

    fn scene(&self, planned: &Planned) -> Scene {
        Scene::prepare(planned, 1, &self.root.path().join("work"))
    }

    /// Starts the node; a second time at the address of the first.
    async fn start(&mut self, arguments: &[&str]) -> Result<LocalNode, String> {
        let node = LocalNode::start_with(&self.options, arguments).await;
        let node = node.map_err(|error| format!("the node does not start: {error}"))?;
        self.options.listen = node.address().map_err(|error| error.to_string())?;
        Ok(node)
    }
}

fn client() -> Client {
    let client = cells_native::spawn(ClientConfig::default()).unwrap();
    client.set_credential("node", Secret::new(KEY));
    client
}

/// The node ends itself at the planned moment of its first write.
async fn write(planned: &Planned) -> Result<Passed, String> {
    let mut place = Place::new();
    let mut scene = place.scene(planned);
    let moment = planned.run.fault.kill().unwrap_or_default();
    let node = place.start(&["--fault-kill", moment]).await?;
    let endpoint = node.endpoint().to_owned();
    let client = client();
    let storage = network::open(&client, &Connection::new(&endpoint, "node")).await;
    let storage = storage.map_err(|error| format!("before the fault: {error}"))?;
    scene.look(&storage).await.map_err(|error| format!("before the fault: {error}"))?;

    let (options, sent) = network::options(PATIENCE_MS);
    let result = scene.mutate(&storage, options).await;
    let status = tokio::time::timeout(Duration::from_millis(PATIENCE_MS), node.ended()).await;
    let status = status.map_err(|_| "the planned fault did not take effect: the node lives")?;
    let signal = status.map_err(|error| error.to_string())?.signal();
    if signal != Some(SIGKILL) {
        return Err(format!("the node ended by itself, not by SIGKILL: {signal:?}"));
    }
    let happened = scene.effects()?;
    let reported = Reported::new(result, sent.lock().unwrap().take())?;

    let _node = place.start(&[]).await?;
    let passed = judge::write(planned, &scene, &storage, &Direct::new(&endpoint, KEY), reported).await?;
    let expected = u8::from(moment != "before");
    match (happened, scene.effects()?) {
        (before, after) if before == expected && after == expected => Ok(passed),
        (before, after) => Err(format!("{expected} effects expected, {before} before and {after} after the restart")),
    }
}

/// The node is killed at the planned moment of a command: while a proxy holds its request or its reply back, or while the
/// command runs.
async fn command(planned: &Planned) -> Result<Passed, String> {
    let mut place = Place::new();
    let scene = place.scene(planned);
    let node = place.start(&[]).await?;
    let proxy = FaultProxy::start(node.address().map_err(|error| error.to_string())?).await.unwrap();
    let client = client();
    let session = scene.session(&client, &Connection::new(proxy.url(), "node")).await;
    let session = session.map_err(|error| format!("before the fault: {error}"))?;

    let moment = planned.run.fault.kill().unwrap_or_default();
    proxy.set_plan(Plan::new(held_back(moment)));
    let waits = moment == "during";
    let kill = async {
        let due = || match moment {
            "before" => proxy.counts().faults == 1,
            "during" => scene.trace().0,
            _ => scene.trace().1,
        };
        let mut polls = 0;
        while !due() {
            polls += 1;
            if polls > KILL_POLLS {
                return Err("the planned fault did not take effect: its moment did not come".to_owned());
            }
            tokio::time::sleep(KILL_POLL).await;
        }
        let killed = node.kill().await;
        // What the proxy holds back for a node that is gone ends with its connections.
        proxy.set_plan(Plan::default());
        proxy.refuse().await;
        killed.map(drop).map_err(|error| error.to_string())
    };
    let (result, killed) = tokio::join!(scene.execute(&session, waits, PATIENCE_MS), kill);
    scene.let_go();
    killed?;
    let _node = place.start(&[]).await?;
    proxy.listen().await;
    judge::command(planned, &scene, &session, result, true).await
}

/// Holds the request of a command back, or its reply, until the connections end.
fn held_back(moment: &str) -> Option<Rule> {
    let (_, path) = FileMutation::ProcessStart.request();
    match moment {
        "before" => Some(Rule::path(path, Fault::DelayRequest { ms: HELD_BACK_MS })),
        "after" => Some(Rule::path(path, Fault::DelayReply { ms: HELD_BACK_MS })),
        _ => None,
    }
}

const KEY: &str = "a-key-that-only-tests-know";
const SIGKILL: i32 = 9;
const KILL_POLLS: u32 = 10_000;
const KILL_POLL: Duration = Duration::from_millis(2);
/// Longer than any caller waits.
const HELD_BACK_MS: u64 = 600_000;
