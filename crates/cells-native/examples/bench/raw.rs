//! The same jobs with reqwest alone: no batch, no check, no retry.

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use cells_driver::{OutputRef, ProfileId};
use cells_testkit::local_node::LocalNode;
use serde::Deserialize;
use serde_json::json;

pub(crate) struct Raw {
    http: reqwest::Client,
    endpoint: String,
    mcp_url: String,
    api_key: String,
}

impl Raw {
    pub(crate) fn new(node: &LocalNode, api_key: &str) -> anyhow::Result<Raw> {
        // A second time it is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Raw {
            http: reqwest::Client::builder().no_proxy().build()?,
            endpoint: node.endpoint().to_owned(),
            mcp_url: node.mcp_url().to_owned(),
            api_key: api_key.to_owned(),
        })
    }

    /// Streams a file; how many bytes came.
    pub(crate) async fn content(&self, path: &str) -> anyhow::Result<u64> {
        let url = format!("{}/v1/fs/export/content?path={path}", self.endpoint);
        let mut reply = self.http.get(url).bearer_auth(&self.api_key).send().await?.error_for_status()?;
        let mut bytes = 0;
        while let Some(piece) = reply.chunk().await? {
            bytes += piece.len() as u64;
        }
        Ok(bytes)
    }

    /// Loads an output page by page: parses the JSON, decodes base64, appends.
    pub(crate) async fn output(&self, profile: &ProfileId, reference: &OutputRef) -> anyhow::Result<u64> {
        let mut output = Vec::new();
        let mut offset = Some(0);
        while let Some(from) = offset {
            let body = json!({
                "jsonrpc": "2.0", "id": from, "method": "tools/call",
                "params": {
                    "name": "harness_command_output",
                    "arguments": {
                        "profileId": profile, "epoch": reference.epoch, "requestId": reference.request_id,
                        "offset": from, "limit": 65_536,
                    },
                    "_meta": {
                        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                        "io.modelcontextprotocol/clientInfo": { "name": "raw", "version": "1" },
                        "io.modelcontextprotocol/clientCapabilities": {},
                    },
                },
            });
            let request = self.http.post(&self.mcp_url).bearer_auth(&self.api_key);
            let reply = request
                .header("content-type", "application/json")
                .header("accept", "application/json, text/event-stream")
                .header("mcp-protocol-version", "2026-07-28")
                .header("mcp-method", "tools/call")
                .header("mcp-name", "harness_command_output")
                .body(body.to_string())
                .send()
                .await?
                .error_for_status()?
                .bytes()
                .await?;
            let reply: Reply = serde_json::from_slice(&reply).context("no page")?;
            let page = reply.result.structured_content;
            STANDARD.decode_vec(page.data, &mut output)?;
            offset = page.next_offset;
        }
        Ok(output.len() as u64)
    }
}

#[derive(Deserialize)]
struct Reply {
    result: CallResult,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult {
    structured_content: Page,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    data: String,
    next_offset: Option<u64>,
}
