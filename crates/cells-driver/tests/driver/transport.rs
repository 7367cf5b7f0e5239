//! One HTTP exchange: headers, retries, budgets, size limits and errors.

use cells_driver::host::{HostError, HostFuture};
use cells_driver::{
    Cancellation, ClientConfig, CredentialResolver, ErrorKind, OperationOptions, Result, Retry, Secret,
};
use cells_testkit::fake_host::{FakeHost, FakeReply};
use serde_json::json;

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{client, connection, files, host, sent, within};

/// A node whose list of exports is answered by these replies, one after the other.
fn host_of(replies: Vec<FakeReply>) -> FakeHost {
    let mut replies = replies.into_iter();
    host(move |request| {
        (request.path() == "/v1/exports").then(|| replies.next().expect("one more request than planned"))
    })
}

fn exports() -> FakeReply {
    FakeReply::json(&json!({"version": 1, "exports": []}))
}

#[test]
fn failing_replies_become_errors_that_name_status_and_code() {
    for (reply, kind, remote_code, message) in [
        (
            FakeReply::status(401, &json!({"code": "EACCES"})),
            ErrorKind::AccessDenied,
            Some("EACCES"),
            "status 401 and code EACCES",
        ),
        (FakeReply::bytes(401, "nope"), ErrorKind::AccessDenied, None, "status 401"),
        (FakeReply::status(500, &json!({"code": "EIO"})), ErrorKind::Io, Some("EIO"), "status 500 and code EIO"),
        (
            FakeReply::status(409, &json!({"code": "EBUSY"})),
            ErrorKind::Busy,
            Some("EBUSY"),
            "status 409 and code EBUSY",
        ),
        (
            FakeReply::status(409, &json!({"code": "STALE_SERVER_EPOCH"})),
            ErrorKind::Conflict,
            Some("STALE_SERVER_EPOCH"),
            "STALE_SERVER_EPOCH",
        ),
        (FakeReply::status(400, &json!({"code": "not a code"})), ErrorKind::Invalid, None, "status 400"),
        (FakeReply::bytes(418, "x".repeat(70_000)), ErrorKind::Io, None, "status 418"),
        (FakeReply::bytes(404, "").broken(), ErrorKind::NotFound, None, "status 404"),
    ] {
        let host = host_of(vec![reply]);
        let client = client(&host);
        let error = host.block_on(client.exports(&connection(), OperationOptions::default())).unwrap_err();
        assert_eq!((error.kind(), error.remote_code()), (kind, remote_code), "{error}");
        assert_eq!(error.operation(), "exports");
        assert!(error.status().is_some() && error.to_string().contains(message), "{error}");
    }
}

#[test]
fn replies_that_cannot_be_used_are_protocol_errors_that_name_the_call() {
    let page = json!({"version": 1, "exports": []}).to_string();
    let length = page.len().to_string();
    for (case, reply) in [
        ("not JSON", FakeReply::bytes(200, "<html>")),
        ("empty", FakeReply::bytes(200, "")),
        ("wrong shape", FakeReply::json(&json!({"version": 1}))),
        ("wrong version", FakeReply::json(&json!({"version": 2, "exports": []}))),
        ("bad alias", FakeReply::json(&json!({"version": 1, "exports": [{"alias": "a/b"}]}))),
        ("truncated JSON", FakeReply::bytes(200, page[..10].to_owned())),
        (
            "shorter than announced",
            FakeReply::bytes(200, page[..10].to_owned()).header("content-length", length.clone()),
        ),
        ("longer than announced", FakeReply::bytes(200, format!("{page} ")).header("content-length", length)),
        ("redirect status", FakeReply::bytes(301, "").header("location", "http://evil/")),
        ("redirect refused by the platform", FakeReply::error(HostError::Redirect)),
    ] {
        let host = host_of(vec![reply]);
        let client = client(&host);
        let error = host.block_on(client.exports(&connection(), OperationOptions::default())).unwrap_err();
        assert_eq!(
            (error.kind(), error.operation(), error.status()),
            (ErrorKind::Io, "protocol", None),
            "{case}: {error}"
        );
        assert!(error.message().contains("exports"), "{case}: {error}");
        assert_eq!(host.requests().len(), 1, "{case}");
    }
}

