//! SeqFiles: snapshots and transactions.

use cells_driver::{ErrorKind, FileMutationOptions, OperationOptions, Outcome, SeqChange, SeqEntry};
use cells_testkit::fake_host::{FakeHost, FakeReply, FakeRequest};
use serde_json::{Value, json};

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{host, sent, storage};

fn node(
    snapshot: impl Fn(&FakeRequest) -> FakeReply + Send + 'static,
    transaction: impl Fn(&FakeRequest) -> FakeReply + Send + 'static,
) -> FakeHost {
    host(move |request| match request.path() {
        "/v1/fs/notes/seq/snapshot" => Some(snapshot(request)),
        "/v1/fs/notes/seq/transaction" => Some(transaction(request)),
        _ => None,
    })
}

fn set(key: &str, value: Value) -> SeqChange {
    SeqChange::Set { key: key.to_owned(), value }
}

#[test]
fn a_snapshot_is_followed_by_a_transaction_on_its_revision() {
    let host = node(
        |request| {
            assert_eq!(request.json(), json!({"path": "meta/info.seq"}));
            FakeReply::json(&json!({"revision": "\"r:1\"", "entries": [{"key": "title", "value": {"n": [1, null]}}]}))
        },
        |_| {
            let stat = json!({"kind": "file", "size": 8192, "modifiedAt": 1, "createdAt": 1, "revision": "\"r:2\""});
            FakeReply::json(&json!({"outcome": "committed", "result": stat}))
        },
    );
    let seq = storage(&host).seq();
    let before = host.block_on(seq.snapshot("meta/info.seq", OperationOptions::default())).unwrap();
    assert_eq!(before.entries, [SeqEntry { key: "title".into(), value: json!({"n": [1, null]}) }]);
    let changes = [set("title", Value::Null), SeqChange::Delete { key: "old".into() }];
    let revision = before.revision.as_deref();
    let after = seq.transaction("meta/info.seq", revision, &changes, FileMutationOptions::default());
    let after = host.block_on(after).unwrap();
    assert_eq!(after.value.revision.as_deref(), Some("\"r:2\""));
    let [request] = &sent(&host, "/v1/fs/notes/seq/transaction")[..] else { panic!() };
    assert_eq!(request.header("x-operation-id"), Some(after.operation_id.as_str()));
    let changes = json!([{"action": "set", "key": "title", "value": null}, {"action": "delete", "key": "old"}]);
    assert_eq!(request.json(), json!({"path": "meta/info.seq", "expectedRevision": "\"r:1\"", "changes": changes}));
}

#[test]
fn what_the_node_answers_to_a_transaction() {
    use ErrorKind::{Conflict, Io, NotFound, Unsupported};
    use Outcome::{Committed, NotCommitted, Unknown};
    for (case, reply, outcome, kind) in [
        (
            "conflict",
            FakeReply::status(412, &json!({"outcome": "not-committed", "code": "ECONFLICT"})),
            NotCommitted,
            Conflict,
        ),
        (
            "no parent",
            FakeReply::status(404, &json!({"outcome": "not-committed", "code": "ENOENT"})),
            NotCommitted,
            NotFound,
        ),
        ("old node", FakeReply::bytes(404, ""), NotCommitted, Unsupported),
        ("lost", FakeReply::network_error(), Unknown, Io),
        ("no file", FakeReply::json(&json!({"outcome": "committed", "result": {}})), Committed, Io),
    ] {
        let reply = std::sync::Mutex::new(Some(reply));
        let host = node(|_| FakeReply::never(), move |_| reply.lock().unwrap().take().expect("sent twice"));
        let seq = storage(&host).seq();
        let changes = [set("a", json!(1))];
        let call = seq.transaction("a.seq", None, &changes, FileMutationOptions::default());
        let error = host.block_on(call).unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (kind, Some(outcome)), "{case}: {error}");
        assert_eq!(error.file_recovery().is_some(), outcome == Unknown, "{case}");
    }
}

#[test]
fn what_the_node_answers_to_a_snapshot() {
    let large = json!({"revision": null, "entries": [{"key": "a", "value": "x".repeat(4 * 1024 * 1024)}]});
    for (case, reply, kind) in [
        ("old node", FakeReply::bytes(404, ""), ErrorKind::Unsupported),
        ("no SeqFile", FakeReply::status(500, &json!({"code": "EIO"})), ErrorKind::Io),
        (
            "wrong order",
            FakeReply::json(
                &json!({"revision": null, "entries": [{"key": "b", "value": 1}, {"key": "a", "value": 1}]}),
            ),
            ErrorKind::Io,
        ),
        ("too large", FakeReply::json(&large), ErrorKind::TooLarge),
        ("lost", FakeReply::network_error(), ErrorKind::Io),
    ] {
        let reply = std::sync::Mutex::new(Some(reply));
        let host = node(move |_| reply.lock().unwrap().take().expect("sent twice"), |_| FakeReply::never());
        let error = host.block_on(storage(&host).seq().snapshot("a.seq", OperationOptions::default())).unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (kind, None), "{case}: {error}");
    }
}

#[test]
fn limits_are_checked_before_anything_is_sent() {
    let host = node(|_| FakeReply::never(), |_| FakeReply::never());
    let seq = storage(&host).seq();
    let n_before = host.requests().len();
    let long = "k".repeat(1_025);
    let none: Vec<SeqChange> = vec![];
    for (case, path, revision, changes) in [
        ("name", "a.sqlite", None, none.clone()),
        ("folder", "a.seq/b", None, none.clone()),
        ("path", "../a.seq", None, none.clone()),
        ("root", "", None, none.clone()),
        ("revision", "a.seq", Some("a b"), none),
        ("257 changes", "a.seq", None, vec![set("a", json!(1)); 257]),
        ("empty key", "a.seq", None, vec![set("", json!(1))]),
        ("long key", "a.seq", None, vec![SeqChange::Delete { key: long }]),
        ("NUL", "a.seq", None, vec![set("a\0", json!(1))]),
        ("large", "a.seq", None, vec![set("a", json!("x".repeat(512 * 1024)))]),
    ] {
        let error =
            host.block_on(seq.transaction(path, revision, &changes, FileMutationOptions::default())).unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Some(Outcome::NotStarted)), "{case}: {error}");
        if revision.is_none() && changes.is_empty() {
            let error = host.block_on(seq.snapshot(path, OperationOptions::default())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{case}: {error}");
        }
    }
    assert_eq!(host.requests().len(), n_before);
}
