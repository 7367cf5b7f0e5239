//! `GET /v1/capabilities` and `GET /v1/exports` (`files-http.md` §3).

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{Node, error::Refusal};

pub(super) async fn capabilities(State(node): State<Arc<Node>>, headers: HeaderMap) -> Result<Response, Refusal> {
    if !node.capabilities {
        return Ok(StatusCode::NOT_FOUND.into_response());
    }
    node.authenticate(&headers)?;
    // What plain child processes in the real directories are, in the words of the document.
    let [execution_model, consistency, enforcement, path_model] = match node.execution {
        true => ["trusted-cooperative-host", "cooperative", "best-effort", "host-mapped"],
        false => ["none"; 4],
    };
    let document = json!({
        "version": 1,
        "serverId": node.execution.then_some(&node.server_id),
        "processEpoch": node.process_epoch,
        "files": {
            "read": !node.exports.is_empty(),
            "write": node.exports.values().any(|export| export.writable),
            "seq": { "version": 1, "sqlite": true, "transactionScope": "file" },
        },
        "sync": { "push": false, "protocolVersion": null, "discovery": null },
        "process": { "exec": node.execution },
        "terminal": { "pty": false },
        "harness": { "enabled": false, "protocolVersion": "2026-07-28", "endpoint": "/mcp" },
        "executionModel": execution_model,
        "workspaceConsistency": consistency,
        "readOnlyEnforcement": enforcement,
        "pathModel": path_model,
    });
    Ok(Json(document).into_response())
}

pub(super) async fn exports(State(node): State<Arc<Node>>, headers: HeaderMap) -> Result<Json<Value>, Refusal> {
    node.authenticate(&headers)?;
    let rows = node.exports.iter().map(|(alias, export)| {
        let access = if export.writable { "rw" } else { "ro" };
        json!({ "alias": alias, "access": access, "nameSemantics": "source", "strongRevision": export.writable })
    });
    let rows: Vec<Value> = rows.collect();
    Ok(Json(json!({ "version": 1, "exports": rows })))
}
