//! The narrow part of MCP revision 2026-07-28 that the driver speaks (`harness.md` §1).

use serde::Serialize;
use serde_json::Value;

use crate::json::{Json, Malformed, Object, object};
use crate::text::is_code;

/// The MCP revision that driver and node speak.
pub const PROTOCOL_VERSION: &str = "2026-07-28";
/// Header that mirrors the protocol version.
pub const VERSION_HEADER: &str = "mcp-protocol-version";
/// Header that mirrors the method.
pub const METHOD_HEADER: &str = "mcp-method";
/// Header that mirrors the name of a tool.
pub const NAME_HEADER: &str = "mcp-name";

/// A JSON-RPC request with the `_meta` that every request needs.
pub fn request(id: &str, method: &str, mut params: Value, client: ClientInfo<'_>) -> Value {
    params["_meta"] = object(vec![
        ("io.modelcontextprotocol/protocolVersion", PROTOCOL_VERSION.into()),
        (
            "io.modelcontextprotocol/clientInfo",
            object(vec![("name", client.name.into()), ("version", client.version.into())]),
        ),
        ("io.modelcontextprotocol/clientCapabilities", object(Vec::new())),
    ]);
    object(vec![("jsonrpc", "2.0".into()), ("id", id.into()), ("method", method.into()), ("params", params)])
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
    /// The `result` member.
    Result(Json<'a>),
    /// The `error` member.
    Error(RpcError),
}

/// A JSON-RPC error: the node refused the request itself, not what a tool was to do.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// The JSON-RPC code.
    pub code: i64,
    /// The server's own words. Shown only after they were shortened to one line.
    pub message: String,
}

impl RpcError {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self { code: object.signed_integer("code")?, message: object.string("message")? })
    }
}

impl<'a> Reply<'a> {
    /// Parses the reply to the request `id`.
    ///
    /// # Errors
    /// [`Malformed`] when it is not JSON-RPC 2.0, answers another request, or holds both or neither of result and error.
    pub fn parse(bytes: &'a [u8], id: &str) -> Result<Self, Malformed> {
        const WHAT: &str = "the MCP reply";
        let mut envelope = Object::parse(WHAT, bytes)?;
        if envelope.text("jsonrpc")? != "2.0" {
            return Err(Malformed::new(WHAT, "is not JSON-RPC 2.0"));
        }
        let answered = envelope.optional("id")?;
        let is_mine = answered.as_ref().and_then(Json::as_str) == Some(id);
        let error = match envelope.optional_object("error")? {
            Some(mut error) => Some(RpcError::read(&mut error)?),
            None => None,
        };
        match (envelope.optional("result")?, error) {
            // A server that could not read the request cannot echo its id.
            (None, Some(error)) if is_mine || answered.is_none() => Ok(Self::Error(error)),
            (Some(result), None) if is_mine => Ok(Self::Result(result)),
            (Some(_), Some(_)) => Err(Malformed::new(WHAT, "has both a result and an error")),
            (None, None) => Err(Malformed::new(WHAT, "has neither a result nor an error")),
            (Some(_), None) | (None, Some(_)) => Err(Malformed::new(WHAT, "answers another request")),
        }
    }
}

/// Whether a message of a streamed reply answers the request `id`. Others are notifications, or answer somebody else.
pub fn is_answer(message: &[u8], id: &str) -> bool {
    let read = || {
        let mut message = Object::parse("the message", message)?;
        let is_reply = message.optional("method")?.is_none();
        let id_fits = message.optional("id")?.is_none_or(|answered| answered.as_str() == Some(id));
        Ok::<bool, Malformed>(is_reply && id_fits)
    };
    read().unwrap_or(false)
}

/// The JSON-RPC error in the body of a failing HTTP reply, if it holds one.
pub fn error_of_body(body: &[u8]) -> Option<RpcError> {
    RpcError::read(&mut Object::parse("the error body", body).ok()?.object("error").ok()?).ok()
}

/// The result of `tools/call`. The copy in `content` is not looked at.
#[derive(Debug)]
pub enum ToolResult<'a> {
    /// `structuredContent`.
    Value(Json<'a>),
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
    /// Reads the `result` member of a reply to `tools/call`.
    ///
    /// # Errors
    /// [`Malformed`] when it is not a complete tool result with structured content.
    pub fn read(result: Json<'a>) -> Result<Self, Malformed> {
        const WHAT: &str = "the tool result";
        let mut result = result.object(WHAT)?;
        if result.optional_string("resultType")?.is_some_and(|kind| kind != "complete") {
            return Err(Malformed::new(WHAT, "is of a type that this driver did not ask for"));
        }
        let is_error = result.flag("isError")?;
        match result.optional("structuredContent")? {
            content if is_error => Ok(Self::Failed(content.and_then(ToolFailure::read).unwrap_or_default())),
            Some(content) => Ok(Self::Value(content)),
            None => Err(Malformed::new(WHAT, "has no structured content")),
        }
    }
}

impl ToolFailure {
    fn read(content: Json<'_>) -> Option<Self> {
        let mut content = content.object("the tool failure").ok()?;
        let code = content.optional_string("code").ok()?.filter(|code| is_code(code));
        Some(Self { code, outcome: content.optional_string("outcome").ok()? })
    }
}

/// The result of `tools/list`, as far as discovery needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolPage {
    /// The tools.
    pub tools: Vec<ToolName>,
    /// Asks for the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl ToolPage {
    /// Reads a page.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            tools: object.objects("tools", |tool| Ok(ToolName { name: tool.string("name")? }))?,
            next_cursor: object.optional_string("nextCursor")?,
        })
    }
}

/// A listed tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolName {
    /// Its name.
    pub name: String,
}
