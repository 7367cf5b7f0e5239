//! Who asks, whom, and as what: credentials, addresses, pinned requests, the end of a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cells_driver::host::HostFuture;
use cells_driver::{
    ClientConfig, Connection, CredentialResolver, DiscoverOptions, Error, ErrorKind, FileConnection, OperationOptions,
    Result, Secret,
};
use cells_testkit::fake_host::{FakeHost, FakeReply};
use futures::future::join_all;
use serde_json::json;

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{capabilities, client, connection, host, profile, sent};

struct CountingResolver(Arc<AtomicU32>);

impl CredentialResolver for CountingResolver {
    fn resolve(&self, reference: &str) -> HostFuture<'static, Result<Secret>> {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        let known = reference == "office";
        Box::pin(async move {
            if known {
                Ok(Secret::new(format!("secret-{n}")))
            } else {
                Err(Error::new(ErrorKind::NotFound, "store", "none"))
            }
        })
    }
}

fn with_resolver(host: &FakeHost) -> (cells_driver::Client, Arc<AtomicU32>) {
    let n_asked = Arc::new(AtomicU32::new(0));
    let resolver: Box<dyn CredentialResolver> = Box::new(CountingResolver(Arc::clone(&n_asked)));
    (host.client(ClientConfig { credential_resolver: Some(resolver), ..ClientConfig::default() }), n_asked)
}

fn authorizations(host: &FakeHost) -> Vec<Option<String>> {
    host.requests().iter().map(|request| request.header("authorization").map(str::to_owned)).collect()
}

#[test]
fn the_current_secret_is_asked_for_every_request() {
    let host = host(|_| None);
    let (client, n_asked) = with_resolver(&host);
    let exports = || host.block_on(client.exports(&connection(), OperationOptions::default()));
    exports().unwrap();
    exports().unwrap();
    let restore = client.set_credential("office", Secret::new("memory"));
    exports().unwrap();
    restore.restore();
    exports().unwrap();
    let expected =
        ["Bearer secret-0", "Bearer secret-1", "Bearer memory", "Bearer secret-2"].map(|text| Some(text.to_owned()));
    assert_eq!((authorizations(&host), n_asked.load(Ordering::Relaxed)), (expected.to_vec(), 3));
}

#[test]
fn a_missing_secret_sends_nothing() {
    let host = host(|_| None);
    let (client, _) = with_resolver(&host);
    let error = host
        .block_on(client.exports(&Connection::new("http://node", "home"), OperationOptions::default()))
        .unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::AccessDenied, "credential"));
    assert!(error.message().contains("`home`"), "{error}");
    assert_eq!(host.requests().len(), 0);
}

#[test]
fn anonymous_sends_no_header_and_asks_nobody() {
    let host =
        host(|request| (request.path() == "/v1/exports").then(|| FakeReply::status(401, &json!({"code": "EACCES"}))));
    let (client, n_asked) = with_resolver(&host);
    let error =
        host.block_on(client.exports(&Connection::anonymous("http://node"), OperationOptions::default())).unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::AccessDenied, Some(401)));
    assert_eq!((authorizations(&host), n_asked.load(Ordering::Relaxed)), (vec![None], 0), "and never tries otherwise");
}

#[test]
fn no_secret_shows_in_errors_or_debug_text() {
    let host = host(|_| Some(FakeReply::network_error()));
    let client = client(&host);
    let error = host.block_on(client.exports(&connection(), OperationOptions::default())).unwrap_err();
    let text = format!("{error} {error:?} {client:?} {:?} {:?}", connection(), host.requests());
    assert!(!text.contains("key-0123456789"), "{text}");
}

