//! `POST /v1/events`: what is answered before the stream (`cells-0.4.md` §2.3).

use std::collections::{BTreeSet, VecDeque};

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use cells_protocol::events::{EventsRequest, Ready};
use cells_protocol::ids::hex;
use cells_protocol::limits::{EVENT_REQUEST_MAX_BYTES, EVENT_TOPICS_MAX};
use serde_json::Value;

use super::frame::Frames;
use super::stream::Stream;
use super::streams::Refused;
use super::topic::Topic;
use crate::app::AppState;
use crate::extract::JsonBody;
use crate::refusal::Refusal;

/// Where the stream is, relative to the root.
pub(crate) const EVENTS_PATH: &str = "/v1/events";

/// The route of the event stream.
pub(crate) fn router() -> Router<AppState> {
    Router::new().route(EVENTS_PATH, post(serve)).layer(DefaultBodyLimit::max(EVENT_REQUEST_MAX_BYTES))
}

async fn serve(
    State(app): State<AppState>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<Value>,
) -> Result<Response, Refusal> {
    let principal = app.principals.admit_anyone(&headers)?;
    let request = parse(body)?;
    let place = app.events.enter(principal.id(), &request.client_id).map_err(|refused| match refused {
        Refused::Stopping => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "EIO"),
        Refused::Limit => Refusal::new(StatusCode::TOO_MANY_REQUESTS, "EVENTS_LIMIT"),
    })?;
    let mut stream_id = [0; 16];
    getrandom::fill(&mut stream_id).map_err(|_| Refusal::IO)?;
    let mut first = Frames::ready(&Ready {
        version: 1,
        stream_id: hex(&stream_id),
        heartbeat_ms: u64::try_from(app.events.heartbeat.as_millis()).unwrap_or(u64::MAX),
        server_id: Some(app.server_id.clone()),
        harness_epoch: (!principal.profiles().is_empty()).then(|| app.harness.epoch().to_string()),
        process_epoch: app.process_epoch.to_string(),
        authorization: Some(principal.authorization().clone()),
    });
    let topics = request.topics.into_iter();
    let topics: VecDeque<Topic> = topics.filter_map(|topic| Topic::open(topic, &app, principal, &mut first)).collect();
    let body = Stream::new(place, topics).start(first);
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// The request, or 400 for a wrong shape and 422 for another version.
fn parse(body: Value) -> Result<EventsRequest, Refusal> {
    let request: EventsRequest = serde_json::from_value(body).map_err(|_| Refusal::INVALID)?;
    let ids: BTreeSet<_> = request.topics.iter().map(|topic| &topic.id).collect();
    if ids.is_empty() || ids.len() != request.topics.len() || ids.len() > EVENT_TOPICS_MAX {
        return Err(Refusal::INVALID);
    }
    if request.version == 1 { Ok(request) } else { Err(Refusal::UNSUPPORTED) }
}
