//! `files-http.md` §7.

use std::sync::atomic::{AtomicU32, Ordering};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{KEY, Reply, TestNode, refusal};

async fn snapshot(node: &TestNode, alias: &str, path: &str) -> Reply {
    post(node, &format!("/v1/fs/{alias}/seq/snapshot"), &json!({ "path": path })).await
}

/// A transaction with a fresh operation id.
async fn transaction(node: &TestNode, path: &str, revision: &Value, changes: Value) -> Reply {
    let body = json!({ "path": path, "expectedRevision": revision, "changes": changes });
    post(node, "/v1/fs/rw/seq/transaction", &body).await
}

async fn post(node: &TestNode, route: &str, body: &Value) -> Reply {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let id = format!("seq-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let request = node.anonymous(Method::POST, route).bearer_auth(KEY).header("x-operation-id", id);
    Reply::of(request.header("content-type", "application/json").body(body.to_string())).await
}

/// The revision after a transaction that must succeed.
async fn commit(node: &TestNode, path: &str, revision: &Value, changes: Value) -> Value {
    let reply = transaction(node, path, revision, changes).await;
    let receipt = reply.json();
    assert_eq!((reply.status, &receipt["outcome"]), (200, &json!("committed")), "{receipt}");
    assert_eq!(receipt["result"]["kind"], "file");
    receipt["result"]["revision"].clone()
}

fn not_committed(status: u16, code: &str) -> (u16, Value) {
    (status, json!({ "outcome": "not-committed", "code": code }))
}

fn set(key: &str, value: impl Into<Value>) -> Value {
    let value: Value = value.into();
    json!({ "action": "set", "key": key, "value": value })
}

fn delete(key: &str) -> Value {
    json!({ "action": "delete", "key": key })
}

#[tokio::test]
async fn a_transaction_makes_changes_and_names_the_next_revision() {
    let node = TestNode::start().await;
    let path = "info.seq";
    assert_eq!(snapshot(&node, "rw", path).await.json(), json!({ "revision": null, "entries": [] }));
    assert!(!node.path("rw/info.seq").exists(), "a snapshot creates nothing");
    let mut revision = Value::Null;
    for (changes, entries) in [
        (json!([set("b", json!({ "n": 1 })), set("a", json!("Plan"))]), json!([["a", "Plan"], ["b", { "n": 1 }]])),
        (json!([]), json!([["a", "Plan"], ["b", { "n": 1 }]])),
        (json!([set("a", json!(null)), delete("b"), delete("none")]), json!([["a", null]])),
        (
            json!([delete("a"), set("a", json!(2)), set("a", json!(3)), set("B", json!([]))]),
            json!([["B", []], ["a", 3]]),
        ),
        (json!([delete("a"), delete("B")]), json!([])),
    ] {
        let next = commit(&node, path, &revision, changes).await;
        assert_ne!(next, revision);
        let found = snapshot(&node, "rw", path).await.json();
        let listed: Vec<Value> =
            found["entries"].as_array().unwrap().iter().map(|entry| json!([entry["key"], entry["value"]])).collect();
        assert_eq!((&found["revision"], json!(listed)), (&next, entries));
        revision = next;
    }
    let stat = Reply::of(node.stat("rw", &[path])).await.json();
    assert_eq!(stat["results"][0]["stat"]["revision"], revision, "it is an ordinary file");
}

#[tokio::test]
async fn a_transaction_that_is_refused_changes_nothing() {
    let node = TestNode::start().await;
    let revision = commit(&node, "a.seq", &Value::Null, json!([set("k", json!(1))])).await;
    std::fs::write(node.path("rw/bad.seq"), "not a database").unwrap();
    std::fs::create_dir(node.path("rw/dir.seq")).unwrap();
    std::os::unix::fs::symlink("a.seq", node.path("rw/link.seq")).unwrap();
    let huge = std::fs::File::create(node.path("rw/huge.seq")).unwrap();
    huge.set_len(16 * 1024 * 1024 + 1).unwrap();
    let of = |path: &str| {
        let stat = node.stat("rw", &[path]);
        async { Reply::of(stat).await.json()["results"][0]["stat"]["revision"].take() }
    };
    let (bad, huge) = (of("bad.seq").await, of("huge.seq").await);
    let one = json!([set("k", json!(2))]);
    let many: Vec<Value> = (0..257).map(|at| set(&at.to_string(), json!(at))).collect();
    for (path, expected, changes, answer) in [
        ("a.seq", Value::Null, one.clone(), not_committed(412, "ECONFLICT")),
        ("a.seq", json!("\"00:1\""), one.clone(), not_committed(412, "ECONFLICT")),
        ("none.seq", revision.clone(), one.clone(), not_committed(412, "ECONFLICT")),
        ("none/a.seq", Value::Null, one.clone(), not_committed(404, "ENOENT")),
        ("a.txt", Value::Null, one.clone(), not_committed(400, "EINVAL")),
        ("../a.seq", Value::Null, one.clone(), not_committed(400, "EINVAL")),
        ("a.seq", revision.clone(), json!(many), not_committed(400, "EINVAL")),
        ("a.seq", revision.clone(), json!([set("", json!(1))]), not_committed(400, "EINVAL")),
        ("a.seq", revision.clone(), json!([set(&"k".repeat(1025), json!(1))]), not_committed(400, "EINVAL")),
        ("bad.seq", bad, one.clone(), not_committed(500, "EIO")),
        ("huge.seq", huge, one.clone(), not_committed(400, "EINVAL")),
        ("link.seq", revision.clone(), one.clone(), not_committed(403, "EACCES")),
    ] {
        let reply = transaction(&node, path, &expected, changes).await;
        assert_eq!((reply.status, reply.json()), answer, "{path} {expected}");
    }
    let reply = transaction(&node, "dir.seq", &json!("\"00:1\""), one.clone()).await;
    assert_eq!((reply.status, reply.json()), not_committed(422, "ECAPABILITY"));
    assert_eq!(snapshot(&node, "rw", "a.seq").await.json()["revision"], revision);
    assert_eq!(std::fs::read(node.path("rw/bad.seq")).unwrap(), b"not a database");

    for (body, status) in [
        (json!({ "path": "a.seq", "changes": [], "more": 1 }), 422),
        (json!({ "path": "a.seq" }), 422),
        (json!({ "path": "a.seq", "changes": [{ "action": "rename", "key": "k" }] }), 422),
        (json!({ "path": "a.seq", "changes": [{ "action": "set", "key": "k", "value": 1, "more": 1 }] }), 422),
    ] {
        assert_eq!(post(&node, "/v1/fs/rw/seq/transaction", &body).await.status, status, "{body}");
    }
    let body = json!({ "path": "a.seq", "changes": [] });
    assert_eq!(post(&node, "/v1/fs/ro/seq/transaction", &body).await.refusal(), refusal(403, "EROFS"));
    assert_eq!(post(&node, "/v1/fs/none/seq/transaction", &body).await.refusal(), refusal(403, "EACCES"));
    let no_id = node.anonymous(Method::POST, "/v1/fs/rw/seq/transaction").bearer_auth(KEY);
    let no_id = no_id.header("content-type", "application/json").body(body.to_string());
    assert_eq!(Reply::of(no_id).await.refusal(), refusal(400, "EINVAL"));
}

#[tokio::test]
async fn an_operation_id_is_used_once_and_remembered() {
    let node = TestNode::start().await;
    let body = json!({ "path": "a.seq", "changes": [set("k", json!(1))] });
    let send = async || {
        let request = node.anonymous(Method::POST, "/v1/fs/rw/seq/transaction").bearer_auth(KEY);
        let request = request.header("x-operation-id", "one").header("content-type", "application/json");
        Reply::of(request.body(body.to_string())).await
    };
    let receipt = send().await.json();
    assert_eq!(receipt["outcome"], "committed");
    assert_eq!(send().await.refusal(), refusal(409, "OPERATION_ID_REUSED"));
    assert_eq!(Reply::of(node.get("/v1/fs/rw/operations/one")).await.json(), receipt);
}

#[tokio::test]
async fn snapshots_of_what_cannot_be_read_are_refused() {
    let node = TestNode::start().await;
    std::fs::create_dir(node.path("rw/dir.seq")).unwrap();
    std::fs::write(node.path("rw/bad.seq"), "not a database").unwrap();
    std::os::unix::fs::symlink("bad.seq", node.path("rw/link.seq")).unwrap();
    std::fs::File::create(node.path("rw/huge.seq")).unwrap().set_len(16 * 1024 * 1024 + 1).unwrap();
    for (alias, path, status, code) in [
        ("rw", "a.txt", 400, "EINVAL"),
        ("rw", "/a.seq", 400, "EINVAL"),
        ("rw", "huge.seq", 400, "EINVAL"),
        ("rw", "dir.seq", 422, "ECAPABILITY"),
        ("rw", "link.seq", 403, "EACCES"),
        ("rw", "bad.seq", 500, "EIO"),
        ("none", "a.seq", 403, "EACCES"),
    ] {
        assert_eq!(snapshot(&node, alias, path).await.refusal(), refusal(status, code), "{path}");
    }
}

#[tokio::test]
async fn snapshots_of_read_only_exports_have_no_revision() {
    let node = TestNode::start().await;
    commit(&node, "a.seq", &Value::Null, json!([set("k", json!(1))])).await;
    std::fs::copy(node.path("rw/a.seq"), node.path("ro/a.seq")).unwrap();
    let expected = json!({ "revision": null, "entries": [{ "key": "k", "value": 1 }] });
    assert_eq!(snapshot(&node, "ro", "a.seq").await.json(), expected);
}

#[tokio::test]
async fn of_transactions_at_the_same_revision_one_wins() {
    let node = TestNode::start().await;
    let path = "race.seq";
    for _ in ["the file is made", "the file is replaced"] {
        let revision = snapshot(&node, "rw", path).await.json()["revision"].take();
        let racers = (0..8).map(|at| transaction(&node, path, &revision, json!([set("winner", json!(at))])));
        let replies = futures::future::join_all(racers).await;
        let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412, 412, 412, 412, 412, 412, 412]);
        let winner = replies.iter().position(|reply| reply.status == 200).unwrap();
        let found = snapshot(&node, "rw", path).await.json();
        assert_eq!(found["entries"], json!([{ "key": "winner", "value": winner }]));
    }
}