#[test]
fn the_mcp_url_of_a_root_is_what_the_node_says_and_is_looked_up_once() {
    let mut relative = capabilities();
    relative["harness"]["endpoint"] = json!("agent/mcp");
    for (endpoint, reply, expected) in [
        ("http://node", FakeReply::json(&capabilities()), "http://node/mcp"),
        ("http://node/cells/", FakeReply::json(&relative), "http://node/cells/agent/mcp"),
        ("http://node/cells", FakeReply::status(404, &json!({})), "http://node/cells/mcp"),
    ] {
        let mut reply = Some(reply);
        let host = host(move |request| {
            if request.path().ends_with("/v1/capabilities") {
                let reply = reply.take().expect("asked once");
                return Some(reply);
            }
            Some(FakeReply::tool(request, &crate::node::profiles()))
        });
        let client = client(&host);
        let harness = client.harness(&Connection::new(endpoint, "office")).unwrap();
        let calls = [1, 2, 3].map(|_| harness.profiles(OperationOptions::default()));
        for result in host.block_on(join_all(calls)) {
            assert!(result.is_ok(), "{result:?}");
        }
        let urls: Vec<_> = sent(&host, "harness_profiles").iter().map(|request| request.url.clone()).collect();
        assert_eq!(urls, [expected; 3], "{endpoint}");
    }
}

#[test]
fn a_failed_lookup_is_shared_but_not_kept() {
    let mut n = 0;
    let host = host(move |request| {
        if request.path() == "/v1/capabilities" {
            n += 1;
            return (n == 1).then(|| FakeReply::network_error().delay(10));
        }
        None
    });
    let client = client(&host);
    let harness = client.harness(&connection()).unwrap();
    let calls = [1, 2].map(|_| harness.profiles(OperationOptions::default()));
    for result in host.block_on(join_all(calls)) {
        assert_eq!(result.unwrap_err().operation(), "connect");
    }
    assert_eq!(sent(&host, "/v1/capabilities").len(), 1);
    assert!(host.block_on(harness.profiles(OperationOptions::default())).is_ok());
}

#[test]
fn an_address_on_another_origin_is_refused() {
    let mut document = capabilities();
    document["harness"]["endpoint"] = json!("http://evil/mcp");
    let host = host(move |request| (request.path() == "/v1/capabilities").then(|| FakeReply::json(&document)));
    let client = client(&host);
    let harness = client.harness(&connection()).unwrap();
    let error = host.block_on(harness.profiles(OperationOptions::default())).unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Io, "protocol"));
    assert_eq!(host.requests().len(), 1);
}

#[test]
fn from_an_mcp_url_the_root_comes_from_discovery() {
    let host = host(|request| {
        if request.path().starts_with("/cells/mcp") {
            let meta = json!({"_meta": {"itookit/cells": crate::node::document()}});
            return Some(FakeReply::rpc(request, &meta));
        }
        (request.path() == "/cells/v1/exports").then(|| FakeReply::json(&json!({"version": 1, "exports": []})))
    });
    let client = client(&host);
    let connection = Connection::new("http://node/cells/mcp", "office");
    for _ in 0..2 {
        assert!(host.block_on(client.exports(&connection, OperationOptions::default())).is_ok());
    }
    let paths: Vec<_> = host.requests().iter().map(|request| request.path().to_owned()).collect();
    assert_eq!(paths, ["/cells/mcp", "/cells/v1/exports", "/cells/v1/exports"]);
}

fn pinned() -> Connection {
    let snapshot = serde_json::from_value(json!({"principalId": "owner", "anonymous": false, "revision": 7})).unwrap();
    Connection { authorization: Some(snapshot), ..connection() }
}

#[test]
fn a_snapshot_pins_every_request_but_discovery() {
    let host = host(|_| None);
    let client = client(&host);
    host.block_on(client.discover(&pinned(), DiscoverOptions::default())).unwrap();
    let n_discovery = host.requests().len();
    host.block_on(client.exports(&pinned(), OperationOptions::default())).unwrap();
    host.block_on(client.harness(&pinned()).unwrap().profiles(OperationOptions::default())).unwrap();
    for (index, request) in host.requests().iter().enumerate() {
        let pins = (request.header("x-fsagent-principal"), request.header("x-fsagent-principal-revision"));
        let expected = if index < n_discovery { (None, None) } else { (Some("owner"), Some("7")) };
        assert_eq!(pins, expected, "{request:?}");
    }
}

