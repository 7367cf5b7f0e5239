//! Processes: plain children, each in a process group of its own (`files-http.md` §6).

mod child;
mod request;

use std::{
    collections::BTreeMap,
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Json,
    extract::{Path, State},
    http::HeaderMap,
};
use serde::Serialize;
use tokio::{process::Command, sync::OwnedRwLockWriteGuard};
use tokio_util::sync::CancellationToken;

use super::{
    Node, access,
    error::{Code, Refusal},
};

use request::StartRequest;

/// The status object of §6.2.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Status {
    state: &'static str,
    stdout: String,
    stderr: String,
    code: Option<i32>,
    error: Option<&'static str>,
    truncated: bool,
}

impl Status {
    fn new(state: &'static str) -> Status {
        Status { state, stdout: String::new(), stderr: String::new(), code: None, error: None, truncated: false }
    }
}

/// Every process of this run of the node, by request id.
#[derive(Debug, Default)]
pub(super) struct Processes {
    records: Mutex<BTreeMap<String, Process>>,
}

#[derive(Debug)]
struct Process {
    status: Status,
    stop: CancellationToken,
}

impl Processes {
    fn records(&self) -> MutexGuard<'_, BTreeMap<String, Process>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self, id: &str) -> Option<Status> {
        self.records().get(id).map(|process| process.status.clone())
    }

    fn finish(&self, id: &str, status: Status) {
        if let Some(process) = self.records().get_mut(id) {
            process.status = status;
        }
    }

    /// The token that stops the process, or the status of the one that has this id already.
    fn claim(&self, id: &str, status: Status) -> Result<CancellationToken, Status> {
        let mut records = self.records();
        if let Some(process) = records.get(id) {
            return Err(process.status.clone());
        }
        let stop = CancellationToken::new();
        records.insert(id.to_owned(), Process { status, stop: stop.clone() });
        Ok(stop)
    }

    fn check_room(&self) -> Result<(), Code> {
        if self.records().len() < RECORDS_MAX { Ok(()) } else { Err(Code("PROCESS_LIMIT")) }
    }
}

pub(super) async fn start(
    State(node): State<Arc<Node>>,
    headers: HeaderMap,
    Json(request): Json<StartRequest>,
) -> Result<Json<Status>, Refusal> {
    node.authenticate(&headers)?;
    node.check_epoch(&request.epoch)?;
    let id = request.request_id.clone();
    if !access::is_identifier(&id) {
        return Err(Code("EINVAL").into());
    }
    if request.server_id != node.server_id {
        return Err(Code("SERVER_ID_CHANGED").into());
    }
    if let Some(known) = node.processes.status(&id) {
        return Ok(Json(known));
    }
    node.processes.check_room()?;
    let gate = node.own_gate()?;
    let directory = request.check(&node)?;
    let stop = match node.processes.claim(&id, Status::new("running")) {
        Ok(stop) => stop,
        Err(known) => return Ok(Json(known)),
    };
    let mut command = Command::new(&request.command);
    command
        .args(&request.args)
        .current_dir(directory)
        .env_clear()
        .envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/tmp"), ("LANG", "C.UTF-8")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    match command.spawn() {
        Ok(child) => {
            let limit = Duration::from_millis(request.timeout_ms);
            tokio::spawn(supervise(node.clone(), id.clone(), child, limit, stop, gate));
        }
        Err(_) => {
            drop(gate);
            node.processes.finish(&id, Status { error: Some("SPAWN_FAILED"), ..Status::new("failed") });
        }
    }
    Ok(Json(node.processes.status(&id).ok_or(Code("EIO"))?))
}

/// Follows the child to its end. The status is published after the files are free again.
async fn supervise(
    node: Arc<Node>,
    id: String,
    child: tokio::process::Child,
    limit: Duration,
    stop: CancellationToken,
    gate: OwnedRwLockWriteGuard<()>,
) {
    let status = child::follow(child, limit, &stop).await;
    for export in node.exports.values() {
        export.revisions.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
    drop(gate);
    node.processes.finish(&id, status);
}

pub(super) async fn query(
    State(node): State<Arc<Node>>,
    Path((epoch, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Json<Status>, Refusal> {
    node.check_process(&headers, &epoch, &id)?;
    Ok(Json(node.processes.status(&id).ok_or(Code("PROCESS_UNKNOWN"))?))
}

/// An id that nobody used is taken, so that a start that still arrives runs nothing.
pub(super) async fn cancel(
    State(node): State<Arc<Node>>,
    Path((epoch, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Json<Status>, Refusal> {
    node.check_process(&headers, &epoch, &id)?;
    if node.processes.status(&id).is_none() {
        node.processes.check_room()?;
        // Loses only against a start that came just now; that one is stopped.
        let _ = node.processes.claim(&id, Status::new("cancelled"));
    }
    if let Some(process) = node.processes.records().get(&id) {
        process.stop.cancel();
    }
    Ok(Json(node.processes.status(&id).ok_or(Code("PROCESS_UNKNOWN"))?))
}

impl Node {
    fn check_process(&self, headers: &HeaderMap, epoch: &str, id: &str) -> Result<(), Refusal> {
        self.authenticate(headers)?;
        self.check_epoch(epoch)?;
        if access::is_identifier(id) { Ok(()) } else { Err(Code("EINVAL").into()) }
    }

    fn check_epoch(&self, epoch: &str) -> Result<(), Code> {
        match (self.execution, epoch == self.process_epoch) {
            (false, _) => Err(Code("ECAPABILITY")),
            (true, false) => Err(Code("STALE_SERVER_EPOCH")),
            (true, true) => Ok(()),
        }
    }
}

const RECORDS_MAX: usize = 1_024;
