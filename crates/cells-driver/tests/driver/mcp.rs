//! The MCP client: what it sends, and which replies it believes.

use cells_driver::{ClientConfig, ErrorKind, OperationOptions, Profiles, Result, Secret};
use cells_testkit::fake_host::{FakeHost, FakeReply, FakeRequest};
use serde_json::{Value, json};

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{EPOCH, connection, harness, host, profiles, sent};

fn ask(reply: impl Fn(&FakeRequest) -> FakeReply + Send + 'static) -> (FakeHost, Result<Profiles>) {
    let host = host(move |request| (request.tool().as_deref() == Some("harness_profiles")).then(|| reply(request)));
    let result = host.block_on(harness(&host).profiles(OperationOptions::default()));
    (host, result)
}

/// A JSON-RPC message whose id is that of the request.
fn message(request: &FakeRequest, mut message: Value) -> Value {
    message["id"] = request.json()["id"].clone();
    message
}

fn complete(value: &Value) -> Value {
    json!({"jsonrpc": "2.0", "result": {"resultType": "complete", "isError": false, "structuredContent": value, "content": []}})
}

#[test]
fn requests_carry_meta_and_mirrored_headers() {
    let host = host(|_| None);
    let config = ClientConfig { client_name: "acme".into(), client_version: "3.1".into(), ..ClientConfig::default() };
    let client = host.client(config);
    client.set_credential("office", Secret::new("key"));
    let harness = client.harness(&connection()).unwrap();
    for _ in 0..2 {
        host.block_on(harness.profiles(OperationOptions::default())).unwrap();
    }
    let calls = sent(&host, "harness_profiles");
    for (name, value) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "harness_profiles"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("authorization", "Bearer key"),
    ] {
        assert_eq!(calls[0].header(name), Some(value), "{name}");
    }
    let body = calls[0].json();
    let meta = &body["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"], json!({"name": "acme", "version": "3.1"}));
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    assert_ne!(body["id"], calls[1].json()["id"]);
}

#[test]
fn replies_come_as_json_or_as_an_event_stream() {
    let streamed = |request: &FakeRequest, before: &str| {
        let answer = message(request, complete(&profiles()));
        FakeReply::bytes(200, format!("{before}event: message\ndata: {answer}\n\n"))
            .without_length()
            .header("content-type", "text/event-stream; charset=utf-8")
            .wait(u64::MAX)
    };
    let notification = "\u{feff}: hello\r\n\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\r\n\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"other\",\"result\":{}}\n\n";
    for (case, (host, result)) in [
        ("JSON", ask(|request| FakeReply::json(&message(request, complete(&profiles()))))),
        ("stream", ask(move |request| streamed(request, ""))),
        ("stream with other messages", ask(move |request| streamed(request, notification))),
    ] {
        assert_eq!(result.unwrap().epoch.as_str(), EPOCH, "{case}");
        assert_eq!(sent(&host, "harness_profiles").len(), 1);
    }
}

#[test]
fn replies_that_prove_nothing_are_protocol_errors() {
    let stream = |text: &str| FakeReply::bytes(200, text.to_owned()).header("content-type", "text/event-stream");
    let json_text = |text: &str| FakeReply::bytes(200, text.to_owned()).header("content-type", "application/json");
    for (case, (_, result)) in [
        ("empty", ask(move |_| json_text(""))),
        ("not JSON", ask(move |_| json_text("{\"jsonrpc\":"))),
        (
            "foreign id",
            ask(|request| {
                let _ = request;
                FakeReply::json(&json!({"jsonrpc": "2.0", "id": "other", "result": {}}))
            }),
        ),
        ("no id", ask(|_| FakeReply::json(&complete(&profiles())))),
        ("other version", ask(|request| FakeReply::json(&message(request, json!({"jsonrpc": "1.0", "result": {}}))))),
        (
            "result and error",
            ask(|request| {
                FakeReply::json(&message(
                    request,
                    json!({"jsonrpc": "2.0", "result": {}, "error": {"code": 1, "message": ""}}),
                ))
            }),
        ),
        ("neither", ask(|request| FakeReply::json(&message(request, json!({"jsonrpc": "2.0"}))))),
        ("a batch", ask(|request| FakeReply::json(&json!([message(request, complete(&profiles()))])))),
        (
            "no structured content",
            ask(|request| FakeReply::rpc(request, &json!({"resultType": "complete", "isError": false, "content": []}))),
        ),
        (
            "another kind of result",
            ask(|request| FakeReply::rpc(request, &json!({"resultType": "task", "structuredContent": {}}))),
        ),
        ("wrong shape", ask(|request| FakeReply::tool(request, &json!({"epoch": "x", "profiles": []})))),
        ("HTML", ask(|_| FakeReply::bytes(200, "<html>").header("content-type", "text/html"))),
        ("no content type", ask(|request| FakeReply::bytes(200, message(request, complete(&profiles())).to_string()))),
        ("stream without an answer", ask(move |_| stream("data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n"))),
        (
            "stream with an unfinished answer",
            ask(move |request| stream(&format!("data: {}", message(request, complete(&profiles()))))),
        ),
        (
            "stream that is not UTF-8",
            ask(|_| FakeReply::bytes(200, &b"data: \xff\n\n"[..]).header("content-type", "text/event-stream")),
        ),
        ("stream of rubbish", ask(move |_| stream("data: {\n\ndata: 7\n\n"))),
        ("202", ask(|_| FakeReply::bytes(202, ""))),
    ] {
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Io, "protocol"), "{case}: {error}");
        assert!(error.message().contains("harness_profiles"), "{case}: {error}");
    }
}

