//! A narrow MCP client: one request, one reply, as JSON or as an event stream (`harness.md` §1).

use bytes::Bytes;
use cells_machines::receipts::Observation;
use cells_protocol::error::{ErrorKind, kind_of_tool_code};
use cells_protocol::json::{Json, Malformed, Object, object, to_vec};
use cells_protocol::limits::{ERROR_BODY_MAX_BYTES, MCP_REPLY_MAX_BYTES};
use cells_protocol::mcp::{self, ClientInfo, Reply, RpcError, ToolFailure, ToolResult, error_of_body, is_answer};
use cells_protocol::text::prefix;
use serde_json::Value;

use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::host::{HttpRequest, HttpResponse};
use crate::node::Link;
use crate::sse::SseDecoder;
use crate::transport::{Call, JSON, host_error, is_success, read_all, retry_after_ms};

/// A request that is complete except for its headers.
pub(crate) struct McpCall {
    call: Call,
    id: String,
}

impl McpCall {
    /// Leaves out the headers of the connection's authorization.
    pub(crate) fn unpin(&mut self) {
        self.call.pinned = false;
    }
}

/// A request to the MCP endpoint that gave no result.
pub(crate) struct McpFailure {
    /// What it says of a mutation that the request carried.
    pub(crate) observation: Observation,
    /// The error that a caller gets.
    pub(crate) error: Error,
}

impl McpFailure {
    /// Nothing usable came back, though the request may have arrived.
    fn no_reply(error: Error) -> Self {
        Self { observation: Observation::NoReply, error }
    }
}

impl From<McpFailure> for Error {
    fn from(failure: McpFailure) -> Self {
        failure.error
    }
}

impl Link {
    /// Prepares a call of `tool`.
    pub(crate) fn tool_call(&self, url: &str, tool: &'static str, arguments: &Value) -> McpCall {
        let params = object(vec![("name", tool.into()), ("arguments", arguments.clone())]);
        self.mcp_call(url, tool, "tools/call", Some(tool), params)
    }

    /// Prepares a request with `method`. `name` is that of the tool.
    pub(crate) fn mcp_call(
        &self,
        url: &str,
        operation: &'static str,
        method: &str,
        name: Option<&str>,
        params: Value,
    ) -> McpCall {
        let id = self.core.rpc_id();
        let client = ClientInfo { name: &self.core.client_name, version: &self.core.client_version };
        let body = to_vec(&mcp::request(&id, method, params, client));
        let mut call = Call::post(operation, url.to_owned(), "application/json, text/event-stream", body);
        call.sends_deadline = false;
        call.headers.push((mcp::VERSION_HEADER, mcp::PROTOCOL_VERSION.to_owned()));
        call.headers.push((mcp::METHOD_HEADER, method.to_owned()));
        call.headers.extend(name.map(|name| (mcp::NAME_HEADER, mcp::name_header(name))));
        McpCall { call, id }
    }

