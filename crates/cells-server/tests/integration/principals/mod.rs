//! Several principals and the public one (`cells-0.4.md` §1.4–1.5), on every door of the node.

mod grants;
mod sharing;

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cells_protocol::capabilities::Access;
use cells_protocol::ids::{Alias, PrincipalId, ProfileId, ServerId};
use cells_server::{Credential, PrincipalConfig, Secret, ServeConfig};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::{KEY, Reply, TestNode, config, refusal};

const WRITER_KEY: &str = "a-key-that-only-the-writer-has";
const HASHED_KEY: &str = "a-key-of-which-the-node-knows-a-hash";
/// `printf %s KEY | sha256sum` of the line above.
const KEY_SHA256: &str = "a8e5649fa828c1fdbfff0b0c4939b17d15c2f5b8a833e1ade1b9e2c14704fe8e";

/// Someone who calls, with a credential or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Owner,
    Writer,
    Reader,
    Hashed,
    Nobody,
}

impl Who {
    const ALL: [Self; 5] = [Self::Owner, Self::Writer, Self::Reader, Self::Hashed, Self::Nobody];

    fn authorization(self) -> Option<String> {
        match self {
            Self::Owner => Some(format!("Bearer {KEY}")),
            Self::Writer => Some(format!("Bearer {WRITER_KEY}")),
            Self::Reader => Some(format!("Basic {}", STANDARD.encode("reader:reads only"))),
            Self::Hashed => Some(format!("Bearer {HASHED_KEY}")),
            Self::Nobody => None,
        }
    }
}

fn principal(id: &str, credential: Credential, exports: &[(&str, Access)], harnesses: &[&str]) -> PrincipalConfig {
    PrincipalConfig {
        id: PrincipalId::new(id).unwrap(),
        credential,
        exports: exports.iter().map(|(alias, access)| (Alias::new(*alias).unwrap(), *access)).collect(),
        harnesses: harnesses.iter().map(|id| ProfileId::new(*id).unwrap()).collect(),
        process: false,
    }
}

fn key(key: &str) -> Credential {
    Credential::ApiKey(Some(Secret::new(key)))
}

fn password(username: &str, password: &str) -> Credential {
    Credential::Password { username: username.into(), password: Secret::new(password) }
}

/// Besides `rw` and `ro` there is the writable export `open`, which everyone may read.
fn shared(config: &mut ServeConfig) {
    let path = config.exports[0].path.with_file_name("open");
    std::fs::create_dir_all(&path).unwrap();
    for export in ["rw", "ro", "open"] {
        std::fs::write(path.with_file_name(export).join("file"), export).unwrap();
    }
    let mut open: cells_server::ExportConfig = format!("open={}:rw", path.display()).parse().unwrap();
    open.public = true;
    config.exports.push(open);
    config.principals = vec![
        principal("writer", key(WRITER_KEY), &[("rw", Access::Rw), ("open", Access::Ro)], &["scripted"]),
        principal("reader", password("reader", "reads only"), &[("rw", Access::Ro), ("ro", Access::Ro)], &[]),
        principal("hashed", Credential::ApiKeySha256(KEY_SHA256.into()), &[], &[]),
    ];
}

impl TestNode {
    fn ask(&self, authorization: Option<&str>, method: Method, route: &str, body: Option<&Value>) -> RequestBuilder {
        let request = self.anonymous(method, route);
        let request = authorization.iter().fold(request, |request, value| request.header("authorization", *value));
        let request = request.header("accept", "application/json, text/event-stream");
        match body {
            None => request,
            Some(body) => request.header("content-type", "application/json").body(body.to_string()),
        }
    }

