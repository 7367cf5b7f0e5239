//! Where a node is reached and what it is (`cells-0.4.md` §1.1, `files-http.md` §3).

use std::sync::Arc;

use cells_protocol::capabilities::{Exports, ServerCapabilities};
use cells_protocol::discovery::{CAPABILITY_TOOLS, CellsDescriptor, find_document};
use cells_protocol::endpoint::Endpoint;
use cells_protocol::error::ErrorKind;
use cells_protocol::ids::ServerId;
use cells_protocol::json::{Malformed, object};
use cells_protocol::limits::JSON_REPLY_MAX_BYTES;
use cells_protocol::mcp::ToolPage;
use serde_json::Value;

use crate::budget::Budget;
use crate::cancellation::OperationOptions;
use crate::error::{Error, PROTOCOL, Result};
use crate::mcp::McpCall;
use crate::node::Link;
use crate::transport::Call;

impl Link {
    /// [`Client::discover`](crate::Client::discover).
    pub(crate) async fn discover(
        &self,
        metadata: Option<Value>,
        options: &OperationOptions,
    ) -> Result<Arc<CellsDescriptor>> {
        let budget = self.budget(options);
        let descriptor = budget.run(DISCOVER, self.ask_what_it_is(metadata, &budget)).await?;
        self.node.descriptor.put(Arc::clone(&descriptor));
        Ok(descriptor)
    }

    /// [`Client::capabilities`](crate::Client::capabilities).
    pub(crate) async fn capabilities(&self, options: &OperationOptions) -> Result<ServerCapabilities> {
        self.check_open(CAPABILITIES)?;
        let budget = self.budget(options);
        budget
            .run(CAPABILITIES, async {
                let root = self.file_root().await?;
                match self.get_capabilities(&root, true, &budget).await? {
                    Some(capabilities) => Ok(capabilities),
                    None => Ok(ServerCapabilities::files_only(&self.get_exports(&root, &budget).await?)),
                }
            })
            .await
    }

    /// [`Client::exports`](crate::Client::exports).
    pub(crate) async fn exports(&self, options: &OperationOptions) -> Result<Exports> {
        self.check_open(EXPORTS)?;
        let budget = self.budget(options);
        budget.run(EXPORTS, async { self.exports_within(&budget).await }).await
    }

    /// The exports that this connection may see.
    pub(crate) async fn exports_within(&self, budget: &Budget) -> Result<Exports> {
        self.get_exports(&self.file_root().await?, budget).await
    }

    /// How the node keeps the receipts of writes, as it says now.
    pub(crate) async fn kept(&self, budget: &Budget) -> Result<Kept> {
        let capabilities = self.get_capabilities(&self.file_root().await?, true, budget).await?;
        Ok(capabilities.map_or_else(Kept::default, |capabilities| Kept {
            durable: capabilities.files.has_durable_receipts(),
            process_epoch: capabilities.process_epoch,
        }))
    }

    /// The root of the file routes.
    pub(crate) async fn file_root(&self) -> Result<Endpoint> {
        if !self.node.binding.is_mcp_url() {
            return Ok(self.node.binding.endpoint.clone());
        }
        let descriptor = self.descriptor().await?;
        Endpoint::parse(&descriptor.document.http_endpoint).map_err(|error| Error::protocol(DISCOVER, error))
    }

    /// The MCP URL.
    pub(crate) async fn mcp_url(&self) -> Result<Endpoint> {
        self.find_mcp_url(true).await
    }

    /// What the node is, as it said at the last discovery of this client; asked if it was not asked before.
    pub(crate) async fn descriptor(&self) -> Result<Arc<CellsDescriptor>> {
        let link = self.clone();
        let fetch = || async move {
            let budget = link.core.budget(&OperationOptions::default());
            budget.run(DISCOVER, link.ask_what_it_is(None, &budget)).await
        };
        self.node.descriptor.get(|| Box::pin(fetch())).await
    }

    async fn find_mcp_url(&self, pinned: bool) -> Result<Endpoint> {
        if self.node.binding.is_mcp_url() {
            return Ok(self.node.binding.endpoint.clone());
        }
        let link = self.clone();
        let fetch = || async move {
            let budget = link.core.budget(&OperationOptions::default());
            let root = &link.node.binding.endpoint;
            let capabilities = budget.run(CAPABILITIES, link.get_capabilities(root, pinned, &budget)).await?;
            let announced = capabilities.and_then(|document| document.harness).and_then(|harness| harness.endpoint);
            let (base, reference) = match &announced {
                Some(reference) => (root.clone(), reference.as_str()),
                None => (root.directory(), "mcp"),
            };
            base.resolve(reference).map_err(|error| Error::protocol(CAPABILITIES, format!("harness.endpoint: {error}")))
        };
        self.node.mcp.get(|| Box::pin(fetch())).await
    }