#[test]
fn the_network_never_says_that_something_does_not_exist() {
    for (reply, message) in [
        (FakeReply::network_error(), "exports could not reach the node at http://node: connection refused"),
        (FakeReply::bytes(200, "{").broken(), "exports lost the connection to the node: connection reset"),
    ] {
        let host = host_of(vec![reply]);
        let client = client(&host);
        let error = host.block_on(client.exports(&connection(), OperationOptions::default())).unwrap_err();
        assert_eq!((error.kind(), error.operation(), error.status()), (ErrorKind::Io, "connect", None));
        assert_eq!(error.message(), message);
        assert!(std::error::Error::source(&error).is_some());
    }
}

#[test]
fn a_get_is_sent_again_after_a_passing_failure_and_within_its_budget() {
    let busy = |status: u16| FakeReply::status(status, &json!({"code": "EIO"}));
    let bad = |status: u16| FakeReply::status(status, &json!({}));
    for (case, replies, timeout_ms, expected) in [
        ("twice", vec![busy(503), busy(504), exports()], 30_000, Ok(3)),
        ("no more than twice", vec![busy(502), busy(429), busy(503)], 30_000, Err((ErrorKind::Busy, 3))),
        ("not 500", vec![bad(500)], 30_000, Err((ErrorKind::Io, 1))),
        ("not the network", vec![FakeReply::network_error()], 30_000, Err((ErrorKind::Io, 1))),
        ("as the node asks", vec![busy(503).header("retry-after", "2"), exports()], 30_000, Ok(2)),
        ("not beyond the budget", vec![busy(503).header("retry-after", "9")], 5_000, Err((ErrorKind::Busy, 1))),
    ] {
        let host = host_of(replies);
        let client = client(&host);
        let result = host.block_on(client.exports(&connection(), within(timeout_ms)));
        let n_requests = sent(&host, "/v1/exports").len();
        match expected {
            Ok(n) => assert!(result.is_ok() && n_requests == n, "{case}: {result:?}"),
            Err((kind, n)) => {
                assert_eq!((result.unwrap_err().kind(), n_requests), (kind, n), "{case}");
            }
        }
    }
}

#[test]
fn the_deadline_that_the_node_is_told_shrinks_with_every_attempt() {
    let host = host_of(vec![FakeReply::status(503, &json!({})).header("retry-after", "2").delay(1_000), exports()]);
    let client = client(&host);
    assert!(host.block_on(client.exports(&connection(), within(10_000))).is_ok());
    let deadlines: Vec<_> =
        host.requests().iter().map(|request| request.header("x-timeout-ms").unwrap().to_owned()).collect();
    assert_eq!(deadlines, ["10000", "7000"]);
}

#[test]
fn one_budget_holds_from_the_first_byte_to_the_last() {
    for (case, reply, options, kind, n_requests) in [
        ("no time at all", exports(), within(0), ErrorKind::TimedOut, 0),
        ("slow head", exports().delay(2_001), within(2_000), ErrorKind::TimedOut, 1),
        ("slow body", FakeReply::bytes(200, "{").without_length().wait(2_001), within(2_000), ErrorKind::TimedOut, 1),
        ("default", FakeReply::never(), OperationOptions::default(), ErrorKind::TimedOut, 1),
    ] {
        let host = host_of(vec![reply]);
        let client = client(&host);
        let error = host.block_on(client.exports(&connection(), options)).unwrap_err();
        assert_eq!((error.kind(), error.operation(), host.requests().len()), (kind, "exports", n_requests), "{case}");
        assert!(host.requests().iter().all(|request| request.is_aborted()), "{case}");
    }
}

/// A store of secrets that never answers.
struct Silent;

impl CredentialResolver for Silent {
    fn resolve(&self, _: &str) -> HostFuture<'static, Result<Secret>> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn the_budget_begins_before_the_credential_is_looked_up() {
    let host = host_of(vec![]);
    let config = ClientConfig { credential_resolver: Some(Box::new(Silent)), ..ClientConfig::default() };
    let client = host.client(config);
    let before_ms = host.now_ms();
    let error = host.block_on(client.exports(&connection(), within(2_000))).unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::TimedOut, "exports"));
    assert_eq!((host.now_ms() - before_ms, host.requests().len()), (2_000, 0));
}

#[test]
fn a_post_is_never_sent_again() {
    let host =
        host(|request| request.path().ends_with("/stat").then(|| FakeReply::status(503, &json!({"code": "EIO"}))));
    let error = host.block_on(files(&host).stat("a", OperationOptions::default())).unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Busy, Some(503)));
    assert_eq!(sent(&host, "/v1/fs/notes/stat").len(), 1);
}