    fn mcp(&self, authorization: Option<&str>, method: &str, mut params: Value) -> RequestBuilder {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = self.ask(authorization, Method::POST, "/mcp", Some(&body));
        let name = params["name"].as_str().unwrap_or_default();
        request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method).header("mcp-name", name)
    }

    /// What a tool answers, or its code.
    async fn tool(&self, who: Who, name: &str, arguments: Value) -> Result<Value, String> {
        let params = json!({"name": name, "arguments": arguments});
        let reply = Reply::of(self.mcp(who.authorization().as_deref(), "tools/call", params)).await.json();
        let result = &reply["result"];
        match result["isError"].as_bool() {
            Some(true) => Err(result["structuredContent"]["code"].as_str().unwrap().to_owned()),
            _ => Ok(result["structuredContent"].clone()),
        }
    }

    async fn document(&self, who: Who) -> Value {
        let reply = Reply::of(self.mcp(who.authorization().as_deref(), "server/discover", json!({}))).await.json();
        reply["result"]["_meta"]["itookit/cells"].clone()
    }

    /// A request to every door that `who` may open.
    fn doors(&self, who: Who, authorization: Option<&str>) -> Vec<(&'static str, RequestBuilder)> {
        let export = if matches!(who, Who::Nobody | Who::Hashed) { "open" } else { "rw" };
        let get = |route: &str| self.ask(authorization, Method::GET, route, None);
        let mut doors = vec![
            ("capabilities", get("/v1/capabilities")),
            ("exports", get("/v1/exports")),
            ("discover", self.mcp(authorization, "server/discover", json!({}))),
            ("ping", self.mcp(authorization, "ping", json!({}))),
            ("list", self.mcp(authorization, "tools/list", json!({}))),
            ("call", self.mcp(authorization, "tools/call", json!({"name": "cells_capabilities"}))),
            ("events", self.ask(authorization, Method::POST, "/v1/events", Some(&events()))),
        ];
        if who != Who::Hashed {
            let (fs, stat) = (format!("/v1/fs/{export}"), json!({"paths": ["file"]}));
            doors.extend([
                ("entries", get(&format!("{fs}/entries?path="))),
                ("content", get(&format!("{fs}/content?path=file"))),
                ("stat", self.ask(authorization, Method::POST, &format!("{fs}/stat"), Some(&stat))),
            ]);
        }
        doors
    }
}

fn events() -> Value {
    json!({"version": 1, "clientId": "c", "topics": [
        {"id": "agent", "kind": "harness", "profileId": "scripted"},
        {"id": "other", "kind": "something-new"},
    ]})
}

/// Status of a reply and its code, which an answered request does not have. The body of a stream has no end.
async fn outcome(request: RequestBuilder) -> (u16, String) {
    let response = request.send().await.unwrap();
    match response.status().as_u16() {
        200 => refusal(200, ""),
        status => {
            let body: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
            (status, body["code"].as_str().unwrap_or_default().to_owned())
        }
    }
}

