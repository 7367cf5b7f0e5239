//! `files-http.md` §5.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use reqwest::{Body, Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::{KEY, Reply, TestNode, query_value, refusal};

const CREATE: (&str, &str) = ("if-none-match", "*");

/// A PUT with the id `id`.
fn put(node: &TestNode, alias: &str, path: &str, id: &str, condition: (&str, &str)) -> RequestBuilder {
    node.anonymous(Method::PUT, &format!("/v1/fs/{alias}/content?path={}", query_value(path)))
        .bearer_auth(KEY)
        .header("x-operation-id", id)
        .header(condition.0, condition.1)
}

fn mutate(node: &TestNode, alias: &str, id: &str, body: &Value) -> RequestBuilder {
    node.anonymous(Method::POST, &format!("/v1/fs/{alias}/mutate"))
        .bearer_auth(KEY)
        .header("x-operation-id", id)
        .header("content-type", "application/json")
        .body(body.to_string())
}

fn operation(node: &TestNode, id: &str) -> RequestBuilder {
    node.get(&format!("/v1/fs/rw/operations/{id}"))
}

fn cancel(node: &TestNode, id: &str) -> RequestBuilder {
    node.anonymous(Method::POST, &format!("/v1/fs/rw/operations/{id}/cancel")).bearer_auth(KEY)
}

async fn receipt(request: RequestBuilder) -> (u16, Value) {
    let reply = Reply::of(request).await;
    (reply.status, reply.json())
}

fn not_committed(code: &str) -> Value {
    json!({ "outcome": "not-committed", "code": code })
}

fn committed(result: &Value) -> Value {
    json!({ "outcome": "committed", "result": result })
}

async fn revision(node: &TestNode, path: &str) -> String {
    let reply = Reply::of(node.stat("rw", &[path])).await.json();
    reply["results"][0]["stat"]["revision"].as_str().unwrap().to_owned()
}

