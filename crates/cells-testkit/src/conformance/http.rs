//! Plain HTTP to the node.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Client, Method, RequestBuilder, StatusCode, header::HeaderMap, redirect::Policy};
use serde_json::{Value, json};

use super::Target;

pub(super) struct Http {
    client: Client,
    endpoint: String,
    username: Option<String>,
    secret: String,
}

impl Http {
    pub(super) fn new(target: &Target) -> Result<Http, String> {
        let url = reqwest::Url::parse(&target.url).map_err(|error| format!("the URL of the node is none: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
            return Err("the URL of the node must be http:// or https://, without query or fragment".into());
        }
        // A second time it is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().redirect(Policy::none()).timeout(PATIENCE).build();
        Ok(Http {
            client: client.map_err(|error| format!("no HTTP client: {error}"))?,
            endpoint: target.url.trim_end_matches('/').to_owned(),
            username: target.username.clone(),
            secret: target.secret.clone(),
        })
    }

    /// A request with the credential of the target.
    pub(super) fn request(&self, method: Method, route: &str) -> RequestBuilder {
        let request = self.anonymous(method, route);
        match &self.username {
            Some(username) => request.basic_auth(username, Some(&self.secret)),
            None => request.bearer_auth(&self.secret),
        }
    }

    pub(super) fn anonymous(&self, method: Method, route: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{route}", self.endpoint))
    }

    pub(super) async fn get(&self, route: &str) -> Result<Reply, String> {
        Reply::of(self.request(Method::GET, route)).await
    }

    /// A request of the MCP endpoint; of a tool with its name.
    pub(super) fn mcp(&self, method: &str, tool: Option<&str>) -> RequestBuilder {
        let mut params = json!({"_meta": {
            "io.modelcontextprotocol/protocolVersion": MCP_VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "cells-conformance", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }});
        let mut request = self.request(Method::POST, "/mcp").header("content-type", "application/json");
        request = request.header("mcp-protocol-version", MCP_VERSION).header("mcp-method", method);
        if let Some(tool) = tool {
            params["name"] = tool.into();
            request = request.header("mcp-name", tool);
        }
        request.body(json!({"jsonrpc": "2.0", "id": "q-0", "method": method, "params": params}).to_string())
    }

    pub(super) async fn post(&self, route: &str, body: &Value) -> Result<Reply, String> {
        let request = self.request(Method::POST, route).header("content-type", "application/json");
        Reply::of(request.header("x-operation-id", unique()).body(body.to_string())).await
    }
}

/// A reply that was read to its end.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The body, when it is JSON; else null.
    pub(super) json: Value,
}

impl Reply {
    pub(super) async fn of(request: RequestBuilder) -> Result<Reply, String> {
        let failed = |error: reqwest::Error| {
            // Without the URL: it may name what nobody should read in a log.
            let error = error.without_url();
            let cause = std::error::Error::source(&error).map(|cause| format!(" ({cause})")).unwrap_or_default();
            format!("{error}{cause}")
        };
        let reply = request.send().await.map_err(failed)?;
        let (status, headers) = (reply.status(), reply.headers().clone());
        let body = reply.bytes().await.map_err(failed)?;
        let json = serde_json::from_slice(&body).unwrap_or_default();
        Ok(Reply { status, headers, body, json })
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Short enough for a line.
    pub(super) fn shown(&self) -> String {
        let text: String = String::from_utf8_lossy(&self.body).chars().take(200).collect();
        format!("{} {}", self.status.as_u16(), text.replace(['\n', '\r'], " "))
    }
}

/// An id that nobody used: 32 hex digits.
pub(super) fn unique() -> String {
    let mut bytes = [0; 16];
    // Without random bytes an id repeats, and the node refuses it: the case fails and says so.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Percent-encodes a value of a query.
pub(super) fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// The revision of MCP that nodes speak.
pub(super) const MCP_VERSION: &str = "2026-07-28";

/// Longer than any deadline of a node.
const PATIENCE: Duration = Duration::from_secs(40);