#[test]
fn cancelling_and_dropping_a_read_aborts_it() {
    let host = host(|request| (request.path() == "/v1/exports").then(FakeReply::never));
    let client = client(&host);
    let (cancel, token) = Cancellation::new();
    let connection = connection();
    let mut call =
        Box::pin(client.exports(&connection, OperationOptions { timeout_ms: None, cancel: Some(token.clone()) }));
    assert!(host.block_on(async { futures::poll!(call.as_mut()) }).is_pending());
    cancel.cancel();
    assert_eq!(host.block_on(call).unwrap_err().kind(), ErrorKind::Cancelled);
    let again = client.exports(&connection, OperationOptions { timeout_ms: None, cancel: Some(token) });
    assert_eq!(host.block_on(again).unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(host.requests().len(), 1, "a cancelled token sends nothing");

    let mut dropped = Box::pin(client.exports(&connection, OperationOptions::default()));
    assert!(host.block_on(async { futures::poll!(dropped.as_mut()) }).is_pending());
    drop(dropped);
    assert!(host.requests().iter().all(|request| request.is_aborted()));
}

#[test]
fn replies_above_their_limit_are_refused_early() {
    let large = 4 * 1024 * 1024 + 1;
    for reply in [
        FakeReply::bytes(200, "{").header("content-length", large.to_string()),
        FakeReply::bytes(200, vec![b' '; large]).without_length(),
        FakeReply::bytes(200, vec![b' '; large]).header("content-encoding", "gzip").header("content-length", "7"),
    ] {
        let host = host_of(vec![reply]);
        let client = client(&host);
        let error = host.block_on(client.exports(&connection(), OperationOptions::default())).unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::TooLarge, "exports"), "{error}");
    }
}

#[test]
fn the_node_may_say_when_to_come_back() {
    let host = host_of(vec![FakeReply::status(409, &json!({"code": "EBUSY"})).header("retry-after", "3")]);
    let client = client(&host);
    let error = host.block_on(client.exports(&connection(), OperationOptions::default())).unwrap_err();
    assert_eq!(error.retry(), Retry::After(3_000));
}

#[test]
fn pages_of_a_directory() {
    let stat = json!({"kind": "file", "size": 3, "modifiedAt": 1, "createdAt": 1});
    let host = host(move |request| {
        let entries = json!([{"name": "ü.md", "stat": stat.clone()}]);
        match request.path() {
            "/v1/fs/notes/entries?path=a%20b%2F%C3%BC" => {
                Some(FakeReply::json(&json!({"entries": entries, "nextCursor": "x+y", "warnings": []})))
            }
            "/v1/fs/notes/entries?path=a%20b%2F%C3%BC&cursor=x%2By" => {
                Some(FakeReply::json(&json!({"entries": [], "nextCursor": null, "warnings": ["UNSUPPORTED_NODE"]})))
            }
            "/v1/fs/notes/entries?path=bad" => {
                Some(FakeReply::json(&json!({"entries": [{"name": "../x", "stat": stat.clone()}], "nextCursor": null})))
            }
            _ => None,
        }
    });
    let files = files(&host);
    let first = host.block_on(files.list("a b/ü", None, OperationOptions::default())).unwrap();
    assert_eq!((first.entries[0].name.as_str(), first.next_cursor.as_deref()), ("ü.md", Some("x+y")));
    let second = host.block_on(files.list("a b/ü", Some("x+y"), OperationOptions::default())).unwrap();
    assert_eq!((second.entries.len(), second.next_cursor, second.warnings.len()), (0, None, 1));
    for (path, cursor, kind, operation) in [
        ("bad", None, ErrorKind::Io, "protocol"),
        ("missing", None, ErrorKind::NotFound, "list"),
        ("a//b", None, ErrorKind::Invalid, "list"),
        ("", Some("x".repeat(16_385)), ErrorKind::Invalid, "list"),
    ] {
        let error = host.block_on(files.list(path, cursor.as_deref(), OperationOptions::default())).unwrap_err();
        assert_eq!((error.kind(), error.operation()), (kind, operation), "{path}: {error}");
    }
    assert_eq!(host.requests().len(), 4, "what is not valid is not sent");
}
