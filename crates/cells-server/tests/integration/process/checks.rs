//! What is refused, in which order, and what is remembered.

use cells_server::{Execution, ServeConfig};
use reqwest::Method;
use serde_json::{Value, json};

use super::support::{ProcessNode, fresh_id, models};
use crate::support::{Reply, refusal};

/// Sets members of a start.
fn with(start: &Value, changes: &Value) -> Value {
    let mut start = start.clone();
    for (name, value) in changes.as_object().unwrap() {
        start[name] = value.clone();
    }
    start
}

fn mount(alias: &str, path: &str, at: &str, access: &str) -> Value {
    json!({ "alias": alias, "path": path, "at": at, "access": access })
}

#[tokio::test]
async fn capabilities_say_how_processes_run() {
    for model in models().await {
        let node = ProcessNode::start(model).await;
        let document = Reply::of(node.node.get("/v1/capabilities")).await.json();
        assert_eq!(document["process"], json!({ "exec": true, "output": { "version": 1 } }));
        let words = ["executionModel", "workspaceConsistency", "readOnlyEnforcement", "pathModel"];
        let words = words.map(|name| document[name].as_str().unwrap());
        let expected = match model {
            Execution::Sandbox => ["sandbox", "isolated", "kernel-enforced", "virtual-root"],
            _ => ["trusted-cooperative-host", "cooperative", "none", "host-mapped"],
        };
        assert_eq!(words, expected);
    }
}

