//! Locks that outlive a panic, and lookups that concurrent callers share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{Shared, WeakShared};

use crate::error::{Error, Result};
use crate::host::HostFuture;

/// Locks `mutex`. What the lock guards is valid after every statement, so a panic elsewhere does not spoil it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value that is fetched once and kept; failures are not kept. Concurrent callers share one fetch, which ends with its
/// last caller.
pub(crate) struct Lookup<T: Clone>(Mutex<State<T>>);

enum State<T: Clone> {
    Empty,
    Pending(WeakShared<HostFuture<'static, Result<T>>>),
    Ready(T),
}

impl<T: Clone> Lookup<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State::Empty))
    }

    /// Keeps `value`.
    pub(crate) fn put(&self, value: T) {
        *lock(&self.0) = State::Ready(value);
    }

    /// Forgets the value if `stale` says so.
    pub(crate) fn forget_if(&self, stale: impl FnOnce(&T) -> bool) {
        let mut state = lock(&self.0);
        if matches!(&*state, State::Ready(value) if stale(value)) {
            *state = State::Empty;
        }
    }

    /// The value that is kept, or that of the running fetch, or that of a new one.
    pub(crate) async fn get(&self, fetch: impl FnOnce() -> HostFuture<'static, Result<T>>) -> Result<T> {
        let shared = match self.join(fetch) {
            Ok(value) => return Ok(value),
            Err(shared) => shared,
        };
        let result = shared.await;
        if let Ok(value) = &result {
            let mut state = lock(&self.0);
            if matches!(*state, State::Pending(_)) {
                *state = State::Ready(value.clone());
            }
        }
        result
    }

    fn join(&self, fetch: impl FnOnce() -> HostFuture<'static, Result<T>>) -> Result<T, SharedFetch<T>> {
        let mut state = lock(&self.0);
        match &*state {
            State::Ready(value) => return Ok(value.clone()),
            State::Pending(weak) => {
                // A fetch that has ended has failed, else its value would be kept.
                if let Some(shared) = weak.upgrade().filter(|shared| shared.peek().is_none_or(Result::is_ok)) {
                    return Err(shared);
                }
            }
            State::Empty => {}
        }
        let shared = fetch().shared();
        *state = shared.downgrade().map_or(State::Empty, State::Pending);
        Err(shared)
    }
}

type SharedFetch<T> = Shared<HostFuture<'static, Result<T, Error>>>;
