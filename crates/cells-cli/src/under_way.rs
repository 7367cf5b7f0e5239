//! What a verb has under way at the node, and what Ctrl-C does to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cells_native::cells_driver::{CancelHandle, Cancellation};

use crate::failure::Failure;
use crate::output::note;

/// The writes and commands that were sent and have not ended. The first Ctrl-C stops them, and the verb waits for their
/// ends; the second one leaves, and tells what is left. Clones share it.
#[derive(Clone)]
pub(crate) struct UnderWay(Arc<State>);

struct State {
    stop: CancelHandle,
    stopped: Cancellation,
    json: bool,
    sent: Mutex<Sent>,
}

#[derive(Default)]
struct Sent {
    n_begun: u64,
    /// By number: what is told of it when nobody waits for its end.
    left: BTreeMap<u64, Failure>,
}

impl UnderWay {
    /// Nothing. With `json` nothing but results and failures is told.
    pub(crate) fn new(json: bool) -> Self {
        let (stop, stopped) = Cancellation::new();
        Self(Arc::new(State { stop, stopped, json, sent: Mutex::default() }))
    }

    /// Ends calls when the verb is stopped.
    pub(crate) fn cancellation(&self) -> Cancellation {
        self.0.stopped.clone()
    }

    /// Whether the verb was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.0.stopped.is_cancelled()
    }

    /// Nothing more is started when this fails.
    ///
    /// # Errors
    /// When the verb was stopped.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.is_stopped() { Err(Failure::Interrupted) } else { Ok(()) }
    }

    /// Stops everything.
    pub(crate) fn stop(&self) {
        if !self.0.json && !self.sent_now().left.is_empty() {
            note("stopping; press Ctrl-C again to leave at once");
        }
        self.0.stop.cancel();
    }

    /// A number for something that may be sent.
    pub(crate) fn begin(&self) -> u64 {
        let mut sent = self.sent_now();
        sent.n_begun += 1;
        sent.n_begun
    }

    /// It is sent now. `left` is told if its end is not awaited.
    pub(crate) fn sent(&self, number: u64, left: Failure) {
        self.sent_now().left.insert(number, left);
    }

    /// Its end is known, or is told to be unknown.
    pub(crate) fn ended(&self, number: u64) {
        self.sent_now().left.remove(&number);
    }

    /// Tells what has not ended.
    pub(crate) fn tell_left(&self) {
        for left in self.sent_now().left.values() {
            left.tell(self.0.json);
        }
    }

    fn sent_now(&self) -> MutexGuard<'_, Sent> {
        self.0.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