#[tokio::test]
async fn wrong_starts_are_refused_with_the_first_thing_that_is_wrong_and_leave_no_record() {
    for model in models().await {
        let node = ProcessNode::start(model).await;
        std::fs::create_dir_all(node.node.path("rw/dir/inner")).unwrap();
        std::fs::write(node.node.path("rw/file"), "").unwrap();
        std::os::unix::fs::symlink("dir", node.node.path("rw/link")).unwrap();
        std::fs::create_dir(node.node.path("ro/dir")).unwrap();
        let start = node.shell("touch started");
        let mounts = |mounts: &[Value]| json!({ "mounts": mounts });
        let rw = mount("rw", "", "/workspace", "rw");
        let long = "x".repeat(32_768);
        let many: Vec<Value> = (0..33).map(|at| mount("ro", "", &format!("/m{at}"), "ro")).collect();
        for (changes, status, code) in [
            (json!({ "epoch": "old", "requestId": "a b", "serverId": "other" }), 409, "STALE_SERVER_EPOCH"),
            (json!({ "requestId": "a b", "serverId": "other" }), 400, "EINVAL"),
            (json!({ "requestId": "" }), 400, "EINVAL"),
            (json!({ "serverId": "other", "cwd": "x" }), 409, "SERVER_ID_CHANGED"),
            // the shape
            (json!({ "cwd": "workspace" }), 400, "EINVAL"),
            (json!({ "cwd": "/" }), 400, "EINVAL"),
            (json!({ "cwd": "/workspace/" }), 400, "EINVAL"),
            (json!({ "cwd": "/workspace/../x" }), 400, "EINVAL"),
            (json!({ "mounts": [] }), 400, "EINVAL"),
            (json!({ "mounts": many }), 400, "EINVAL"),
            (json!({ "command": "" }), 400, "EINVAL"),
            (json!({ "command": "a\u{0}b" }), 400, "EINVAL"),
            (json!({ "args": ["a\u{0}b"] }), 400, "EINVAL"),
            (json!({ "args": [long] }), 400, "EINVAL"),
            (json!({ "timeoutMs": 0 }), 400, "EINVAL"),
            (json!({ "timeoutMs": 300_001 }), 400, "EINVAL"),
            // the mounts
            (mounts(&[mount("rw", "", "workspace", "rw")]), 400, "EINVAL"),
            (mounts(&[mount("rw", "", "/", "rw")]), 400, "EINVAL"),
            (mounts(&[mount("rw", "", "/usr", "rw")]), 400, "EINVAL"),
            (mounts(&[mount("rw", "", "/tmp/x", "rw")]), 400, "EINVAL"),
            (mounts(&[mount("rw", "", "/workspace", "w")]), 400, "EINVAL"),
            (mounts(&[rw.clone(), rw.clone()]), 400, "EINVAL"),
            (mounts(&[rw.clone(), mount("rw", "dir", "/other", "ro")]), 403, "EROFS"),
            (mounts(&[mount("rw", "dir", "/workspace", "rw"), mount("rw", "", "/other", "ro")]), 403, "EROFS"),
            (mounts(&[mount("none", "", "/workspace", "ro")]), 403, "EACCES"),
            (mounts(&[mount("a/b", "", "/workspace", "ro")]), 403, "EACCES"),
            (mounts(&[mount("ro", "", "/workspace", "rw")]), 403, "EROFS"),
            (
                mounts(&[mount("ro", "", "/workspace", "ro"), mount("ro", "dir", "/workspace/no", "ro")]),
                422,
                "ECAPABILITY",
            ),
            // the working directory and the sources
            (json!({ "cwd": "/workspaces" }), 400, "EINVAL"),
            (json!({ "cwd": "/workspace/none" }), 404, "ENOENT"),
            (json!({ "cwd": "/workspace/file" }), 400, "ENOTDIR"),
            (json!({ "cwd": "/workspace/link" }), 403, "EACCES"),
            (mounts(&[mount("rw", "none", "/workspace", "rw")]), 404, "ENOENT"),
            (mounts(&[mount("rw", "file", "/workspace", "rw")]), 400, "ENOTDIR"),
            (mounts(&[mount("rw", "link", "/workspace", "rw")]), 403, "EACCES"),
            (mounts(&[mount("rw", "../x", "/workspace", "rw")]), 400, "EINVAL"),
            (mounts(&[mount("rw", "dir/../dir", "/workspace", "rw")]), 400, "EINVAL"),
            (json!({ "projectId": "project-1", "projectRevision": 1 }), 422, "ECAPABILITY"),
        ] {
            let wrong = with(&start, &changes);
            assert_eq!(node.send(&wrong).await.refusal(), refusal(status, code), "{model:?} {wrong:.400}");
        }
        let query = Reply::of(node.request(Method::GET, &start["requestId"], "")).await;
        assert_eq!(query.refusal(), refusal(404, "PROCESS_UNKNOWN"));
        assert!(!node.node.path("rw/started").exists());
        assert_eq!(node.run(&start).await["state"], "exited", "the same id is still free");
        assert!(node.node.path("rw/started").exists());
    }
}

#[tokio::test]
async fn a_body_of_another_shape_is_refused_before_the_caller_is_known() {
    let node = ProcessNode::start(Execution::Host).await;
    let start = node.shell("true");
    for changes in [
        json!({ "unknown": 1 }),
        json!({ "timeoutMs": -1 }),
        json!({ "timeoutMs": 1.5 }),
        json!({ "args": "x" }),
        json!({ "mounts": [{ "alias": "rw" }] }),
        json!({ "keepOutput": "yes" }),
    ] {
        let wrong = with(&start, &changes);
        let request = node.node.anonymous(Method::POST, "/v1/processes").header("content-type", "application/json");
        assert_eq!(Reply::of(request.body(wrong.to_string())).await.status, 422, "{wrong}");
    }
    let request = node.node.anonymous(Method::POST, "/v1/processes").header("content-type", "application/json");
    assert_eq!(Reply::of(request.body(start.to_string())).await.refusal(), refusal(401, "EACCES"));
}

#[tokio::test]
async fn a_request_id_runs_once_whatever_it_is_sent_with() {
    for model in models().await {
        let node = ProcessNode::start(model).await;
        let start = node.shell("echo x >> count");
        let first = node.run(&start).await;
        assert_eq!((&first["state"], &first["code"]), (&json!("exited"), &json!(0)));
        for changes in [json!({}), json!({ "args": ["-c", "rm count"] }), json!({ "cwd": "not even valid" })] {
            let again = node.send(&with(&start, &changes)).await;
            assert_eq!((again.status, again.json()), (200, first.clone()));
        }
        let count = std::fs::read_to_string(node.node.path("rw/count")).unwrap();
        assert_eq!(count, "x\n");
    }
}

