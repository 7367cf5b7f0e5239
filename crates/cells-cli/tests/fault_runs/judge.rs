//! Whether what was reported is what happened.

use std::time::Duration;

use cells_native::cells_driver::{
    Error, FileReceipt, FileRecovery, FileStorage, OperationId, OperationOptions, Outcome, ProcessSession, Result,
};
use cells_testkit::fault_runs::RunFault;
use serde_json::Value;

use crate::{Passed, Planned, scene::Scene};

/// How a mutation was reported to its caller.
#[derive(Debug)]
pub(crate) struct Reported {
    pub(crate) outcome: Outcome,
    /// None when nothing was sent.
    operation_id: Option<OperationId>,
    recovery: Option<Box<FileRecovery>>,
    words: String,
}

impl Reported {
    /// `sent`: the recovery that was handed out before the request left.
    pub(crate) fn new(result: Result<()>, sent: Option<FileRecovery>) -> std::result::Result<Reported, String> {
        let error = match result {
            Ok(()) => {
                let operation_id = sent.map(|sent| sent.operation_id);
                return Ok(Reported { outcome: Outcome::Committed, operation_id, recovery: None, words: "ok".into() });
            }
            Err(error) => error,
        };
        let outcome = error.outcome().ok_or_else(|| format!("an error without an outcome: {error}"))?;
        let recovery = error.file_recovery().cloned();
        if outcome == Outcome::Unknown && recovery.is_none() {
            return Err(format!("an unknown outcome that cannot be asked for: {error}"));
        }
        let operation_id = sent.map(|sent| sent.operation_id);
        Ok(Reported { outcome, operation_id, recovery: recovery.map(Box::new), words: error.to_string() })
    }

    fn is_unknown(&self) -> bool {
        self.outcome == Outcome::Unknown
    }
}

/// The node itself, past the driver and past the faults.
pub(crate) struct Direct {
    http: reqwest::Client,
    endpoint: String,
    api_key: String,
}

impl Direct {
    pub(crate) fn new(endpoint: &str, api_key: &str) -> Direct {
        // A second call finds the provider installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Direct { http, endpoint: endpoint.to_owned(), api_key: api_key.to_owned() }
    }

    /// What the node says became of an operation that does not run any more. None: it never saw it.
    async fn outcome(&self, id: &OperationId) -> std::result::Result<Option<String>, String> {
        let url = format!("{}/v1/fs/work/operations/{id}", self.endpoint);
        for _ in 0..POLLS {
            let reply = self.http.get(&url).bearer_auth(&self.api_key).send().await;
            let reply = reply.map_err(|error| format!("the node does not answer: {error}"))?;
            let (status, body) = (reply.status().as_u16(), reply.text().await.unwrap_or_default());
            let receipt: Value = serde_json::from_str(&body).unwrap_or_default();
            match (status, receipt["outcome"].as_str()) {
                (200, Some("unknown")) if receipt["state"] == "running" => tokio::time::sleep(POLL).await,
                (200, Some(outcome)) => return Ok(Some(outcome.to_owned())),
                (404, _) => return Ok(None),
                _ => return Err(format!("the node answers {status} {body} to the question for a receipt")),
            }
        }
        Err("the operation still runs".into())
    }
}

/// Judges a write after the faults have stopped.
pub(crate) async fn write(
    planned: &Planned,
    scene: &Scene,
    storage: &FileStorage,
    direct: &Direct,
    reported: Reported,
) -> std::result::Result<Passed, String> {
    let settled = match &reported.recovery {
        Some(recovery) => {
            let settled = storage.settle(recovery, OperationOptions::default()).await;
            Some(settled.map_err(|error| format!("{reported:?} cannot be settled: {error}"))?)
        }
        None => None,
    };
    let at_node = match &reported.operation_id {
        Some(id) => direct.outcome(id).await?,
        None => None,
    };
    let effects = scene.effects()?;
    let words = format!(
        "{effects} effects; reported {:?} ({}); the node says {at_node:?}; settled as {settled:?}",
        reported.outcome, reported.words
    );
    let demand = |holds: bool| if holds { Ok(()) } else { Err(words.clone()) };

    match reported.outcome {
        Outcome::Committed => demand(effects == 1 && at_node.as_deref() == Some("committed"))?,
        Outcome::NotCommitted => demand(effects == 0 && at_node.as_deref() != Some("committed"))?,
        Outcome::NotStarted => demand(effects == 0 && at_node.is_none())?,
        Outcome::Unknown => {}
        Outcome::Partial => demand(false)?,
    }
    match at_node.as_deref() {
        Some("committed") => demand(effects == 1)?,
        Some("not-committed") | None => demand(effects == 0)?,
        Some(_) => {}
    }
    match (&settled, at_node.as_deref()) {
        (Some(FileReceipt::Committed { .. }), at_node) => demand(effects == 1 && at_node != Some("not-committed"))?,
        (Some(FileReceipt::NotCommitted { .. }), at_node) => demand(effects == 0 && at_node != Some("committed"))?,
        (Some(FileReceipt::Unknown { .. }), at_node) => {
            demand(!matches!(at_node, Some("committed" | "not-committed")))?;
        }
        (Some(FileReceipt::Running), _) => demand(false)?,
        (None, _) => {}
    }
    if planned.run.fault == RunFault::None {
        demand(reported.outcome == Outcome::Committed)?;
    }
    if let Some(name) = scene.left_over() {
        return Err(format!("{name} is left; {words}"));
    }
    let open = matches!(settled, Some(FileReceipt::Unknown { .. }));
    Ok(Passed { unknown: reported.is_unknown(), open })
}

/// Judges a command after the faults have stopped. `node_is_new`: it was restarted and cannot know.
pub(crate) async fn command(
    planned: &Planned,
    scene: &Scene,
    session: &ProcessSession,
    result: Result<()>,
    node_is_new: bool,
) -> std::result::Result<Passed, String> {
    let outcome = match &result {
        Ok(()) => Outcome::Committed,
        Err(error) => error.outcome().ok_or_else(|| format!("an error without an outcome: {error}"))?,
    };
    let released = session.release(OperationOptions::default()).await;
    let effects = scene.effects()?;
    let told = |result: &Result<(), Error>| result.as_ref().map_or_else(ToString::to_string, |()| "ok".into());
    let words = format!("{effects} effects; reported {outcome:?} ({}); released: {}", told(&result), told(&released));
    let demand = |holds: bool| if holds { Ok(()) } else { Err(words.clone()) };
    match outcome {
        Outcome::Committed => demand(effects == 1)?,
        Outcome::NotStarted | Outcome::NotCommitted => demand(effects == 0)?,
        Outcome::Partial | Outcome::Unknown => {}
    }
    let unknown = outcome == Outcome::Unknown;
    // Only the run of the node that had the process can confirm its end.
    demand(released.is_ok() || (node_is_new && unknown))?;
    if planned.run.fault == RunFault::None {
        demand(outcome == Outcome::Committed)?;
    }
    Ok(Passed { unknown, open: released.is_err() })
}

const POLLS: u32 = 1_000;
const POLL: Duration = Duration::from_millis(10);
