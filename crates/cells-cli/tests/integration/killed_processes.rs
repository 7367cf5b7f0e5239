//! A node that is killed leaves no process behind: a sandbox ends with it, and on the host the next start ends the rest.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

const KEY: &str = "a-key-that-only-tests-know";

struct Node {
    process: Child,
    address: Value,
}

impl Node {
    /// None: this machine can make no sandbox.
    fn start(directory: &Path, execution: &str) -> Option<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cells"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--execution", execution, "--log-level", "error"]);
        command.arg("--export").arg(format!("files={}:rw", directory.join("files").display()));
        command.arg("--state").arg(directory.join("state")).env("CELLS_API_KEY", KEY);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            assert_eq!((process.wait().unwrap().code(), execution), (Some(2), "sandbox"));
            return None;
        }
        Some(Self { process, address: serde_json::from_str(&line).unwrap() })
    }

    async fn ask(
        &self,
        request: impl FnOnce(&reqwest::Client, String) -> reqwest::RequestBuilder,
        route: &str,
    ) -> Value {
        // A second call finds the provider installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("{}{route}", self.address["endpoint"].as_str().unwrap());
        let reply = request(&client, url).bearer_auth(KEY).send().await.unwrap();
        serde_json::from_str(&reply.text().await.unwrap()).unwrap()
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[tokio::test]
async fn a_killed_node_leaves_no_process_behind() {
    // The next start ends what is left, however it runs commands itself.
    for (execution, next) in [("sandbox", None), ("host", Some("host")), ("host", Some("off")), ("host", Some("auto"))]
    {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("files")).unwrap();
        let Some(node) = Node::start(directory.path(), execution) else {
            println!("skipped: processes in a sandbox: this machine can make none");
            continue;
        };
        let word = format!("86400.{}", std::process::id());
        let capabilities = node.ask(|client, url| client.get(url), "/v1/capabilities").await;
        let script =
            format!("sleep {word} & setsid sleep {word} & (setsid sleep {word} >&- 2>&- &) ; echo ready; sleep {word}");
        let start = json!({
            "serverId": capabilities["serverId"],
            "epoch": capabilities["processEpoch"],
            "requestId": "one",
            "command": "sh",
            "args": ["-c", script],
            "cwd": "/workspace",
            "timeoutMs": 300_000,
            "mounts": [{ "alias": "files", "path": "", "at": "/workspace", "access": "rw" }],
        });
        let body = start.to_string();
        let json_body =
            |client: &reqwest::Client, url| client.post(url).header("content-type", "application/json").body(body);
        assert_eq!(node.ask(json_body, "/v1/processes").await["state"], "running");
        let epoch = capabilities["processEpoch"].as_str().unwrap();
        let route = format!("/v1/processes/{epoch}/one/output?stdout=0&stderr=0");
        let output = node.ask(|client, url| client.get(url), &route).await;
        assert_eq!(output["stdout"]["data"], "cmVhZHkK");
        assert!(is_running(&word), "{execution}");

        node.kill();
        match next {
            None => {
                while is_running(&word) {
                    tokio::task::yield_now().await;
                }
            }
            Some(next) => {
                let next = Node::start(directory.path(), next).unwrap();
                assert!(!is_running(&word));
                next.kill();
            }
        }
    }
}

/// Whether a process of this machine has the word in its command line.
fn is_running(word: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    })
}
