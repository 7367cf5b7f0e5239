//! A small scripted node, and shorthands that the tests share.

use cells_driver::host::MaybeSend;
use cells_driver::{
    Client, Connection, FileClient, FileConnection, FileStorage, HarnessClient, NativeId, OperationOptions, ProfileId,
    Secret, WorkspaceId,
};
use cells_testkit::fake_host::{FakeHost, FakeReply, FakeRequest};
use serde_json::{Value, json};

pub(crate) const EPOCH: &str = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f";
pub(crate) const RING: &str = "0123456789abcdef0123456789abcdef";

/// A host whose requests go to `handler`, and to [`answer`] where that has nothing to say.
pub(crate) fn host(mut handler: impl FnMut(&FakeRequest) -> Option<FakeReply> + MaybeSend + 'static) -> FakeHost {
    FakeHost::new(move |request| handler(request).unwrap_or_else(|| answer(request)))
}

/// A client that holds the secret of [`connection`].
pub(crate) fn client(host: &FakeHost) -> Client {
    let client = host.client(Default::default());
    client.set_credential("office", Secret::new("key-0123456789"));
    client
}

pub(crate) fn connection() -> Connection {
    Connection::new("http://node", "office")
}

pub(crate) fn files(host: &FakeHost) -> FileClient {
    client(host).files(&FileConnection::new(connection(), "notes")).unwrap()
}

/// The export `notes`, opened.
pub(crate) fn storage(host: &FakeHost) -> FileStorage {
    let client = client(host);
    let connection = FileConnection::new(connection(), "notes");
    host.block_on(client.file_storage(&connection, OperationOptions::default())).unwrap()
}

pub(crate) fn harness(host: &FakeHost) -> HarnessClient {
    client(host).harness(&connection()).unwrap()
}

pub(crate) fn profile() -> ProfileId {
    ProfileId::new("main").unwrap()
}

pub(crate) fn session() -> NativeId {
    NativeId::new("s-1").unwrap()
}

pub(crate) fn workspace() -> WorkspaceId {
    WorkspaceId::new("demo").unwrap()
}

pub(crate) fn within(timeout_ms: u64) -> OperationOptions {
    OperationOptions { timeout_ms: Some(timeout_ms), cancel: None }
}

/// The requests that were sent to paths with this beginning, or to this tool.
pub(crate) fn sent(host: &FakeHost, what: &str) -> Vec<FakeRequest> {
    let matches = |request: &FakeRequest| request.path().starts_with(what) || request.tool().as_deref() == Some(what);
    host.requests().into_iter().filter(matches).collect()
}

/// What an ordinary node answers.
pub(crate) fn answer(request: &FakeRequest) -> FakeReply {
    let path = request.path();
    if path == "/v1/capabilities" {
        return FakeReply::json(&capabilities());
    }
    if path == "/v1/exports" {
        let export = json!({"alias": "notes", "access": "rw", "nameSemantics": "source", "strongRevision": true});
        return FakeReply::json(&json!({"version": 1, "exports": [export]}));
    }
    if path.ends_with("/stat") {
        return stat_reply(request);
    }
    if path == "/mcp" {
        return match (request.header("mcp-method"), request.tool().as_deref()) {
            (Some("server/discover"), _) => FakeReply::rpc(request, &json!({"_meta": {"itookit/cells": document()}})),
            (_, Some("harness_profiles")) => FakeReply::tool(request, &profiles()),
            _ => FakeReply::tool_error(request, "ECAPABILITY"),
        };
    }
    FakeReply::status(404, &json!({"code": "ENOENT"}))
}

pub(crate) fn capabilities() -> Value {
    json!({
        "version": 1, "serverId": "node-17", "files": {"read": true, "write": true}, "sync": {"push": false},
        "process": {"exec": false}, "terminal": {"pty": false}, "harness": {"enabled": true, "endpoint": "/mcp"},
        "executionModel": "none", "workspaceConsistency": "none", "readOnlyEnforcement": "none", "pathModel": "none",
    })
}

pub(crate) fn document() -> Value {
    json!({
        "version": 1, "httpEndpoint": "./", "serverId": "node-17", "fileProtocol": "fs-agent-http-v1", "harness": true,
        "events": {"version": 1, "endpoint": "v1/events"}, "receipts": {"version": 1, "durable": true},
    })
}

pub(crate) fn profiles() -> Value {
    let capabilities = json!({
        "history": true, "create": true, "resume": true, "fork": true, "search": true, "rename": true, "archive": true,
        "unarchive": true, "delete": true, "slashCommands": true, "commandOutputs": true, "sessionDigest": true,
        "attachments": ["text", "image"],
    });
    let profile =
        json!({"id": "main", "kind": "scripted", "workspaces": [{"id": "demo"}], "capabilities": capabilities});
    let plain = json!({"id": "plain", "kind": "scripted", "workspaces": [{"id": "demo"}], "capabilities": {}});
    json!({"epoch": EPOCH, "profiles": [profile, plain]})
}

/// The receipt of the mutation that `request` carries.
pub(crate) fn receipt(request: &FakeRequest, outcome: &str, extra: &Value) -> FakeReply {
    let mut receipt = json!({"outcome": outcome, "requestId": request.arguments()["requestId"]});
    for (name, value) in extra.as_object().into_iter().flatten() {
        receipt[name.as_str()] = value.clone();
    }
    FakeReply::tool(request, &receipt)
}

/// The size of a file is the length of its path; what starts with `gone` is missing, with `closed` forbidden.
fn stat_reply(request: &FakeRequest) -> FakeReply {
    let body = request.json();
    let results = body["paths"].as_array().unwrap().iter().map(|path| match path.as_str().unwrap() {
        path if path.starts_with("gone") => json!({"stat": null}),
        path if path.starts_with("closed") => json!({"error": "EACCES"}),
        path => json!({"stat": {"kind": "file", "size": path.len(), "modifiedAt": 1, "createdAt": 1}}),
    });
    FakeReply::json(&json!({"results": results.collect::<Vec<_>>()}))
}
