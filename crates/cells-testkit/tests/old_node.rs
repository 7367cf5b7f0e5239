//! What only the old node does; what it shares with others is in the conformance list.

#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that cannot be")]

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use cells_testkit::old_node::{OldCredential, OldExport, OldNode, OldNodeOptions};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;

const TOKEN: &str = "a-key-that-only-tests-know";

struct Stage {
    node: OldNode,
    http: Client,
    directory: TempDir,
}

impl Stage {
    async fn new() -> Stage {
        let directory = tempfile::tempdir().unwrap();
        let (node, http) = (start(&directory, |_| {}).await, http());
        Stage { node, http, directory }
    }

    fn request(&self, method: Method, route: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{route}", self.node.endpoint())).bearer_auth(TOKEN)
    }

    async fn get(&self, route: &str) -> (u16, Value) {
        answer(self.request(Method::GET, route)).await
    }

    async fn post(&self, route: &str, body: Value) -> (u16, Value) {
        let request = self.request(Method::POST, route).header("content-type", "application/json");
        answer(request.header("x-operation-id", "one").body(body.to_string())).await
    }

    async fn create(&self, path: &str) -> Value {
        let request = self.request(Method::PUT, &format!("/v1/fs/work/content?path={path}"));
        let (status, body) =
            answer(request.header("x-operation-id", path).header("if-none-match", "*").body(path.to_owned())).await;
        assert_eq!(status, 200, "{body}");
        body["result"]["revision"].clone()
    }

    async fn revision(&self, path: &str) -> Value {
        self.post("/v1/fs/work/stat", json!({ "paths": [path] })).await.1["results"][0]["stat"]["revision"].clone()
    }
}

async fn start(directory: &TempDir, change: impl FnOnce(&mut OldNodeOptions)) -> OldNode {
    let export = OldExport { alias: "work".into(), path: directory.path().into(), writable: true };
    let mut options = OldNodeOptions::new(OldCredential::Token { token: TOKEN.into() }, [export]);
    change(&mut options);
    OldNode::start(options).await.unwrap()
}

fn http() -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().build().unwrap()
}

/// Status, and the body as JSON; null when it is none.
async fn answer(request: RequestBuilder) -> (u16, Value) {
    let reply = request.send().await.unwrap();
    (reply.status().as_u16(), serde_json::from_slice(&reply.bytes().await.unwrap()).unwrap_or_default())
}

#[tokio::test]
async fn a_running_process_makes_every_file_request_busy() {
    let stage = Stage::new().await;
    let revision = stage.create("a").await;
    let capabilities = stage.get("/v1/capabilities").await.1;
    let start = json!({
        "serverId": capabilities["serverId"], "epoch": capabilities["processEpoch"], "requestId": "p",
        "command": "/bin/sh", "args": ["-c", "while [ ! -e end ]; do sleep 0.01; done"], "cwd": "/workspace",
        "timeoutMs": 30_000, "mounts": [{ "alias": "work", "path": "", "at": "/workspace", "access": "rw" }],
    });
    let (status, started) = stage.post("/v1/processes", start).await;
    assert_eq!((status, &started["state"]), (200, &json!("running")));

    let busy = (409, json!({ "code": "EBUSY" }));
    assert_eq!(stage.get("/v1/fs/work/content?path=a").await, busy);
    assert_eq!(stage.get("/v1/fs/work/entries?path=").await, busy);
    assert_eq!(stage.post("/v1/fs/work/mutate", json!({ "action": "mkdir", "path": "d" })).await, busy);
    assert_eq!(stage.get("/v1/fs/work/operations/a").await.0, 200, "receipts do not pass the gate");

    fs::write(stage.directory.path().join("end"), "").unwrap();
    let route = format!("/v1/processes/{}/p", capabilities["processEpoch"].as_str().unwrap());
    while stage.get(&route).await.1["state"] == "running" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_ne!(stage.revision("a").await, revision, "a process makes every revision stale");
}

#[tokio::test]
async fn one_strange_name_fails_a_whole_listing() {
    let stage = Stage::new().await;
    let root = stage.directory.path();
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("d/C:notes"), "").unwrap();
    assert_eq!(stage.get("/v1/fs/work/entries?path=d").await.0, 200, "a drive only matters at the top");
    fs::write(root.join("d/a\\b"), "").unwrap();
    assert_eq!(stage.get("/v1/fs/work/entries?path=d").await, (400, json!({ "code": "EINVAL" })));
    assert_eq!(stage.get("/v1/fs/work/entries?path=").await.0, 200);
    fs::write(root.join("C:notes"), "").unwrap();
    assert_eq!(stage.get("/v1/fs/work/entries?path=").await, (400, json!({ "code": "EINVAL" })));
}

