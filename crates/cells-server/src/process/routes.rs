//! The routes below `/v1/processes`.

use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::HeaderMap;
use axum::routing::{get, post};
use axum::{Json, Router};
use cells_protocol::ids::is_id;
use cells_protocol::limits::{JSON_REQUEST_MAX_BYTES, PROCESS_OUTPUT_WAIT_MS};
use cells_protocol::process::{ProcessOutput, ProcessStart, ProcessStatus};
use serde::Deserialize;
use tokio::task::spawn_blocking;

use super::request::Plan;
use super::{Key, PROCESS_UNKNOWN, SERVER_ID_CHANGED};
use crate::app::{App, AppState};
use crate::auth::Principal;
use crate::extract::{JsonBody, StrictQuery};
use crate::refusal::Refusal;

pub(crate) fn router() -> Router<AppState> {
    Router::new()
        .route("/v1/processes", post(start))
        .route("/v1/processes/{epoch}/{requestId}", get(status))
        .route("/v1/processes/{epoch}/{requestId}/cancel", post(cancel))
        .route("/v1/processes/{epoch}/{requestId}/output", get(output))
        .layer(DefaultBodyLimit::max(JSON_REQUEST_MAX_BYTES))
}

/// Answers as soon as the process is accepted. The same request id never starts a second process.
async fn start(
    State(app): State<AppState>,
    headers: HeaderMap,
    JsonBody(start): JsonBody<ProcessStart>,
) -> Result<Json<ProcessStatus>, Refusal> {
    let principal = caller(&app, &headers)?;
    let processes = &app.processes;
    let key = admit(&app, &principal, &start.epoch, start.request_id.clone())?;
    if start.server_id != app.server_id.as_str() {
        return Err(SERVER_ID_CHANGED);
    }
    if let Some(record) = processes.find(&key) {
        return Ok(Json(record.status()));
    }
    processes.check_room()?;
    let check = {
        let app = AppState::clone(&app);
        move || Plan::new(start, &principal, &app.files.exports)
    };
    let plan = spawn_blocking(check).await.map_err(|_| Refusal::IO)??;
    Ok(Json(processes.launch(key, plan)?.status()))
}

async fn status(
    State(app): State<AppState>,
    Path((epoch, request_id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Json<ProcessStatus>, Refusal> {
    let key = admit(&app, &caller(&app, &headers)?, &epoch, request_id)?;
    Ok(Json(app.processes.find(&key).ok_or(PROCESS_UNKNOWN)?.status()))
}

async fn cancel(
    State(app): State<AppState>,
    Path((epoch, request_id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Json<ProcessStatus>, Refusal> {
    let key = admit(&app, &caller(&app, &headers)?, &epoch, request_id)?;
    Ok(Json(app.processes.cancel(key)?.status()))
}

/// Where the caller is in the two streams.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Offsets {
    stdout: u64,
    stderr: u64,
}

/// An addition to the specification: output while the process runs.
async fn output(
    State(app): State<AppState>,
    Path((epoch, request_id)): Path<(String, String)>,
    StrictQuery(Offsets { stdout, stderr }): StrictQuery<Offsets>,
    headers: HeaderMap,
) -> Result<Json<ProcessOutput>, Refusal> {
    let key = admit(&app, &caller(&app, &headers)?, &epoch, request_id)?;
    let record = app.processes.find(&key).ok_or(PROCESS_UNKNOWN)?;
    let wait = Duration::from_millis(PROCESS_OUTPUT_WAIT_MS);
    let output = match tokio::time::timeout(wait, record.output(stdout, stderr)).await {
        Ok(output) => output,
        Err(_) => record.output_now(stdout, stderr),
    };
    output.map(Json).ok_or(Refusal::INVALID)
}

fn caller(app: &App, headers: &HeaderMap) -> Result<Principal, Refusal> {
    Ok(app.principals.admit(headers)?.clone())
}

/// What every route checks after it knows who calls.
fn admit(app: &App, principal: &Principal, epoch: &str, request_id: String) -> Result<Key, Refusal> {
    app.processes.admit(principal, epoch)?;
    if is_id(&request_id) { Ok((principal.id().clone(), request_id)) } else { Err(Refusal::INVALID) }
}
