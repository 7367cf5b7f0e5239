//! The service with an agent that does what the test says.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cells_protocol::harness::{HarnessCapabilities, Profile, Workspace};
use cells_protocol::ids::{Epoch, PrincipalId, ProfileId, ServerId, WorkspaceId};
use cells_protocol::json::Json;
use cells_protocol::receipts::Receipt;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, mpsc};

use super::plugin::{DriverContext, HarnessDriver, HarnessPlugin, MutationCall, ProfileConfig, ToolError};
use super::receipts::ReceiptLimits;
use super::{Caller, HarnessOptions, HarnessService, StartError};

/// An agent whose mutations do what their `prompt` says: `fail CODE`, `panic`, `hold` (until the test lets it go on), `text
/// N` (a command output of N bytes), anything else succeeds.
#[derive(Default)]
struct Puppet {
    /// The prompts that were executed, in order.
    executed: Mutex<Vec<String>>,
    started: Mutex<Option<mpsc::UnboundedSender<String>>>,
    release: Releases,
    stopped: Mutex<Vec<&'static str>>,
}

struct Releases(Semaphore);

impl Default for Releases {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

struct PuppetPlugin(Arc<Puppet>);

struct PuppetDriver {
    puppet: Arc<Puppet>,
    profile: Profile,
}

impl HarnessPlugin for PuppetPlugin {
    fn kind(&self) -> &'static str {
        "puppet"
    }

    fn validate(&self, profile: &ProfileConfig) -> Result<(), String> {
        if profile.workspaces.is_empty() { Err(format!("profile {}: has no workspace", profile.id)) } else { Ok(()) }
    }

    fn create(&self, profile: &ProfileConfig, context: DriverContext) -> Result<Arc<dyn HarnessDriver>, String> {
        context.ring.push("harness/created", json!({})).map_err(|error| error.to_string())?;
        let capabilities = HarnessCapabilities {
            history: true,
            slash_commands: true,
            command_outputs: profile.id.as_str() != "plain",
            fork: true,
            metrics: true,
            ..HarnessCapabilities::default()
        };
        let workspaces = profile.workspaces.iter().map(|(id, _)| Workspace { id: id.clone() }).collect();
        let profile = Profile {
            id: profile.id.clone(),
            kind: "puppet".to_owned(),
            workspaces,
            project_runtime: true,
            capabilities,
        };
        Ok(Arc::new(PuppetDriver { puppet: Arc::clone(&self.0), profile }))
    }
}

impl HarnessDriver for PuppetDriver {
    fn descriptor(&self) -> Profile {
        self.profile.clone()
    }

    fn read(&self, tool: &str, arguments: Map<String, Value>) -> BoxFuture<'static, Result<Value, ToolError>> {
        let answer = match tool {
            "harness_sessions" => Ok(json!({"sessions": [], "nextCursor": null})),
            "harness_session_read" => {
                Ok(json!({"session": {"id": "s"}, "nextCursor": null, "turns": [{"id": "t", "items": [
                {"type": "agentMessage", "text": "x"}, {"type": "toolOutput", "text": "secret"},
                {"type": "commandExecution", "command": "ls d", "aggregatedOutput": "secret"}]}]}))
            }
            "harness_session_info" if arguments["sessionId"] == "panic" => panic!("a driver that panics"),
            _ => Err(ToolError("ENOENT")),
        };
        futures::future::ready(answer).boxed()
    }

    fn execute(&self, call: MutationCall) -> BoxFuture<'static, Result<Value, ToolError>> {
        let puppet = Arc::clone(&self.puppet);
        async move {
            let text = |name| call.arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let order = text("prompt") + &text("args");
            puppet.executed.lock().unwrap().push(order.clone());
            if let Some(started) = puppet.started.lock().unwrap().as_ref() {
                started.send(order.clone()).unwrap();
            }
            match order.split_once(' ') {
                Some(("fail", "EBUSY")) => Err(ToolError("EBUSY")),
                Some(("fail", _)) => Err(ToolError("EIO")),
                Some(("text", size)) => {
                    Ok(json!({"commandId": call.request_id, "name": text("name"), "state": "completed",
                    "turnId": null, "output": "é".repeat(size.parse::<usize>().unwrap() / 2)}))
                }
                _ if order == "panic" => panic!("a driver that panics"),
                _ if order.starts_with("hold") => {
                    puppet.release.0.acquire().await.unwrap().forget();
                    Ok(json!({"turnId": order}))
                }
                _ => Ok(json!({"turnId": order})),
            }
        }
        .boxed()
    }

    fn stop(&self) {
        self.puppet.stopped.lock().unwrap().push("stop");
        self.puppet.release.0.add_permits(1000);
    }

    fn drain(&self) -> BoxFuture<'static, ()> {
        self.puppet.stopped.lock().unwrap().push("drain");
        futures::future::ready(()).boxed()
    }
}

