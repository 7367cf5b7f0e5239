//! Files over HTTP: capabilities, exports, stat, listings and content (`files-http.md` §1–4).

pub(crate) mod confine;
mod content;
mod cursor;
mod discovery;
mod entries;
mod exports;
mod range;
mod revision;
mod stat;
mod workers;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::HeaderMap;
use axum::routing::{get, post};
use cells_protocol::ids::Alias;
use cells_protocol::limits::JSON_REQUEST_MAX_BYTES;

pub(crate) use self::exports::{Export, Exports, check_state_outside, open_all};

use self::cursor::CursorKey;
use self::workers::Workers;
use crate::ServeError;
use crate::app::AppState;
use crate::auth::Principal;
use crate::refusal::Refusal;

/// What the file routes share.
pub(crate) struct Files {
    pub(crate) exports: Exports,
    workers: Workers,
    cursors: CursorKey,
}

impl Files {
    pub(crate) fn new(exports: Exports) -> Result<Self, ServeError> {
        Ok(Self { exports, workers: Workers::new(), cursors: CursorKey::new()? })
    }
}

/// The routes below `/v1` that serve files.
pub(crate) fn router() -> Router<AppState> {
    Router::new()
        .route("/v1/capabilities", get(discovery::capabilities))
        .route("/v1/exports", get(discovery::exports))
        .route("/v1/fs/{alias}/stat", post(stat::stat))
        .route("/v1/fs/{alias}/entries", get(entries::entries))
        .route("/v1/fs/{alias}/content", get(content::content))
        .layer(DefaultBodyLimit::max(JSON_REQUEST_MAX_BYTES))
}

/// Authenticates a caller that reads and finds the export. An alias that does not exist and one that the caller may not
/// see give the same answer.
fn admit(app: &AppState, headers: &HeaderMap, alias: &str) -> Result<(Principal, Alias, Arc<Export>), Refusal> {
    let principal = app.principals.admit_anyone(headers)?;
    let alias = Alias::new(alias).map_err(|_| Refusal::DENIED)?;
    principal.access(&alias).ok_or(Refusal::DENIED)?;
    let export = app.files.exports.get(&alias).ok_or(Refusal::DENIED)?;
    Ok((principal.clone(), alias, Arc::clone(export)))
}