#[tokio::test]
async fn queries_and_cancels_are_checked_alike() {
    let node = ProcessNode::start(Execution::Host).await;
    let off = ProcessNode::start(Execution::Off).await;
    for (method, rest) in [(Method::GET, ""), (Method::POST, "/cancel"), (Method::GET, "/output?stdout=0&stderr=0")] {
        let ask = async |node: &ProcessNode, epoch: &str, id: &str| {
            let route = format!("/v1/processes/{epoch}/{id}{rest}");
            Reply::of(node.node.anonymous(method.clone(), &route).bearer_auth(crate::support::KEY)).await.refusal()
        };
        assert_eq!(ask(&node, "old", "a%20b").await, refusal(409, "STALE_SERVER_EPOCH"), "{rest}");
        assert_eq!(ask(&node, &node.epoch, "a%20b").await, refusal(400, "EINVAL"), "{rest}");
        assert_eq!(ask(&off, "old", "a").await, refusal(422, "ECAPABILITY"), "{rest}");
        if method == Method::GET {
            assert_eq!(ask(&node, &node.epoch, "a").await, refusal(404, "PROCESS_UNKNOWN"), "{rest}");
        }
        let route = format!("/v1/processes/{}/a{rest}", node.epoch);
        let unknown_caller = Reply::of(node.node.anonymous(method.clone(), &route)).await;
        assert_eq!(unknown_caller.refusal(), refusal(401, "EACCES"), "{rest}");
    }
    let start = with(&node.shell("true"), &json!({ "epoch": off.epoch, "serverId": off.server_id }));
    assert_eq!(off.send(&start).await.refusal(), refusal(422, "ECAPABILITY"));
}

#[tokio::test]
async fn a_cancel_before_the_start_keeps_it_from_running() {
    for model in models().await {
        let node = ProcessNode::start(model).await;
        let start = node.shell("touch started");
        let expected = json!({ "state": "cancelled", "stdout": "", "stderr": "", "code": null, "error": null, "truncated": false });
        assert_eq!(node.cancel(&start["requestId"]).await, expected);
        assert_eq!(node.send(&start).await.json(), expected);
        assert_eq!(node.cancel(&start["requestId"]).await, expected);
        assert!(!node.node.path("rw/started").exists());
    }
}

#[tokio::test]
async fn a_node_remembers_1024_processes_and_no_more() {
    let node = ProcessNode::start(Execution::Host).await;
    let first = node.shell("true");
    node.run(&first).await;
    for _ in 1..1024 {
        node.cancel(&json!(fresh_id())).await;
    }
    let limit = refusal(429, "PROCESS_LIMIT");
    assert_eq!(node.send(&node.shell("true")).await.refusal(), limit);
    let cancel = Reply::of(node.request(Method::POST, &json!(fresh_id()), "/cancel")).await;
    assert_eq!(cancel.refusal(), limit);
    assert_eq!(node.send(&first).await.json()["state"], "exited", "what is known is answered");
}

#[tokio::test]
async fn sixteen_processes_run_at_a_time() {
    let node = ProcessNode::start(Execution::Host).await;
    let mut ids = Vec::new();
    for _ in 0..16 {
        ids.push(node.begin(&node.shell("sleep 86400")).await);
    }
    let one_more = node.shell("true");
    assert_eq!(node.send(&one_more).await.refusal(), refusal(409, "EBUSY"));
    node.cancel(&ids[0]).await;
    node.end(&ids[0]).await;
    assert_eq!(node.run(&one_more).await["state"], "exited");
}