#[tokio::test]
async fn everyone_sees_and_may_do_what_is_granted() {
    let node = TestNode::start_with(shared).await;
    type Grants = &'static [(&'static str, &'static str)];
    let matrix: [(Who, &str, Grants, bool, bool); 5] = [
        (Who::Owner, "owner", &[("open", "rw"), ("ro", "ro"), ("rw", "rw")], true, true),
        (Who::Writer, "writer", &[("open", "ro"), ("rw", "rw")], true, true),
        (Who::Reader, "reader", &[("open", "ro"), ("ro", "ro"), ("rw", "ro")], false, false),
        // What everyone may read, a caller with a name may read, too.
        (Who::Hashed, "hashed", &[("open", "ro")], false, false),
        (Who::Nobody, "anonymous", &[("open", "ro")], false, false),
    ];
    for (who, id, exports, harness, write) in matrix {
        let authorization = who.authorization();
        let get = async |route: &str| Reply::of(node.ask(authorization.as_deref(), Method::GET, route, None)).await;

        let listed = get("/v1/exports").await.json();
        let listed: Vec<_> = listed["exports"].as_array().unwrap().iter().collect();
        let listed: Vec<_> = listed
            .iter()
            .map(|export| (export["alias"].as_str().unwrap(), export["access"].as_str().unwrap()))
            .collect();
        assert_eq!(listed, exports, "{who:?}");

        let capabilities = get("/v1/capabilities").await.json();
        let files = &capabilities["files"];
        assert_eq!((&files["read"], &files["write"]), (&json!(!exports.is_empty()), &json!(write)), "{who:?}");
        assert_eq!(capabilities["harness"]["enabled"], json!(harness), "{who:?}");

        for alias in ["rw", "ro", "open", "missing"] {
            let granted = exports.iter().any(|(name, _)| *name == alias);
            let expected = if granted { refusal(200, "") } else { refusal(403, "EACCES") };
            for (what, request) in [
                (
                    "entries",
                    node.ask(authorization.as_deref(), Method::GET, &format!("/v1/fs/{alias}/entries?path="), None),
                ),
                (
                    "content",
                    node.ask(authorization.as_deref(), Method::GET, &format!("/v1/fs/{alias}/content?path=file"), None),
                ),
                (
                    "stat",
                    node.ask(
                        authorization.as_deref(),
                        Method::POST,
                        &format!("/v1/fs/{alias}/stat"),
                        Some(&json!({"paths": ["file"]})),
                    ),
                ),
            ] {
                assert_eq!(outcome(request).await, expected, "{who:?} {alias} {what}");
            }
        }

        let document = node.document(who).await;
        assert_eq!(document["harness"], json!(harness), "{who:?}");
        let snapshot = &document["authorization"];
        assert_eq!((&snapshot["principalId"], &snapshot["anonymous"]), (&json!(id), &json!(who == Who::Nobody)));
        assert_eq!(node.tool(who, "cells_capabilities", json!({})).await, Ok(document), "{who:?}");

        let profiles = node.tool(who, "harness_profiles", json!({})).await;
        let names: Result<Vec<&str>, _> = profiles
            .as_ref()
            .map(|reply| reply["profiles"].as_array().unwrap().iter().map(|p| p["id"].as_str().unwrap()).collect());
        let denied = "EACCES".to_owned();
        let expected = match (who, harness) {
            (Who::Nobody, _) => Err(&denied),
            (_, true) => Ok(vec!["scripted"]),
            (_, false) => Ok(vec![]),
        };
        assert_eq!(names, expected, "{who:?}");
        let sessions = node.tool(who, "harness_sessions", json!({"profileId": "scripted"})).await;
        let expected = match (who, harness) {
            (Who::Nobody, _) => Some("EACCES"),
            (_, true) => None,
            (_, false) => Some("ENOENT"),
        };
        assert_eq!(sessions.err().as_deref(), expected, "{who:?}");
    }
    node.stop().await.unwrap();
}

#[tokio::test]
async fn an_event_topic_is_open_only_to_whom_the_agent_is_granted() {
    let node = TestNode::start_with(shared).await;
    for (who, agent, other) in [
        (Who::Owner, None, "ECAPABILITY"),
        (Who::Writer, None, "ECAPABILITY"),
        (Who::Reader, Some("ENOENT"), "ECAPABILITY"),
        (Who::Nobody, Some("EACCES"), "EACCES"),
    ] {
        let request = node.ask(who.authorization().as_deref(), Method::POST, "/v1/events", Some(&events()));
        let mut response = request.send().await.unwrap();
        let mut text = String::new();
        while text.matches("\n\n").count() < 3 {
            text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
        }
        let frame = |topic: &str| {
            let mut frames = text.split("\n\n").filter_map(|frame| frame.split_once("\ndata: "));
            let found = frames.find(|(_, data)| serde_json::from_str::<Value>(data).unwrap()["topic"] == topic);
            let (name, data) = found.unwrap();
            (name.to_owned(), serde_json::from_str::<Value>(data).unwrap()["code"].as_str().map(str::to_owned))
        };
        let ready: Value =
            serde_json::from_str(text.split("\n\n").next().unwrap().split_once("data: ").unwrap().1).unwrap();
        assert_eq!(ready["authorization"], node.document(who).await["authorization"], "{who:?}");
        assert_eq!(ready["harnessEpoch"].is_string(), agent.is_none(), "{who:?}");
        let expected = match agent {
            None => ("event: open".to_owned(), None),
            Some(code) => ("event: error".to_owned(), Some(code.to_owned())),
        };
        assert_eq!(frame("agent"), expected, "{who:?}");
        assert_eq!(frame("other"), ("event: error".to_owned(), Some(other.to_owned())), "{who:?}");
    }
}

