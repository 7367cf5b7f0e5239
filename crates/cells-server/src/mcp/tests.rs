use cells_protocol::discovery::{CellsDescriptor, find_document};
use cells_protocol::endpoint::Endpoint;
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::events::Streams;
use crate::testing::{KEY, TestNode, reply};

const META: &str = "io.modelcontextprotocol/";

/// A request that passes every check, to be spoiled.
struct Call {
    authorization: Option<String>,
    content_type: Option<&'static str>,
    headers: Vec<(&'static str, String)>,
    body: Value,
}

impl Call {
    fn new(method: &str, mut params: Value) -> Self {
        let mut meta = json!({});
        meta[format!("{META}protocolVersion")] = json!("2026-07-28");
        meta[format!("{META}clientCapabilities")] = json!({});
        params["_meta"] = meta;
        let mut headers = vec![("mcp-protocol-version", "2026-07-28".to_owned()), ("mcp-method", method.to_owned())];
        if let Some(name) = params["name"].as_str() {
            headers.push(("mcp-name", name.to_owned()));
        }
        Self {
            authorization: Some(format!("Bearer {KEY}")),
            content_type: Some("application/json"),
            headers,
            body: json!({"jsonrpc": "2.0", "id": "q-1", "method": method, "params": params}),
        }
    }

    fn tool(name: &str, arguments: &Value) -> Self {
        Self::new("tools/call", json!({"name": name, "arguments": arguments}))
    }

    fn set(&mut self, header: &'static str, value: impl Into<String>) {
        self.headers.retain(|(name, _)| *name != header);
        self.headers.push((header, value.into()));
    }

    fn unset(&mut self, header: &'static str) {
        self.headers.retain(|(name, _)| *name != header);
    }

    fn meta(&mut self, name: &str, value: Value) {
        self.body["params"]["_meta"][format!("{META}{name}")] = value;
    }

    fn request(&self, node: &TestNode, body: String) -> RequestBuilder {
        let mut request = node.post("/mcp").body(body);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        if let Some(content_type) = self.content_type {
            request = request.header("content-type", content_type);
        }
        self.headers.iter().fold(request, |request, (name, value)| request.header(*name, value))
    }

    async fn send(&self, node: &TestNode) -> (u16, Value) {
        reply(self.request(node, self.body.to_string())).await
    }