#[tokio::test]
async fn files_stay_usable_while_a_process_runs() {
    for model in models().await {
        let node = ProcessNode::start(model).await;
        let id = node.begin(&node.shell("echo hello > note; echo ready; sleep 86400")).await;
        node.wait_for(&id, "ready").await;
        let note = Reply::of(node.node.content("rw", "note")).await;
        assert_eq!((note.status, &note.body[..]), (200, &b"hello\n"[..]));
        node.cancel(&id).await;
        assert_eq!(node.end(&id).await["state"], "cancelled");
    }
}

#[tokio::test]
async fn a_read_only_export_cannot_be_asked_for_writing() {
    let read_only = |config: &mut ServeConfig| config.exports.retain(|export| export.alias.as_str() == "ro");
    let node = ProcessNode::start_with(Execution::Host, read_only).await;
    assert_eq!(node.send(&node.shell("true")).await.refusal(), refusal(403, "EACCES"));
}

#[tokio::test]
async fn without_a_namespace_only_one_directory_can_be_mounted() {
    let node = ProcessNode::start(Execution::Host).await;
    std::fs::create_dir_all(node.node.path("rw/dir/inner")).unwrap();
    let dir = mount("rw", "dir", "/workspace", "rw");
    for (mounts, cwd, expected) in [
        (vec![dir.clone()], "/workspace/inner", None),
        (vec![dir.clone(), mount("rw", "dir/inner", "/workspace/inner", "rw")], "/workspace", None),
        (vec![dir.clone(), mount("rw", "dir/inner", "/workspace/other", "rw")], "/workspace", Some("ECAPABILITY")),
        (vec![dir.clone(), mount("ro", "", "/reference", "ro")], "/workspace", Some("ECAPABILITY")),
    ] {
        let start = with(&node.shell("pwd"), &json!({ "mounts": mounts, "cwd": cwd }));
        match expected {
            Some(code) => assert_eq!(node.send(&start).await.refusal(), refusal(422, code), "{start}"),
            None => {
                let real = node.node.path("rw/dir").join(cwd.trim_start_matches("/workspace").trim_start_matches('/'));
                let shown = node.run(&start).await["stdout"].as_str().unwrap().trim().to_owned();
                assert_eq!(std::path::Path::new(&shown), real.canonicalize().unwrap(), "{start}");
            }
        }
    }
}

#[tokio::test]
async fn processes_are_for_callers_who_were_granted_them() {
    for granted in [false, true] {
        let node = ProcessNode::start_with(Execution::Host, |config| {
            let key = cells_server::Credential::ApiKey(Some(cells_server::Secret::new(TABLET)));
            config.principals = vec![cells_server::PrincipalConfig {
                id: cells_protocol::ids::PrincipalId::new("tablet").unwrap(),
                credential: key,
                exports: [(cells_protocol::ids::Alias::new("ro").unwrap(), cells_protocol::capabilities::Access::Ro)]
                    .into(),
                harnesses: Vec::new(),
                process: granted,
            }];
        })
        .await;
        let capabilities = node.node.anonymous(Method::GET, "/v1/capabilities").bearer_auth(TABLET);
        assert_eq!(Reply::of(capabilities).await.json()["process"]["exec"], granted);
        let send = async |start: &Value| {
            let request = node.node.anonymous(Method::POST, "/v1/processes").bearer_auth(TABLET);
            Reply::of(request.header("content-type", "application/json").body(start.to_string())).await
        };
        let start = with(&node.shell("true"), &json!({ "mounts": [mount("ro", "", "/workspace", "ro")] }));
        let reply = send(&start).await;
        if !granted {
            assert_eq!(reply.refusal(), refusal(403, "EACCES"));
            continue;
        }
        assert_eq!(reply.status, 200);
        assert_eq!(send(&node.shell("true")).await.refusal(), refusal(403, "EACCES"), "an export of others");
        let query = Reply::of(node.request(Method::GET, &start["requestId"], "")).await;
        assert_eq!(query.refusal(), refusal(404, "PROCESS_UNKNOWN"), "the owner has processes of his own");
    }
}

const TABLET: &str = "a-key-for-the-tablet-of-tests";
