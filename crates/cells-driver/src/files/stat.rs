//! Stat calls, merged into batches by [`cells_machines::stat_batch`].
//!
//! One task a batch runs in [`Run`](crate::Run), whatever the number of calls: a call costs one lock and one box.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use cells_machines::stat_batch::{StatAction, StatBatch, StatEvent, StatFailure, StatRequestId, SubscriberId};
use cells_protocol::files::{FileStat, StatRequest, StatResult, parse_stat_reply};
use cells_protocol::json::to_vec;
use cells_protocol::limits::{DEFAULT_TIMEOUT_MS, JSON_REPLY_MAX_BYTES};
use futures::channel::oneshot;
use futures::future::{AbortHandle, Aborted, abortable};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use super::{Files, check};
use crate::budget::{cancelled, timed_out};
use crate::cancellation::{OperationOptions, Registration};
use crate::discovery::parsed;
use crate::error::{Error, Result};
use crate::host::{Callback, HostFuture};
use crate::run::stopped;
use crate::sync::lock;
use crate::transport::{Call, JSON};

/// Future of [`FileClient::stat`](crate::FileClient::stat). Dropping it leaves the batch.
#[must_use = "the call is made, but dropping this future takes it back"]
pub struct StatFuture {
    receiver: oneshot::Receiver<Result<Option<FileStat>>>,
    joined: Option<(Arc<Files>, SubscriberId)>,
}

impl Future for StatFuture {
    type Output = Result<Option<FileStat>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.receiver.poll_unpin(context).map(|result| {
            self.joined = None;
            result.unwrap_or_else(|_| Err(stopped(STAT)))
        })
    }
}

impl Drop for StatFuture {
    fn drop(&mut self) {
        if let Some((files, subscriber)) = self.joined.take() {
            files.stats.leave(subscriber);
        }
    }
}

/// The calls of one export that have no result yet.
pub(super) struct StatPump(Mutex<State>);

struct State {
    batch: StatBatch<Error>,
    waiters: BTreeMap<SubscriberId, Waiter>,
    next_subscriber: u64,
    /// Whether a task of [`Run`](crate::Run) drives the batch.
    driven: bool,
    waker: Option<Waker>,
}

struct Waiter {
    on_settled: Callback<Result<Option<FileStat>>>,
    /// Ends with the waiter.
    registration: Option<Registration>,
}

impl StatPump {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State {
            batch: StatBatch::new(DEFAULT_TIMEOUT_MS),
            waiters: BTreeMap::new(),
            next_subscriber: 0,
            driven: false,
            waker: None,
        }))
    }

    /// Forgets a caller that has lost interest, and gives what it waited with.
    fn leave(&self, subscriber: SubscriberId) -> Option<Waiter> {
        let mut state = lock(&self.0);
        let waiter = state.waiters.remove(&subscriber)?;
        state.batch.handle_cancel(subscriber);
        state.wake();
        Some(waiter)
    }

    /// Fails every call: the task that would have served them is gone.
    fn fail_all(&self) {
        let waiters = {
            let mut state = lock(&self.0);
            state.driven = false;
            state.batch = StatBatch::new(DEFAULT_TIMEOUT_MS);
            std::mem::take(&mut state.waiters)
        };
        for waiter in waiters.into_values() {
            (waiter.on_settled)(Err(stopped(STAT)));
        }
    }
}

