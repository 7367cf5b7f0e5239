//! One event for each request: method, route, status, time. Never headers, bodies, paths of files or queries.

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;

pub(crate) async fn requests(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map_or("-", MatchedPath::as_str);
    let status = response.status().as_u16();
    let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    match status {
        500.. => tracing::error!(%method, route, status, ms, "request failed"),
        400.. => tracing::warn!(%method, route, status, ms, "request refused"),
        _ => tracing::debug!(%method, route, status, ms, "request"),
    }
    response
}
