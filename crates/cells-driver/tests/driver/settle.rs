//! How a write ended: by its receipt, else by what the export shows.

use cells_driver::{ErrorKind, FileReceipt, FileRecovery, OperationId, OperationOptions, Outcome};
use cells_testkit::fake_host::{FakeHost, FakeReply, FakeRequest};
use serde_json::{Value, json};

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{capabilities, host, sent, storage, within};

const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

fn recovery(durable: bool, sent_at_ms: u64, change: &Value) -> FileRecovery {
    let recovery = json!({
        "operationId": "op-1", "alias": "notes", "sentAtMs": sent_at_ms, "durable": durable, "processEpoch": "e-1",
        "change": change,
    });
    serde_json::from_value(recovery).unwrap()
}

/// What a node answers.
#[derive(Clone)]
struct Node {
    epoch: &'static str,
    status: Vec<Value>,
    cancel: Option<Value>,
    stat: Value,
    content: &'static str,
}

impl Node {
    /// A process of the epoch `e-1` that never saw the write, and has no file.
    fn new() -> Self {
        let cancel = Some(json!({"outcome": "not-committed", "code": "ECANCELLED"}));
        Self { epoch: "e-1", status: vec![], cancel, stat: Value::Null, content: "" }
    }

    fn file(self, revision: &str, content: &'static str) -> Self {
        let stat =
            json!({"kind": "file", "size": content.len(), "modifiedAt": 1, "createdAt": 1, "revision": revision});
        Self { stat, content, ..self }
    }

    fn host(self) -> FakeHost {
        let Self { epoch, status, cancel, stat, content } = self;
        let mut status = status.into_iter();
        host(move |request: &FakeRequest| match request.path() {
            "/v1/capabilities" => {
                let mut document = capabilities();
                document["processEpoch"] = json!(epoch);
                Some(FakeReply::json(&document))
            }
            "/v1/fs/notes/operations/op-1" => Some(match status.next() {
                Some(receipt) => FakeReply::json(&receipt),
                None => FakeReply::status(404, &json!({"code": "OPERATION_UNKNOWN"})),
            }),
            "/v1/fs/notes/operations/op-1/cancel" => Some(match &cancel {
                Some(receipt) => FakeReply::json(receipt),
                None => FakeReply::status(404, &json!({"code": "OPERATION_UNKNOWN"})),
            }),
            "/v1/fs/notes/stat" => Some(FakeReply::json(&json!({"results": [{"stat": stat}]}))),
            path if path.starts_with("/v1/fs/notes/content") => {
                let revision = stat["revision"].as_str().unwrap_or_default();
                Some(FakeReply::bytes(200, content).header("etag", revision))
            }
            _ => None,
        })
    }
}