#[tokio::test]
async fn a_wrong_credential_is_refused_at_every_door_and_never_made_anonymous() {
    let node = TestNode::start_with(shared).await;
    let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
    for authorization in [
        "Bearer wrong-key-of-enough-length",
        "Bearer ",
        "",
        "Token x",
        &format!("Bearer {KEY_SHA256}"),
        &basic("reader:wrong word"),
        &basic("writer:reads only"),
        &basic(&format!("writer:{WRITER_KEY}")),
        &format!("Bearer {}", STANDARD.encode("reader:reads only")),
    ] {
        for (door, request) in node.doors(Who::Nobody, Some(authorization)) {
            assert_eq!(outcome(request).await, refusal(401, "EACCES"), "{authorization} {door}");
        }
    }
    for (door, request) in node.doors(Who::Owner, Who::Owner.authorization().as_deref()) {
        let twice = request.header("authorization", format!("Bearer {WRITER_KEY}"));
        assert_eq!(outcome(twice).await, refusal(401, "EACCES"), "two credentials, {door}");
    }
    node.stop().await.unwrap();

    let closed = TestNode::start().await;
    for (door, request) in closed.doors(Who::Nobody, None) {
        assert_eq!(outcome(request).await, refusal(401, "EACCES"), "no export is public, {door}");
    }
}

#[tokio::test]
async fn a_pin_holds_for_one_principal_at_every_door() {
    let node = TestNode::start_with(shared).await;
    let mut snapshots = Vec::new();
    for who in Who::ALL {
        let snapshot = node.document(who).await["authorization"].clone();
        let text = |name: &str| snapshot[name].as_str().unwrap().to_owned();
        assert_eq!(text("revision").len(), 32);
        snapshots.push((who, text("principalId"), text("revision")));
    }
    for (who, id, revision) in &snapshots {
        let (id, revision) = (id.as_str(), revision.as_str());
        let mut cases = vec![
            (vec![], vec![], refusal(200, "")),
            (vec![], vec!["anything at all"], refusal(200, "")),
            (vec![id], vec![revision], refusal(200, "")),
            (vec![id], vec![], refusal(400, "EINVAL")),
            (vec![id], vec![""], refusal(400, "EINVAL")),
            (vec![id], vec!["not an id"], refusal(400, "EINVAL")),
            (vec![id], vec![revision, revision], refusal(400, "EINVAL")),
            (vec![id, id], vec![revision], refusal(400, "EINVAL")),
            (vec!["not an id"], vec![revision], refusal(409, "AUTHORIZATION_CHANGED")),
            (vec![id], vec!["0"], refusal(409, "AUTHORIZATION_CHANGED")),
        ];
        for (other, id, revision) in &snapshots {
            if other != who {
                cases.push((vec![id], vec![revision], refusal(409, "AUTHORIZATION_CHANGED")));
            }
        }
        for (principals, revisions, expected) in cases {
            for (door, mut request) in node.doors(*who, who.authorization().as_deref()) {
                for value in &principals {
                    request = request.header("x-fsagent-principal", *value);
                }
                for value in &revisions {
                    request = request.header("x-fsagent-principal-revision", *value);
                }
                assert_eq!(outcome(request).await, expected, "{who:?} {principals:?} {revisions:?} {door}");
            }
        }
    }
    node.stop().await.unwrap();
}

