//! The end of a session: every process is proven to be over.

use std::sync::Arc;

use cells_machines::process::{Doubt, ProcessEnd, ProcessRun};
use cells_protocol::error::{ErrorKind, Outcome};
use cells_protocol::ids::RequestId;
use cells_protocol::limits::{PROCESS_CANCEL_MS, PROCESS_RELEASE_MS};
use futures::channel::oneshot;
use futures::future::join_all;

use super::Session;
use super::wire::Process;
use crate::budget::Budget;
use crate::cancellation::OperationOptions;
use crate::error::{Error, Result};
use crate::host::HostFuture;
use crate::sync::lock;

pub(super) async fn release(session: &Arc<Session>, options: &OperationOptions) -> Result<()> {
    let outstanding = {
        let mut state = lock(&session.state);
        state.is_released = true;
        state.outstanding.clone()
    };
    let budget = session.link.budget(&OperationOptions {
        timeout_ms: Some(options.timeout_ms.unwrap_or(RELEASE_MS)),
        cancel: options.cancel.clone(),
    });
    let unknown = |error: Error| error.with_outcome(Outcome::Unknown);
    let confirm_all = async {
        let root = session.link.file_root().await?;
        let url = format!("{}/v1/processes", root.without_trailing_slash());
        let confirm =
            |id: RequestId| -> HostFuture<'_, Result<()>> { Box::pin(confirm(session, url.clone(), id, &budget)) };
        join_all(outstanding.into_iter().map(confirm)).await.into_iter().collect::<Result<()>>()?;
        ended(session).await;
        Ok(())
    };
    match session.is_done() {
        true => Ok(()),
        false => budget.run(RELEASE, confirm_all).await.map_err(unknown),
    }
}

/// Cancels a process and waits for its end.
async fn confirm(session: &Session, url: String, id: RequestId, budget: &Budget) -> Result<()> {
    let mut run = ProcessRun::confirm(session.link.core.host.now_ms());
    let mut process = Process { session, url, id: id.clone(), start: None, topic: None };
    let end = process.drive(&mut run, budget, &mut |_| {}).await;
    session.settle(&id, &end);
    let ProcessEnd::Unconfirmed { doubt, .. } = end else { return Ok(()) };
    let error = match doubt {
        Doubt::NodeDoesNotKnow => {
            Error::new(ErrorKind::Busy, RELEASE, "the node does not know whether a process has ended")
        }
        Doubt::StillRunning => Error::new(ErrorKind::TimedOut, RELEASE, "a process was cancelled, and still runs"),
        Doubt::NoAnswer(error) => error,
    };
    Err(error.with_process_id(id))
}

/// Resolves when nothing runs.
async fn ended(session: &Session) {
    let receiver = {
        let mut state = lock(&session.state);
        if state.n_running == 0 {
            return;
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.push(sender);
        receiver
    };
    // The sender is dropped only after it was used.
    let _ = receiver.await;
}

impl Session {
    fn is_done(&self) -> bool {
        let state = lock(&self.state);
        state.outstanding.is_empty() && state.n_running == 0
    }
}

const RELEASE: &str = "release";

/// Time to confirm all processes, and for the commands that run to see their end.
const RELEASE_MS: u64 = PROCESS_RELEASE_MS + PROCESS_CANCEL_MS;
