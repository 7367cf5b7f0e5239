//! Cancellation tokens, and the options that every call takes.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::host::Callback;
use crate::sync::lock;
use cells_machines::id_map::IdMap;

/// Options of a call.
///
/// ```
/// use cells_driver::{Cancellation, OperationOptions};
/// let (cancel, token) = Cancellation::new();
/// let options = OperationOptions { timeout_ms: Some(5_000), cancel: Some(token) };
/// cancel.cancel();
/// assert!(options.cancel.is_some_and(|token| token.is_cancelled()));
/// ```
#[derive(Debug, Clone, Default)]
pub struct OperationOptions {
    /// Time budget in milliseconds, from the call to the last byte of the reply, retries included. Default 30,000.
    /// 0 = the call fails with `ETIMEDOUT` and nothing is sent.
    pub timeout_ms: Option<u64>,
    /// Ends the call with `ECANCELLED`. A mutation that was already sent goes on at the node; its error then says
    /// `unknown` and holds what is needed to ask for the outcome.
    pub cancel: Option<Cancellation>,
}

/// Tells a call that its caller has lost interest. Cheap to clone; every clone sees the same state.
#[derive(Clone)]
pub struct Cancellation(Arc<Mutex<State>>);

/// Cancels the calls that hold the [`Cancellation`] it was made with. Dropping it cancels nothing.
#[derive(Clone)]
pub struct CancelHandle(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    cancelled: bool,
    next_id: u64,
    listeners: IdMap<Listener>,
}

enum Listener {
    Waker(Waker),
    Callback(Callback<()>),
}

impl Cancellation {
    /// A token, and the handle that cancels it.
    pub fn new() -> (CancelHandle, Self) {
        let state = Arc::new(Mutex::new(State::default()));
        (CancelHandle(Arc::clone(&state)), Self(state))
    }

    /// Whether [`CancelHandle::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        lock(&self.0).cancelled
    }

    /// Resolves when [`CancelHandle::cancel`] is called, or at once when it was.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { state: Arc::clone(&self.0), id: None }
    }

    /// Calls `callback` once when the token is cancelled, or at once when it was, unless the result is dropped before.
    pub(crate) fn on_cancel(&self, callback: Callback<()>) -> Registration {
        let mut state = lock(&self.0);
        if state.cancelled {
            drop(state);
            callback(());
            return Registration { state: Arc::clone(&self.0), id: None };
        }
        let id = state.add(Listener::Callback(callback));
        Registration { state: Arc::clone(&self.0), id: Some(id) }
    }
}

impl CancelHandle {
    /// Cancels. Calling it again does nothing.
    pub fn cancel(&self) {
        let listeners = {
            let mut state = lock(&self.0);
            state.cancelled = true;
            std::mem::take(&mut state.listeners)
        };
        for listener in listeners.into_values() {
            match listener {
                Listener::Waker(waker) => waker.wake(),
                Listener::Callback(callback) => callback(()),
            }
        }
    }
}

impl State {
    fn add(&mut self, listener: Listener) -> u64 {
        self.next_id += 1;
        self.listeners.insert(self.next_id, listener);
        self.next_id
    }
}

/// Future of [`Cancellation::cancelled`].
#[must_use = "futures do nothing unless awaited"]
pub struct Cancelled {
    state: Arc<Mutex<State>>,
    id: Option<u64>,
}

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut state = lock(&this.state);
        if state.cancelled {
            return Poll::Ready(());
        }
        let waker = Listener::Waker(context.waker().clone());
        match this.id {
            Some(id) => {
                state.listeners.insert(id, waker);
            }
            None => this.id = Some(state.add(waker)),
        }
        Poll::Pending
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            lock(&self.state).listeners.remove(id);
        }
    }
}

/// Keeps a callback registered until it is dropped.
pub(crate) struct Registration {
    state: Arc<Mutex<State>>,
    id: Option<u64>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            // The callback is dropped after the lock: it may own another registration.
            let listener = lock(&self.state).listeners.remove(id);
            drop(listener);
        }
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cancellation({})", if self.is_cancelled() { "cancelled" } else { "active" })
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CancelHandle")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::FutureExt;

    use super::*;

    #[test]
    fn every_listener_is_told_once_and_unregistered_ones_never() {
        let (handle, token) = Cancellation::new();
        let calls = Arc::new(AtomicU32::new(0));
        let count = |by: u32| -> Callback<()> {
            let calls = Arc::clone(&calls);
            Box::new(move |()| {
                calls.fetch_add(by, Ordering::Relaxed);
            })
        };
        let kept = token.on_cancel(count(1));
        drop(token.on_cancel(count(10)));
        assert_eq!(token.cancelled().now_or_never(), None);
        assert_eq!(lock(&token.0).listeners.len(), 1, "a dropped future leaves nothing behind");
        handle.cancel();
        handle.cancel();
        assert!(token.is_cancelled());
        assert_eq!(token.cancelled().now_or_never(), Some(()));
        let late = token.on_cancel(count(100));
        assert_eq!(calls.load(Ordering::Relaxed), 101);
        drop((kept, late));
    }
}
