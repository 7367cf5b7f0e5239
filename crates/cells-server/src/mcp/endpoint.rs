//! `POST /mcp`: who may ask, and what is answered before `rmcp` is.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use cells_protocol::limits::MCP_REQUEST_MAX_BYTES;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use serde_json::value::RawValue;

use super::envelope::{CALL, Message};
use super::handler::Handler;
use crate::app::{AppState, MCP_PATH};
use crate::extract::JsonBody;
use crate::refusal::Refusal;

type Rmcp = StreamableHttpService<Handler, NeverSessionManager>;

#[derive(Clone)]
struct Endpoint {
    app: AppState,
    rmcp: Rmcp,
}

/// The route of the MCP endpoint.
pub(crate) fn router<S: Clone + Send + Sync + 'static>(app: AppState) -> Router<S> {
    let handler = Handler::new(AppState::clone(&app));
    // Every request stands for itself and is answered with one JSON object. Names and origins of the host are not rmcp's
    // to judge: the caller has a key, and the origin is checked here.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MCP_REQUEST_MAX_BYTES)
        .disable_allowed_hosts();
    let rmcp = Rmcp::new(move || Ok(handler.clone()), Arc::new(NeverSessionManager::default()), config);
    Router::new()
        .route(MCP_PATH, post(serve))
        .layer(DefaultBodyLimit::max(MCP_REQUEST_MAX_BYTES))
        .with_state(Endpoint { app, rmcp })
}

async fn serve(
    State(endpoint): State<Endpoint>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<Box<RawValue>>,
) -> Result<Response, Refusal> {
    let principal = endpoint.app.principals.authenticate(&headers)?;
    if !endpoint.app.origins.allows(headers.get(header::ORIGIN)) {
        return Err(Refusal::DENIED);
    }
    principal.check_pin(&headers)?;
    let request = match Message::check(&body, &headers) {
        Ok(Message::Request(request)) => request,
        Ok(Message::Notification) => return Ok(StatusCode::ACCEPTED.into_response()),
        Err(refusal) => return Ok(refusal.into_response()),
    };
    match request.method.as_str() {
        "ping" => {
            let result = json!({"resultType": "complete"});
            Ok(Json(json!({"jsonrpc": "2.0", "id": request.id, "result": result})).into_response())
        }
        CALL | "server/discover" | "tools/list" => {
            let mut forwarded = Request::post(MCP_PATH).extension(principal.clone());
            if let Some(forwarded) = forwarded.headers_mut() {
                *forwarded = headers;
                forwarded.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                forwarded.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
            }
            let body = String::from(Box::<str>::from(body));
            let forwarded = forwarded.body(Body::from(body)).map_err(|_| Refusal::IO)?;
            Ok(endpoint.rmcp.handle(forwarded).await.map(Body::new))
        }
        _ => Ok(request.refuse_method().into_response()),
    }
}