/// A node's service on a state directory.
struct Node {
    service: HarnessService,
    puppet: Arc<Puppet>,
    started: mpsc::UnboundedReceiver<String>,
}

impl Node {
    async fn start(state: &Path) -> Self {
        Self::with(state, |_| {}).await
    }

    async fn with(state: &Path, change: impl FnOnce(&mut HarnessOptions)) -> Self {
        let puppet = Arc::new(Puppet::default());
        let mut options = options(state);
        change(&mut options);
        let plugin: Arc<dyn HarnessPlugin> = Arc::new(PuppetPlugin(Arc::clone(&puppet)));
        let (sender, started) = mpsc::unbounded_channel();
        *puppet.started.lock().unwrap() = Some(sender);
        Self { service: HarnessService::start(&[plugin], options).await.unwrap(), puppet, started }
    }

    fn epoch(&self) -> String {
        self.service.epoch().to_string()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<Value, &'static str> {
        call(&self.service, tool, arguments).await
    }

    fn turn(&self, request_id: &str, prompt: &str) -> Value {
        json!({"profileId": "main", "epoch": self.epoch(), "requestId": request_id, "sessionId": "s", "prompt": prompt})
    }

    /// A call that goes on by itself.
    fn spawn(&self, tool: &'static str, arguments: Value) -> tokio::task::JoinHandle<Result<Value, &'static str>> {
        let service = self.service.clone();
        tokio::spawn(async move { call(&service, tool, arguments).await })
    }

    /// Waits until the driver has begun with `prompt`.
    async fn begun(&mut self, prompt: &str) {
        assert_eq!(self.started.recv().await.as_deref(), Some(prompt));
    }

    fn release(&self) {
        self.puppet.release.0.add_permits(1);
    }

    fn executed(&self) -> Vec<String> {
        self.puppet.executed.lock().unwrap().clone()
    }

    /// The final receipt of a mutation.
    async fn settled(&self, epoch: &str, request_id: &str) -> Value {
        let question = json!({"profileId": "main", "epoch": epoch, "requestId": request_id});
        loop {
            let receipt = self.call("harness_operation", question.clone()).await.unwrap();
            if receipt["outcome"] != "unknown" || receipt.get("code").is_some() {
                return receipt;
            }
            tokio::task::yield_now().await;
        }
    }
}

async fn call(service: &HarnessService, tool: &str, arguments: Value) -> Result<Value, &'static str> {
    let arguments = serde_json::from_value(arguments).unwrap();
    let (owner, profiles) =
        (PrincipalId::new("owner").unwrap(), ["plain", "main"].map(|id| ProfileId::new(id).unwrap()).into());
    let caller = Caller { principal: &owner, profiles: &profiles };
    service.call(caller, tool, arguments).await.map_err(|error| error.0)
}

fn profile(id: &str, kind: &str) -> ProfileConfig {
    let workspaces = vec![(WorkspaceId::new("demo").unwrap(), "/".into())];
    ProfileConfig { id: ProfileId::new(id).unwrap(), kind: kind.to_owned(), workspaces, home: "/".into() }
}

