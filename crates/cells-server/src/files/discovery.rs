//! `GET /v1/capabilities` and `GET /v1/exports` (`files-http.md` §3).

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use cells_protocol::capabilities::{
    ExecutionModel, Export, Exports, FileCapabilities, HarnessEndpoint, PathModel, ProcessCapabilities,
    ProcessOutputCapabilities, ReadOnlyEnforcement, SeqCapabilities, ServerCapabilities, SyncCapabilities,
    TerminalCapabilities, WorkspaceConsistency,
};
use cells_protocol::discovery::ReceiptsAnnouncement;
use cells_protocol::mcp::PROTOCOL_VERSION;

use crate::app::{AppState, MCP_PATH};
use crate::refusal::Refusal;

pub(super) async fn capabilities(
    State(app): State<AppState>,
    headers: HeaderMap,
) -> Result<Json<ServerCapabilities>, Refusal> {
    let principal = app.principals.admit_anyone(&headers)?;
    let aliases = || app.files.exports.keys();
    let execution = app.processes.words(principal);
    Ok(Json(ServerCapabilities {
        version: 1,
        server_id: Some(app.server_id.clone()),
        process_epoch: Some(app.process_epoch.clone()),
        files: FileCapabilities {
            read: aliases().any(|alias| principal.access(alias).is_some()),
            write: aliases().any(|alias| principal.may_write(alias).is_ok()),
            receipts: Some(ReceiptsAnnouncement { version: 1, durable: true }),
            seq: Some(SeqCapabilities { version: 1, sqlite: true, transaction_scope: Some("file".to_owned()) }),
        },
        sync: SyncCapabilities { push: false, protocol_version: None, discovery: None },
        process: ProcessCapabilities {
            exec: execution.is_some(),
            output: execution.map(|_| ProcessOutputCapabilities { version: 1 }),
        },
        terminal: TerminalCapabilities { pty: false },
        harness: Some(HarnessEndpoint {
            enabled: !principal.profiles().is_empty(),
            protocol_version: Some(PROTOCOL_VERSION.to_owned()),
            endpoint: Some(MCP_PATH.to_owned()),
        }),
        execution_model: execution.map_or(ExecutionModel::None, |words| words.execution),
        workspace_consistency: execution.map_or(WorkspaceConsistency::None, |words| words.consistency),
        read_only_enforcement: execution.map_or(ReadOnlyEnforcement::None, |words| words.read_only),
        path_model: execution.map_or(PathModel::None, |words| words.paths),
    }))
}

pub(super) async fn exports(State(app): State<AppState>, headers: HeaderMap) -> Result<Json<Exports>, Refusal> {
    let principal = app.principals.admit_anyone(&headers)?;
    let visible = app.files.exports.iter().filter_map(|(alias, export)| {
        Some(Export {
            alias: alias.clone(),
            access: principal.access(alias)?,
            name_semantics: Some("source".to_owned()),
            strong_revision: export.is_writable(),
        })
    });
    Ok(Json(Exports { version: 1, exports: visible.collect() }))
}