#[test]
fn a_changed_authorization_closes_the_binding_for_good() {
    let mut n = 0;
    let host = host(move |request| {
        n += u32::from(request.path() == "/v1/exports");
        (n == 1 && request.path() == "/v1/exports")
            .then(|| FakeReply::status(409, &json!({"code": "AUTHORIZATION_CHANGED"})))
    });
    let client = client(&host);
    let harness = client.harness(&pinned()).unwrap();
    let files = client.files(&FileConnection::new(pinned(), "notes")).unwrap();
    let error = host.block_on(client.exports(&pinned(), OperationOptions::default())).unwrap_err();
    assert_eq!((error.kind(), error.remote_code()), (ErrorKind::AccessDenied, Some("AUTHORIZATION_CHANGED")));
    let n_requests = host.requests().len();
    let refused = [
        host.block_on(harness.profiles(OperationOptions::default())).unwrap_err(),
        host.block_on(files.stat("a", OperationOptions::default())).unwrap_err(),
        host.block_on(files.list("", None, OperationOptions::default())).unwrap_err(),
    ];
    for error in refused {
        assert_eq!((error.kind(), error.remote_code()), (ErrorKind::AccessDenied, Some("AUTHORIZATION_CHANGED")));
    }
    assert_eq!(host.requests().len(), n_requests, "nothing is sent through the old binding");
    assert!(host.block_on(client.exports(&pinned(), OperationOptions::default())).is_ok(), "a new binding asks again");
}

#[test]
fn after_dispose_everything_is_refused_and_the_driving_future_ends() {
    let host = host(|request| (request.path() == "/v1/exports").then(FakeReply::never));
    let client = client(&host);
    let harness = client.harness(&connection()).unwrap();
    let connection = connection();
    let files = client.files(&FileConnection::new(connection.clone(), "notes")).unwrap();
    let stat = files.stat("a", OperationOptions::default());
    let mut pending = Box::pin(client.exports(&connection, OperationOptions::default()));
    assert!(host.block_on(async { futures::poll!(pending.as_mut()) }).is_pending());
    client.dispose();
    assert_eq!(host.block_on(stat).unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(host.block_on(pending).unwrap_err().kind(), ErrorKind::Cancelled);
    let n_requests = host.requests().len();
    let refused = [
        client.files(&FileConnection::new(connection.clone(), "notes")).map(drop).unwrap_err(),
        client.harness(&connection).map(drop).unwrap_err(),
        host.block_on(client.exports(&connection, OperationOptions::default())).unwrap_err(),
        host.block_on(client.resolve_credential("office", OperationOptions::default())).unwrap_err(),
        host.block_on(harness.profiles(OperationOptions::default())).unwrap_err(),
        host.block_on(harness.subscribe(&profile()).ready()).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
        assert!(error.message().contains("disposed"), "{error}");
    }
    assert_eq!(host.requests().len(), n_requests);
    host.run_for(1);
    assert!(host.run_ended());
}

#[test]
fn the_driving_future_ends_with_the_last_handle() {
    let host = host(|_| None);
    let client = client(&host);
    let files = client.files(&FileConnection::new(connection(), "notes")).unwrap();
    drop(client);
    assert!(host.block_on(files.stat("a", OperationOptions::default())).is_ok());
    host.run_for(10);
    assert!(!host.run_ended());
    drop(files);
    host.run_for(10);
    assert!(host.run_ended());
}

#[test]
fn a_node_without_capabilities_is_described_by_its_exports() {
    let host = host(|request| (request.path() == "/v1/capabilities").then(|| FakeReply::bytes(404, "")));
    let client = client(&host);
    let capabilities = host.block_on(client.capabilities(&connection(), OperationOptions::default())).unwrap();
    assert!(capabilities.files.read && capabilities.files.write && !capabilities.process.exec);
    assert_eq!(host.requests().len(), 2);
}
