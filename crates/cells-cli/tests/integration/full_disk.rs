//! A node on a disk that is full, where this machine allows to mount one.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};

const KEY: &str = "a-key-that-only-tests-know";

/// A node in a mount namespace of its own, in which one of its directories is a small disk.
struct Node {
    process: Child,
    client: Client,
    endpoint: String,
    directory: tempfile::TempDir,
}

impl Node {
    /// `small` is `files`, the export, or `state`. None, with a line: this machine lets nothing be mounted.
    fn start(small: &str, options: &str) -> Option<Self> {
        // A second call finds the provider installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| {
            let path = directory.path().join(name);
            fs::create_dir_all(&path).unwrap();
            path
        };
        let (files, state) = (path("files"), path("state"));
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c"]);
        command.arg(r#"mount -t tmpfs -o "$1" tmpfs "$2" || exit 90; shift 2; exec "$@""#);
        command.arg("sh").arg(format!("mode=700,{options}")).arg(path(small)).arg(env!("CARGO_BIN_EXE_cells"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--execution", "off", "--log-level", "off", "--state"]);
        command.arg(&state).arg("--export").arg(format!("files={}:rw", files.display())).env("CELLS_API_KEY", KEY);
        let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let skipped = |why: String| {
            println!("skipped: a node on a full disk: {why}");
            None
        };
        let mut process = match process {
            Ok(process) => process,
            Err(error) => return skipped(error.to_string()),
        };
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            let code = process.wait().unwrap().code();
            assert!(matches!(code, Some(1 | 90)), "the node does not start: {code:?}");
            return skipped("nothing can be mounted".to_owned());
        }
        let announced: Value = serde_json::from_str(&line).unwrap();
        let endpoint = announced["endpoint"].as_str().unwrap().to_owned();
        Some(Self { process, client: Client::builder().no_proxy().build().unwrap(), endpoint, directory })
    }

    /// A directory as the node sees it.
    fn path(&self, name: &str) -> PathBuf {
        let inside = self.directory.path().join(name);
        Path::new("/proc").join(self.process.id().to_string()).join("root").join(inside.strip_prefix("/").unwrap())
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("files")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn ask(&self, method: Method, route: &str) -> RequestBuilder {
        self.client.request(method, format!("{}/v1/fs/files/{route}", self.endpoint)).bearer_auth(KEY)
    }

    async fn put(&self, id: &str, path: &str, condition: (&str, &str), bytes: usize) -> (u16, Value) {
        let request = self.ask(Method::PUT, &format!("content?path={path}")).header(condition.0, condition.1);
        reply(request.header("x-operation-id", id).body(vec![b'x'; bytes])).await
    }

    async fn create(&self, id: &str, path: &str, bytes: usize) -> (u16, Value) {
        self.put(id, path, ("if-none-match", "*"), bytes).await
    }

    async fn post(&self, id: &str, route: &str, body: Value) -> (u16, Value) {
        let request = self.ask(Method::POST, route).header("x-operation-id", id);
        reply(request.header("content-type", "application/json").body(body.to_string())).await
    }

    async fn mutate(&self, id: &str, action: &str, path: &str) -> (u16, Value) {
        self.post(id, "mutate", json!({ "action": action, "path": path, "to": "renamed" })).await
    }

    async fn seq(&self, id: &str, revision: &Value, bytes: usize) -> (u16, Value) {
        let change = json!({ "action": "set", "key": "k", "value": "v".repeat(bytes) });
        let body = json!({ "path": "table.seq", "expectedRevision": revision, "changes": [change] });
        self.post(id, "seq/transaction", body).await
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn reply(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    (response.status().as_u16(), serde_json::from_slice(&response.bytes().await.unwrap()).unwrap())
}

fn full() -> (u16, Value) {
    (507, json!({ "outcome": "not-committed", "code": "ENOSPC" }))
}

#[tokio::test]
async fn what_finds_no_room_leaves_everything_as_it_was() {
    let Some(node) = Node::start("files", "size=1m") else { return };
    assert_eq!(node.create("too-large", "a", 2 << 20).await, full());
    assert_eq!(node.names(), Vec::<String>::new());
    let (status, made) = node.create("made", "a", 1000).await;
    assert_eq!(status, 200);
    let revision = made["result"]["revision"].as_str().unwrap();
    assert_eq!(node.put("replaced", "a", ("if-match", revision), 2 << 20).await, full());
    let (status, table) = node.seq("table", &Value::Null, 10).await;
    assert_eq!(status, 200);
    assert_eq!(node.create("filler", "filler", 900 << 10).await.0, 200);
    assert_eq!(node.seq("changed", &table["result"]["revision"], 200 << 10).await, full());
    assert_eq!(node.create("no-room", "b", 200 << 10).await, full());
    assert_eq!(node.names(), ["a", "filler", "table.seq"]);
    assert_eq!(fs::read(node.path("files").join("a")).unwrap(), vec![b'x'; 1000]);

    // Room is made through the node itself.
    assert_eq!(node.mutate("removed", "remove", "filler").await.0, 200);
    assert_eq!(node.seq("changed-again", &table["result"]["revision"], 200 << 10).await.0, 200);
    assert_eq!(node.put("replaced-again", "a", ("if-match", revision), 200 << 10).await.0, 200);
    assert_eq!(node.names(), ["a", "table.seq"]);
    let receipt = reply(node.ask(Method::GET, "operations/too-large")).await;
    assert_eq!(receipt, (200, full().1));
}

#[tokio::test]
async fn a_disk_without_room_for_one_more_file_is_full_too() {
    let Some(node) = Node::start("files", "size=4m,nr_inodes=6") else { return };
    let mut at = 0;
    let refused = loop {
        let reply = node.create(&format!("file-{at}"), &format!("{at}"), 10).await;
        if reply.0 != 200 {
            break reply;
        }
        at += 1;
    };
    assert!(at > 0);
    assert_eq!(refused, full());
    let before = node.names();
    assert_eq!(before.len(), at);
    assert_eq!(node.mutate("mkdir", "mkdir", "folder").await, full());
    assert_eq!(node.seq("seq", &Value::Null, 10).await, full());
    assert_eq!(node.names(), before);
    assert_eq!(node.mutate("rename", "rename", "0").await.0, 200, "a rename needs no file");
    assert_eq!(node.mutate("remove", "remove", "renamed").await.0, 200);
    assert_eq!(node.mutate("mkdir-again", "mkdir", "folder").await.0, 200);
}

#[tokio::test]
async fn without_room_for_receipts_nothing_is_written_and_everything_can_be_read() {
    let Some(node) = Node::start("state", "size=4m") else { return };
    assert_eq!(node.create("made", "a", 10).await.0, 200);
    let filler = node.path("state").join("filler");
    let mut file = fs::File::create(&filler).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    let mut at = 0;
    let refused = loop {
        let reply = node.create(&format!("id-{at}"), &format!("file-{at}"), 10).await;
        if reply.0 != 200 {
            break reply;
        }
        at += 1;
        assert!(at < 4000, "the log of the database never needed more room");
    };
    assert_eq!((refused.0, &refused.1["code"]), (507, &json!("ENOSPC")));
    assert_eq!(node.names().len(), at + 1, "no file without a receipt");
    for attempt in 0..3 {
        assert_eq!(node.create(&format!("again-{attempt}"), "again", 10).await.0, 507);
    }
    let listed = reply(node.ask(Method::GET, "entries?path=")).await;
    assert_eq!(listed.0, 200);
    assert_eq!(reply(node.ask(Method::GET, "operations/made")).await.1["outcome"], "committed");
    drop(file);
    fs::remove_file(filler).unwrap();
    assert_eq!(node.create("room", "again", 10).await.0, 200);
}