fn options(state: &Path) -> HarnessOptions {
    let profiles = vec![profile("plain", "puppet"), profile("main", "puppet")];
    let options = HarnessOptions::new(state.to_owned(), ServerId::new("node-1").unwrap(), profiles);
    HarnessOptions { answer_after: Duration::from_secs(3600), ..options }
}

fn state() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn profiles_are_sorted_and_say_what_their_agents_can() {
    let state = state();
    let node = Node::start(state.path()).await;
    let profiles = node.call("harness_profiles", json!({})).await.unwrap();
    assert_eq!(profiles["epoch"], json!(node.epoch()));
    let ids: Vec<_> = profiles["profiles"].as_array().unwrap().iter().map(|profile| &profile["id"]).collect();
    assert_eq!(ids, [&json!("main"), &json!("plain")]);
    let main = &profiles["profiles"][0];
    let declared: Vec<_> =
        main["capabilities"].as_object().unwrap().iter().filter(|(_, on)| **on == json!(true)).collect();
    let declared: Vec<_> = declared.into_iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(declared, ["commandOutputs", "fork", "history", "metrics", "slashCommands"]);
    assert_eq!((&main["projectRuntime"], &main["workspaces"]), (&json!(false), &json!([{"id": "demo"}])));
}

#[tokio::test]
async fn calls_are_checked_in_the_order_of_the_specification() {
    let state = state();
    let node = Node::start(state.path()).await;
    let epoch = node.epoch();
    let stale = Epoch::from_bytes([0; 32]);
    for (tool, arguments, expected) in [
        ("harness_turn", json!({}), "EINVAL"),
        ("harness_turn", json!({"profileId": 1}), "EINVAL"),
        ("harness_turn", json!({"profileId": ""}), "EINVAL"),
        ("harness_turn", json!({"profileId": "absent", "epoch": 1}), "ENOENT"),
        ("harness_turn", json!({"profileId": "main"}), "EINVAL"),
        ("harness_turn", json!({"profileId": "main", "epoch": stale, "requestId": "no id!"}), "HARNESS_EPOCH_CHANGED"),
        ("harness_turn", json!({"profileId": "main", "epoch": epoch}), "EINVAL"),
        ("harness_turn", json!({"profileId": "main", "epoch": epoch, "requestId": "no id!"}), "EINVAL"),
        ("harness_turn", json!({"profileId": "main", "epoch": epoch, "requestId": "x".repeat(129)}), "EINVAL"),
        ("harness_turn", json!({"projectId": null}), "ECAPABILITY"),
        ("harness_profiles", json!({"projectId": "p"}), "ECAPABILITY"),
        ("harness_fork", json!({}), "EINVAL"),
        ("harness_fork", json!({"profileId": "absent"}), "ENOENT"),
        ("harness_fork", json!({"profileId": "main"}), "EINVAL"),
        ("no_such_tool", json!({"profileId": "main"}), "ECAPABILITY"),
        ("harness_operation", json!({"profileId": "main", "epoch": epoch}), "EINVAL"),
        ("harness_operation", json!({"profileId": "main", "epoch": epoch, "requestId": "no id!"}), "ENOENT"),
        ("harness_operation", json!({"profileId": "main", "epoch": stale, "requestId": "r"}), "HARNESS_EPOCH_CHANGED"),
        ("harness_seal", json!({"profileId": "main", "epoch": stale, "requestId": "r"}), "HARNESS_EPOCH_CHANGED"),
        ("harness_seal", json!({"profileId": "main", "epoch": epoch, "requestId": "no id!"}), "EINVAL"),
        ("harness_session_info", json!({"profileId": "main", "sessionId": "x"}), "ENOENT"),
        ("harness_session_info", json!({"profileId": "main", "sessionId": "panic"}), "EIO"),
    ] {
        assert_eq!(node.call(tool, arguments.clone()).await, Err(expected), "{tool} {arguments}");
    }
    assert!(node.executed().is_empty());
}