    /// Calls a tool that reads. `read` reads its value, which errors call `what`.
    pub(crate) async fn read_tool<T>(
        &self,
        tool: &'static str,
        arguments: Value,
        budget: &Budget,
        what: &'static str,
        read: impl FnOnce(&mut Object<'_>) -> Result<T, Malformed>,
    ) -> Result<T> {
        let (call, reply) = self.ask_tool(tool, arguments, budget).await?;
        Ok(self.tool_value(&call, &reply, what, read)?)
    }

    /// The part of [`Self::read_tool`] that is the same for every type.
    async fn ask_tool(&self, tool: &'static str, arguments: Value, budget: &Budget) -> Result<(McpCall, Bytes)> {
        self.check_open(tool)?;
        budget
            .run(tool, async {
                let url = self.mcp_url().await?;
                let call = self.tool_call(url.without_trailing_slash(), tool, &arguments);
                let request = self.prepare(&call.call, budget).await?;
                let reply = self.exchange(&call, request).await?;
                Ok((call, reply))
            })
            .await
    }

    /// Adds the headers that every request gets.
    pub(crate) async fn prepare_mcp(&self, call: &McpCall, budget: &Budget) -> Result<HttpRequest> {
        self.prepare(&call.call, budget).await
    }

    /// Sends `request` once and gives the JSON-RPC message that answers it.
    pub(crate) async fn exchange(&self, call: &McpCall, request: HttpRequest) -> Result<Bytes, McpFailure> {
        let operation = call.call.operation;
        let response = self.send(operation, request).await.map_err(McpFailure::no_reply)?;
        if !is_success(response.status) {
            return Err(self.refusal(operation, response).await);
        }
        let kind = response.header("content-type").unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("text/event-stream") {
            message_from_stream(call, response).await.map_err(McpFailure::no_reply)
        } else if kind.eq_ignore_ascii_case(JSON) {
            read_all(operation, response, MCP_REPLY_MAX_BYTES).await.map_err(McpFailure::no_reply)
        } else {
            Err(McpFailure::no_reply(Error::protocol(operation, "it is neither JSON nor an event stream")))
        }
    }

    /// The result in the JSON-RPC message `reply`.
    pub(crate) fn rpc_result<'a>(&self, call: &McpCall, reply: &'a [u8]) -> Result<Json<'a>, McpFailure> {
        match Reply::parse(reply, &call.id).map_err(|error| malformed(call.call.operation, error))? {
            Reply::Error(error) => Err(McpFailure {
                observation: Observation::RpcError { code: error.code },
                error: rpc_error(call.call.operation, &error),
            }),
            Reply::Result(result) => Ok(result),
        }
    }

    /// The value of the tool result in the JSON-RPC message `reply`.
    pub(crate) fn tool_json<'a>(&self, call: &McpCall, reply: &'a [u8]) -> Result<Json<'a>, McpFailure> {
        let operation = call.call.operation;
        match ToolResult::read(self.rpc_result(call, reply)?).map_err(|error| malformed(operation, error))? {
            ToolResult::Value(value) => Ok(value),
            ToolResult::Failed(ToolFailure { code, .. }) => {
                let error = tool_error(operation, code.as_deref());
                Err(McpFailure { observation: Observation::ToolError { code }, error })
            }
        }
    }

    /// The value of the tool result in the JSON-RPC message `reply`, read by `read`; errors call it `what`.
    pub(crate) fn tool_value<T>(
        &self,
        call: &McpCall,
        reply: &[u8],
        what: &'static str,
        read: impl FnOnce(&mut Object<'_>) -> Result<T, Malformed>,
    ) -> Result<T, McpFailure> {
        let value = self.tool_json(call, reply)?.object(what).and_then(|mut object| read(&mut object));
        value.map_err(|error| malformed(call.call.operation, error))
    }

    async fn refusal(&self, operation: &'static str, response: HttpResponse) -> McpFailure {
        let status = response.status;
        let retry_after_ms = retry_after_ms(&response);
        let body = read_all(operation, response, ERROR_BODY_MAX_BYTES).await.unwrap_or_default();
        let error = match error_of_body(&body) {
            Some(error) => rpc_error(operation, &error).with_status(status),
            None => self.error_of(operation, status, &body, retry_after_ms),
        };
        let code = error.remote_code().map(str::to_owned);
        McpFailure { observation: Observation::HttpStatus { status, code }, error }
    }
}

/// The first message of an event stream that answers `call`; everything else in it is a notification.
async fn message_from_stream(call: &McpCall, mut response: HttpResponse) -> Result<Bytes> {
    let operation = call.call.operation;
    let mut decoder = SseDecoder::new(usize::try_from(MCP_REPLY_MAX_BYTES).unwrap_or(usize::MAX));
    while let Some(chunk) = response.body.next_chunk().await.map_err(|error| host_error(operation, error))? {
        decoder.push(chunk);
        while let Some(event) = decoder.next_event().map_err(|error| Error::protocol(operation, error))? {
            if is_answer(event.data.as_bytes(), &call.id) {
                return Ok(event.data.into());
            }
        }
    }
    Err(Error::protocol(operation, "the event stream ended without an answer"))
}

fn malformed(operation: &'static str, error: Malformed) -> McpFailure {
    McpFailure::no_reply(Error::protocol(operation, &error).with_source(error))
}

fn rpc_error(operation: &'static str, error: &RpcError) -> Error {
    let kind = match error.code {
        METHOD_NOT_FOUND | UNSUPPORTED_VERSION => ErrorKind::Unsupported,
        INVALID_PARAMS => ErrorKind::Invalid,
        _ => ErrorKind::Io,
    };
    let words: Vec<&str> =
        error.message.split(|character: char| character.is_whitespace() || character.is_control()).collect();
    let line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let message =
        format!("the node answered with JSON-RPC error {}: {}", error.code, prefix(&line, RPC_MESSAGE_MAX_BYTES));
    Error::new(kind, operation, message)
}

/// The error that a failed tool stands for.
pub(crate) fn tool_error(operation: &'static str, code: Option<&str>) -> Error {
    match code {
        Some(code) => Error::new(kind_of_tool_code(code), operation, format!("the node answered with code {code}"))
            .with_remote_code(code),
        None => Error::new(ErrorKind::Io, operation, "the node answered with an error that has no code"),
    }
}

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const UNSUPPORTED_VERSION: i64 = -32022;

/// What is shown of a server's own words.
const RPC_MESSAGE_MAX_BYTES: usize = 200;
