//! The steps in which a reply or a node is lost.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context as _, bail, ensure};
use cells_driver::{ListOptions, MutationOptions, OperationOptions, Outcome, Recovery};
use cells_testkit::fault_proxy::{Fault, Plan, Rule};
use rusqlite::{Connection, OpenFlags};

use crate::{
    agent::{Session, Watch},
    expect_equal,
    stage::Stage,
};

pub(crate) async fn lost_reply(stage: &Stage) -> anyhow::Result<String> {
    let session = Session::create(stage).await?;
    let mut watch = Watch::open(&session).await?;
    let prompt = "say This turn happens once, although nobody hears of it.";
    stage.proxy.set_plan(Plan::new([Rule::tool("harness_turn", Fault::ResetAfter).nth(1)]));
    stage.count();
    let lost = session.harness.turn(&session.profile, &session.id, prompt, MutationOptions::default()).await;
    stage.proxy.set_plan(Plan::default());
    let Err(error) = lost else { bail!("the reply was dropped, but the turn has a result") };
    expect_equal("outcome", error.outcome(), Some(Outcome::Unknown))?;
    let recovery = error.recovery().context("the error does not say how to ask")?.clone();
    expect_equal("request id", error.request_id(), Some(&recovery.request_id))?;

    watch.until_completed(&session, |_| bail!("the agent asked although nothing needs approval")).await?;
    let receipt = session.harness.operation(&recovery, OperationOptions::default()).await?;
    expect_equal("outcome of the receipt", receipt.outcome, Outcome::Committed)?;
    let sent = stage.counts().tools.get("harness_turn").copied().unwrap_or_default();
    expect_equal("turns sent", sent, 1)?;
    let request_id = recovery.request_id.as_str();
    expect_equal("receipts of the request", count_receipts(&stage.state, request_id)?.of_request, 1)?;
    expect_equal("user messages", session.messages("userMessage").await?, vec![prompt.to_owned()])?;
    Ok(format!("unknown {request_id} → committed; 1 turn sent, 1 receipt, 1 user message"))
}

pub(crate) async fn restart(stage: &mut Stage) -> anyhow::Result<String> {
    let session = Session::create(stage).await?;
    let mut watch = Watch::open(&session).await?;
    let before = "say This turn is committed before the node is killed.";
    let kept = session.harness.turn(&session.profile, &session.id, before, MutationOptions::default()).await?;
    watch.until_completed(&session, |_| bail!("the agent asked although nothing needs approval")).await?;

    // Another session, whose turn has no receipt yet when the node dies.
    let open = Session::create(stage).await?;
    let dispatched = Arc::new(Mutex::new(None));
    let note = dispatched.clone();
    let options = MutationOptions {
        on_dispatch: Some(Box::new(move |recovery: Recovery| {
            *note.lock().unwrap_or_else(PoisonError::into_inner) = Some(recovery);
        })),
        ..MutationOptions::default()
    };
    let (harness, profile, id) = (open.harness.clone(), open.profile.clone(), open.id.clone());
    let call =
        tokio::spawn(async move { harness.turn(&profile, &id, "slow-receipt 20000\nwait", options).await.err() });
    let lost = started(&open, &dispatched).await?;
    ensure!(!call.is_finished(), "the turn was answered before the node was killed");
    let rows = count_receipts(&stage.state, lost.request_id.as_str())?;
    stage.kill_node().await?;
    let error = call.await?.context("the turn has a result although the node was killed")?;
    expect_equal("outcome of the open call", error.outcome(), Some(Outcome::Unknown))?;
    expect_equal("recovery of the open call", error.recovery(), Some(&lost))?;

    stage.start_node().await?;
    stage.count();
    let receipt = session.harness.operation(&lost, OperationOptions::default()).await?;
    expect_equal("outcome after the restart", receipt.outcome, Outcome::Unknown)?;
    expect_equal("code after the restart", receipt.code.as_deref(), Some("HARNESS_RESTARTED"))?;
    let receipt = session.harness.operation(&kept.recovery, OperationOptions::default()).await?;
    expect_equal("the turn before the restart", receipt.outcome, Outcome::Committed)?;
    expect_equal("receipts after the restart", count_receipts(&stage.state, lost.request_id.as_str())?, rows)?;
    expect_equal("turns sent after the restart", stage.counts().tools.get("harness_turn"), None)?;

    let listed = session.harness.list(&session.profile, ListOptions::default()).await?.sessions;
    for earlier in [&session, &open] {
        let found = listed.iter().find(|listed| listed.id == earlier.id);
        let found = found.with_context(|| format!("session {} is not listed", earlier.id))?;
        ensure!(found.active_turn_id.is_none(), "a turn runs again in session {}", earlier.id);
    }
    expect_equal("history", session.messages("userMessage").await?, vec![before.to_owned()])?;
    Ok(format!(
        "killed while {} was open → unknown, HARNESS_RESTARTED; {} is still committed; {} sessions listed, nothing ran again",
        lost.request_id,
        kept.recovery.request_id,
        listed.len()
    ))
}

/// Waits until the node says that the turn runs.
async fn started(session: &Session, dispatched: &Mutex<Option<Recovery>>) -> anyhow::Result<Recovery> {
    loop {
        let recovery = dispatched.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(recovery) = recovery {
            match session.harness.operation(&recovery, OperationOptions::default()).await {
                Ok(receipt) => {
                    expect_equal("outcome while it runs", receipt.outcome, Outcome::Unknown)?;
                    expect_equal("code while it runs", receipt.code, None)?;
                    return Ok(recovery);
                }
                Err(error) if error.remote_code() == Some("ENOENT") => {} // not there yet
                Err(error) => return Err(error.into()),
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Rows of a node's receipts table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Receipts {
    pub(crate) all: u64,
    pub(crate) of_request: u64,
}

/// Counts in a copy, because the running node does not share its file.
pub(crate) fn count_receipts(state: &Path, request_id: &str) -> anyhow::Result<Receipts> {
    let copy = tempfile::tempdir()?;
    for name in ["receipts.sqlite", "receipts.sqlite-wal"] {
        match fs::copy(state.join(name), copy.path().join(name)) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && name.ends_with("-wal") => {}
            Err(error) => return Err(error).context("cannot copy the receipts of the node"),
        }
    }
    let database = Connection::open_with_flags(copy.path().join("receipts.sqlite"), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let count = |condition: &str| {
        database.query_row(&format!("SELECT count(*) FROM receipts {condition}"), [], |row| row.get::<_, i64>(0))
    };
    let of_request = format!("WHERE requestId = '{}'", request_id.replace('\'', "''"));
    Ok(Receipts { all: u64::try_from(count("")?)?, of_request: u64::try_from(count(&of_request)?)? })
}