#[tokio::test]
async fn the_failure_of_an_admitted_mutation_is_a_receipt() {
    let state = state();
    let node = Node::start(state.path()).await;
    for (id, prompt, expected) in [
        ("a", "go", json!({"outcome": "committed", "requestId": "a", "result": {"turnId": "go"}})),
        ("b", "fail EBUSY", json!({"outcome": "not-committed", "requestId": "b", "code": "EBUSY"})),
        ("c", "fail EIO", json!({"outcome": "unknown", "requestId": "c", "code": "EIO"})),
        ("d", "panic", json!({"outcome": "unknown", "requestId": "d", "code": "EIO"})),
    ] {
        let receipt = node.call("harness_turn", node.turn(id, prompt)).await.unwrap();
        assert_eq!(receipt, expected);
        let mut read = Json::of(&receipt).object("the receipt").unwrap();
        assert!(Receipt::read(&mut read, &id.to_owned().try_into().unwrap()).is_ok());
        // A replay gives the same and executes nothing.
        assert_eq!(node.call("harness_turn", node.turn(id, prompt)).await, Ok(expected.clone()));
        let mut looked_up = expected;
        looked_up["epoch"] = json!(node.epoch());
        assert_eq!(node.settled(&node.epoch(), id).await, looked_up);
    }
    assert_eq!(node.executed(), ["go", "fail EBUSY", "fail EIO", "panic"]);
    assert_eq!(node.call("harness_turn", node.turn("a", "other")).await, Err("HARNESS_REQUEST_REUSED"));
    assert_eq!(node.call("harness_create", node.turn("a", "go")).await, Err("HARNESS_REQUEST_REUSED"));
}

#[tokio::test]
async fn a_slow_mutation_is_answered_as_running_and_goes_on() {
    let state = state();
    let mut node = Node::with(state.path(), |options| options.answer_after = Duration::ZERO).await;
    let running = json!({"outcome": "unknown", "requestId": "a"});
    assert_eq!(node.call("harness_turn", node.turn("a", "hold")).await, Ok(running.clone()));
    node.begun("hold").await;
    assert_eq!(node.call("harness_turn", node.turn("a", "hold")).await, Ok(running));
    node.release();
    assert_eq!(node.settled(&node.epoch(), "a").await["outcome"], "committed");
    assert_eq!(node.executed(), ["hold"]);
}

#[tokio::test]
async fn a_mutation_goes_on_when_its_caller_is_gone() {
    let state = state();
    let mut node = Node::start(state.path()).await;
    let caller = node.spawn("harness_turn", node.turn("a", "hold"));
    node.begun("hold").await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    node.release();
    assert_eq!(node.settled(&node.epoch(), "a").await["outcome"], "committed");
}

#[tokio::test]
async fn mutations_run_one_after_another_and_answers_pass_them() {
    let state = state();
    let mut node = Node::start(state.path()).await;
    let first = node.spawn("harness_turn", node.turn("a", "hold 1"));
    node.begun("hold 1").await;
    let second = node.spawn("harness_turn", node.turn("b", "second"));
    // It is known before it has begun.
    let question = json!({"profileId": "main", "epoch": node.epoch(), "requestId": "b"});
    let waiting = loop {
        match node.call("harness_operation", question.clone()).await {
            Err("ENOENT") => tokio::task::yield_now().await,
            other => break other.unwrap(),
        }
    };
    assert_eq!(waiting, json!({"outcome": "unknown", "requestId": "b", "epoch": node.epoch()}));
    for tool in ["harness_respond", "harness_interrupt"] {
        let receipt = node.call(tool, node.turn(tool, tool)).await.unwrap();
        assert_eq!(receipt["outcome"], "committed");
        node.begun(tool).await;
    }
    // Another profile has its own line.
    let mut elsewhere = node.turn("e", "elsewhere");
    elsewhere["profileId"] = json!("plain");
    assert_eq!(node.call("harness_turn", elsewhere).await.unwrap()["outcome"], "committed");
    node.begun("elsewhere").await;
    node.release();
    assert_eq!(first.await.unwrap().unwrap()["outcome"], "committed");
    assert_eq!(second.await.unwrap().unwrap()["outcome"], "committed");
    node.begun("second").await;
}

