//! Requests to any route.

use bytes::Bytes;
use cells_driver::{
    ClientConfig, Error, ErrorKind, FileConnection, FileMutationOptions, HttpTransport, JsonReply, OperationOptions,
    Outcome, ReadOptions, Secret,
};
use cells_testkit::fake_host::{FakeHost, FakeReply};
use serde_json::json;

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{client, connection, host, sent, within};

fn transport(host: &FakeHost) -> HttpTransport {
    client(host).http_transport(&connection()).unwrap()
}

fn body() -> Option<Bytes> {
    Some(Bytes::from_static(b"{\"a\":1}"))
}

#[test]
fn a_route_is_asked_with_all_that_every_request_gets() {
    let mut n_busy = 0;
    let host = host(move |request| match request.path() {
        "/v1/sync/status?x=1" if n_busy < 2 => {
            n_busy += 1;
            Some(FakeReply::status(503, &json!({})))
        }
        "/v1/sync/status?x=1" => Some(FakeReply::json(&json!({"ok": true}))),
        "/v1/sync/push" => Some(FakeReply::status(503, &json!({"code": "EIO"}))),
        "/v1/text" => Some(FakeReply::bytes(200, "no JSON")),
        "/v1/conflict" => Some(FakeReply::status(409, &json!({"code": "EBUSY"}))),
        "/v1/html" => Some(FakeReply::bytes(502, "<html>")),
        "/v1/pinned" => Some(FakeReply::status(409, &json!({"code": "AUTHORIZATION_CHANGED"}))),
        _ => None,
    });
    let transport = transport(&host);
    let json = transport.json("v1/sync/status?x=1", None, within(9_000));
    assert_eq!(host.block_on(json).unwrap(), Bytes::from_static(b"{\"ok\":true}"));
    let requests = sent(&host, "/v1/sync/status");
    assert_eq!(requests.len(), 3, "a GET is repeated");
    assert_eq!(requests[0].header("authorization"), Some("Bearer key-0123456789"));
    assert_eq!(requests[0].header("x-timeout-ms"), Some("9000"));

    let options = OperationOptions::default;
    let error = host.block_on(transport.json("v1/sync/push", body(), options())).unwrap_err();
    assert_eq!((error.kind(), error.status(), error.operation()), (ErrorKind::Busy, Some(503), "request"));
    let [request] = &sent(&host, "/v1/sync/push")[..] else { panic!("a POST is never repeated") };
    assert_eq!((request.method.as_str(), request.json()), ("POST", json!({"a": 1})));
    let error = host.block_on(transport.json("v1/text", None, options())).unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Io, "protocol"));

    let conflict = host.block_on(transport.json_reply("v1/conflict", body(), options())).unwrap();
    assert_eq!(conflict, JsonReply { status: 409, json: Some(Bytes::from_static(b"{\"code\":\"EBUSY\"}")) });
    let html = host.block_on(transport.json_reply("v1/html", None, options())).unwrap();
    assert_eq!(html, JsonReply { status: 502, json: None });
    for _ in 0..2 {
        let error = host.block_on(transport.json_reply("v1/pinned", None, options())).unwrap_err();
        assert_eq!((error.kind(), error.remote_code()), (ErrorKind::AccessDenied, Some("AUTHORIZATION_CHANGED")));
    }
    assert_eq!(sent(&host, "/v1/pinned").len(), 1);
}

#[test]
fn content_and_writes_keep_their_rules() {
    let host = host(|request| match request.path() {
        "/v1/blob" => Some(FakeReply::bytes(206, "23").header("content-range", "bytes 2-3/4")),
        "/v1/fs/notes/mutate" => Some(FakeReply::json(&json!({"outcome": "committed", "result": {}}))),
        "/v1/fs/notes/lost" => Some(FakeReply::network_error()),
        path if path.ends_with("/cancel") => Some(FakeReply::json(&json!({"outcome": "committed"}))),
        _ => None,
    });
    let transport = transport(&host);
    let range = ReadOptions { offset: 2, length: Some(5), ..ReadOptions::default() };
    assert_eq!(host.block_on(transport.content("v1/blob", range)).unwrap().data, Bytes::from_static(b"23"));
    let options = FileMutationOptions::default;
    let body = Bytes::from_static(b"{}");
    let written = host.block_on(transport.mutate("v1/fs/notes/mutate", body.clone(), options())).unwrap();
    assert_eq!(written.value, None);
    let request = &sent(&host, "/v1/fs/notes/mutate")[0];
    assert_eq!(request.header("x-operation-id"), Some(written.operation_id.as_str()));
    let error = host.block_on(transport.mutate("v1/fs/notes/lost", body.clone(), options())).unwrap_err();
    assert_eq!((error.outcome(), error.file_recovery().is_some()), (Some(Outcome::Unknown), true));
    for route in ["v1/exports", "v1/fs/notes", "v1/fs/no:tes/mutate", "v1/fs//mutate"] {
        let error = host.block_on(transport.mutate(route, body.clone(), options())).unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Some(Outcome::NotStarted)), "{route}");
    }
}