#[tokio::test]
async fn a_snapshot_changes_with_the_grants_and_with_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let snapshot = async |at: &Path, authorization: Option<String>, change: &dyn Fn(&mut ServeConfig)| {
        let mut config = config(&directory);
        config.state = Some(at.to_owned());
        shared(&mut config);
        change(&mut config);
        let node = TestNode::start_with(|own| *own = config).await;
        let reply = Reply::of(node.mcp(authorization.as_deref(), "server/discover", json!({}))).await.json();
        node.stop().await.unwrap();
        reply["result"]["_meta"]["itookit/cells"]["authorization"].clone()
    };
    let (here, elsewhere) = (directory.path().join("state"), directory.path().join("other-state"));
    let writer = || Who::Writer.authorization();
    let first = snapshot(&here, writer(), &|_| {}).await;
    assert_eq!(first["principalId"], "writer");
    assert_eq!(snapshot(&here, writer(), &|_| {}).await, first, "a restart");

    let rotated = "another-key-for-the-same-writer";
    let with_new_key = |config: &mut ServeConfig| config.principals[0].credential = key(rotated);
    assert_eq!(snapshot(&here, Some(format!("Bearer {rotated}")), &with_new_key).await, first, "another key");
    let with_password = |config: &mut ServeConfig| config.principals[0].credential = password("w", "long enough");
    let basic = Some(format!("Basic {}", STANDARD.encode("w:long enough")));
    assert_eq!(snapshot(&here, basic, &with_password).await, first, "a password in place of a key");
    let other_node = |config: &mut ServeConfig| config.server_id = Some(ServerId::new("other").unwrap());
    assert_eq!(snapshot(&elsewhere, writer(), &other_node).await, first, "the same grants at another node");
    let others = |config: &mut ServeConfig| {
        config.principals.pop();
    };
    assert_eq!(snapshot(&here, writer(), &others).await, first, "a change for another principal");

    let grant = |writer: &mut PrincipalConfig, alias: &str, access| {
        writer.exports.insert(Alias::new(alias).unwrap(), access);
    };
    type Change<'a> = &'a dyn Fn(&mut PrincipalConfig);
    let changes: [(&str, Change<'_>); 5] = [
        ("less access", &|writer| grant(writer, "rw", Access::Ro)),
        ("one export more", &|writer| grant(writer, "ro", Access::Ro)),
        ("no export", &|writer| writer.exports.clear()),
        ("no agent", &|writer| writer.harnesses.clear()),
        ("processes", &|writer| writer.process = true),
    ];
    for (what, change) in changes {
        let changed = snapshot(&here, writer(), &|config| change(&mut config.principals[0])).await;
        assert_eq!(changed["principalId"], "writer");
        assert_ne!(changed["revision"], first["revision"], "{what}");
    }
}

#[tokio::test]
async fn what_belongs_to_one_principal_does_not_exist_for_another() {
    let node = TestNode::start_with(|config| {
        shared(config);
        crate::support::make_files(&config.exports[0].path, 0..1200);
    })
    .await;
    let page = async |who: Who, cursor: &str| {
        let route = format!("/v1/fs/rw/entries?path={cursor}");
        Reply::of(node.ask(who.authorization().as_deref(), Method::GET, &route, None)).await
    };
    let first = page(Who::Writer, "").await.json();
    let cursor = format!("&cursor={}", crate::support::query_value(first["nextCursor"].as_str().unwrap()));
    assert_eq!(page(Who::Writer, &cursor).await.status, 200);
    for other in [Who::Owner, Who::Reader] {
        assert_eq!(page(other, &cursor).await.refusal(), refusal(400, "EINVAL"), "a cursor of the writer, {other:?}");
    }

    let epoch = node.tool(Who::Writer, "harness_profiles", json!({})).await.unwrap()["epoch"].clone();
    let operation = json!({"profileId": "scripted", "epoch": epoch, "requestId": "create-1"});
    let mut create = operation.clone();
    create["workspaceId"] = json!("rw");
    let created = node.tool(Who::Writer, "harness_create", create.clone()).await.unwrap();
    assert_eq!(created["outcome"], "committed");
    let receipt = node.tool(Who::Writer, "harness_operation", operation.clone()).await.unwrap();
    assert_eq!(receipt["result"], created["result"]);
    for (other, code) in [(Who::Owner, "ENOENT"), (Who::Reader, "ENOENT"), (Who::Nobody, "EACCES")] {
        let answer = node.tool(other, "harness_operation", operation.clone()).await;
        assert_eq!(answer, Err(code.to_owned()), "a receipt of the writer, {other:?}");
    }
    // The same id of another principal is another mutation.
    let again = node.tool(Who::Owner, "harness_create", create.clone()).await.unwrap();
    assert_eq!(again["outcome"], "committed");
    assert_ne!(again["result"], created["result"]);
    assert_eq!(node.tool(Who::Reader, "harness_create", create).await, Err("ENOENT".to_owned()));
    node.stop().await.unwrap();
}