#[tokio::test]
async fn a_sealed_mutation_never_runs() {
    let state = state();
    let mut node = Node::start(state.path()).await;
    let seal = |id: &str| json!({"profileId": "main", "epoch": node.epoch(), "requestId": id});
    let (before, during, foreign) =
        (seal("a"), seal("b"), json!({"profileId": "plain", "epoch": node.epoch(), "requestId": "b"}));
    let cancelled = json!({"outcome": "not-committed", "requestId": "a", "code": "ECANCELLED"});
    assert_eq!(node.call("harness_seal", before).await, Ok(cancelled));
    assert_eq!(node.call("harness_turn", node.turn("a", "late")).await, Err("HARNESS_REQUEST_REUSED"));

    let runs = node.spawn("harness_turn", node.turn("b", "hold"));
    node.begun("hold").await;
    assert_eq!(node.call("harness_seal", during).await, Ok(json!({"outcome": "unknown", "requestId": "b"})));
    assert_eq!(node.call("harness_seal", foreign).await, Err("HARNESS_REQUEST_REUSED"));
    node.release();
    assert_eq!(runs.await.unwrap().unwrap()["outcome"], "committed");
    assert_eq!(node.executed(), ["hold"]);
}

#[tokio::test]
async fn a_restart_keeps_outcomes_and_runs_nothing_again() {
    let state = state();
    let mut node = Node::start(state.path()).await;
    let old = node.epoch();
    node.call("harness_turn", node.turn("done", "go")).await.unwrap();
    node.begun("go").await;
    let _runs = node.spawn("harness_turn", node.turn("runs", "hold"));
    node.begun("hold").await;
    let _waits = node.spawn("harness_turn", node.turn("waits", "never"));
    let question = json!({"profileId": "main", "epoch": old, "requestId": "waits"});
    while node.call("harness_operation", question.clone()).await.is_err() {
        tokio::task::yield_now().await;
    }
    // The files as a killed process leaves them.
    let copy = tempfile::tempdir().unwrap();
    for name in ["receipts.sqlite", "receipts.sqlite-wal"] {
        std::fs::copy(state.path().join(name), copy.path().join(name)).unwrap();
    }
    let next = Node::start(copy.path()).await;
    assert_ne!(next.epoch(), old);
    for (id, expected) in [
        ("done", json!({"outcome": "committed", "requestId": "done", "result": {"turnId": "go"}, "epoch": old})),
        ("runs", json!({"outcome": "unknown", "requestId": "runs", "code": "HARNESS_RESTARTED", "epoch": old})),
        (
            "waits",
            json!({"outcome": "not-committed", "requestId": "waits", "code": "HARNESS_NOT_STARTED", "epoch": old}),
        ),
        (
            "absent",
            json!({"outcome": "not-committed", "requestId": "absent", "code": "HARNESS_NOT_ADMITTED", "epoch": old}),
        ),
    ] {
        assert_eq!(next.settled(&old, id).await, expected);
    }
    assert!(next.executed().is_empty());
    let mut again = next.turn("done", "go");
    assert_eq!(next.call("harness_turn", again.clone()).await, Err("HARNESS_REQUEST_REUSED"));
    again["epoch"] = json!(old);
    assert_eq!(next.call("harness_turn", again).await, Err("HARNESS_EPOCH_CHANGED"));
}

#[tokio::test]
async fn a_full_table_refuses_new_mutations_until_the_restart() {
    let state = state();
    let limits = ReceiptLimits { per_instance: 2, ..ReceiptLimits::default() };
    let node = Node::with(state.path(), |options| options.receipts = limits).await;
    node.call("harness_turn", node.turn("a", "go")).await.unwrap();
    node.call("harness_turn", node.turn("b", "fail EBUSY")).await.unwrap();
    assert_eq!(node.call("harness_turn", node.turn("c", "go")).await, Err("HARNESS_OPERATION_LIMIT"));
    assert_eq!(node.call("harness_turn", node.turn("a", "go")).await.unwrap()["outcome"], "committed");
    assert_eq!(node.executed(), ["go", "fail EBUSY"]);
}

