//! A node that is killed at any moment: what its receipts say afterwards is what really happened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cells_testkit::local_node::{LocalNode, NodeOptions};
use serde_json::{Value, json};

const KEY: &str = "a-key-that-only-tests-know";

struct Node {
    process: LocalNode,
    client: reqwest::Client,
    epoch: String,
}

impl Node {
    async fn start(directory: &Path) -> Self {
        // A second call finds the provider installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let files = directory.join("files");
        std::fs::create_dir_all(&files).unwrap();
        let options = NodeOptions {
            program: PathBuf::from(env!("CARGO_BIN_EXE_cells")),
            exports: vec![format!("files={}", files.display()).into()],
            state: directory.join("state"),
            listen: ([127, 0, 0, 1], 0).into(),
            api_key: KEY.to_owned(),
        };
        let process = LocalNode::start(&options).await.unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut node = Self { process, client, epoch: String::new() };
        let profiles = node.call("harness_profiles", json!({})).await.unwrap();
        node.epoch = profiles["epoch"].as_str().unwrap().to_owned();
        node
    }

    /// The value of a tool; `None` when the reply was lost.
    async fn call(&self, tool: &str, mut arguments: Value) -> Option<Value> {
        arguments["profileId"] = json!("scripted");
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let request = self.client.post(self.process.mcp_url()).bearer_auth(KEY).body(body.to_string());
        let headers =
            [("content-type", "application/json"), ("mcp-protocol-version", "2026-07-28"), ("mcp-name", tool)];
        let request = headers
            .into_iter()
            .fold(request.header("mcp-method", "tools/call"), |request, (name, value)| request.header(name, value));
        let reply = request.send().await.ok()?.text().await.ok()?;
        let reply: Value = serde_json::from_str(&reply).ok()?;
        Some(reply["result"]["structuredContent"].clone())
    }

    async fn mutate(&self, tool: &str, request_id: &str, mut arguments: Value) -> Option<Value> {
        arguments["epoch"] = json!(self.epoch);
        arguments["requestId"] = json!(request_id);
        self.call(tool, arguments).await
    }

    async fn session(&self, request_id: &str) -> Value {
        let created = self.mutate("harness_create", request_id, json!({"workspaceId": "files"})).await.unwrap();
        created["result"]["session"]["id"].clone()
    }

    async fn receipt(&self, epoch: &str, request_id: &str) -> Value {
        self.call("harness_operation", json!({"epoch": epoch, "requestId": request_id})).await.unwrap()
    }

    /// How often a prompt stands in the agent's own history.
    async fn times_in_history(&self, session: &Value, prompt: &str) -> usize {
        let page = self.call("harness_session_read", json!({"sessionId": session})).await.unwrap();
        let turns = page["turns"].as_array().unwrap().iter().flat_map(|turn| turn["items"].as_array().unwrap());
        turns.filter(|item| item["type"] == "userMessage" && item.to_string().contains(prompt)).count()
    }
}

