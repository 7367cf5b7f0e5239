//! The JSON-RPC envelope and the headers that mirror it (`harness.md` §1.1–1.3).

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cells_protocol::mcp::{METHOD_HEADER, NAME_HEADER, PROTOCOL_VERSION, VERSION_HEADER};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// What a body asks for.
#[derive(Debug)]
pub(super) enum Message {
    /// A request that passed every check but the one of its method.
    Request(Request),
    /// A notification; the node has no use for any.
    Notification,
}

/// A checked request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: Value,
    pub(super) method: String,
}

/// A request that is answered with a JSON-RPC error.
#[derive(Debug, PartialEq)]
pub(super) struct RpcRefusal {
    status: StatusCode,
    /// Absent when the request has no id that could be repeated.
    id: Option<Value>,
    code: i32,
    message: &'static str,
    data: Value,
}

impl Message {
    /// Checks envelope, mirrored headers, version and client metadata, in this order.
    pub(super) fn check(body: &RawValue, headers: &HeaderMap) -> Result<Self, RpcRefusal> {
        let invalid = |id: Option<Value>| RpcRefusal::new(id, -32600, "Invalid request", json!({}));
        let raw: Raw<'_> = serde_json::from_str(body.get()).map_err(|_| invalid(None))?;
        // Ids are strings or integers; a fraction could not be repeated digit by digit.
        let id = raw.id.clone().filter(|id| id.is_string() || id.is_i64());
        let Some(method) = raw.method.as_str().filter(|_| raw.jsonrpc == "2.0") else { return Err(invalid(id)) };
        if raw.id.is_none() {
            return Ok(Self::Notification);
        }
        let Some(id) = id else { return Err(invalid(None)) };
        let refuse = |code, message, data| Err(RpcRefusal::new(Some(id.clone()), code, message, data));

        let params: Params = raw.params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
        let version = params.meta.get(META_VERSION).and_then(Value::as_str).unwrap_or_default();
        let mirrored = header(headers, VERSION_HEADER) == Some(version)
            && header(headers, METHOD_HEADER) == Some(method)
            && (method != CALL || mirrors_name(headers, &params.name));
        if !mirrored {
            return refuse(-32020, "Header mismatch", json!({}));
        }
        if version != PROTOCOL_VERSION {
            let data = json!({"supported": [PROTOCOL_VERSION], "requested": version});
            return refuse(-32022, "Unsupported protocol version", data);
        }
        if !params.meta.get(META_CAPABILITIES).is_some_and(Value::is_object)
            || !names_client(params.meta.get(META_CLIENT))
        {
            return refuse(-32602, "Missing client metadata", json!({}));
        }
        if method == CALL && !matches!(params.arguments, Value::Null | Value::Object(_)) {
            return refuse(-32602, "Invalid arguments", json!({}));
        }
        Ok(Self::Request(Request { id, method: method.to_owned() }))
    }
}

impl Request {
    pub(super) fn refuse_method(self) -> RpcRefusal {
        let refusal = RpcRefusal::new(Some(self.id), -32601, "Method not found", json!({}));
        RpcRefusal { status: StatusCode::NOT_FOUND, ..refusal }
    }
}

impl RpcRefusal {
    fn new(id: Option<Value>, code: i32, message: &'static str, data: Value) -> Self {
        Self { status: StatusCode::BAD_REQUEST, id, code, message, data }
    }
}

impl IntoResponse for RpcRefusal {
    fn into_response(self) -> Response {
        let error = json!({"code": self.code, "message": self.message, "data": self.data});
        let mut body = json!({"jsonrpc": "2.0", "error": error});
        if let Some(id) = self.id {
            body["id"] = id;
        }
        (self.status, Json(body)).into_response()
    }
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(default)]
    jsonrpc: Value,
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    #[serde(default)]
    method: Value,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Params {
    #[serde(default, rename = "_meta")]
    meta: Value,
    #[serde(default)]
    name: Value,
    #[serde(default)]
    arguments: Value,
}

/// Tells null from absent.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn mirrors_name(headers: &HeaderMap, name: &Value) -> bool {
    let (Some(value), Some(name)) = (header(headers, NAME_HEADER), name.as_str()) else { return false };
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => STANDARD.decode(encoded).is_ok_and(|decoded| decoded == name.as_bytes()),
        None => value == name,
    }
}

/// The client may stay unnamed; a name that is given must be one.
fn names_client(client: Option<&Value>) -> bool {
    client.is_none_or(|client| client["name"].is_string() && client["version"].is_string())
}

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
pub(super) const CALL: &str = "tools/call";
