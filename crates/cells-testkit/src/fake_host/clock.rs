//! Virtual time.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::lock;

/// A clock that moves only when it is told to.
#[derive(Clone, Default)]
pub(super) struct Clock(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    elapsed_ms: u64,
    n_turns: u64,
    next_id: u64,
    timers: BTreeMap<(u64, u64), Waker>,
    turn_ends: BTreeMap<u64, Waker>,
}

impl Clock {
    pub(super) fn now_ms(&self) -> u64 {
        EPOCH_MS + lock(&self.0).elapsed_ms
    }

    pub(super) fn sleep(&self, duration_ms: u64) -> Sleep {
        let mut state = lock(&self.0);
        state.next_id += 1;
        let key = (state.elapsed_ms.saturating_add(duration_ms), state.next_id);
        Sleep { clock: self.clone(), key }
    }

    pub(super) fn turn_end(&self) -> TurnEnd {
        let mut state = lock(&self.0);
        state.next_id += 1;
        TurnEnd { clock: self.clone(), id: state.next_id, turn: state.n_turns }
    }

    /// Ends the turn if anybody waits for that.
    pub(super) fn end_turn(&self) -> bool {
        let waiting = {
            let mut state = lock(&self.0);
            state.n_turns += 1;
            std::mem::take(&mut state.turn_ends)
        };
        let any = !waiting.is_empty();
        waiting.into_values().for_each(Waker::wake);
        any
    }

    /// Goes to the time of the next timer, if there is one.
    pub(super) fn advance_to_next_timer(&self) -> bool {
        let mut due = Vec::new();
        {
            let mut state = lock(&self.0);
            let Some((at_ms, _)) = state.timers.first_key_value().map(|(key, _)| *key) else { return false };
            state.elapsed_ms = state.elapsed_ms.max(at_ms);
            while let Some(entry) = state.timers.first_entry().filter(|entry| entry.key().0 <= at_ms) {
                due.push(entry.remove());
            }
        }
        due.into_iter().for_each(Waker::wake);
        true
    }
}

/// Resolves when its time has come.
pub(super) struct Sleep {
    clock: Clock,
    key: (u64, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.clock.0);
        if state.elapsed_ms >= self.key.0 {
            return Poll::Ready(());
        }
        // The end of time never comes.
        if self.key.0 < u64::MAX {
            state.timers.insert(self.key, context.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        lock(&self.clock.0).timers.remove(&self.key);
    }
}

/// Resolves when nothing else can run.
pub(super) struct TurnEnd {
    clock: Clock,
    id: u64,
    turn: u64,
}

impl Future for TurnEnd {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.clock.0);
        if state.n_turns > self.turn {
            return Poll::Ready(());
        }
        state.turn_ends.insert(self.id, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for TurnEnd {
    fn drop(&mut self) {
        lock(&self.clock.0).turn_ends.remove(&self.id);
    }
}

/// When the clock starts.
const EPOCH_MS: u64 = 1_700_000_000_000;
