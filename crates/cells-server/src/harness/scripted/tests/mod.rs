//! The agent as the harness service uses it: tools in, values and events out.

mod commands;
mod history;
mod live;
mod manage;
mod sessions;
mod turns;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cells_protocol::events::EventCursor;
use cells_protocol::ids::{ProfileId, RequestId, WorkspaceId};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::ScriptedPlugin;
use crate::harness::plugin::{DriverContext, HarnessDriver, HarnessPlugin, MutationCall, ProfileConfig, ToolError};
use crate::harness::ring::EventRing;

/// The directories of an agent, which outlive it.
struct Place {
    home: TempDir,
    workspace: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), workspace: tempfile::tempdir().unwrap() }
    }

    fn profile(&self) -> ProfileConfig {
        ProfileConfig {
            id: ProfileId::new("scripted").unwrap(),
            kind: "scripted".to_owned(),
            workspaces: vec![(WorkspaceId::new("demo").unwrap(), self.workspace.path().to_owned())],
            home: self.home.path().to_owned(),
        }
    }

    fn start(&self) -> Agent {
        self.start_with(&self.profile())
    }

    fn start_with(&self, profile: &ProfileConfig) -> Agent {
        let ring = Arc::new(EventRing::new([1; 16]));
        let driver = ScriptedPlugin.create(profile, DriverContext { ring: Arc::clone(&ring) }).unwrap();
        let start = ring.newest();
        Agent { driver, ring, start }
    }

    fn file(&self, path: &str) -> std::path::PathBuf {
        self.workspace.path().join(path)
    }

    fn history_file(&self, session: &str) -> std::path::PathBuf {
        self.home.path().join(format!("sessions/{session}.jsonl"))
    }
}

/// A running agent.
#[derive(Clone)]
struct Agent {
    driver: Arc<dyn HarnessDriver>,
    ring: Arc<EventRing>,
    start: EventCursor,
}

impl Agent {
    async fn read(&self, tool: &str, arguments: Value) -> Result<Value, ToolError> {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        self.driver.read(tool, arguments).await
    }

    /// Calls a mutation; `request_id` becomes the id of a turn.
    async fn execute(&self, tool: &str, request_id: &str, arguments: Value) -> Result<Value, ToolError> {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let call = MutationCall { tool: tool.to_owned(), request_id: RequestId::new(request_id).unwrap(), arguments };
        self.driver.execute(call).await
    }

    async fn create(&self) -> String {
        let created = self.execute("harness_create", "create", json!({"workspaceId": "demo"})).await.unwrap();
        string(&created["session"]["id"])
    }

    async fn turn(&self, session: &str, turn: &str, prompt: &str) -> Result<Value, ToolError> {
        self.execute("harness_turn", turn, json!({"sessionId": session, "prompt": prompt})).await
    }

    /// Sends a prompt and waits for the end of its turn, which is given.
    async fn turn_to_end(&self, session: &str, turn: &str, prompt: &str) -> Value {
        self.turn(session, turn, prompt).await.unwrap();
        self.turn_end(turn).await
    }

    async fn turn_end(&self, turn: &str) -> Value {
        let end = |event: &Value| event["method"] == "turn/completed" && event["params"]["turn"]["id"] == *turn;
        self.event(end).await["params"]["turn"].clone()
    }

    /// Waits until no turn runs in a session whose process died.
    async fn turn_gone(&self, session: &str) {
        while !self.info(session).await["activeTurnId"].is_null() {
            tokio::task::yield_now().await;
        }
    }

    async fn respond(&self, request: &Value, response: Value) -> Result<Value, ToolError> {
        self.execute("harness_respond", "respond", json!({"nativeRequestId": request, "response": response})).await
    }

    /// Waits for the request of a turn and gives it.
    async fn request(&self, turn: &str) -> Value {
        self.event(|event| event.get("id").is_some() && event["params"]["turnId"] == *turn).await
    }

    async fn interrupt(&self, session: &str, turn: &str) -> Result<Value, ToolError> {
        self.execute("harness_interrupt", "interrupt", json!({"sessionId": session, "turnId": turn})).await
    }

    async fn command(&self, session: &str, request_id: &str, name: &str, args: &str) -> Result<Value, ToolError> {
        let arguments = json!({"sessionId": session, "name": name, "args": args});
        self.execute("harness_command", request_id, arguments).await
    }

    async fn info(&self, session: &str) -> Value {
        self.read("harness_session_info", json!({"sessionId": session})).await.unwrap()["session"].clone()
    }

    async fn page(&self, session: &str, cursor: &Value) -> Value {
        self.read("harness_session_read", json!({"sessionId": session, "cursor": cursor})).await.unwrap()
    }

    /// Every item of the history, oldest first.
    async fn items(&self, session: &str) -> Vec<Value> {
        let mut items = Vec::new();
        let mut cursor = Value::Null;
        loop {
            let page = self.page(session, &cursor).await;
            items.splice(0..0, page_items(&page));
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                return items;
            }
        }
    }

    /// How many requests wait for an answer.
    fn outstanding(&self) -> usize {
        self.ring.page(&self.ring.newest()).unwrap().requests.len()
    }

    /// Every event so far.
    fn events(&self) -> Vec<Value> {
        let mut cursor = self.start.clone();
        let mut events = Vec::new();
        loop {
            let page = self.ring.page(&cursor).unwrap();
            if page.events.is_empty() {
                return events;
            }
            events.extend(page.events.iter().map(|event| serde_json::from_str::<Value>(&event.message).unwrap()));
            cursor.after = page.to;
        }
    }

    /// The first event for which `wanted` holds; waits for it.
    async fn event(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut changed = self.ring.changed();
        let found = async {
            loop {
                changed.borrow_and_update();
                if let Some(event) = self.events().into_iter().find(&wanted) {
                    return event;
                }
                changed.changed().await.unwrap();
            }
        };
        // Only a broken agent gets here late; a test must not hang on it.
        tokio::time::timeout(Duration::from_secs(60), found).await.expect("the event comes")
    }
}

fn string(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}

fn page_items(page: &Value) -> Vec<Value> {
    let turns = page["turns"].as_array().unwrap();
    turns.iter().flat_map(|turn| turn["items"].as_array().unwrap().clone()).collect()
}

/// The texts of the agent messages among `items`.
fn messages(items: &[Value]) -> Vec<String> {
    items.iter().filter(|item| item["type"] == "agentMessage").map(|item| string(&item["text"])).collect()
}

fn item_of_type<'a>(items: &'a [Value], kind: &str) -> &'a Value {
    items.iter().find(|item| item["type"] == kind).expect("an item of this type")
}

/// Method and, where there is one, the type of the item of each event.
fn outline(events: &[Value]) -> Vec<String> {
    let line = |event: &Value| {
        let item = event["params"]["item"]["type"].as_str().map(|kind| format!(" {kind}")).unwrap_or_default();
        format!("{}{item}", string(&event["method"]))
    };
    events.iter().map(line).collect()
}

/// Whether a process still runs. One that waits to be reaped by its new parent does not.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// Waits until a process that was killed is gone: the kernel may take a moment.
async fn gone(pid: &str) {
    while runs(pid) {
        tokio::task::yield_now().await;
    }
}