#[tokio::test]
async fn without_a_receipt_there_is_no_effect() {
    let (breaks, heals) = ("PRAGMA query_only = 1", "PRAGMA query_only = 0");
    let state = state();
    let mut node = Node::start(state.path()).await;
    let old = node.epoch();
    let refused = Err("HARNESS_RECEIPT_STORE");
    node.service.receipts().execute(breaks).unwrap();
    assert_eq!(node.call("harness_turn", node.turn("a", "go")).await, refused);
    assert_eq!(node.call("harness_respond", node.turn("a", "go")).await, refused);
    assert!(node.executed().is_empty());
    node.service.receipts().execute(heals).unwrap();

    let runs = node.spawn("harness_turn", node.turn("runs", "hold"));
    node.begun("hold").await;
    let waits = node.spawn("harness_turn", node.turn("waits", "never"));
    let question = json!({"profileId": "main", "epoch": old, "requestId": "waits"});
    while node.call("harness_operation", question.clone()).await.is_err() {
        tokio::task::yield_now().await;
    }
    node.service.receipts().execute(breaks).unwrap();
    node.release();
    let done = json!({"outcome": "committed", "requestId": "runs", "result": {"turnId": "hold"}});
    let not_done = json!({"outcome": "not-committed", "requestId": "waits", "code": "HARNESS_RECEIPT_STORE"});
    assert_eq!(runs.await.unwrap(), Ok(done.clone()));
    assert_eq!(waits.await.unwrap(), Ok(not_done.clone()));
    assert_eq!(node.call("harness_turn", node.turn("b", "go")).await, refused);
    assert_eq!(node.call("harness_turn", node.turn("runs", "hold")).await, Ok(done));
    assert_eq!(node.settled(&old, "waits").await["code"], not_done["code"]);
    assert_eq!(node.executed(), ["hold"]);

    node.service.receipts().execute(heals).unwrap();
    assert_eq!(node.call("harness_turn", node.turn("b", "go")).await.unwrap()["outcome"], "committed");
    drop(node);
    let next = Node::start(state.path()).await;
    assert_eq!(next.settled(&old, "runs").await["outcome"], "committed");
    assert_eq!(next.settled(&old, "waits").await["code"], not_done["code"]);
}

#[tokio::test]
async fn a_summary_leaves_out_what_tools_said() {
    let state = state();
    let node = Node::start(state.path()).await;
    let read = json!({"profileId": "main", "sessionId": "s"});
    let full = node.call("harness_session_read", read.clone()).await.unwrap();
    assert!(full.to_string().contains("secret"));
    let mut read = read;
    read["toolDetail"] = json!("summary");
    let summary = node.call("harness_session_read", read).await.unwrap();
    assert!(!summary.to_string().contains("secret") && summary.to_string().contains("ls d"), "{summary}");
}

#[tokio::test]
async fn command_output_is_read_in_pages_until_the_epoch_ends() {
    let state = state();
    let node = Node::start(state.path()).await;
    let run = |profile: &str, id: &str| {
        json!({"profileId": profile, "epoch": node.epoch(), "requestId": id, "sessionId": "s", "name": "dump",
            "args": "text 200000", "outputMode": "reference"})
    };
    let receipt = node.call("harness_command", run("main", "a")).await.unwrap();
    let reference = &receipt["result"]["outputRef"];
    assert_eq!((&reference["bytes"], &receipt["result"]["truncated"]), (&json!(200_000), &json!(true)));
    // The receipt keeps the reference.
    assert_eq!(node.settled(&node.epoch(), "a").await["result"], receipt["result"]);

    let page = |offset: u64, limit: u64| json!({"profileId": "main", "epoch": node.epoch(), "requestId": "a", "offset": offset, "limit": limit});
    let last = node.call("harness_command_output", page(196_608, 65_536)).await.unwrap();
    assert_eq!(
        (&last["offset"], &last["nextOffset"], &last["sha256"]),
        (&json!(196_608), &Value::Null, &reference["sha256"])
    );
    assert_eq!(node.call("harness_command_output", page(0, 65_537)).await, Err("EINVAL"));
    assert_eq!(node.call("harness_command_output", page(200_001, 1)).await, Err("EINVAL"));
    let mut absent = page(0, 1);
    absent["requestId"] = json!("b");
    assert_eq!(node.call("harness_command_output", absent).await, Err("ENOENT"));
    let mut stale = page(0, 1);
    stale["epoch"] = json!("0".repeat(64));
    assert_eq!(node.call("harness_command_output", stale).await, Err("HARNESS_EPOCH_CHANGED"));

    let refused = node.call("harness_command", run("plain", "c")).await.unwrap();
    assert_eq!(refused, json!({"outcome": "not-committed", "requestId": "c", "code": "ECAPABILITY"}));
    assert_eq!(node.executed(), ["text 200000"]);
}