#[test]
fn a_route_stays_below_the_node_and_a_closed_transport_asks_nothing() {
    let host = host(|_| Some(FakeReply::never()));
    let transport = transport(&host);
    let options = OperationOptions::default;
    let refused = |error: Error, kind: ErrorKind| assert_eq!(error.kind(), kind, "{error}");
    for route in ["", "/v1/exports", "v1/../x", "..", "./x", "%2E%2e/x", "v1/.%2e", "a b", "a#b", "a\\b", "ü", "?x"] {
        refused(host.block_on(transport.json(route, None, options())).unwrap_err(), ErrorKind::Invalid);
        refused(host.block_on(transport.content(route, ReadOptions::default())).unwrap_err(), ErrorKind::Invalid);
    }
    assert!(host.requests().is_empty());

    let mut call = Box::pin(transport.json("v1/exports", None, options()));
    assert!(host.block_on(async { futures::poll!(call.as_mut()) }).is_pending());
    transport.close();
    refused(host.block_on(call).unwrap_err(), ErrorKind::Cancelled);
    assert!(host.requests()[0].is_aborted());
    refused(host.block_on(transport.json("v1/exports", None, options())).unwrap_err(), ErrorKind::AccessDenied);
    refused(host.block_on(transport.json_reply("v1/exports", body(), options())).unwrap_err(), ErrorKind::AccessDenied);
    assert_eq!(host.requests().len(), 1);
}

#[test]
fn the_client_sets_budgets_and_bounds_of_calls_that_name_none() {
    let host = host(|request| match request.path() {
        "/v1/slow" => Some(FakeReply::never()),
        "/v1/fs/notes/stat" => Some(FakeReply::never()),
        "/v1/blob" => Some(FakeReply::bytes(200, "12345")),
        _ => None,
    });
    let config = ClientConfig { timeout_ms: 700, read_max_bytes: 4, ..ClientConfig::default() };
    let client = host.client(config);
    client.set_credential("office", Secret::new("key-0123456789"));
    let transport = client.http_transport(&connection()).unwrap();
    let files = client.files(&FileConnection::new(connection(), "notes")).unwrap();
    for timeout_ms in [None, Some(9_000)] {
        let options = || OperationOptions { timeout_ms, cancel: None };
        let before_ms = host.now_ms();
        let error = host.block_on(transport.json("v1/slow", None, options())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let error = host.block_on(files.stat("a", options())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(host.now_ms() - before_ms, 2 * timeout_ms.unwrap_or(700));
    }
    let error = host.block_on(transport.content("v1/blob", ReadOptions::default())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.message().contains("more than the 4 of one read"), "{error}");
}

#[test]
fn seq_files_are_reached_without_asking_what_is_allowed() {
    let host = host(|request| match request.path() {
        "/v1/fs/notes/seq/snapshot" => Some(FakeReply::json(&json!({"revision": null, "entries": []}))),
        "/v1/fs/notes/seq/transaction" => Some(FakeReply::status(403, &json!({"code": "EROFS"}))),
        _ => None,
    });
    let transport = transport(&host);
    let seq = transport.seq("notes").unwrap();
    assert_eq!(host.block_on(seq.snapshot("a.seq", OperationOptions::default())).unwrap().revision, None);
    let error = host.block_on(seq.transaction("a.seq", None, &[], FileMutationOptions::default())).unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::ReadOnly, Some(Outcome::NotCommitted)));
    assert_eq!(host.requests().len(), 2);
    assert_eq!(transport.seq("no/alias").unwrap_err().kind(), ErrorKind::Invalid);
    transport.close();
    let error = host.block_on(seq.snapshot("a.seq", OperationOptions::default())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied);
}
