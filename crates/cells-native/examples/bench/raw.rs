//! The same jobs with reqwest alone: no batch, no check, no retry.

use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use cells_driver::{OutputRef, ProfileId};
use cells_testkit::local_node::LocalNode;
use futures::{StreamExt as _, TryStreamExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::io::ReaderStream;

pub(crate) struct Raw {
    http: reqwest::Client,
    endpoint: String,
    mcp_url: String,
    api_key: String,
    operations: AtomicU64,
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
            operations: AtomicU64::new(0),
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

    /// One lookup a request, 64 at a time; how many files there are.
    pub(crate) async fn stat_each(&self, paths: &[String]) -> anyhow::Result<u64> {
        let url = format!("{}/v1/fs/export/stat", self.endpoint);
        let url = &url;
        let lookups = paths.iter().map(|path| async move {
            let body = json!({ "paths": [path] }).to_string();
            let request = self.http.post(url).bearer_auth(&self.api_key).header("content-type", "application/json");
            let reply = request.body(body).send().await?.error_for_status()?.bytes().await?;
            let reply: Value = serde_json::from_slice(&reply)?;
            anyhow::Ok(u64::from(reply["results"][0]["stat"].is_object()))
        });
        futures::stream::iter(lookups).buffer_unordered(64).try_fold(0, |sum, one| async move { Ok(sum + one) }).await
    }

    /// Streams a file from disk into a new file and removes that; how many bytes the node has got.
    pub(crate) async fn put(&self, path: &str, from: &Path) -> anyhow::Result<u64> {
        let file = tokio::fs::File::open(from).await?;
        let size = file.metadata().await?.len();
        let body = reqwest::Body::wrap_stream(ReaderStream::with_capacity(file, 262_144));
        let request = self.http.put(format!("{}/v1/fs/export/content?path={path}", self.endpoint));
        let request = request.bearer_auth(&self.api_key).header("x-operation-id", self.operation_id());
        let request = request.header("if-none-match", "*").header("content-length", size).body(body);
        let receipt: Value = serde_json::from_slice(&request.send().await?.error_for_status()?.bytes().await?)?;
        let request = self.http.post(format!("{}/v1/fs/export/mutate", self.endpoint));
        let request = request.bearer_auth(&self.api_key).header("x-operation-id", self.operation_id());
        let request = request.header("content-type", "application/json");
        let body = json!({ "action": "remove", "path": path }).to_string();
        request.body(body).send().await?.error_for_status()?.bytes().await?;
        receipt["result"]["size"].as_u64().context("no receipt")
    }

    fn operation_id(&self) -> String {
        format!("raw-{}", self.operations.fetch_add(1, Ordering::Relaxed))
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