#[tokio::test]
async fn a_made_key_that_a_principal_has_too_stops_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let with = |credential: Credential, others: Vec<PrincipalConfig>| {
        let mut config = config(&directory);
        config.credential = credential;
        config.principals = others;
        cells_server::Node::bind(config)
    };
    let made = with(Credential::ApiKey(None), vec![]).await.unwrap().api_key().unwrap().to_owned();
    let copied = vec![principal("guest", key(&made), &[], &[])];
    let Err(error) = with(Credential::ApiKey(None), copied).await else { panic!("it started") };
    assert!(error.to_string().contains("owner and guest have the same API key"), "{error}");
    assert!(!error.to_string().contains(&made) && error.exit_code() == 2, "{error}");
}

#[tokio::test]
async fn only_who_may_write_writes_and_only_who_may_run_commands_runs_them() {
    let node = TestNode::start_with(shared).await;
    let mkdir = json!({"action": "mkdir", "path": "new"});
    let seq = json!({"path": "new.seq", "expectedRevision": null, "changes": []});
    let start = json!({
        "serverId": "x", "epoch": "x", "requestId": "x", "command": "true", "args": [], "cwd": "/w", "timeoutMs": 1000,
        "mounts": [{"alias": "open", "path": "", "at": "/w", "access": "rw"}],
    });
    let (denied, read_only) = (refusal(403, "EACCES"), refusal(403, "EROFS"));
    for (who, export, expected) in [
        (Who::Nobody, "open", &denied),
        (Who::Nobody, "rw", &denied),
        (Who::Writer, "open", &read_only),
        (Who::Reader, "rw", &read_only),
        (Who::Reader, "open", &read_only),
        (Who::Hashed, "open", &read_only),
        (Who::Hashed, "rw", &denied),
    ] {
        let authorization = who.authorization();
        let ask = |method, route: &str, body| node.ask(authorization.as_deref(), method, route, body);
        let fs = format!("/v1/fs/{export}");
        for (what, request) in [
            ("PUT", ask(Method::PUT, &format!("{fs}/content?path=new"), None).header("if-none-match", "*").body("x")),
            ("mutate", ask(Method::POST, &format!("{fs}/mutate"), Some(&mkdir))),
            ("seq", ask(Method::POST, &format!("{fs}/seq/transaction"), Some(&seq))),
        ] {
            let reply = Reply::of(request.header("x-operation-id", "id")).await;
            assert_eq!(reply.refusal(), *expected, "{who:?} {export} {what}");
        }
    }
    for who in [Who::Nobody, Who::Writer, Who::Reader] {
        let authorization = who.authorization();
        let ask = |method, route: &str, body| node.ask(authorization.as_deref(), method, route, body);
        for (what, request) in [
            ("start", ask(Method::POST, "/v1/processes", Some(&start))),
            ("query", ask(Method::GET, "/v1/processes/x/x", None)),
            ("cancel", ask(Method::POST, "/v1/processes/x/x/cancel", None)),
            ("output", ask(Method::GET, "/v1/processes/x/x/output?stdout=0&stderr=0", None)),
        ] {
            assert_eq!(Reply::of(request).await.refusal(), denied, "{who:?} {what}");
        }
        let capabilities = Reply::of(ask(Method::GET, "/v1/capabilities", None)).await.json();
        assert_eq!(capabilities["process"]["exec"], false, "{who:?}");
    }
    let nobody = |method, route| node.ask(None, method, route, None);
    for (what, request) in [
        ("status", nobody(Method::GET, "/v1/fs/open/operations/id")),
        ("cancel", nobody(Method::POST, "/v1/fs/open/operations/id/cancel")),
    ] {
        assert_eq!(Reply::of(request).await.refusal(), denied, "{what}");
    }
    // A pin that is not current is refused before anything is claimed.
    let create = |pinned: bool| {
        let request = node.ask(Who::Writer.authorization().as_deref(), Method::PUT, "/v1/fs/rw/content?path=new", None);
        let request = request.header("if-none-match", "*").header("x-operation-id", "pinned").body("x");
        match pinned {
            true => request.header("x-fsagent-principal", "writer").header("x-fsagent-principal-revision", "old"),
            false => request,
        }
    };
    assert_eq!(Reply::of(create(true)).await.refusal(), refusal(409, "AUTHORIZATION_CHANGED"));
    assert_eq!(Reply::of(create(false)).await.status, 200);
}
