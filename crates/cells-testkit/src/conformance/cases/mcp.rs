//! The MCP endpoint: envelope, headers, discovery, tools (`harness.md` §1, `cells-0.4.md` §1).

use reqwest::Method;
use serde_json::{Value, json};

use crate::conformance::{
    case::{Case, Step, method, post},
    check::Check,
    declared::Need,
    http::{MCP_VERSION as VERSION, Reply},
};

pub(super) fn cases() -> Vec<Case> {
    let case = |name, steps: Vec<_>| Case::steps("mcp", &[Need::Mcp], name, steps);
    let agent = |name, steps: Vec<_>| Case::steps("mcp", &[Need::Agent], name, steps);
    vec![
        case(
            "discovery names the protocol version and holds a document",
            vec![
                rpc("server/discover", json!({}))
                    .status(&[200])
                    .json("/result/resultType", "complete")
                    .check(Check::Holds("a document under a known key", document))
                    .check(Check::Holds("the supported version", |reply| {
                        reply.json["result"]["supportedVersions"] == json!([VERSION])
                    })),
            ],
        ),
        case("ping answers", vec![rpc("ping", json!({})).status(&[200]).json("/result/resultType", "complete")]),
        case(
            "tools have a name, a description, a schema and hints",
            vec![rpc("tools/list", json!({})).status(&[200]).check(Check::Holds("well formed tools", tools))],
        ),
        case("an unknown method is -32601", vec![rpc("initialize", json!({})).json_error(&[404], -32601)]),
        case(
            "a request id comes back as it was sent",
            vec![
                with(|body| body["id"] = json!(7)).status(&[200]).json("/id", 7),
                with(|body| body["id"] = json!("ü")).status(&[200]).json("/id", "ü"),
            ],
        ),
        case(
            "what is no request is -32600",
            vec![
                with(|body| body["jsonrpc"] = json!("1.0")).json_error(&[400], -32600),
                with(|body| body["id"] = Value::Null).json_error(&[400], -32600),
                with(|body| *body = json!([body.clone()])).json_error(&[400], -32600),
            ],
        ),
        case(
            "a notification is refused, or accepted without an answer",
            vec![
                with(|body| drop(body.as_object_mut().map(|body| body.remove("id"))))
                    .status(&[202, 400])
                    .check(Check::Absent("/result")),
            ],
        ),
        case(
            "headers that do not mirror the body are -32020",
            vec![
                rpc("ping", json!({})).header("mcp-method", "tools/list").json_error(&[400], -32020),
                rpc("ping", json!({})).without("mcp-method").json_error(&[400], -32020),
                rpc("ping", json!({})).header("mcp-protocol-version", "2025-06-18").json_error(&[400], -32020),
                rpc("ping", json!({})).without("mcp-protocol-version").json_error(&[400], -32020),
                tool("harness_profiles", json!({})).header("mcp-name", "other").json_error(&[400], -32020),
                tool("harness_profiles", json!({})).without("mcp-name").json_error(&[400], -32020),
                tool("harness_profiles", json!({})).header("mcp-name", "=?base64?%%?=").json_error(&[400], -32020),
            ],
        ),
        agent(
            "the mirrored name may be encoded",
            vec![
                tool("harness_profiles", json!({}))
                    .header("mcp-name", "=?base64?aGFybmVzc19wcm9maWxlcw==?=")
                    .status(&[200])
                    .json("/result/isError", false),
            ],
        ),
        case(
            "another protocol version is -32022 and names the right one",
            vec![
                with(|body| body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2025-06-18"))
                    .header("mcp-protocol-version", "2025-06-18")
                    .json_error(&[400], -32022)
                    .json("/error/data/supported/0", VERSION)
                    .json("/error/data/requested", "2025-06-18"),
            ],
        ),
        case(
            "without client metadata it is -32602",
            vec![
                with(|body| body["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] = Value::Null)
                    .json_error(&[400], -32602),
                with(|body| body["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "x"}))
                    .json_error(&[400], -32602),
                with(|body| body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!(7))
                    .json_error(&[400], -32602),
            ],
        ),
        case(
            "only POST is served",
            vec![method(Method::GET, "/mcp").status(&[405]), method(Method::DELETE, "/mcp").status(&[405])],
        ),
        case(
            "a body that is no JSON is refused before anything else",
            vec![
                rpc("ping", json!({})).bytes("{").status(&[400]),
                rpc("ping", json!({})).header("content-type", "text/plain").status(&[415]),
                rpc("ping", json!({})).bytes(vec![b' '; 2 * 1024 * 1024 + 1]).status(&[413]),
            ],
        ),
        case(
            "a wrong credential is EACCES without an envelope",
            vec![
                rpc("ping", json!({}))
                    .anonymous()
                    .header("authorization", "Bearer no-secret-of-this-node-0000")
                    .status(&[401])
                    .json("/code", "EACCES")
                    .check(Check::Absent("/jsonrpc")),
            ],
        ),
        case(
            "the capability tool gives the document",
            vec![
                tool("fsagent_capabilities", json!({}))
                    .status(&[200])
                    .json("/result/isError", false)
                    .json("/result/structuredContent/version", 1)
                    .check(Check::Holds("one text with the same value", same_text)),
            ],
        ),
        agent(
            "failures of tools are results",
            vec![
                tool("harness_sessions", json!({})).call_error("EINVAL"),
                tool("harness_sessions", json!({"profileId": "no-such-profile"})).call_error("ENOENT"),
                tool("harness_no_such_tool", json!({"profileId": "{profile}"})).call_error("ECAPABILITY"),
                tool("harness_sessions", json!({"profileId": "{profile}"}))
                    .check(Check::Holds("one text with the same value", same_text)),
            ],
        ),
        agent(
            "a project that does not exist has no agents",
            vec![
                tool("harness_sessions", json!({"profileId": "{profile}", "projectId": "none", "revision": 1})).check(
                    Check::OneOf("/result/structuredContent/code", &["ECAPABILITY", "PROJECT_UNKNOWN", "EINVAL"]),
                ),
            ],
        ),
    ]
}

/// A request of this method with everything that the endpoint wants.
pub(super) fn rpc(name: &str, mut params: Value) -> Step {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "cells-conformance", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    post("/mcp", json!({"jsonrpc": "2.0", "id": "q-1", "method": name, "params": params}))
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", VERSION)
        .header("mcp-method", name)
}

/// A call of a tool.
pub(super) fn tool(name: &str, arguments: impl Into<Value>) -> Step {
    rpc("tools/call", json!({"name": name, "arguments": arguments.into()})).header("mcp-name", name)
}

/// A ping whose body is changed.
fn with(change: impl FnOnce(&mut Value)) -> Step {
    let mut step = rpc("ping", json!({}));
    if let crate::conformance::case::Payload::Json(body) = &mut step.body {
        change(body);
    }
    step
}

fn document(reply: &Reply) -> bool {
    let meta = &reply.json["result"]["_meta"];
    let mut keys = ["itookit/cells", "itookit/pi-agent", "itookit/fs-agent"].into_iter();
    keys.any(|key| meta[key]["version"] == 1 && meta[key]["fileProtocol"] == "fs-agent-http-v1")
}

fn tools(reply: &Reply) -> bool {
    let tools = reply.json["result"]["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_fine = |tool: &Value| {
        tool["name"].is_string()
            && tool["description"].is_string()
            && tool["inputSchema"]["type"] == "object"
            && tool["annotations"]["readOnlyHint"].is_boolean()
            && tool["annotations"]["openWorldHint"] == true
    };
    !tools.is_empty() && tools.iter().all(is_fine)
}

fn same_text(reply: &Reply) -> bool {
    let result = &reply.json["result"];
    let texts = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = texts.first().and_then(|text| text["text"].as_str()).unwrap_or_default();
    texts.len() == 1 && serde_json::from_str::<Value>(text).is_ok_and(|value| value == result["structuredContent"])
}
