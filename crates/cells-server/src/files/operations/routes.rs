//! `GET /v1/fs/{alias}/operations/{id}` and `POST …/cancel` (`files-http.md` §5.4–5.5).

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use cells_protocol::file_receipts::FileReceipt;

use super::OperationKey;
use crate::app::AppState;
use crate::files::admit_named;
use crate::refusal::Refusal;

pub(crate) async fn status(
    State(app): State<AppState>,
    Path((alias, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Json<FileReceipt>, Refusal> {
    let key = key(&app, &headers, &alias, &id)?;
    let receipt = app.files.operations.status(key).await?;
    receipt.map(Json).ok_or(Refusal::OPERATION_UNKNOWN)
}

pub(crate) async fn cancel(
    State(app): State<AppState>,
    Path((alias, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Json<FileReceipt>, Refusal> {
    let key = key(&app, &headers, &alias, &id)?;
    app.files.operations.cancel(key).await.map(Json)
}

fn key(app: &AppState, headers: &HeaderMap, alias: &str, id: &str) -> Result<OperationKey, Refusal> {
    let (principal, alias, _) = admit_named(app, headers, alias)?;
    OperationKey::new(principal.id(), &alias, id)
}