#[tokio::test]
async fn a_stopped_service_answers_no_call_and_has_written_every_outcome() {
    let state = state();
    let mut node = Node::start(state.path()).await;
    let old = node.epoch();
    let runs = node.spawn("harness_turn", node.turn("a", "hold"));
    node.begun("hold").await;
    let waits = node.spawn("harness_turn", node.turn("b", "second"));
    let question = json!({"profileId": "main", "epoch": old, "requestId": "b"});
    while node.call("harness_operation", question.clone()).await.is_err() {
        tokio::task::yield_now().await;
    }
    node.service.shutdown().await;
    assert_eq!(*node.puppet.stopped.lock().unwrap(), ["stop", "stop", "drain", "drain"]);
    assert_eq!(runs.await.unwrap().unwrap()["outcome"], "committed");
    assert_eq!(waits.await.unwrap().unwrap()["code"], "ECANCELLED");
    for (tool, arguments) in
        [("harness_profiles", json!({})), ("harness_turn", node.turn("c", "go")), ("harness_operation", question)]
    {
        assert_eq!(node.call(tool, arguments).await, Err("EIO"), "{tool}");
    }
    assert_eq!(node.executed(), ["hold"]);
    drop(node);
    let next = Node::start(state.path()).await;
    assert_eq!(next.settled(&old, "a").await["outcome"], "committed");
    assert_eq!(next.settled(&old, "b").await["code"], "ECANCELLED");
}

#[tokio::test]
async fn a_profile_that_is_not_valid_ends_the_start() {
    let state = state();
    let plugin = || -> Arc<dyn HarnessPlugin> { Arc::new(PuppetPlugin(Arc::default())) };
    let no_workspace = ProfileConfig { workspaces: Vec::new(), ..profile("main", "puppet") };
    for (plugins, profiles, expected) in [
        (
            vec![plugin()],
            vec![profile("main", "codex")],
            "profile main: kind `codex` does not exist; write one of: puppet",
        ),
        (vec![plugin()], vec![no_workspace], "profile main: has no workspace"),
        (vec![plugin()], vec![profile("a", "puppet"), profile("a", "puppet")], "profile a: the id stands twice"),
        (
            vec![plugin(), plugin()],
            vec![],
            "agent kind `puppet`: the name stands twice or is not made of A-Z, a-z, 0-9, _ and -",
        ),
    ] {
        let options = HarnessOptions { profiles, ..options(state.path()) };
        let error: StartError = HarnessService::start(&plugins, options).await.map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    assert!(!state.path().join("receipts.sqlite").exists());
}

#[tokio::test]
async fn one_node_at_a_time_has_the_state() {
    let state = state();
    let node = Node::start(state.path()).await;
    let plugin: Arc<dyn HarnessPlugin> = Arc::new(PuppetPlugin(Arc::default()));
    let second = HarnessService::start(&[plugin], options(state.path())).await;
    assert!(second.map(|_| ()).unwrap_err().to_string().contains("another node uses this state directory"));
    assert_eq!(node.call("harness_turn", node.turn("a", "go")).await.unwrap()["outcome"], "committed");
}
