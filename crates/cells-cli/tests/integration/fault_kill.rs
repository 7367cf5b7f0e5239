//! A node that ends itself with SIGKILL before, during and after each kind of write, and what its next start says.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cells_testkit::local_node::{LocalNode, NodeOptions};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};

const KEY: &str = "a-key-that-only-tests-know";
const WRITES: [&str; 8] =
    ["create", "replace", "mkdir", "rename", "remove", "remove a folder", "seq create", "seq change"];

/// A node with the export `files`, in which are the files `old` and `table.seq` and the empty folder `folder`.
struct Node {
    process: LocalNode,
    client: Client,
    files: PathBuf,
}

impl Node {
    async fn start(directory: &Path, arguments: &[&str]) -> Self {
        // A second call finds the provider installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let files = directory.join("files");
        fs::create_dir_all(&files).unwrap();
        let options = NodeOptions {
            program: PathBuf::from(env!("CARGO_BIN_EXE_cells")),
            exports: vec![format!("files={}:rw", files.display()).into()],
            state: directory.join("state"),
            listen: ([127, 0, 0, 1], 0).into(),
            api_key: KEY.to_owned(),
        };
        let arguments: Vec<&str> = ["--execution", "off"].into_iter().chain(arguments.iter().copied()).collect();
        let process = LocalNode::start_with(&options, &arguments).await.unwrap();
        Self { process, client: Client::builder().no_proxy().build().unwrap(), files }
    }

    fn ask(&self, method: Method, route: &str) -> RequestBuilder {
        let url = format!("{}/v1/fs/files/{route}", self.process.endpoint());
        self.client.request(method, url).bearer_auth(KEY)
    }

    fn json(&self, route: &str, body: &Value) -> RequestBuilder {
        self.ask(Method::POST, route).header("content-type", "application/json").body(body.to_string())
    }

    fn write(&self, write: &str, revisions: &BTreeMap<String, String>) -> RequestBuilder {
        let put = |name: &str| self.ask(Method::PUT, &format!("content?path={name}")).body("new");
        let mutate = |action: &str, path: &str| json!({ "action": action, "path": path, "to": "new" });
        let seq = |path: &str| {
            json!({ "path": path, "expectedRevision": revisions.get(path),
                "changes": [{ "action": "set", "key": "k", "value": "new" }] })
        };
        let request = match write {
            "create" => put("new").header("if-none-match", "*"),
            "replace" => put("old").header("if-match", &revisions["old"]),
            "seq create" => self.json("seq/transaction", &seq("new.seq")),
            "seq change" => self.json("seq/transaction", &seq("table.seq")),
            "remove a folder" => self.json("mutate", &mutate("remove", "folder")),
            "remove" => self.json("mutate", &mutate("remove", "old")),
            "rename" => self.json("mutate", &mutate("rename", "old")),
            _ => self.json("mutate", &mutate("mkdir", "new")),
        };
        request.header("x-operation-id", write.replace(' ', "-"))
    }

    async fn receipt(&self, write: &str) -> Value {
        reply(self.ask(Method::GET, &format!("operations/{}", write.replace(' ', "-")))).await.unwrap().1
    }

    async fn revision(&self, name: &str) -> String {
        let (_, found) = reply(self.json("stat", &json!({ "paths": [name] }))).await.unwrap();
        found["results"][0]["stat"]["revision"].as_str().unwrap().to_owned()
    }

    /// Name and content of everything, staging files included.
    fn tree(&self) -> BTreeMap<String, Option<Vec<u8>>> {
        let entry = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).ok());
        fs::read_dir(&self.files).unwrap().map(|found| entry(found.unwrap())).collect()
    }
}

/// None: there was no answer.
async fn reply(request: RequestBuilder) -> Option<(u16, Value)> {
    let response = request.send().await.ok()?;
    let status = response.status().as_u16();
    Some((status, serde_json::from_slice(&response.bytes().await.ok()?).unwrap()))
}

#[tokio::test]
async fn the_receipt_of_a_write_in_which_the_node_was_killed_is_what_happened() {
    for write in WRITES {
        for moment in ["before", "during", "after"] {
            let directory = tempfile::tempdir().unwrap();
            let node = Node::start(directory.path(), &[]).await;
            fs::write(node.files.join("old"), "old").unwrap();
            fs::create_dir(node.files.join("folder")).unwrap();
            let make = json!({ "path": "table.seq", "changes": [], "expectedRevision": null });
            let made = reply(node.json("seq/transaction", &make).header("x-operation-id", "made")).await.unwrap();
            assert_eq!(made.0, 200);
            let mut revisions = BTreeMap::new();
            for name in ["old", "table.seq"] {
                revisions.insert(name.to_owned(), node.revision(name).await);
            }
            let before = node.tree();
            node.process.kill().await.unwrap();

            let node = Node::start(directory.path(), &["--fault-kill", moment]).await;
            assert_eq!(reply(node.write(write, &revisions)).await, None, "{write}, {moment}");
            let files = node.files.clone();
            assert_eq!(node.process.ended().await.unwrap().signal(), Some(9), "{write}, {moment}");

            let node = Node::start(directory.path(), &[]).await;
            let receipt = node.receipt(write).await;
            let expected = match (write, moment) {
                (_, "before") => json!({ "outcome": "not-committed", "code": "ECANCELLED" }),
                // Nothing proves who removed an empty directory.
                ("remove a folder", "during") => json!({ "outcome": "unknown", "code": "EIO" }),
                _ => json!({ "outcome": "committed" }),
            };
            assert_eq!(receipt["outcome"], expected["outcome"], "{write}, {moment}: {receipt}");
            assert_eq!(receipt["code"], expected["code"], "{write}, {moment}: {receipt}");
            if let Some(revision) = receipt["result"]["revision"].as_str() {
                let name = ["new", "old", "new.seq", "table.seq"]
                    [["create", "replace", "seq create", "seq change"].iter().position(|one| *one == write).unwrap()];
                assert_eq!(revision, node.revision(name).await, "{write}, {moment}");
            }

            // Staged and put aside files go away in the background.
            while node.tree().keys().any(|name| name.starts_with('.')) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let after = node.tree();
            let is_done = match write {
                "create" => after.get("new") == Some(&Some(b"new".to_vec())),
                "replace" => after["old"] == Some(b"new".to_vec()),
                "mkdir" => after.get("new") == Some(&None),
                "rename" => !after.contains_key("old") && after.get("new") == Some(&Some(b"old".to_vec())),
                "remove" => !after.contains_key("old"),
                "remove a folder" => !after.contains_key("folder"),
                "seq create" => after.contains_key("new.seq"),
                _ => after["table.seq"] != before["table.seq"],
            };
            assert_eq!(is_done, moment != "before", "{write}, {moment}");
            assert_eq!(after == before, moment == "before", "{write}, {moment}");
            let again = reply(
                node.json("mutate", &json!({ "action": "mkdir", "path": "again" }))
                    .header("x-operation-id", write.replace(' ', "-")),
            );
            assert_eq!(again.await.unwrap().0, 409, "{write}, {moment}: the id is used");
            assert!(!files.join("again").exists());
        }
    }
}