#[test]
fn a_write_is_settled_by_its_receipt_and_else_by_what_the_export_shows() {
    let replace = |revision: Option<&str>| json!({"kind": "replace", "path": "a", "revision": revision, "size": 5, "sha256": HELLO});
    let no_hash = json!({"kind": "replace", "path": "a", "revision": "\"r:1\"", "size": 5});
    let transaction = json!({"kind": "transaction", "path": "a.seq", "revision": "\"r:1\""});
    let mkdir = json!({"kind": "mkdir", "path": "a"});
    let committed = json!({"outcome": "committed", "result": {}});
    let conflict = json!({"outcome": "not-committed", "code": "ECONFLICT"});
    let running = json!({"outcome": "unknown", "state": "running"});
    let undetermined = json!({"outcome": "unknown", "code": "EIO"});
    let other = || Node { epoch: "e-2", ..Node::new() };
    let with = |status: Vec<Value>| Node { status, ..Node::new() };
    let done = || "committed";
    let not = |code: &str| format!("not-committed {code}");
    const HOUR: u64 = 3_600_000;
    for (case, node, durable, age_ms, change, expected, n_cancels) in [
        ("committed", with(vec![committed.clone()]), false, 0, mkdir.clone(), done().into(), 0),
        ("refused", with(vec![conflict]), false, 0, mkdir.clone(), not("ECONFLICT"), 0),
        (
            "runs, then commits",
            with(vec![running.clone(), running.clone(), committed.clone()]),
            false,
            0,
            mkdir.clone(),
            done().into(),
            0,
        ),
        ("runs for ever", with(vec![running; 60]), false, 0, mkdir.clone(), "running".into(), 0),
        ("never seen, durable", other(), true, 0, mkdir.clone(), not("ECANCELLED"), 1),
        ("never seen, same process", Node::new(), false, 0, mkdir.clone(), not("ECANCELLED"), 1),
        ("another process", other(), false, 0, mkdir.clone(), "unknown".into(), 1),
        ("too long ago", other(), true, HOUR, mkdir.clone(), "unknown".into(), 1),
        ("seen in between", Node { cancel: Some(committed), ..other() }, false, 0, mkdir.clone(), done().into(), 1),
        ("old file", other().file("\"r:1\"", "older"), false, 0, replace(Some("\"r:1\"")), not("ECANCELLED"), 1),
        ("old SeqFile", other().file("\"r:1\"", "older"), false, 0, transaction.clone(), not("ECANCELLED"), 1),
        ("other SeqFile", other().file("\"r:9\"", "older"), false, 0, transaction, "unknown".into(), 1),
        ("new content", other().file("\"r:9\"", "hello"), false, 0, replace(Some("\"r:1\"")), done().into(), 1),
        ("new file", other().file("\"r:9\"", "hello"), false, 0, replace(None), done().into(), 1),
        ("other content", other().file("\"r:9\"", "hallo"), false, 0, replace(None), "unknown".into(), 1),
        ("other size", other().file("\"r:9\"", "hello!"), false, 0, replace(None), "unknown".into(), 1),
        ("no file", other(), false, 0, replace(None), "unknown".into(), 1),
        ("no hash", other().file("\"r:9\"", "hello"), false, 0, no_hash, "unknown".into(), 1),
        ("the node cannot tell", with(vec![undetermined.clone()]), true, 0, mkdir, "unknown EIO".into(), 0),
        (
            "the node cannot tell, new content",
            with(vec![undetermined]).file("\"r:9\"", "hello"),
            true,
            0,
            replace(None),
            done().into(),
            0,
        ),
    ] {
        let host = node.host();
        let storage = storage(&host);
        let recovery = recovery(durable, host.now_ms(), &change);
        host.run_for(age_ms);
        let receipt = host.block_on(storage.settle(&recovery, within(20_000))).unwrap();
        let seen = match receipt {
            FileReceipt::Committed { .. } => "committed".to_owned(),
            FileReceipt::NotCommitted { code } => format!("not-committed {code}"),
            FileReceipt::Running => "running".to_owned(),
            FileReceipt::Unknown { code } => format!("unknown {}", code.unwrap_or_default()).trim().to_owned(),
        };
        assert_eq!(seen, expected, "{case}");
        let cancels = sent(&host, "/v1/fs/notes/operations/op-1/cancel").len();
        assert_eq!(cancels, n_cancels, "{case}: only what the node has not seen is stopped");
        let writes = host.requests().into_iter().filter(|request| request.method.as_str() == "PUT");
        assert_eq!(writes.count(), 0, "{case}");
    }
}

#[test]
fn a_question_that_fails_leaves_the_outcome_unknown() {
    let host = host(|request| match request.path() {
        "/v1/fs/notes/operations/lost" => Some(FakeReply::network_error()),
        "/v1/fs/notes/operations/odd" => Some(FakeReply::json(&json!({"outcome": "perhaps"}))),
        "/v1/fs/notes/operations/gone" => Some(FakeReply::status(404, &json!({"code": "OPERATION_UNKNOWN"}))),
        "/v1/fs/notes/operations/done" => Some(FakeReply::json(&json!({"outcome": "committed", "result": {}}))),
        "/v1/fs/notes/operations/done/cancel" => Some(FakeReply::json(&json!({"outcome": "committed", "result": {}}))),
        "/v1/fs/notes/operations/gone/cancel" => Some(FakeReply::status(503, &json!({"code": "EIO"}))),
        _ => None,
    });
    let storage = storage(&host);
    let options = OperationOptions::default;
    let id = |id: &str| OperationId::new(id).unwrap();
    for (name, kind, operation) in [
        ("lost", ErrorKind::Io, "connect"),
        ("odd", ErrorKind::Io, "protocol"),
        ("gone", ErrorKind::NotFound, "operation_status"),
    ] {
        let error = host.block_on(storage.operation_status(&id(name), options())).unwrap_err();
        assert_eq!((error.kind(), error.operation()), (kind, operation), "{name}: {error}");
        assert_eq!(error.outcome(), Some(Outcome::Unknown), "{name}");
    }
    let done = FileReceipt::Committed { result: None };
    assert_eq!(host.block_on(storage.operation_status(&id("done"), options())).unwrap(), done);
    assert_eq!(host.block_on(storage.cancel_operation(&id("done"), options())).unwrap(), done);
    let error = host.block_on(storage.cancel_operation(&id("gone"), options())).unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Busy, Some(Outcome::Unknown)));
    assert_eq!(sent(&host, "/v1/fs/notes/operations/gone/cancel").len(), 1, "a POST is never repeated");

    let mut foreign = recovery(true, 0, &json!({"kind": "mkdir", "path": "a"}));
    foreign.alias = cells_driver::Alias::new("other").unwrap();
    let error = host.block_on(storage.settle(&foreign, options())).unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Some(Outcome::Unknown)));
    assert_eq!(error.file_recovery(), Some(&foreign));
}
