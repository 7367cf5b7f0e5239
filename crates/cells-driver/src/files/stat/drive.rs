//! The task that sends the batches of one export and settles the calls.

use std::sync::Arc;
use std::task::{Context, Poll};

use cells_machines::stat_batch::{StatAction, StatEvent, StatFailure, StatRequestId};
use cells_protocol::files::{FileStat, StatRequest, StatResult, parse_stat_reply};
use cells_protocol::json::to_vec;
use cells_protocol::limits::JSON_REPLY_MAX_BYTES;
use futures::future::{AbortHandle, Aborted, abortable};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use super::STAT;
use crate::budget::{aborted, timed_out};
use crate::cancellation::{Cancelled, OperationOptions};
use crate::discovery::parsed;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::host::HostFuture;
use crate::run::stopped;
use crate::sync::lock;
use crate::transport::{Call, JSON};

/// Drives the batch until nobody waits.
pub(super) async fn drive(files: Arc<Files>) {
    let mut driver = Driver {
        disposed: files.link.core.disposal.cancelled(),
        files,
        gathering: Gathering::Nothing,
        timeout: None,
        requests: FuturesUnordered::new(),
        aborts: Vec::new(),
        done: false,
    };
    std::future::poll_fn(|context| driver.poll(context)).await;
}

struct Driver {
    files: Arc<Files>,
    disposed: Cancelled,
    gathering: Gathering,
    timeout: Option<(u64, HostFuture<'static, ()>)>,
    requests: FuturesUnordered<HostFuture<'static, Result<Answer, Aborted>>>,
    /// Of the requests under way, which are few.
    aborts: Vec<(StatRequestId, AbortHandle)>,
    /// Nobody waits; another task may drive the batch by now.
    done: bool,
}

/// The batch that is being collected.
enum Gathering {
    /// There is none.
    Nothing,
    /// Nobody waits for it.
    Waiting,
    /// It goes out at the end of this turn.
    Due(HostFuture<'static, ()>),
}

type Answer = (StatRequestId, Result<Vec<StatResult>>);

impl Driver {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.disposed.poll_unpin(context).is_ready() {
            self.files.stats.fail_all(&aborted(STAT));
            self.done = true;
            return Poll::Ready(());
        }
        loop {
            self.handle_what_happened(context);
            let mut actions = Vec::new();
            let mut settled = Vec::new();
            let timeout_ms = {
                let mut state = lock(&self.files.stats.state);
                while let Some(action) = state.batch.poll_action() {
                    actions.push(action);
                }
                while let Some(StatEvent { subscriber, result }) = state.batch.poll_event() {
                    settled.extend(state.waiters.remove(subscriber.0).map(|waiter| (waiter, result)));
                }
                if actions.is_empty() && settled.is_empty() {
                    if state.waiters.is_empty()
                        && self.requests.is_empty()
                        && matches!(self.gathering, Gathering::Nothing)
                    {
                        state.driven = false;
                        self.done = true;
                        return Poll::Ready(());
                    }
                    state.waker = Some(context.waker().clone());
                    if matches!(self.gathering, Gathering::Waiting) && self.files.stats.is_due(&state) {
                        continue;
                    }
                }
                state.batch.poll_timeout()
            };
            if actions.is_empty() && settled.is_empty() && !self.set_timer(timeout_ms) {
                return Poll::Pending;
            }
            for action in actions {
                self.act(action);
            }
            for (waiter, result) in settled {
                (waiter.on_settled)(outcome(result));
            }
        }
    }