#[tokio::test]
async fn a_killed_node_knows_what_waited_what_ran_and_what_was_done() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::start(directory.path()).await;
    let (first, second) = (node.session("create-1").await, node.session("create-2").await);
    let turn = |session: &Value, prompt: &str| json!({"sessionId": session, "prompt": prompt});
    let done = node.mutate("harness_turn", "done", turn(&second, "slow-receipt end\nsay done")).await.unwrap();
    assert_eq!(done["outcome"], "committed");

    // One turn runs and gives no receipt, the other waits for it; neither call is answered.
    let arguments = [turn(&first, "slow-receipt end\nsay runs\nwait"), turn(&second, "say waits")];
    let calls = async {
        tokio::join!(node.mutate("harness_turn", "runs", arguments[0].clone()), async {
            while node.receipt(&node.epoch, "runs").await["outcome"] != "unknown"
                || node.times_in_history(&first, "say runs").await == 0
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            node.mutate("harness_turn", "waits", arguments[1].clone()).await
        })
    };
    let both_are_known = async {
        while node.receipt(&node.epoch, "waits").await["outcome"] != "unknown" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        answers = calls => panic!("answered: {answers:?}"),
        () = both_are_known => {}
    }
    let epoch = node.epoch.clone();
    node.process.kill().await.unwrap();

    let node = Node::start(directory.path()).await;
    assert_ne!(node.epoch, epoch);
    for (id, outcome, code, session, prompt, times) in [
        ("done", "committed", Value::Null, &second, "say done", 1),
        ("runs", "unknown", json!("HARNESS_RESTARTED"), &first, "say runs", 1),
        ("waits", "not-committed", json!("HARNESS_NOT_STARTED"), &second, "say waits", 0),
        ("never-sent", "not-committed", json!("HARNESS_NOT_ADMITTED"), &second, "never", 0),
    ] {
        let receipt = node.receipt(&epoch, id).await;
        assert_eq!((&receipt["outcome"], &receipt["code"]), (&json!(outcome), &code), "{id}");
        assert_eq!(node.times_in_history(session, prompt).await, times, "{id}");
    }
    // The history, which was just read, holds the turn: its receipt is proved, and stays so.
    for _ in 0..2 {
        let receipt = node.receipt(&epoch, "runs").await;
        assert_eq!((&receipt["outcome"], &receipt["result"]), (&json!("committed"), &json!({"turnId": "runs"})));
        assert_eq!(receipt.get("code"), None);
    }
    assert_eq!(node.times_in_history(&first, "say runs").await, 1, "nothing runs again");
}

/// What one start of the node was asked to do.
struct Round {
    epoch: String,
    session: Value,
    /// The ids of the turns, and whether their receipt arrived.
    turns: Vec<(String, bool)>,
}

#[tokio::test]
async fn receipts_and_history_agree_after_a_kill_at_any_moment() {
    let directory = tempfile::tempdir().unwrap();
    let mut rounds = Vec::new();
    for round in 0..8_u64 {
        let node = Node::start(directory.path()).await;
        let session = node.session(&format!("create-{round}")).await;
        let mut turns = Vec::new();
        let sending = async {
            for number in 0.. {
                let id = format!("turn-{round}-{number}-end");
                turns.push((id.clone(), false));
                let arguments = json!({"sessionId": session, "prompt": format!("slow-receipt end\nsay {id}")});
                let Some(answer) = node.mutate("harness_turn", &id, arguments).await else { return };
                assert_eq!(answer["outcome"], "committed");
                if let Some(last) = turns.last_mut() {
                    last.1 = true;
                }
            }
        };
        // Only where the kill falls depends on time, not whether the test passes.
        tokio::select! {
            () = sending => panic!("the node ended by itself"),
            () = tokio::time::sleep(Duration::from_millis(40 + 13 * round)) => {}
        }
        rounds.push(Round { epoch: node.epoch.clone(), session, turns });
        node.process.kill().await.unwrap();
    }
    let node = Node::start(directory.path()).await;
    for Round { epoch, session, turns } in &rounds {
        for (id, answered) in turns {
            let receipt = node.receipt(epoch, id).await;
            let times = node.times_in_history(session, &format!("say {id}")).await;
            match receipt["outcome"].as_str().unwrap() {
                "committed" => assert_eq!(times, 1, "{id}"),
                "not-committed" => assert!(times == 0 && !answered, "{id}: {receipt}"),
                _ => {
                    assert!(times <= 1 && !answered, "{id}: {receipt}");
                    let after = node.receipt(epoch, id).await;
                    let proved = after["outcome"] == "committed";
                    assert_eq!(proved, times == 1, "the history was read: {id}: {after}");
                }
            }
        }
    }
    assert!(rounds.iter().any(|round| round.turns.iter().any(|(_, answered)| *answered)), "no turn was ever answered");
}
