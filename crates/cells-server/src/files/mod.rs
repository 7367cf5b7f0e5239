//! Files over HTTP: capabilities, exports, stat, listings, content, writes and SeqFiles (`files-http.md` §1–5, 7).

pub(crate) mod confine;
mod content;
mod cursor;
mod discovery;
mod entries;
mod exports;
mod listings;
mod mutate;
pub(crate) mod operations;
mod put;
mod range;
mod revision;
mod seq;
pub(crate) mod staging;
mod stat;
pub(crate) mod steps;
mod sweep;
mod workers;

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::HeaderMap;
use axum::routing::{get, post};
use cells_protocol::ids::{Alias, ServerId};
use cells_protocol::limits::JSON_REQUEST_MAX_BYTES;

pub(crate) use self::exports::{Export, Exports, check_state_outside, open_all};

use self::cursor::CursorKey;
use self::listings::Listings;
use self::operations::Operations;
use self::steps::Steps;
use self::workers::Workers;
use crate::ServeError;
use crate::app::AppState;
use crate::auth::Principal;
use crate::refusal::Refusal;

/// What the file routes share.
pub(crate) struct Files {
    pub(crate) exports: Exports,
    pub(crate) operations: Arc<Operations>,
    workers: Workers,
    cursors: CursorKey,
    listings: Listings,
}

impl Files {
    /// Opens the receipts of writes and settles what an earlier process left.
    pub(crate) fn open(exports: Exports, state: &Path, server_id: &ServerId, steps: Steps) -> Result<Self, ServeError> {
        let workers = Workers::new();
        let operations = Operations::open(state, server_id, &exports, workers.clone(), steps)
            .map_err(|error| ServeError::Config(error.to_string()))?;
        Ok(Self { exports, workers, cursors: CursorKey::new()?, listings: Listings::default(), operations })
    }

    /// Removes in the background what an earlier process staged and left. To be called once.
    pub(crate) fn sweep(&self) {
        for export in self.exports.values().filter(|export| export.is_writable()) {
            sweep::start(Arc::clone(export), &self.operations);
        }
    }
}

/// The routes below `/v1` that serve files.
pub(crate) fn router() -> Router<AppState> {
    Router::new()
        .route("/v1/capabilities", get(discovery::capabilities))
        .route("/v1/exports", get(discovery::exports))
        .route("/v1/fs/{alias}/stat", post(stat::stat))
        .route("/v1/fs/{alias}/entries", get(entries::entries))
        .route("/v1/fs/{alias}/content", get(content::content).put(put::put))
        .route("/v1/fs/{alias}/mutate", post(mutate::mutate))
        .route("/v1/fs/{alias}/operations/{id}", get(operations::status))
        .route("/v1/fs/{alias}/operations/{id}/cancel", post(operations::cancel))
        .route("/v1/fs/{alias}/seq/snapshot", post(seq::snapshot))
        .route("/v1/fs/{alias}/seq/transaction", post(seq::transaction))
        .layer(DefaultBodyLimit::max(JSON_REQUEST_MAX_BYTES))
}

/// Authenticates a caller that reads and finds the export. An alias that does not exist and one that the caller may not
/// see give the same answer.
pub(crate) fn admit(
    app: &AppState,
    headers: &HeaderMap,
    alias: &str,
) -> Result<(Principal, Alias, Arc<Export>), Refusal> {
    find(app, app.principals.admit_anyone(headers)?, alias)
}

/// As [`admit`], for callers that have a name.
pub(crate) fn admit_named(
    app: &AppState,
    headers: &HeaderMap,
    alias: &str,
) -> Result<(Principal, Alias, Arc<Export>), Refusal> {
    find(app, app.principals.admit(headers)?, alias)
}

/// As [`admit_named`], for a caller who may write there.
pub(crate) fn admit_write(
    app: &AppState,
    headers: &HeaderMap,
    alias: &str,
) -> Result<(Principal, Alias, Arc<Export>), Refusal> {
    let (principal, alias, export) = admit_named(app, headers, alias)?;
    principal.may_write(&alias)?;
    Ok((principal, alias, export))
}

fn find(app: &AppState, principal: &Principal, alias: &str) -> Result<(Principal, Alias, Arc<Export>), Refusal> {
    let alias = Alias::new(alias).map_err(|_| Refusal::DENIED)?;
    principal.access(&alias).ok_or(Refusal::DENIED)?;
    let export = app.files.exports.get(&alias).ok_or(Refusal::DENIED)?;
    Ok((principal.clone(), alias, Arc::clone(export)))
}
