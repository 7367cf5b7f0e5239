//! Stat calls, merged into batches by [`cells_machines::stat_batch`].
//!
//! One task runs in [`Run`](crate::Run) while anybody waits, whatever the number of calls: a call costs one lock and one
//! box. A batch goes out when its first call is awaited and the turn has ended: on a runtime with threads, the task that
//! drives the client would else send a batch while its caller still makes calls.

mod drive;

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use cells_machines::id_map::IdMap;
use cells_machines::stat_batch::{StatBatch, SubscriberId};
use cells_protocol::files::FileStat;
use futures::FutureExt;
use futures::channel::oneshot;

use super::{Files, check};
use crate::budget::cancelled;
use crate::cancellation::{OperationOptions, Registration};
use crate::error::{Error, Result};
use crate::host::Callback;
use crate::run::stopped;
use crate::sync::lock;

/// Future of [`FileClient::stat`](crate::FileClient::stat). Dropping it leaves the batch.
#[must_use = "the call is made, but dropping this future takes it back"]
pub struct StatFuture {
    receiver: oneshot::Receiver<Result<Option<FileStat>>>,
    joined: Option<Joined>,
}

/// The place of a call in its batch.
struct Joined {
    files: Arc<Files>,
    subscriber: SubscriberId,
    generation: u64,
}

impl Future for StatFuture {
    type Output = Result<Option<FileStat>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.receiver.poll_unpin(context) {
            Poll::Ready(result) => {
                self.joined = None;
                Poll::Ready(result.unwrap_or_else(|_| Err(stopped(STAT))))
            }
            Poll::Pending => {
                if let Some(joined) = &self.joined {
                    joined.files.stats.note_awaited(joined.generation);
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for StatFuture {
    fn drop(&mut self) {
        if let Some(joined) = self.joined.take() {
            joined.files.stats.leave(joined.subscriber);
        }
    }
}

/// The calls of one export that have no result yet.
pub(super) struct StatPump {
    timeout_ms: u64,
    state: Mutex<State>,
    /// The batches before this one have been awaited by somebody.
    awaited: AtomicU64,
}

struct State {
    batch: StatBatch<Error>,
    waiters: IdMap<Waiter>,
    next_subscriber: u64,
    /// The batch that is being collected.
    generation: u64,
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
    /// `timeout_ms` is the budget of calls that name none.
    pub(super) fn new(timeout_ms: u64) -> Self {
        let state = State {
            batch: StatBatch::new(timeout_ms),
            waiters: IdMap::default(),
            next_subscriber: 0,
            generation: 0,
            driven: false,
            waker: None,
        };
        Self { timeout_ms, state: Mutex::new(state), awaited: AtomicU64::new(0) }
    }

    /// Somebody waits for a call of this batch.
    fn note_awaited(&self, generation: u64) {
        if self.awaited.fetch_max(generation + 1, Ordering::AcqRel) <= generation {
            lock(&self.state).wake();
        }
    }

    /// Whether the batch that is being collected may go out: somebody awaits it, or nobody is left who could.
    fn is_due(&self, state: &State) -> bool {
        state.waiters.is_empty() || self.awaited.load(Ordering::Acquire) > state.generation
    }

    /// Forgets a caller that has lost interest, and gives what it waited with.
    fn leave(&self, subscriber: SubscriberId) -> Option<Waiter> {
        let mut state = lock(&self.state);
        let waiter = state.waiters.remove(subscriber.0)?;
        state.batch.handle_cancel(subscriber);
        state.wake();
        Some(waiter)
    }

    /// Fails every call: nobody will serve them.
    fn fail_all(&self, error: &Error) {
        let waiters = {
            let mut state = lock(&self.state);
            state.driven = false;
            state.batch = StatBatch::new(self.timeout_ms);
            std::mem::take(&mut state.waiters)
        };
        for waiter in waiters.into_values() {
            (waiter.on_settled)(Err(error.clone()));
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
    StatFuture { receiver, joined: join(files, path, options, on_settled) }
}

pub(super) fn start_with(
    files: &Arc<Files>,
    path: &str,
    options: OperationOptions,
    on_settled: Callback<Result<Option<FileStat>>>,
) {
    if let Some(joined) = join(files, path, options, on_settled) {
        files.stats.note_awaited(joined.generation);
    }
}

/// Joins the batch; `None` when the call has its result already.
fn join(
    files: &Arc<Files>,
    path: &str,
    options: OperationOptions,
    on_settled: Callback<Result<Option<FileStat>>>,
) -> Option<Joined> {
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
    let (joined, must_spawn) = {
        let mut state = lock(&files.stats.state);
        let subscriber = SubscriberId(state.next_subscriber);
        state.next_subscriber += 1;
        state.batch.start_stat(now_ms, subscriber, path, deadline_ms);
        state.waiters.insert(subscriber.0, Waiter { on_settled, registration: None });
        state.wake();
        let joined = Joined { files: Arc::clone(files), subscriber, generation: state.generation };
        (joined, !std::mem::replace(&mut state.driven, true))
    };
    if must_spawn && files.link.core.spawner.spawn(STAT, Box::pin(drive::drive(Arc::clone(files)))).is_err() {
        files.stats.fail_all(&stopped(STAT));
        return None;
    }
    if let Some(token) = cancel {
        let weak = Arc::downgrade(files);
        let subscriber = joined.subscriber;
        let registration = token.on_cancel(Box::new(move |()| {
            if let Some(waiter) = weak.upgrade().and_then(|files| files.stats.leave(subscriber)) {
                (waiter.on_settled)(Err(cancelled(STAT)));
            }
        }));
        if let Some(waiter) = lock(&files.stats.state).waiters.get_mut(subscriber.0) {
            waiter.registration = Some(registration);
        }
    }
    Some(joined)
}

/// Name of the call in errors.
const STAT: &str = "stat";
