//! The narrow part of MCP revision 2026-07-28 that the driver speaks (`harness.md` §1).

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::json::{self, Malformed};
use crate::text::is_code;

/// The protocol revision.
pub const PROTOCOL_VERSION: &str = "2026-07-28";
/// Header that mirrors the protocol version.
pub const VERSION_HEADER: &str = "mcp-protocol-version";
/// Header that mirrors the method.
pub const METHOD_HEADER: &str = "mcp-method";
/// Header that mirrors the name of a tool.
pub const NAME_HEADER: &str = "mcp-name";

/// A JSON-RPC request with the `_meta` that every request needs.
pub fn request(id: &str, method: &str, mut params: Value, client: ClientInfo<'_>) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": PROTOCOL_VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": client.name, "version": client.version},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Name and version a client gives of itself.
#[derive(Debug, Clone, Copy)]
pub struct ClientInfo<'a> {
    /// Name of the program.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
}

/// The value of the `Mcp-Name` header: the name itself where a header can carry it, else its base64 form.
pub fn name_header(name: &str) -> String {
    use base64::Engine;
    let plain = name.bytes().all(|byte| byte.is_ascii_graphic()) && !name.starts_with("=?");
    if plain {
        name.to_owned()
    } else {
        format!("=?base64?{}?=", base64::engine::general_purpose::STANDARD.encode(name))
    }
}

/// A JSON-RPC reply: a result or an error, never both.
#[derive(Debug)]
pub enum Reply<'a> {
    /// The `result` member, unparsed.
    Result(&'a RawValue),
    /// The `error` member.
    Error(RpcError),
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RpcError {
    /// The JSON-RPC code.
    pub code: i64,
    /// The server's own words. Shown only after they were shortened to one line.
    pub message: String,
}

impl<'a> Reply<'a> {
    /// Parses the reply to the request `id`.
    ///
    /// # Errors
    /// [`Malformed`] when it is not JSON-RPC 2.0, answers another request, or holds both or neither of result and error.
    pub fn parse(bytes: &'a [u8], id: &str) -> Result<Self, Malformed> {
        const WHAT: &str = "the MCP reply";
        #[derive(Deserialize)]
        struct Envelope<'a> {
            jsonrpc: String,
            #[serde(default)]
            id: Value,
            #[serde(borrow, default)]
            result: Option<&'a RawValue>,
            #[serde(default)]
            error: Option<RpcError>,
        }
        let envelope: Envelope<'a> = json::parse(WHAT, bytes)?;
        if envelope.jsonrpc != "2.0" {
            return Err(Malformed::new(WHAT, "is not JSON-RPC 2.0"));
        }
        match (envelope.result, envelope.error) {
            // A server that could not read the request cannot echo its id.
            (None, Some(error)) if envelope.id.is_null() || envelope.id == id => Ok(Self::Error(error)),
            (Some(result), None) if envelope.id == id => Ok(Self::Result(result)),
            (Some(_), Some(_)) => Err(Malformed::new(WHAT, "has both a result and an error")),
            (None, None) => Err(Malformed::new(WHAT, "has neither a result nor an error")),
            (Some(_), None) | (None, Some(_)) => Err(Malformed::new(WHAT, "answers another request")),
        }
    }
}

/// Whether a message of a streamed reply answers the request `id`. Others are notifications, or answer somebody else.
pub fn is_answer(message: &[u8], id: &str) -> bool {
    #[derive(Deserialize)]
    struct Peek {
        #[serde(default)]
        id: Value,
        #[serde(default)]
        method: Option<IgnoredAny>,
    }
    serde_json::from_slice(message)
        .is_ok_and(|peek: Peek| peek.method.is_none() && (peek.id == id || peek.id.is_null()))
}

/// The JSON-RPC error in the body of a failing HTTP reply, if it holds one.
pub fn error_of_body(body: &[u8]) -> Option<RpcError> {
    #[derive(Deserialize)]
    struct Body {
        error: RpcError,
    }
    serde_json::from_slice(body).ok().map(|body: Body| body.error)
}

/// The result of `tools/call`, read without parsing the copy in `content`.
#[derive(Debug)]
pub enum ToolResult<'a> {
    /// `structuredContent`, unparsed.
    Value(&'a RawValue),
    /// The tool failed.
    Failed(ToolFailure),
}

/// `structuredContent` of a failed tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolFailure {
    /// The node's code, if it has the form of one.
    pub code: Option<String>,
    /// The outcome the node claims. Constant for harness tools (`harness.md` §1.6).
    pub outcome: Option<String>,
}

impl<'a> ToolResult<'a> {
    /// Parses the `result` member of a reply to `tools/call`.
    ///
    /// # Errors
    /// [`Malformed`] when it is not a complete tool result with structured content.
    pub fn parse(result: &'a RawValue) -> Result<Self, Malformed> {
        const WHAT: &str = "the tool result";
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Raw<'a> {
            #[serde(default)]
            result_type: Option<String>,
            #[serde(default)]
            is_error: bool,
            #[serde(borrow, default)]
            structured_content: Option<&'a RawValue>,
        }
        let raw: Raw<'a> = json::parse(WHAT, result.get().as_bytes())?;
        if raw.result_type.as_deref().is_some_and(|kind| kind != "complete") {
            return Err(Malformed::new(WHAT, "is of a type that this driver did not ask for"));
        }
        if raw.is_error {
            #[derive(Default, Deserialize)]
            struct Failure {
                #[serde(default)]
                code: Option<String>,
                #[serde(default)]
                outcome: Option<String>,
            }
            let failure: Failure =
                raw.structured_content.and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default();
            let code = failure.code.filter(|code| is_code(code));
            return Ok(Self::Failed(ToolFailure { code, outcome: failure.outcome }));
        }
        raw.structured_content.map(Self::Value).ok_or_else(|| Malformed::new(WHAT, "has no structured content"))
    }
}

/// The result of `tools/list`, as far as discovery needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolPage {
    /// The tools.
    pub tools: Vec<ToolName>,
    /// Asks for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A listed tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolName {
    /// Its name.
    pub name: String,
}