#[test]
fn refusals_keep_their_codes() {
    let rpc_error =
        |code: i64, message: &str| json!({"jsonrpc": "2.0", "error": {"code": code, "message": message, "data": {}}});
    let long = format!("line one\nline\ttwo \u{1b}[31m {}", "x".repeat(400));
    for (case, (_, result), kind, status, remote_code, text) in [
        (
            "method",
            ask(move |request| FakeReply::status(404, &message(request, rpc_error(-32601, "Method not found")))),
            ErrorKind::Unsupported,
            Some(404),
            None,
            "-32601: Method not found",
        ),
        (
            "params",
            ask(move |request| FakeReply::status(400, &message(request, rpc_error(-32602, "Missing client metadata")))),
            ErrorKind::Invalid,
            Some(400),
            None,
            "-32602",
        ),
        (
            "version",
            ask(move |request| {
                FakeReply::status(400, &message(request, rpc_error(-32022, "Unsupported protocol version")))
            }),
            ErrorKind::Unsupported,
            Some(400),
            None,
            "-32022",
        ),
        (
            "in a success",
            ask(move |request| FakeReply::json(&message(request, rpc_error(-32603, &long)))),
            ErrorKind::Io,
            None,
            None,
            "-32603: line one line two [31m xxx",
        ),
        (
            "unreadable request",
            ask(move |_| {
                FakeReply::json(&{
                    let mut error = rpc_error(-32700, "Parse error");
                    error["id"] = Value::Null;
                    error
                })
            }),
            ErrorKind::Io,
            None,
            None,
            "-32700",
        ),
        (
            "credentials",
            ask(|_| FakeReply::status(401, &json!({"code": "EACCES"}))),
            ErrorKind::AccessDenied,
            Some(401),
            Some("EACCES"),
            "status 401 and code EACCES",
        ),
        (
            "origin",
            ask(|_| FakeReply::status(403, &json!({"code": "EACCES"}))),
            ErrorKind::AccessDenied,
            Some(403),
            Some("EACCES"),
            "403",
        ),
        ("plain text", ask(|_| FakeReply::bytes(415, "Expected JSON")), ErrorKind::Io, Some(415), None, "status 415"),
        (
            "tool",
            ask(|request| FakeReply::tool_error(request, "HARNESS_SESSION_NOT_OWNED")),
            ErrorKind::AccessDenied,
            None,
            Some("HARNESS_SESSION_NOT_OWNED"),
            "HARNESS_SESSION_NOT_OWNED",
        ),
        (
            "unknown code",
            ask(|request| FakeReply::tool_error(request, "BRAND_NEW")),
            ErrorKind::Io,
            None,
            Some("BRAND_NEW"),
            "BRAND_NEW",
        ),
        ("no code", ask(|request| FakeReply::tool_error(request, "has blanks")), ErrorKind::Io, None, None, "no code"),
    ] {
        let error = result.unwrap_err();
        assert_eq!(
            (error.kind(), error.operation(), error.status(), error.remote_code()),
            (kind, "harness_profiles", status, remote_code),
            "{case}: {error}"
        );
        let line = error.to_string();
        assert!(line.contains(text) && !line.contains(char::is_control) && line.len() < 350, "{case}: {line}");
    }
}

#[test]
fn a_read_tool_is_asked_once() {
    let (host, result) = ask(|_| FakeReply::status(503, &json!({"code": "EIO"})));
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(sent(&host, "harness_profiles").len(), 1);
}