    fn handle_what_happened(&mut self, context: &mut Context<'_>) {
        let now_ms = self.files.link.core.host.now_ms();
        self.gather(now_ms, context);
        while let Poll::Ready(Some(answer)) = self.requests.poll_next_unpin(context) {
            let Ok((request_id, reply)) = answer else { continue };
            self.aborts.retain(|(known, _)| *known != request_id);
            lock(&self.files.stats.state).batch.handle_reply(request_id, reply);
        }
        if self.timeout.as_mut().is_some_and(|(_, sleep)| sleep.poll_unpin(context).is_ready()) {
            // A timer may be early by less than the clock shows.
            let deadline_ms = self.timeout.take().map_or(now_ms, |(deadline_ms, _)| deadline_ms);
            lock(&self.files.stats.state).batch.handle_timeout(now_ms.max(deadline_ms));
        }
    }

    /// Sends the batch at the end of the turn in which it became due.
    fn gather(&mut self, now_ms: u64, context: &mut Context<'_>) {
        let stats = &self.files.stats;
        if matches!(self.gathering, Gathering::Waiting) && stats.is_due(&lock(&stats.state)) {
            self.gathering = Gathering::Due(self.files.link.core.host.turn_end());
        }
        if let Gathering::Due(turn_end) = &mut self.gathering
            && turn_end.poll_unpin(context).is_ready()
        {
            let mut state = lock(&stats.state);
            state.generation += 1;
            state.batch.handle_turn_end(now_ms);
            self.gathering = Gathering::Nothing;
        }
    }

    /// Sets the timer; true when it is a new one, which must be polled.
    fn set_timer(&mut self, timeout_ms: Option<u64>) -> bool {
        if self.timeout.as_ref().map(|(deadline_ms, _)| *deadline_ms) == timeout_ms {
            return false;
        }
        let host = &self.files.link.core.host;
        let sleep = |deadline_ms: u64| (deadline_ms, host.sleep(deadline_ms.saturating_sub(host.now_ms())));
        self.timeout = timeout_ms.map(sleep);
        self.timeout.is_some()
    }

    fn act(&mut self, action: StatAction) {
        match action {
            StatAction::AwaitTurnEnd => self.gathering = Gathering::Waiting,
            StatAction::Send { request_id, paths, budget_ms } => {
                let files = Arc::clone(&self.files);
                let (request, abort) = abortable(async move { (request_id, ask(&files, paths, budget_ms).await) });
                self.aborts.push((request_id, abort));
                self.requests.push(Box::pin(request));
            }
            StatAction::Abort { request_id } => {
                for (_, abort) in self.aborts.extract_if(.., |(known, _)| *known == request_id) {
                    abort.abort();
                }
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.done {
            self.files.stats.fail_all(&stopped(STAT));
        }
    }
}

/// Sends one stat request. POST is never sent twice.
async fn ask(files: &Files, paths: Vec<Box<str>>, budget_ms: u64) -> Result<Vec<StatResult>> {
    let budget = files.link.budget(&OperationOptions { timeout_ms: Some(budget_ms), cancel: None });
    let n_paths = paths.len();
    let body = to_vec(&StatRequest { paths: paths.into_iter().map(String::from).collect() });
    budget
        .run(STAT, async {
            let call = Call::post(STAT, files.url("stat").await?, JSON, body);
            let reply = files.link.fetch(&call, JSON_REPLY_MAX_BYTES, &budget).await?;
            parsed(STAT, parse_stat_reply(&reply, n_paths))
        })
        .await
}

fn outcome(result: Result<StatResult, StatFailure<Error>>) -> Result<Option<FileStat>> {
    match result {
        Ok(StatResult::Found(stat)) => Ok(Some(stat)),
        Ok(StatResult::Missing) => Ok(None),
        Ok(StatResult::Failed(kind)) => {
            let message = format!("the node cannot tell the attributes of the path: {kind}");
            Err(Error::new(kind, STAT, message).with_remote_code(kind.as_str()))
        }
        Err(StatFailure::TimedOut) => Err(timed_out(STAT)),
        Err(StatFailure::Request(error)) => Err(error),
        Err(StatFailure::CountMismatch) => Err(Error::protocol(STAT, "it has another number of results than paths")),
    }
}
