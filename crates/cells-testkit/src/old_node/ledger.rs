//! Receipts, in memory (`files-http.md` §5.1, §5.4, §5.5).

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tokio::{sync::OwnedRwLockReadGuard, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Node, access,
    error::{Code, Refusal},
};

/// What is known of a write.
#[derive(Debug, Clone)]
pub(super) enum Receipt {
    Committed(Value),
    NotCommitted(Code),
    /// The deadline came first; the work was asked to stop.
    TimedOut,
    Running,
}

impl Receipt {
    fn body(&self) -> Value {
        match self {
            Receipt::Committed(result) => json!({ "outcome": "committed", "result": result }),
            Receipt::NotCommitted(code) => json!({ "outcome": "not-committed", "code": code.0 }),
            Receipt::TimedOut => json!({ "outcome": "unknown", "code": "ETIMEDOUT" }),
            Receipt::Running => json!({ "outcome": "unknown", "state": "running" }),
        }
    }
}

/// The reply of the write itself; the operations routes always answer 200.
impl IntoResponse for Receipt {
    fn into_response(self) -> Response {
        let status = match &self {
            Receipt::Committed(_) | Receipt::Running => StatusCode::OK,
            Receipt::NotCommitted(code) => code.status(),
            Receipt::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        };
        (status, Json(self.body())).into_response()
    }
}

/// Every operation that was seen, by alias and operation id.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    records: Mutex<BTreeMap<(String, String), Record>>,
}

#[derive(Debug)]
struct Record {
    created: Instant,
    state: RecordState,
}

#[derive(Debug)]
enum RecordState {
    Running(CancellationToken),
    Finished(Receipt),
}

impl Ledger {
    fn records(&self) -> MutexGuard<'_, BTreeMap<(String, String), Record>> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.retain(|_, record| {
            matches!(record.state, RecordState::Running(_)) || record.created.elapsed() < RETENTION
        });
        records
    }

    /// Takes the id for good. Cancelling the token asks the work to stop.
    fn claim(&self, key: &(String, String)) -> Result<CancellationToken, Code> {
        let mut records = self.records();
        if records.contains_key(key) {
            return Err(Code("OPERATION_ID_REUSED"));
        }
        if records.len() >= RECORDS_MAX {
            return Err(Code("OPERATION_LIMIT"));
        }
        let stop = CancellationToken::new();
        let state = RecordState::Running(stop.clone());
        records.insert(key.clone(), Record { created: Instant::now(), state });
        Ok(stop)
    }

    fn finish(&self, key: &(String, String), receipt: Receipt) {
        if let Some(record) = self.records().get_mut(key) {
            record.state = RecordState::Finished(receipt);
        }
    }

    fn receipt(&self, key: &(String, String)) -> Option<Receipt> {
        self.records().get(key).map(|record| match &record.state {
            RecordState::Running(_) => Receipt::Running,
            RecordState::Finished(receipt) => receipt.clone(),
        })
    }
}

/// A claimed write while it runs.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) stop: CancellationToken,
    pub(super) deadline: Instant,
}

impl Operation {
    /// An error when the work should end here without an effect.
    pub(super) fn check(&self) -> Result<(), Code> {
        match (Instant::now() >= self.deadline, self.stop.is_cancelled()) {
            (true, _) => Err(Code("ETIMEDOUT")),
            (false, true) => Err(Code("ECANCELLED")),
            (false, false) => Ok(()),
        }
    }
}

/// The operation id of a write. Missing or malformed: `EINVAL`.
pub(super) fn operation_id(headers: &HeaderMap) -> Result<String, Code> {
    let id = headers.get("x-operation-id").and_then(|value| value.to_str().ok());
    id.filter(|id| access::is_identifier(id)).map(str::to_owned).ok_or(Code("EINVAL"))
}

/// Claims the id and does the work in a task of its own, so that a client that goes away does not stop it.
///
/// # Errors
/// When the id cannot be claimed: then nothing happened.
pub(super) async fn perform<F>(
    node: Arc<Node>,
    key: (String, String),
    gate: OwnedRwLockReadGuard<()>,
    deadline: Instant,
    work: impl FnOnce(Operation) -> F,
) -> Result<Receipt, Refusal>
where
    F: Future<Output = Result<Value, Code>> + Send + 'static,
{
    let stop = node.ledger.claim(&key)?;
    let work = work(Operation { stop: stop.clone(), deadline });
    let task = tokio::spawn(async move {
        let receipt = match work.await {
            Ok(result) => Receipt::Committed(result),
            Err(code) => Receipt::NotCommitted(code),
        };
        // Who sees the receipt finds the gate open.
        drop(gate);
        node.ledger.finish(&key, receipt.clone());
        receipt
    });
    match tokio::time::timeout_at(deadline, task).await {
        Ok(Ok(receipt)) => Ok(receipt),
        Ok(Err(_)) => Err(Code("EIO").into()),
        Err(_) => {
            stop.cancel();
            Ok(Receipt::TimedOut)
        }
    }
}

pub(super) async fn query(
    State(node): State<Arc<Node>>,
    Path(key): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Json<Value>, Refusal> {
    check(&node, &key, &headers)?;
    let receipt = node.ledger.receipt(&key).ok_or(Code("OPERATION_UNKNOWN"))?;
    Ok(Json(receipt.body()))
}

/// An id that nobody used is taken, as a fence before a write that may still arrive.
pub(super) async fn cancel(
    State(node): State<Arc<Node>>,
    Path(key): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Json<Value>, Refusal> {
    check(&node, &key, &headers)?;
    match node.ledger.claim(&key) {
        Ok(_) => node.ledger.finish(&key, Receipt::NotCommitted(Code("ECANCELLED"))),
        Err(Code("OPERATION_LIMIT")) => return Err(Code("OPERATION_UNKNOWN").into()),
        Err(_) => {
            if let Some(RecordState::Running(stop)) = node.ledger.records().get(&key).map(|record| &record.state) {
                stop.cancel();
            }
        }
    }
    let receipt = node.ledger.receipt(&key).ok_or(Code("OPERATION_UNKNOWN"))?;
    Ok(Json(receipt.body()))
}

fn check(node: &Node, (alias, id): &(String, String), headers: &HeaderMap) -> Result<(), Refusal> {
    node.readable(headers, alias)?;
    if access::is_identifier(id) { Ok(()) } else { Err(Code("EINVAL").into()) }
}

const RECORDS_MAX: usize = 4_096;
const RETENTION: Duration = Duration::from_secs(3_600);