    /// `GET /v1/capabilities`; `None` when the node does not have this route.
    async fn get_capabilities(
        &self,
        root: &Endpoint,
        pinned: bool,
        budget: &Budget,
    ) -> Result<Option<ServerCapabilities>> {
        let mut call = Call::get(CAPABILITIES, format!("{}/v1/capabilities", root.without_trailing_slash()));
        call.pinned = pinned;
        match self.fetch(&call, JSON_REPLY_MAX_BYTES, budget).await {
            Ok(body) => Ok(Some(parsed(CAPABILITIES, ServerCapabilities::parse(&body))?)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn get_exports(&self, root: &Endpoint, budget: &Budget) -> Result<Exports> {
        let call = Call::get(EXPORTS, format!("{}/v1/exports", root.without_trailing_slash()));
        parsed(EXPORTS, Exports::parse(&self.fetch(&call, JSON_REPLY_MAX_BYTES, budget).await?))
    }

    /// The discovery algorithm. None of its requests carries the headers of an authorization.
    async fn ask_what_it_is(&self, metadata: Option<Value>, budget: &Budget) -> Result<Arc<CellsDescriptor>> {
        let mcp = self.find_mcp_url(false).await?;
        let metadata = match metadata {
            Some(metadata) => metadata,
            None => self.server_discover(&mcp, budget).await?,
        };
        if let Some((document, legacy)) = find_document(&metadata) {
            return descriptor_from(document, &mcp, legacy);
        }
        let listed = self.listed_capability_tool(&mcp, budget).await?;
        let tool = listed.unwrap_or(CAPABILITY_TOOLS[0]);
        let call = self.tool_call(mcp.without_trailing_slash(), tool, &object(Vec::new()));
        let reply = self.ask_unpinned(call, budget).await?;
        let document = self.tool_json(&reply.call, &reply.body)?.into_value();
        descriptor_from(&document, &mcp, tool != CAPABILITY_TOOLS[0])
    }

    async fn server_discover(&self, mcp: &Endpoint, budget: &Budget) -> Result<Value> {
        let call = self.mcp_call(mcp.without_trailing_slash(), DISCOVER, "server/discover", None, object(Vec::new()));
        let reply = self.ask_unpinned(call, budget).await?;
        let result = self.rpc_result(&reply.call, &reply.body)?.object("the result of server/discover");
        parsed(DISCOVER, result.and_then(|mut result| result.value("_meta")))
    }

    /// The newest capability tool that the node lists.
    async fn listed_capability_tool(&self, mcp: &Endpoint, budget: &Budget) -> Result<Option<&'static str>> {
        let mut names = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..TOOL_PAGES_MAX {
            let params = object(cursor.iter().map(|cursor| ("cursor", cursor.as_str().into())).collect());
            let call = self.mcp_call(mcp.without_trailing_slash(), DISCOVER, "tools/list", None, params);
            let reply = self.ask_unpinned(call, budget).await?;
            let result = self.rpc_result(&reply.call, &reply.body)?.object("the list of tools");
            let page = parsed(DISCOVER, result.and_then(|mut result| ToolPage::read(&mut result)))?;
            names.extend(page.tools.into_iter().map(|tool| tool.name));
            if names.iter().any(|name| name == CAPABILITY_TOOLS[0]) || page.next_cursor.is_none() {
                return Ok(CAPABILITY_TOOLS.into_iter().find(|tool| names.iter().any(|name| name == tool)));
            }
            cursor = page.next_cursor;
        }
        Err(Error::protocol(DISCOVER, "the list of tools does not end"))
    }

    async fn ask_unpinned(&self, mut call: McpCall, budget: &Budget) -> Result<Answer> {
        call.unpin();
        let request = self.prepare_mcp(&call, budget).await?;
        let body = self.exchange(&call, request).await?;
        Ok(Answer { call, body })
    }
}

/// How a node keeps the receipts of writes.
#[derive(Default)]
pub(crate) struct Kept {
    /// They survive a restart.
    pub(crate) durable: bool,
    /// The process that has them, if the node said so.
    pub(crate) process_epoch: Option<ServerId>,
}

/// A JSON-RPC message, and the request that it answers.
struct Answer {
    call: McpCall,
    body: bytes::Bytes,
}

fn descriptor_from(document: &Value, mcp: &Endpoint, legacy: bool) -> Result<Arc<CellsDescriptor>> {
    CellsDescriptor::from_document(document, mcp, legacy).map(Arc::new).map_err(|error| {
        Error::new(ErrorKind::Io, PROTOCOL, error.to_string()).with_reason(DISCOVERY_INVALID).with_source(error)
    })
}

/// A parsed reply, or the error of a reply that is not what the protocol says.
pub(crate) fn parsed<T>(operation: &'static str, result: Result<T, Malformed>) -> Result<T> {
    result.map_err(|error| Error::protocol(operation, &error).with_source(error))
}

const DISCOVER: &str = "discover";
const CAPABILITIES: &str = "capabilities";
const EXPORTS: &str = "exports";

/// Reason of a discovery document that is present but wrong.
const DISCOVERY_INVALID: &str = "DISCOVERY_INVALID";

/// A list of tools with more pages than this is taken for one that never ends.
const TOOL_PAGES_MAX: usize = 64;
