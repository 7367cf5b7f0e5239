//! The discovery algorithm (`cells-0.4.md` §1.1).

use cells_driver::{CellsDescriptor, Connection, DiscoverOptions, ErrorKind, OperationOptions, Result};
use cells_testkit::fake_host::{FakeHost, FakeReply, FakeRequest};
use serde_json::{Value, json};

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{client, document, host};

/// Answers `server/discover`, `tools/list` and the capability tools with these results.
fn node(meta: Value, tools: Vec<&'static str>, tool: impl Fn(&FakeRequest) -> FakeReply + Send + 'static) -> FakeHost {
    host(move |request| match request.header("mcp-method")? {
        "server/discover" => Some(FakeReply::rpc(request, &json!({"supportedVersions": [], "_meta": meta}))),
        "tools/list" => {
            // One tool a page.
            let at = request.json()["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
            let next = (at + 1 < tools.len()).then(|| (at + 1).to_string());
            let names: Vec<Value> = tools.iter().skip(at).take(1).map(|name| json!({"name": name})).collect();
            Some(FakeReply::rpc(request, &json!({"tools": names, "nextCursor": next})))
        }
        _ => Some(tool(request)),
    })
}

fn discover(host: &FakeHost, metadata: Option<Value>) -> Result<CellsDescriptor> {
    let options = DiscoverOptions { metadata, operation: OperationOptions::default() };
    host.block_on(client(host).discover(&Connection::new("http://node/cells/mcp", "office"), options))
}

fn methods(host: &FakeHost) -> Vec<String> {
    host.requests()
        .iter()
        .map(|request| request.tool().unwrap_or_else(|| request.header("mcp-method").unwrap().to_owned()))
        .collect()
}

#[test]
fn the_first_known_key_is_taken_and_addresses_become_absolute() {
    let legacy = json!({"version": 1, "httpEndpoint": "/", "serverId": null, "fileProtocol": "fs-agent-http-v1", "harness": false});
    for (meta, is_legacy, http, events) in [
        (
            json!({"itookit/cells": document(), "itookit/pi-agent": 7}),
            false,
            "http://node/cells",
            Some("http://node/cells/v1/events"),
        ),
        (json!({"itookit/pi-agent": legacy, "itookit/fs-agent": 7}), true, "http://node", None),
        (json!({"x": 1, "itookit/fs-agent": legacy}), true, "http://node", None),
    ] {
        let host = node(meta.clone(), vec![], |request| FakeReply::tool_error(request, "EIO"));
        let descriptor = discover(&host, None).unwrap();
        assert_eq!((descriptor.legacy, descriptor.document.http_endpoint.as_str()), (is_legacy, http), "{meta}");
        assert_eq!(descriptor.mcp_endpoint, "http://node/cells/mcp");
        assert_eq!(descriptor.events_endpoint(), events);
        assert_eq!(methods(&host), ["server/discover"]);
    }
}

#[test]
fn an_invalid_document_is_never_bypassed() {
    let changed = |name: &str, value: Value| {
        let mut document = document();
        document[name] = value;
        document
    };
    for broken in [
        Value::Null,
        json!([]),
        json!({}),
        changed("version", json!(2)),
        changed("fileProtocol", json!("other")),
        changed("harness", json!("true")),
        changed("projects", json!(null)),
        changed("httpEndpoint", json!("http://evil/")),
        changed("httpEndpoint", json!("https://node/")),
        changed("httpEndpoint", json!("./?x")),
        changed("events", json!({"version": 1, "endpoint": "//evil/"})),
        changed("serverId", json!("")),
        changed("padding", json!("x".repeat(65_536))),
    ] {
        let host = node(
            json!({"itookit/cells": broken, "itookit/pi-agent": document()}),
            vec!["cells_capabilities"],
            |request| FakeReply::tool(request, &document()),
        );
        for metadata in [None, Some(json!({"itookit/cells": broken}))] {
            let error = discover(&host, metadata).unwrap_err();
            let fields = (error.kind(), error.operation(), error.reason());
            assert_eq!(fields, (ErrorKind::Io, "protocol", Some("DISCOVERY_INVALID")), "{broken}: {error}");
        }
        assert_eq!(methods(&host), ["server/discover"], "{broken}");
    }
}

#[test]
fn metadata_of_the_caller_replaces_the_first_request() {
    let host = node(json!({}), vec!["harness_profiles", "piagent_capabilities"], |request| {
        FakeReply::tool(request, &document())
    });
    assert!(discover(&host, Some(json!({"itookit/cells": document()}))).is_ok());
    assert_eq!(methods(&host), <[&str; 0]>::default());
    let descriptor = discover(&host, Some(json!({"other": 1}))).unwrap();
    assert!(descriptor.legacy);
    assert_eq!(methods(&host), ["tools/list", "tools/list", "piagent_capabilities"]);
}

#[test]
fn without_a_document_the_newest_listed_tool_is_asked() {
    for (tools, asked, n_pages) in [
        (vec!["fsagent_capabilities", "piagent_capabilities", "cells_capabilities", "more"], "cells_capabilities", 3),
        (vec!["fsagent_capabilities", "piagent_capabilities"], "piagent_capabilities", 2),
        (vec!["fsagent_capabilities"], "fsagent_capabilities", 1),
        (vec!["other"], "cells_capabilities", 1),
        (vec![], "cells_capabilities", 1),
    ] {
        let host = node(json!({}), tools.clone(), |request| FakeReply::tool(request, &document()));
        let descriptor = discover(&host, None).unwrap();
        let mut expected = vec!["server/discover"];
        expected.extend(vec!["tools/list"; n_pages]);
        expected.push(asked);
        assert_eq!(
            (methods(&host), descriptor.legacy),
            (expected.iter().map(ToString::to_string).collect(), asked != "cells_capabilities"),
            "{tools:?}"
        );
    }
}

#[test]
fn a_failing_call_surfaces_its_own_reason() {
    let host_of = |tool: fn(&FakeRequest) -> FakeReply| node(json!({}), vec!["cells_capabilities"], tool);
    let error = discover(&host_of(|request| FakeReply::tool_error(request, "METADATA_IO")), None).unwrap_err();
    assert_eq!((error.kind(), error.remote_code()), (ErrorKind::Io, Some("METADATA_IO")));
    let error = discover(&host_of(|request| FakeReply::tool(request, &json!({"version": 1}))), None).unwrap_err();
    assert_eq!(error.reason(), Some("DISCOVERY_INVALID"));
    let error = discover(&host_of(|_| FakeReply::status(401, &json!({"code": "EACCES"}))), None).unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::AccessDenied, Some(401)));
}

#[test]
fn a_list_of_tools_without_end_is_an_error() {
    let host = host(|request| match request.header("mcp-method")? {
        "tools/list" => Some(FakeReply::rpc(request, &json!({"tools": [], "nextCursor": "again"}))),
        _ => Some(FakeReply::rpc(request, &json!({}))),
    });
    let error = discover(&host, None).unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Io, "protocol"));
}
