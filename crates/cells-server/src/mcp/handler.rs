//! The three methods that `rmcp` serves: `server/discover`, `tools/list` and `tools/call`.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::request::Parts;
use cells_protocol::discovery::CAPABILITY_TOOLS;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, DiscoverResult, ErrorData,
    Implementation, ListToolsResult, MetaObject, PaginatedRequestParams, ProtocolVersion, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use super::{discovery, tools};
use crate::app::AppState;
use crate::auth::Principal;
use crate::harness::Caller;
use crate::harness::plugin::ToolError;

/// Serves every request; cheap to clone.
#[derive(Clone)]
pub(super) struct Handler {
    app: AppState,
    tools: Arc<[Tool]>,
}

impl Handler {
    pub(super) fn new(app: AppState) -> Self {
        Self { app, tools: tools::listed().into() }
    }

    async fn call(&self, principal: &Principal, request: CallToolRequestParams) -> Result<Value, ToolError> {
        if CAPABILITY_TOOLS.contains(&request.name.as_ref()) {
            return Ok(discovery::document(&self.app, principal));
        }
        if principal.is_anonymous() {
            return Err(ToolError("EACCES"));
        }
        let caller = Caller { principal: principal.id(), profiles: principal.profiles() };
        self.app.harness.call(caller, &request.name, request.arguments.unwrap_or_default()).await
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build()).with_server_info(node())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Owned(vec![ProtocolVersion::V_2026_07_28])
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let mut result = DiscoverResult::new(vec![ProtocolVersion::V_2026_07_28], capabilities);
        result.meta = Some(MetaObject(discovery::meta(&self.app, principal(&context)?)));
        Ok(result.with_server_info(node()))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut result = ListToolsResult::with_all_items(self.tools.to_vec());
        result.ttl_ms = Some(0);
        result.cache_scope = Some(CacheScope::Private);
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let answer = self.call(principal(&context)?, request).await;
        let (value, constructor): (_, fn(_) -> _) = match answer {
            Ok(value) => (value, CallToolResult::success),
            Err(error) => (json!({"code": error.0, "outcome": "not-committed"}), CallToolResult::error),
        };
        let mut result = constructor(vec![ContentBlock::text(value.to_string())]);
        result.structured_content = Some(value);
        Ok(result.into())
    }
}

/// The caller that the endpoint admitted.
fn principal(context: &RequestContext<RoleServer>) -> Result<&Principal, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    parts
        .and_then(|parts| parts.extensions.get::<Principal>())
        .ok_or_else(|| ErrorData::internal_error("the caller is not known", None))
}

fn node() -> Implementation {
    Implementation::new("cells", env!("CARGO_PKG_VERSION"))
}