/// Names in the writable export, staging files included.
fn names(node: &TestNode) -> Vec<String> {
    let entries = fs::read_dir(node.path("rw")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn content_is_created_and_replaced_as_a_whole() {
    let node = TestNode::start().await;
    let (status, created) = receipt(put(&node, "rw", "a ü.md", "c1", CREATE).body("first")).await;
    assert_eq!((status, &created["outcome"]), (200, &json!("committed")));
    let stat = &created["result"];
    assert_eq!((&stat["kind"], &stat["size"]), (&json!("file"), &json!(5)));
    let first = stat["revision"].as_str().unwrap();
    assert_eq!(first, revision(&node, "a ü.md").await, "no stat is needed after a write");
    assert_eq!(fs::metadata(node.path("rw/a ü.md")).unwrap().permissions().mode() & 0o777, 0o644);

    fs::set_permissions(node.path("rw/a ü.md"), fs::Permissions::from_mode(0o750)).unwrap();
    let current = revision(&node, "a ü.md").await;
    let (status, replaced) =
        receipt(put(&node, "rw", "a ü.md", "c2", ("if-match", &current)).body(vec![b'x'; 3_000_000])).await;
    assert_eq!((status, &replaced["result"]["size"]), (200, &json!(3_000_000)));
    assert_eq!(fs::read(node.path("rw/a ü.md")).unwrap(), vec![b'x'; 3_000_000]);
    assert_eq!(fs::metadata(node.path("rw/a ü.md")).unwrap().permissions().mode() & 0o777, 0o750, "bits are kept");
    let empty = receipt(put(&node, "rw", "empty", "c3", CREATE)).await;
    assert_eq!((empty.0, &empty.1["result"]["size"]), (200, &json!(0)));

    assert_eq!(names(&node), ["a ü.md", "empty"]);
    assert_eq!(receipt(operation(&node, "c1")).await, (200, created), "the receipt stays as it was");
    assert_eq!(receipt(operation(&node, "c2")).await, (200, replaced));
}

#[tokio::test]
async fn a_write_that_cannot_be_done_leaves_nothing_and_says_why() {
    let node = TestNode::start().await;
    fs::create_dir(node.path("rw/dir")).unwrap();
    fs::create_dir(node.path("rw/dir/full")).unwrap();
    fs::write(node.path("rw/dir/full/x"), "").unwrap();
    fs::write(node.path("rw/file"), "old").unwrap();
    symlink("dir", node.path("rw/link")).unwrap();
    let before = names(&node);
    let file = revision(&node, "file").await;
    let directory = revision(&node, "dir").await;
    let conflict = (412, not_committed("ECONFLICT"));
    for (at, (path, condition, expected)) in [
        ("file", CREATE, conflict.clone()),
        ("dir", CREATE, conflict.clone()),
        ("link", CREATE, conflict.clone()),
        ("missing", ("if-match", file.as_str()), conflict.clone()),
        ("dir", ("if-match", &directory), conflict.clone()),
        ("link", ("if-match", &file), conflict.clone()),
        ("file", ("if-match", "\"other\""), conflict.clone()),
        ("file", ("if-match", "*"), conflict.clone()),
        ("missing/new", CREATE, (404, not_committed("ENOENT"))),
        ("file/new", CREATE, (400, not_committed("ENOTDIR"))),
        ("link/new", CREATE, (403, not_committed("EACCES"))),
        ("", CREATE, (400, not_committed("EINVAL"))),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("p{at}");
        let request = put(&node, "rw", path, &id, condition).body("new");
        assert_eq!(receipt(request).await, expected, "{path} {condition:?}");
        assert_eq!(receipt(operation(&node, &id)).await, (200, expected.1), "{path}: its receipt");
    }
    for (at, (body, expected)) in [
        (json!({ "action": "mkdir", "path": "file" }), (409, not_committed("EEXIST"))),
        (json!({ "action": "mkdir", "path": "missing/new" }), (404, not_committed("ENOENT"))),
        (json!({ "action": "mkdir", "path": "" }), (400, not_committed("EINVAL"))),
        (json!({ "action": "rename", "path": "missing", "to": "new" }), (404, not_committed("ENOENT"))),
        (json!({ "action": "rename", "path": "file", "to": "dir" }), (409, not_committed("EEXIST"))),
        (json!({ "action": "rename", "path": "file", "to": "link" }), (409, not_committed("EEXIST"))),
        (json!({ "action": "rename", "path": "file", "to": "missing/new" }), (404, not_committed("ENOENT"))),
        (json!({ "action": "remove", "path": "missing" }), (404, not_committed("ENOENT"))),
        (json!({ "action": "remove", "path": "dir" }), (409, not_committed("ENOTEMPTY"))),
        (json!({ "action": "remove", "path": "link/full" }), (403, not_committed("EACCES"))),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("m{at}");
        assert_eq!(receipt(mutate(&node, "rw", &id, &body)).await, expected, "{body}");
        assert_eq!(receipt(operation(&node, &id)).await, (200, expected.1), "{body}: its receipt");
    }
    assert_eq!(names(&node), before);
    assert_eq!(fs::read(node.path("rw/file")).unwrap(), b"old");
}

#[tokio::test]
async fn names_are_made_moved_and_removed() {
    let node = TestNode::start().await;
    fs::write(node.path("rw/file"), "content").unwrap();
    symlink("nowhere", node.path("rw/link")).unwrap();
    for (id, body) in [
        ("1", json!({ "action": "mkdir", "path": "dir" })),
        ("2", json!({ "action": "mkdir", "path": "dir/sub", "recursive": false })),
        ("3", json!({ "action": "rename", "path": "file", "to": "dir/moved" })),
        ("4", json!({ "action": "rename", "path": "dir", "to": "other" })),
        ("5", json!({ "action": "remove", "path": "other/sub", "to": "ignored" })),
        ("6", json!({ "action": "remove", "path": "link" })),
    ] {
        assert_eq!(receipt(mutate(&node, "rw", id, &body)).await, (200, committed(&json!({}))), "{body}");
    }
    assert_eq!(names(&node), ["other"]);
    assert_eq!(fs::metadata(node.path("rw/other")).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(fs::read(node.path("rw/other/moved")).unwrap(), b"content");
    let remove = json!({ "action": "remove", "path": "other/moved" });
    assert_eq!(receipt(mutate(&node, "rw", "7", &remove)).await, (200, committed(&json!({}))));
    assert_eq!(fs::read_dir(node.path("rw/other")).unwrap().count(), 0);
}

#[tokio::test]
async fn what_is_refused_before_the_claim_leaves_its_id_free() {
    let node = TestNode::start().await;
    let plain = |path: &str| {
        node.anonymous(Method::PUT, &format!("/v1/fs/rw/content?path={}", query_value(path))).bearer_auth(KEY)
    };
    let mkdir = json!({ "action": "mkdir", "path": "new" });
    for (what, request, expected) in [
        ("no condition", plain("new").header("x-operation-id", "free"), refusal(428, "REVISION_REQUIRED")),
        (
            "both conditions",
            put(&node, "rw", "new", "free", CREATE).header("if-match", "\"x\""),
            refusal(428, "REVISION_REQUIRED"),
        ),
        (
            "another condition",
            put(&node, "rw", "new", "free", ("if-none-match", "\"x\"")),
            refusal(428, "REVISION_REQUIRED"),
        ),
        ("no id", plain("new").header(CREATE.0, CREATE.1), refusal(400, "EINVAL")),
        ("a wrong id", put(&node, "rw", "new", "a b", CREATE), refusal(400, "EINVAL")),
        ("a wrong path", put(&node, "rw", "../new", "free", CREATE), refusal(400, "EINVAL")),
        ("a staging name", put(&node, "rw", ".itookit-upload-0", "free", CREATE), refusal(400, "EINVAL")),
        (
            "a wrong deadline",
            put(&node, "rw", "new", "free", CREATE).header("x-timeout-ms", "0"),
            refusal(400, "EINVAL"),
        ),
        ("a read-only export", put(&node, "ro", "new", "free", CREATE), refusal(403, "EROFS")),
        ("no such export", put(&node, "none", "new", "free", CREATE), refusal(403, "EACCES")),
        (
            "recursive",
            mutate(&node, "rw", "free", &json!({ "action": "remove", "path": "x", "recursive": true })),
            refusal(422, "ECAPABILITY"),
        ),
        (
            "an unknown action",
            mutate(&node, "rw", "free", &json!({ "action": "copy", "path": "x" })),
            refusal(400, "EINVAL"),
        ),
        ("no target", mutate(&node, "rw", "free", &json!({ "action": "rename", "path": "x" })), refusal(400, "EINVAL")),
        (
            "a wrong target",
            mutate(&node, "rw", "free", &json!({ "action": "rename", "path": "x", "to": "/y" })),
            refusal(400, "EINVAL"),
        ),
        ("mutate a read-only export", mutate(&node, "ro", "free", &mkdir), refusal(403, "EROFS")),
        (
            "no credential",
            node.anonymous(Method::PUT, "/v1/fs/rw/content?path=new")
                .header("x-operation-id", "free")
                .header(CREATE.0, CREATE.1),
            refusal(401, "EACCES"),
        ),
        ("an unknown operation", operation(&node, "free"), refusal(404, "OPERATION_UNKNOWN")),
        ("a wrong operation", operation(&node, "a%20b"), refusal(400, "EINVAL")),
    ] {
        let reply = Reply::of(request).await;
        assert_eq!(reply.status, expected.0, "{what}: {:?}", reply.body);
        assert_eq!(reply.refusal(), expected, "{what}");
    }
    assert_eq!(names(&node), Vec::<String>::new());
    assert_eq!(receipt(put(&node, "rw", "new", "free", CREATE)).await.0, 200);
}

#[tokio::test]
async fn an_id_is_used_once_also_by_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let node = TestNode::start_in(&directory).await;
    assert_eq!(receipt(put(&node, "rw", "a", "id", CREATE).body("1")).await.0, 200);
    assert_eq!(receipt(put(&node, "rw", "b/c", "failed", CREATE).body("1")).await.0, 404);
    node.stop().await.unwrap();

    fs::write(directory.path().join("rw/.itookit-upload-0123456789abcdef0123456789abcdef"), "left").unwrap();
    fs::write(directory.path().join("rw/.itookit-upload-not-ours"), "kept").unwrap();
    let node = TestNode::start_in(&directory).await;
    let reused = refusal(409, "OPERATION_ID_REUSED");
    for id in ["id", "failed"] {
        assert_eq!(Reply::of(put(&node, "rw", "b", id, CREATE).body("2")).await.refusal(), reused);
        let mkdir = json!({ "action": "mkdir", "path": "b" });
        assert_eq!(Reply::of(mutate(&node, "rw", id, &mkdir)).await.refusal(), reused);
    }
    assert_eq!(receipt(operation(&node, "id")).await.1["outcome"], "committed");
    assert_eq!(receipt(operation(&node, "failed")).await.1, not_committed("ENOENT"));
    assert_eq!(fs::read(directory.path().join("rw/a")).unwrap(), b"1");
    let listed = Reply::of(node.entries("rw", "", None)).await.json();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 1, "staging files are hidden: {listed}");
    // The sweep runs in the background.
    while names(&node) != [".itookit-upload-not-ours", "a"] {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_cancel_is_a_fence_and_never_rolls_back() {
    let node = TestNode::start().await;
    let cancelled = not_committed("ECANCELLED");
    assert_eq!(receipt(cancel(&node, "late")).await, (200, cancelled.clone()));
    let reused = refusal(409, "OPERATION_ID_REUSED");
    assert_eq!(Reply::of(put(&node, "rw", "a", "late", CREATE).body("1")).await.refusal(), reused);
    assert_eq!(receipt(operation(&node, "late")).await, (200, cancelled.clone()));

    let done = receipt(put(&node, "rw", "a", "done", CREATE).body("1")).await;
    assert_eq!(receipt(cancel(&node, "done")).await, done);
    assert_eq!(fs::read(node.path("rw/a")).unwrap(), b"1");

    let (running, body) = held_upload(&node, "b", "running").await;
    assert_eq!(receipt(operation(&node, "running")).await, (200, json!({ "outcome": "unknown", "state": "running" })));
    assert_eq!(receipt(cancel(&node, "running")).await, (200, json!({ "outcome": "unknown", "state": "running" })));
    assert_eq!(receipt_of(running.await.unwrap()).await, (408, cancelled.clone()));
    assert_eq!(receipt(operation(&node, "running")).await, (200, cancelled));
    drop(body);
    assert_eq!(names(&node), ["a"]);
}

#[tokio::test]
async fn an_upload_that_breaks_or_is_late_is_not_committed() {
    let node = TestNode::start().await;
    let (upload, body) = held_upload(&node, "new", "broken").await;
    upload.abort();
    let _ = upload.await;
    let broken = settled(&node, "broken").await;
    drop(body);
    assert_eq!(broken, not_committed("EINVAL"));

    let (sender, receiver) = futures::channel::mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let late = put(&node, "rw", "new", "late", CREATE).header("x-timeout-ms", "100").body(Body::wrap_stream(receiver));
    let late = receipt(late).await;
    drop(sender);
    assert_eq!(late, (504, not_committed("ETIMEDOUT")));
    assert_eq!(names(&node), Vec::<String>::new());

    let large = put(&node, "rw", "new", "large", CREATE).header("content-length", "268435457");
    let chunk = Bytes::from(vec![0; 1 << 20]);
    let chunks = stream::iter((0..257).map(move |_| Ok::<_, std::io::Error>(chunk.clone())));
    let reply = receipt(large.body(Body::wrap_stream(chunks))).await;
    assert_eq!(reply, (413, not_committed("UPLOAD_LIMIT")));
    assert_eq!(names(&node), Vec::<String>::new());
}

#[tokio::test]
async fn one_of_many_writers_wins() {
    let node = TestNode::start().await;
    fs::write(node.path("rw/file"), "old").unwrap();
    let file = revision(&node, "file").await;
    for (path, condition) in [("new", CREATE), ("file", ("if-match", file.as_str()))] {
        let writers = (0..8).map(|at| {
            let request = put(&node, "rw", path, &format!("{path}-{at}"), condition).body(format!("writer {at}"));
            async move { (at, receipt(request).await) }
        });
        let replies = futures::future::join_all(writers).await;
        let (won, lost): (Vec<_>, Vec<_>) = replies.into_iter().partition(|(_, (status, _))| *status == 200);
        let [(winner, _)] = won.as_slice() else { panic!("{won:?}") };
        assert_eq!(fs::read_to_string(node.path("rw").join(path)).unwrap(), format!("writer {winner}"));
        assert!(lost.iter().all(|(_, reply)| *reply == (412, not_committed("ECONFLICT"))), "{lost:?}");
    }
}

#[tokio::test]
async fn an_edit_by_another_program_is_a_conflict() {
    let node = TestNode::start().await;
    fs::write(node.path("rw/file"), "old").unwrap();
    let file = revision(&node, "file").await;
    // In place and of the same size, while the new content is on its way.
    let (upload, mut body) = held_upload_if(&node, "file", "edited", ("if-match", &file)).await;
    fs::write(node.path("rw/file"), "new").unwrap();
    body.try_send(Ok(Bytes::from_static(b"mine"))).unwrap();
    drop(body);
    assert_eq!(receipt_of(upload.await.unwrap()).await, (412, not_committed("ECONFLICT")));
    assert_eq!(fs::read(node.path("rw/file")).unwrap(), b"new");
    assert_eq!(names(&node), ["file"]);
}

#[tokio::test]
async fn a_parent_that_is_swapped_for_a_link_gains_nothing() {
    let node = TestNode::start().await;
    fs::create_dir(node.path("rw/dir")).unwrap();
    fs::create_dir(node.path("outside")).unwrap();
    let (upload, body) = held_upload(&node, "dir/new", "swapped").await;
    fs::rename(node.path("rw/dir"), node.path("rw/moved")).unwrap();
    symlink(node.path("outside"), node.path("rw/dir")).unwrap();
    drop(body);
    assert_eq!(receipt_of(upload.await.unwrap()).await, (412, not_committed("ECONFLICT")));
    for directory in ["outside", "rw/moved"] {
        assert_eq!(fs::read_dir(node.path(directory)).unwrap().count(), 0, "{directory}");
    }
}

#[tokio::test]
async fn a_stop_ends_uploads_that_run() {
    let directory = tempfile::tempdir().unwrap();
    let node = TestNode::start_in(&directory).await;
    let (upload, body) = held_upload(&node, "new", "stopped").await;
    node.stop().await.unwrap();
    drop((upload, body));
    let node = TestNode::start_in(&directory).await;
    assert_eq!(receipt(operation(&node, "stopped")).await, (200, not_committed("ECANCELLED")));
    assert_eq!(names(&node), Vec::<String>::new());
}

type Upload = tokio::task::JoinHandle<reqwest::Response>;
type Held = futures::channel::mpsc::Sender<Result<Bytes, std::io::Error>>;

async fn held_upload(node: &TestNode, path: &str, id: &str) -> (Upload, Held) {
    held_upload_if(node, path, id, CREATE).await
}

/// An upload of which the node has the first bytes, and whose other bytes are sent by the result.
async fn held_upload_if(node: &TestNode, path: &str, id: &str, condition: (&str, &str)) -> (Upload, Held) {
    let (mut sender, receiver) = futures::channel::mpsc::channel(1);
    sender.try_send(Ok(Bytes::from_static(b"first "))).unwrap();
    let request = put(node, "rw", path, id, condition).body(Body::wrap_stream(receiver));
    let upload = tokio::spawn(async move { request.send().await.unwrap() });
    while receipt(operation(node, id)).await.0 == 404 || !is_staged(node, path) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    (upload, sender)
}

fn is_staged(node: &TestNode, path: &str) -> bool {
    let target = node.path("rw").join(path);
    let names = fs::read_dir(target.parent().unwrap()).unwrap();
    names.map(|entry| entry.unwrap().file_name()).any(|name| name.to_string_lossy().starts_with(".itookit-upload-"))
}

/// The receipt of a write that nobody waits for.
async fn settled(node: &TestNode, id: &str) -> Value {
    loop {
        let (_, receipt) = receipt(operation(node, id)).await;
        if receipt["state"] != "running" {
            return receipt;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn receipt_of(response: reqwest::Response) -> (u16, Value) {
    (response.status().as_u16(), serde_json::from_slice(&response.bytes().await.unwrap()).unwrap())
}