impl State {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

pub(super) fn start(files: &Arc<Files>, path: &str, options: OperationOptions) -> StatFuture {
    let (sender, receiver) = oneshot::channel();
    // A receiver that is gone has left the batch already.
    let on_settled = Box::new(move |result| drop(sender.send(result)));
    let joined = start_with(files, path, options, on_settled);
    StatFuture { receiver, joined: joined.map(|subscriber| (Arc::clone(files), subscriber)) }
}

/// Joins the batch; `None` when the call has its result already.
pub(super) fn start_with(
    files: &Arc<Files>,
    path: &str,
    options: OperationOptions,
    on_settled: Callback<Result<Option<FileStat>>>,
) -> Option<SubscriberId> {
    let OperationOptions { timeout_ms, cancel } = options;
    let ready = files.link.check_open(STAT).and_then(|()| check(STAT, path)).and_then(|()| match &cancel {
        Some(token) if token.is_cancelled() => Err(cancelled(STAT)),
        Some(_) | None => Ok(()),
    });
    if let Err(error) = ready {
        on_settled(Err(error));
        return None;
    }
    let now_ms = files.link.core.host.now_ms();
    let deadline_ms = timeout_ms.map(|timeout_ms| now_ms.saturating_add(timeout_ms));
    let (subscriber, must_spawn) = {
        let mut state = lock(&files.stats.0);
        let subscriber = SubscriberId(state.next_subscriber);
        state.next_subscriber += 1;
        state.batch.start_stat(now_ms, subscriber, path, deadline_ms);
        state.waiters.insert(subscriber, Waiter { on_settled, registration: None });
        state.wake();
        (subscriber, !std::mem::replace(&mut state.driven, true))
    };
    if must_spawn && files.link.core.spawner.spawn(STAT, Box::pin(drive(Arc::clone(files)))).is_err() {
        files.stats.fail_all();
        return None;
    }
    if let Some(token) = cancel {
        let weak = Arc::downgrade(files);
        let registration = token.on_cancel(Box::new(move |()| {
            if let Some(waiter) = weak.upgrade().and_then(|files| files.stats.leave(subscriber)) {
                (waiter.on_settled)(Err(cancelled(STAT)));
            }
        }));
        if let Some(waiter) = lock(&files.stats.0).waiters.get_mut(&subscriber) {
            waiter.registration = Some(registration);
        }
    }
    Some(subscriber)
}

/// Drives the batch until nobody waits.
async fn drive(files: Arc<Files>) {
    let mut driver = Driver {
        files,
        turn_end: None,
        timeout: None,
        requests: FuturesUnordered::new(),
        aborts: BTreeMap::new(),
        done: false,
    };
    std::future::poll_fn(|context| driver.poll(context)).await;
}

struct Driver {
    files: Arc<Files>,
    turn_end: Option<HostFuture<'static, ()>>,
    timeout: Option<(u64, HostFuture<'static, ()>)>,
    requests: FuturesUnordered<HostFuture<'static, Result<Answer, Aborted>>>,
    aborts: BTreeMap<StatRequestId, AbortHandle>,
    /// Nobody waits; another task may drive the batch by now.
    done: bool,
}

type Answer = (StatRequestId, Result<Vec<StatResult>>);

impl Driver {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            self.handle_what_happened(context);
            let mut actions = Vec::new();
            let mut settled = Vec::new();
            let timeout_ms = {
                let mut state = lock(&self.files.stats.0);
                while let Some(action) = state.batch.poll_action() {
                    actions.push(action);
                }
                while let Some(StatEvent { subscriber, result }) = state.batch.poll_event() {
                    settled.extend(state.waiters.remove(&subscriber).map(|waiter| (waiter, result)));
                }
                if actions.is_empty() && settled.is_empty() {
                    if state.waiters.is_empty() && self.requests.is_empty() && self.turn_end.is_none() {
                        state.driven = false;
                        self.done = true;
                        return Poll::Ready(());
                    }
                    state.waker = Some(context.waker().clone());
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
        if self.turn_end.as_mut().is_some_and(|turn_end| turn_end.poll_unpin(context).is_ready()) {
            self.turn_end = None;
            lock(&self.files.stats.0).batch.handle_turn_end(now_ms);
        }
        while let Poll::Ready(Some(answer)) = self.requests.poll_next_unpin(context) {
            let Ok((request_id, reply)) = answer else { continue };
            self.aborts.remove(&request_id);
            lock(&self.files.stats.0).batch.handle_reply(request_id, reply);
        }
        if self.timeout.as_mut().is_some_and(|(_, sleep)| sleep.poll_unpin(context).is_ready()) {
            // A timer may be early by less than the clock shows.
            let deadline_ms = self.timeout.take().map_or(now_ms, |(deadline_ms, _)| deadline_ms);
            lock(&self.files.stats.0).batch.handle_timeout(now_ms.max(deadline_ms));
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
            StatAction::AwaitTurnEnd => self.turn_end = Some(self.files.link.core.host.turn_end()),
            StatAction::Send { request_id, paths, budget_ms } => {
                let files = Arc::clone(&self.files);
                let (request, abort) = abortable(async move { (request_id, ask(&files, paths, budget_ms).await) });
                self.aborts.insert(request_id, abort);
                self.requests.push(Box::pin(request));
            }
            StatAction::Abort { request_id } => {
                if let Some(abort) = self.aborts.remove(&request_id) {
                    abort.abort();
                }
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.done {
            self.files.stats.fail_all();
        }
    }
}

/// Sends one stat request. POST is never sent twice.
async fn ask(files: &Files, paths: Vec<Box<str>>, budget_ms: u64) -> Result<Vec<StatResult>> {
    let budget = files.link.core.budget(&OperationOptions { timeout_ms: Some(budget_ms), cancel: None });
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

const STAT: &str = "stat";