    /// The `result` of a reply that has one.
    async fn result(&self, node: &TestNode) -> Value {
        let (status, reply) = self.send(node).await;
        assert_eq!((status, &reply["jsonrpc"], &reply["id"]), (200, &json!("2.0"), &self.body["id"]), "{reply}");
        reply["result"].clone()
    }
}

/// What a refusal looks like.
enum Refusal {
    /// One line of text.
    Text(u16),
    /// `{"code":…}`.
    Code(u16, &'static str),
    /// A JSON-RPC error; the id, its code, message and data.
    Rpc(u16, Option<Value>, i64, &'static str, Value),
}

#[tokio::test]
async fn requests_are_refused_in_the_order_of_the_specification() {
    let node = TestNode::start_with(Streams::default(), |config| {
        config.allowed_origins = vec!["https://app.example".to_owned()];
    })
    .await;
    let id = || Some(json!("q-1"));
    let invalid = |id| Refusal::Rpc(400, id, -32600, "Invalid request", json!({}));
    let mismatch = || Refusal::Rpc(400, id(), -32020, "Header mismatch", json!({}));
    let metadata = || Refusal::Rpc(400, id(), -32602, "Missing client metadata", json!({}));
    let method = || Refusal::Rpc(404, id(), -32601, "Method not found", json!({}));
    let version = |requested: &str| {
        let data = json!({"supported": ["2026-07-28"], "requested": requested});
        Refusal::Rpc(400, id(), -32022, "Unsupported protocol version", data)
    };
    type Spoil = fn(&mut Call);
    // Each case keeps every fault of a later check, so that the order is tested too.
    let late: Spoil = |call| {
        call.authorization = None;
        call.set("origin", "https://evil.example");
        call.set("x-fsagent-principal", "other");
        call.body = json!([]);
    };
    let cases: Vec<(&str, &str, Spoil, Refusal)> = vec![
        ("no content type", "ping", |call| call.content_type = None, Refusal::Text(415)),
        ("another content type", "ping", |call| call.content_type = Some("text/plain"), Refusal::Text(415)),
        ("no credential", "ping", late, Refusal::Code(401, "EACCES")),
        (
            "another origin",
            "ping",
            |call| {
                call.set("origin", "https://evil.example");
                call.set("x-fsagent-principal", "other");
            },
            Refusal::Code(403, "EACCES"),
        ),
        (
            "half a pin",
            "ping",
            |call| {
                call.set("x-fsagent-principal", "owner");
                call.body = json!([]);
            },
            Refusal::Code(400, "EINVAL"),
        ),
        (
            "another principal",
            "ping",
            |call| {
                call.set("x-fsagent-principal", "other");
                call.set("x-fsagent-principal-revision", "x");
                call.body = json!([]);
            },
            Refusal::Code(409, "AUTHORIZATION_CHANGED"),
        ),
        ("a batch", "ping", |call| call.body = json!([call.body]), invalid(None)),
        ("no object", "ping", |call| call.body = json!("x"), invalid(None)),
        ("another JSON-RPC", "ping", |call| call.body["jsonrpc"] = json!("1.0"), invalid(id())),
        ("no method", "ping", |call| call.body["method"] = json!(null), invalid(id())),
        ("a null id", "ping", |call| call.body["id"] = json!(null), invalid(None)),
        ("a fraction as id", "ping", |call| call.body["id"] = json!(1.5), invalid(None)),
        ("an object as id", "ping", |call| call.body["id"] = json!({}), invalid(None)),
        ("no version header", "ping", |call| call.unset("mcp-protocol-version"), mismatch()),
        ("only the header is old", "ping", |call| call.set("mcp-protocol-version", "2025-11-25"), mismatch()),
        ("only the body is old", "ping", |call| call.meta("protocolVersion", json!("2025-11-25")), mismatch()),
        ("no params", "ping", |call| call.body["params"] = json!(null), mismatch()),
        ("no method header", "ping", |call| call.unset("mcp-method"), mismatch()),
        ("another method header", "ping", |call| call.set("mcp-method", "Ping"), mismatch()),
        ("no name header", "tools/call", |call| call.unset("mcp-name"), mismatch()),
        ("another name header", "tools/call", |call| call.set("mcp-name", "harness_sessions"), mismatch()),
        ("a name header that is not base64", "tools/call", |call| call.set("mcp-name", "=?base64?%?="), mismatch()),
        ("a tool without name", "tools/call", |call| call.body["params"]["name"] = json!(1), mismatch()),
        (
            "an older client",
            "initialize",
            |call| {
                call.body["params"] = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
            },
            mismatch(),
        ),
        (
            "an old version",
            "no/method",
            |call| {
                call.set("mcp-protocol-version", "2025-11-25");
                call.meta("protocolVersion", json!("2025-11-25"));
                call.meta("clientCapabilities", json!(null));
            },
            version("2025-11-25"),
        ),
        (
            "an empty version",
            "ping",
            |call| {
                call.set("mcp-protocol-version", "");
                call.meta("protocolVersion", json!(null));
            },
            version(""),
        ),
        ("no capabilities", "no/method", |call| call.meta("clientCapabilities", json!(null)), metadata()),
        ("a client without version", "ping", |call| call.meta("clientInfo", json!({"name": "x"})), metadata()),
        ("a client that is no object", "ping", |call| call.meta("clientInfo", json!("x")), metadata()),
        (
            "arguments that are a list",
            "tools/call",
            |call| call.body["params"]["arguments"] = json!([]),
            Refusal::Rpc(400, id(), -32602, "Invalid arguments", json!({})),
        ),
        ("another method", "no/method", |_| {}, method()),
        ("initialize", "initialize", |_| {}, method()),
        ("resources", "resources/list", |_| {}, method()),
    ];
    for (name, method, spoil, expected) in cases {
        let params = if method == "tools/call" { json!({"name": "harness_profiles"}) } else { json!({}) };
        let mut call = Call::new(method, params);
        spoil(&mut call);
        let (status, body) = call.send(&node).await;
        match expected {
            Refusal::Text(expected) => assert!(status == expected && body.is_string(), "{name}: {status} {body}"),
            Refusal::Code(expected, code) => assert_eq!((status, body), (expected, json!({"code": code})), "{name}"),
            Refusal::Rpc(expected, id, code, message, data) => {
                let mut error = json!({"jsonrpc": "2.0", "error": {"code": code, "message": message, "data": data}});
                if let Some(id) = id {
                    error["id"] = id;
                }
                assert_eq!((status, body), (expected, error), "{name}");
            }
        }
    }
    node.stop().await;
}

#[tokio::test]
async fn a_body_is_bounded_and_must_be_json() {
    let node = TestNode::start().await;
    let mut call = Call::tool("harness_profiles", &json!({}));
    call.authorization = None;
    for (body, status) in [("{".to_owned(), 400), (format!("\"{}\"", "x".repeat(2 * 1024 * 1024)), 413)] {
        let (found, text) = reply(call.request(&node, body)).await;
        assert!(found == status && text.is_string(), "{found} {text}");
    }
    let large = json!({"profileId": "scripted", "prompt": "x".repeat(2 * 1024 * 1024 - 1024)});
    assert_eq!(Call::tool("harness_turn", &large).result(&node).await["structuredContent"]["code"], json!("EINVAL"));
    node.stop().await;
}

#[tokio::test]
async fn a_client_may_leave_out_what_public_mcp_lets_it() {
    let node = TestNode::start().await;
    let mut call = Call::new("ping", json!({}));
    assert_eq!(call.result(&node).await, json!({"resultType": "complete"}));
    call.meta("clientInfo", json!({"name": "x", "version": "1"}));
    call.set("accept", "text/plain");
    call.body["id"] = json!(7);
    assert_eq!(call.result(&node).await, json!({"resultType": "complete"}));

    let mut encoded = Call::tool("harness_profiles", &json!({}));
    encoded.set("mcp-name", "=?base64?aGFybmVzc19wcm9maWxlcw==?=");
    encoded.set("accept", "*/*");
    assert_eq!(encoded.result(&node).await["isError"], json!(false));

    let notification = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(reply(node.json("/mcp", &notification)).await, (202, json!("")));
    let get = reqwest::Client::builder().no_proxy().build().unwrap().get(format!("{}/mcp", node.endpoint));
    assert_eq!(reply(get).await.0, 405);
    node.stop().await;
}

#[tokio::test]
async fn discovery_says_what_the_node_offers() {
    for legacy in [false, true] {
        let node = TestNode::start_with(Streams::default(), |config| config.legacy_discovery = legacy).await;
        let mut result = Call::new("server/discover", json!({})).result(&node).await;
        let meta = result["_meta"].take();
        let expected = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "_meta": null});
        assert_eq!(result, expected);
        let (document, is_legacy) = find_document(&meta).unwrap();
        assert!(!is_legacy);
        assert_eq!(meta[format!("{META}serverInfo")], json!({"name": "cells", "version": env!("CARGO_PKG_VERSION")}));
        assert_eq!(meta.get("itookit/pi-agent"), legacy.then_some(document));
        assert_eq!(document["events"], json!({"version": 1, "endpoint": "v1/events"}));
        assert_eq!(document["receipts"], json!({"version": 1, "durable": true}));
        assert_eq!((&document["harness"], &document["projects"]), (&json!(true), &json!(false)));
        for tool in ["cells_capabilities", "piagent_capabilities", "fsagent_capabilities"] {
            assert_eq!(Call::tool(tool, &json!({})).result(&node).await["structuredContent"], *document, "{tool}");
        }
        let mcp = Endpoint::parse(&format!("{}/mcp", node.endpoint)).unwrap();
        let descriptor = CellsDescriptor::from_document(document, &mcp, false).unwrap();
        assert_eq!(descriptor.document.http_endpoint, node.endpoint);
        assert_eq!(descriptor.events_endpoint(), Some(format!("{}/v1/events", node.endpoint).as_str()));
        node.stop().await;
    }
}

#[tokio::test]
async fn a_call_gives_its_value_twice() {
    let node = TestNode::start().await;
    let epoch = node.harness.epoch().to_string();
    for (tool, arguments, is_error, expected) in [
        ("harness_profiles", json!({}), false, json!({"epoch": epoch})),
        ("harness_sessions", json!({"profileId": "scripted"}), false, json!({"sessions": [], "nextCursor": null})),
        (
            "harness_sessions",
            json!({"profileId": "absent"}),
            true,
            json!({"code": "ENOENT", "outcome": "not-committed"}),
        ),
        (
            "no_such_tool",
            json!({"profileId": "scripted"}),
            true,
            json!({"code": "ECAPABILITY", "outcome": "not-committed"}),
        ),
        ("project_list", json!({}), true, json!({"code": "EINVAL", "outcome": "not-committed"})),
        (
            "harness_create",
            json!({"profileId": "scripted", "epoch": epoch, "requestId": "r", "workspaceId": "no"}),
            false,
            json!({"outcome": "not-committed", "requestId": "r"}),
        ),
    ] {
        let result = Call::tool(tool, &arguments).result(&node).await;
        let members: Vec<&String> = result.as_object().unwrap().keys().collect();
        assert_eq!(members, ["content", "isError", "resultType", "structuredContent"], "{tool}");
        assert_eq!((&result["isError"], &result["resultType"]), (&json!(is_error), &json!("complete")), "{tool}");
        let value = &result["structuredContent"];
        assert_eq!(result["content"], json!([{"type": "text", "text": value.to_string()}]), "{tool}");
        for (name, member) in expected.as_object().unwrap() {
            assert_eq!(&value[name], member, "{tool} {name}");
        }
    }
    let mut without = Call::new("tools/call", json!({"name": "harness_profiles"}));
    assert_eq!(without.result(&node).await["isError"], json!(false));
    without.body["params"]["arguments"] = json!(null);
    assert_eq!(without.result(&node).await["isError"], json!(false));
    node.stop().await;
}

#[tokio::test]
async fn a_closed_connection_does_not_end_a_mutation() {
    let node = TestNode::start().await;
    let epoch = node.harness.epoch().to_string();
    let identity = |id: &str| json!({"profileId": "scripted", "epoch": epoch, "requestId": id});
    let with = |id: &str, more: Value| {
        let mut arguments = identity(id);
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let created = Call::tool("harness_create", &with("c", json!({"workspaceId": "files"}))).result(&node).await;
    let session = created["structuredContent"]["result"]["session"]["id"].clone();
    let turn = with("t", json!({"sessionId": session, "prompt": "slow-receipt end\nwait"}));
    let call = Call::tool("harness_turn", &turn);
    let request = call.request(&node, call.body.to_string());
    let caller = tokio::spawn(request.send());
    let receipt = async |id: &str| {
        Call::tool("harness_operation", &identity(id)).result(&node).await["structuredContent"].clone()
    };
    while receipt("t").await["outcome"] != "unknown" {
        tokio::task::yield_now().await;
    }
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    // The turn is admitted a moment before it can be interrupted.
    for attempt in 0.. {
        let interrupt = with(&format!("i{attempt}"), json!({"sessionId": session, "turnId": "t"}));
        let answer = Call::tool("harness_interrupt", &interrupt).result(&node).await;
        if answer["structuredContent"]["outcome"] == "committed" {
            break;
        }
    }
    let settled = loop {
        let receipt = receipt("t").await;
        if receipt["outcome"] != "unknown" || receipt.get("code").is_some() {
            break receipt;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((&settled["outcome"], &settled["result"]["turnId"]), (&json!("committed"), &json!("t")));
    node.stop().await;
}