#[tokio::test]
async fn links_and_special_files_are_not_served() {
    let stage = Stage::new().await;
    let root = stage.directory.path();
    fs::create_dir(root.join("d")).unwrap();
    std::os::unix::fs::symlink("d", root.join("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("d/socket")).unwrap();
    let (_, stats) = stage.post("/v1/fs/work/stat", json!({ "paths": ["link", "link/x", "d/socket"] })).await;
    assert_eq!(stats["results"][0]["stat"]["kind"], "symlink");
    assert_eq!(stats["results"][1]["error"], "EACCES");
    assert_eq!(stats["results"][2]["error"], "ECAPABILITY");
    assert_eq!(stage.get("/v1/fs/work/entries?path=link").await.0, 403);
    assert_eq!(stage.get("/v1/fs/work/content?path=link").await.0, 403);
    assert_eq!(stage.get("/v1/fs/work/entries?path=d").await.1["warnings"], json!(["UNSUPPORTED_NODE"]));
}

#[tokio::test]
async fn any_mutation_makes_every_revision_stale() {
    let stage = Stage::new().await;
    let (a, b) = (stage.create("a").await, stage.create("b").await);
    assert_eq!(stage.revision("a").await, a, "another upload does not");
    stage.post("/v1/fs/work/mutate", json!({ "action": "mkdir", "path": "d" })).await;
    assert_ne!((stage.revision("a").await, stage.revision("b").await), (a, b));
}

#[tokio::test]
async fn a_replaced_file_keeps_its_permissions() {
    let stage = Stage::new().await;
    let place = stage.directory.path().join("a");
    let mode = || fs::metadata(&place).unwrap().permissions().mode() & 0o777;
    let revision = stage.create("a").await;
    assert_eq!(mode(), 0o644);
    fs::set_permissions(&place, fs::Permissions::from_mode(0o751)).unwrap();
    let request = stage.request(Method::PUT, "/v1/fs/work/content?path=a").header("x-operation-id", "two");
    assert_eq!(answer(request.header("if-match", revision.as_str().unwrap()).body("new")).await.0, 200);
    assert_eq!((fs::read(&place).unwrap(), mode()), (b"new".to_vec(), 0o751));
}

#[tokio::test]
async fn a_restart_forgets_receipts_and_sweeps_staging_files() {
    let mut stage = Stage::new().await;
    stage.create("a").await;
    let left = stage.directory.path().join(".itookit-upload-00000000000000000000000000000000");
    fs::write(&left, "half").unwrap();
    assert_eq!(stage.get("/v1/fs/work/operations/a").await.1["outcome"], "committed");
    stage.node = start(&stage.directory, |_| {}).await;
    assert_eq!(stage.get("/v1/fs/work/operations/a").await, (404, json!({ "code": "OPERATION_UNKNOWN" })));
    assert!(!left.exists());
}

#[tokio::test]
async fn a_still_older_node_has_no_capabilities_and_no_node_has_events() {
    let mut stage = Stage::new().await;
    stage.node = start(&stage.directory, |options| options.capabilities = false).await;
    assert_eq!(stage.get("/v1/capabilities").await, (404, Value::Null));
    assert_eq!(stage.post("/v1/events", json!({ "version": 1 })).await, (404, Value::Null));
    assert_eq!(stage.get("/v1/exports").await.0, 200);
}

#[tokio::test]
async fn a_password_principal_accepts_no_bearer() {
    let mut stage = Stage::new().await;
    let password = OldCredential::Password { username: "me".into(), password: "a:password".into() };
    stage.node = start(&stage.directory, |options| options.credential = password).await;
    let url = format!("{}/v1/exports", stage.node.endpoint());
    assert_eq!(answer(stage.http.get(&url).basic_auth("me", Some("a:password"))).await.0, 200);
    assert_eq!(answer(stage.http.get(&url).basic_auth("me", Some("a"))).await.0, 401);
    assert_eq!(answer(stage.http.get(&url).bearer_auth("a:password")).await, (401, json!({ "code": "EACCES" })));
}
