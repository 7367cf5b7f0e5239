//! A node that runs processes, and what tests ask of them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use cells_server::{Execution, Node, ServeConfig};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::{KEY, Reply, TestNode, config};

/// The models in which this machine can run processes. Says so when there can be no sandbox, which `cargo xtask setup`
/// installs where it can.
pub(crate) async fn models() -> Vec<Execution> {
    if has_sandbox().await {
        return vec![Execution::Sandbox, Execution::Host];
    }
    vec![Execution::Host]
}

pub(crate) async fn has_sandbox() -> bool {
    let directory = tempfile::tempdir().unwrap();
    let config = ServeConfig { execution: Execution::Sandbox, ..config(&directory) };
    match Node::bind(config).await {
        Ok(_) => true,
        Err(error) => {
            println!("skipped: processes in a sandbox: {error}");
            false
        }
    }
}

/// A node whose two exports are `rw` and `ro`, with processes.
pub(crate) struct ProcessNode {
    pub(crate) node: TestNode,
    pub(crate) server_id: String,
    pub(crate) epoch: String,
}

impl ProcessNode {
    pub(crate) async fn start(model: Execution) -> Self {
        Self::start_with(model, |_| {}).await
    }

    pub(crate) async fn start_with(model: Execution, change: impl FnOnce(&mut ServeConfig)) -> Self {
        let node = TestNode::start_with(|config| {
            config.execution = model;
            change(config);
        })
        .await;
        let capabilities = Reply::of(node.get("/v1/capabilities")).await.json();
        let text = |name: &str| capabilities[name].as_str().unwrap().to_owned();
        Self { server_id: text("serverId"), epoch: text("processEpoch"), node }
    }

    /// A start of `sh -c script` in the export `rw`, with a fresh request id.
    pub(crate) fn shell(&self, script: &str) -> Value {
        json!({
            "serverId": self.server_id,
            "epoch": self.epoch,
            "requestId": fresh_id(),
            "command": "sh",
            "args": ["-c", script],
            "cwd": "/workspace",
            "timeoutMs": 60_000,
            "mounts": [{ "alias": "rw", "path": "", "at": "/workspace", "access": "rw" }],
        })
    }

    pub(crate) fn post(&self, route: &str, body: &Value) -> RequestBuilder {
        let request = self.node.anonymous(Method::POST, route).bearer_auth(KEY);
        request.header("content-type", "application/json").body(body.to_string())
    }

    pub(crate) fn request(&self, method: Method, id: &Value, rest: &str) -> RequestBuilder {
        let route = format!("/v1/processes/{}/{}{rest}", self.epoch, id.as_str().unwrap());
        self.node.anonymous(method, &route).bearer_auth(KEY)
    }

    pub(crate) async fn send(&self, start: &Value) -> Reply {
        Reply::of(self.post("/v1/processes", start)).await
    }

    /// Starts it and returns its id.
    pub(crate) async fn begin(&self, start: &Value) -> Value {
        let reply = self.send(start).await;
        assert_eq!(reply.status, 200, "{start} {reply:?}");
        start["requestId"].clone()
    }

    pub(crate) async fn cancel(&self, id: &Value) -> Value {
        let reply = Reply::of(self.request(Method::POST, id, "/cancel")).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    /// Waits for the end, by the output route, which needs no pauses.
    pub(crate) async fn end(&self, id: &Value) -> Value {
        let (mut stdout, mut stderr) = (0, 0);
        loop {
            let reply = self.output(id, stdout, stderr).await.json();
            if reply["state"] != "running" {
                break;
            }
            stdout = next_offset(&reply["stdout"]);
            stderr = next_offset(&reply["stderr"]);
        }
        Reply::of(self.request(Method::GET, id, "")).await.json()
    }

    pub(crate) async fn output(&self, id: &Value, stdout: u64, stderr: u64) -> Reply {
        Reply::of(self.request(Method::GET, id, &format!("/output?stdout={stdout}&stderr={stderr}"))).await
    }

    /// Waits until the process has written `text` to standard output.
    pub(crate) async fn wait_for(&self, id: &Value, text: &str) {
        let (mut seen, mut offset) = (Vec::new(), 0);
        while !String::from_utf8_lossy(&seen).contains(text) {
            let reply = self.output(id, offset, 0).await.json();
            assert_eq!(reply["state"], "running", "ended before it wrote {text}: {reply}");
            seen.extend(data(&reply["stdout"]));
            offset = next_offset(&reply["stdout"]);
        }
    }

    /// Runs it to its end.
    pub(crate) async fn run(&self, start: &Value) -> Value {
        let id = self.begin(start).await;
        self.end(&id).await
    }

    /// What `sh -c script` in `rw` writes to standard output.
    pub(crate) async fn stdout(&self, script: &str) -> String {
        let status = self.run(&self.shell(script)).await;
        assert_eq!((&status["state"], &status["code"]), (&json!("exited"), &json!(0)), "{script}: {status}");
        status["stdout"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn fresh_id() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("request-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn data(chunk: &Value) -> Vec<u8> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(chunk["data"].as_str().unwrap()).unwrap()
}

pub(crate) fn next_offset(chunk: &Value) -> u64 {
    chunk["offset"].as_u64().unwrap() + data(chunk).len() as u64
}

/// The processes of this machine whose command line holds `text`, zombies not counted.
pub(crate) fn running_with(text: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(text) {
            found.insert(pid);
        }
    }
    found
}

/// The processes that carry the mark of this node, bubblewrap's own included.
pub(crate) fn marked(node: &ProcessNode) -> BTreeSet<u32> {
    let state = node.node.path("state");
    let digest = Sha256::digest(state.as_os_str().as_encoded_bytes());
    let mark: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let mark = format!("CELLS_PROCESS={mark}.");
    let mut found = BTreeSet::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(mark.as_bytes())) {
            found.insert(pid);
        }
    }
    found
}

/// A word that stands in no other command line.
pub(crate) fn unique_word() -> String {
    format!("86400.{}{}", std::process::id(), fresh_id().trim_start_matches("request-"))
}

pub(crate) fn exists(node: &ProcessNode, path: &str) -> bool {
    Path::new(&node.node.path(path)).exists()
}
