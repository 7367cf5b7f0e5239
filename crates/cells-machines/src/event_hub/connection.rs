//! The one connection of a hub: when there is one, when it is established anew, when it is given up.

use cells_protocol::limits::{DEFAULT_TIMEOUT_MS, STREAM_SILENCE_MIN_MS, TOPIC_CHANGE_MERGE_MS};

use crate::backoff::Backoff;

/// The connection of a hub.
#[derive(Debug)]
pub(super) struct Connection {
    state: State,
    backoff: Backoff,
    n_attempts: u64,
    /// When the list of topics that the stream has is to be replaced.
    change_at_ms: Option<u64>,
    /// Attempts to end.
    abort: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing to do.
    Idle,
    /// To be connected when it is time.
    Waiting { until_ms: u64 },
    /// To be connected now.
    Due,
    /// Sent, not answered.
    Opening { attempt: u64 },
    /// Answered.
    Open { attempt: u64, is_ready: bool, heard_at_ms: u64, silence_max_ms: u64 },
    /// Given up.
    Refused { waits_for_credential: bool },
}

impl Connection {
    pub(super) fn new() -> Self {
        Self { state: State::Idle, backoff: Backoff::new(), n_attempts: 0, change_at_ms: None, abort: Vec::new() }
    }

    /// The list of topics changed.
    pub(super) fn plan_change(&mut self, now_ms: u64) {
        match self.state {
            State::Idle | State::Refused { .. } => self.state = State::Due,
            State::Opening { .. } | State::Open { .. } => {
                self.change_at_ms.get_or_insert(now_ms.saturating_add(TOPIC_CHANGE_MERGE_MS));
            }
            // The list is made when the stream is opened.
            State::Waiting { .. } | State::Due => {}
        }
    }

    /// A topic is to be tried again; with it, whatever else changed.
    pub(super) fn reestablish(&mut self, now_ms: u64) {
        self.plan_change(now_ms);
        self.change_at_ms = self.change_at_ms.map(|at_ms| at_ms.min(now_ms));
    }

    /// Nobody needs a stream.
    pub(super) fn stop(&mut self) {
        self.abort();
        self.state = State::Idle;
        self.change_at_ms = None;
    }

    /// Ends what is under way; gives its attempt.
    pub(super) fn abort(&mut self) -> Option<u64> {
        let attempt = self.attempt();
        self.abort.extend(attempt);
        attempt
    }

    pub(super) fn handle_opened(&mut self, now_ms: u64, attempt: u64) {
        if self.state == (State::Opening { attempt }) {
            let silence_max_ms = DEFAULT_TIMEOUT_MS;
            self.state = State::Open { attempt, is_ready: false, heard_at_ms: now_ms, silence_max_ms };
        }
    }

    pub(super) fn handle_bytes(&mut self, now_ms: u64, attempt: u64) {
        if let State::Open { attempt: current, heard_at_ms, .. } = &mut self.state
            && *current == attempt
        {
            *heard_at_ms = now_ms;
        }
    }

    /// The first frame; false if there was one already.
    pub(super) fn handle_ready(&mut self, now_ms: u64, heartbeat_ms: u64) -> bool {
        let State::Open { is_ready, silence_max_ms, .. } = &mut self.state else { return false };
        let is_first = !std::mem::replace(is_ready, true);
        if is_first {
            *silence_max_ms = heartbeat_ms.saturating_mul(3).max(STREAM_SILENCE_MIN_MS);
            self.backoff.handle_ready(now_ms);
        }
        is_first
    }

    pub(super) fn handle_broken(&mut self, now_ms: u64, retry_after_ms: Option<u64>, random: u32) {
        let delay_ms = self.backoff.handle_end(now_ms, retry_after_ms, random);
        self.state = State::Waiting { until_ms: now_ms.saturating_add(delay_ms) };
        self.change_at_ms = None;
    }

    pub(super) fn handle_refused(&mut self, waits_for_credential: bool) {
        self.state = State::Refused { waits_for_credential };
        self.change_at_ms = None;
    }

    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let own = match self.state {
            State::Waiting { until_ms } => Some(until_ms),
            State::Open { heard_at_ms, silence_max_ms, .. } => Some(heard_at_ms.saturating_add(silence_max_ms)),
            State::Idle | State::Due | State::Opening { .. } | State::Refused { .. } => None,
        };
        own.into_iter().chain(self.change_at_ms).min()
    }

    /// How long nothing was heard, if that is too long.
    pub(super) fn silence_at(&self, now_ms: u64) -> Option<u64> {
        match self.state {
            State::Open { heard_at_ms, silence_max_ms, .. } => {
                let silent_ms = now_ms.saturating_sub(heard_at_ms);
                (silent_ms >= silence_max_ms).then_some(silent_ms)
            }
            State::Idle | State::Waiting { .. } | State::Due | State::Opening { .. } | State::Refused { .. } => None,
        }
    }

    pub(super) fn handle_timeout(&mut self, now_ms: u64) {
        match self.state {
            State::Waiting { until_ms } if until_ms <= now_ms => self.state = State::Due,
            State::Opening { .. } | State::Open { .. } if self.change_at_ms.is_some_and(|at_ms| at_ms <= now_ms) => {
                self.abort();
                self.change_at_ms = None;
                self.state = State::Due;
            }
            State::Idle
            | State::Waiting { .. }
            | State::Due
            | State::Opening { .. }
            | State::Open { .. }
            | State::Refused { .. } => {}
        }
    }

    pub(super) fn start_attempt(&mut self) -> u64 {
        self.n_attempts += 1;
        self.state = State::Opening { attempt: self.n_attempts };
        self.n_attempts
    }

    pub(super) fn poll_abort(&mut self) -> Option<u64> {
        self.abort.pop()
    }

    pub(super) fn is_due(&self) -> bool {
        self.state == State::Due
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Idle && self.abort.is_empty()
    }

    pub(super) fn is_refused(&self) -> bool {
        matches!(self.state, State::Refused { .. })
    }

    pub(super) fn is_refused_for_credential(&self) -> bool {
        self.state == (State::Refused { waits_for_credential: true })
    }

    /// Whether this attempt is the one under way.
    pub(super) fn is_current(&self, attempt: u64) -> bool {
        self.attempt() == Some(attempt)
    }

    /// Whether this attempt is the one under way, and was answered.
    pub(super) fn is_open(&self, attempt: u64) -> bool {
        matches!(self.state, State::Open { attempt: current, .. } if current == attempt)
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, State::Open { is_ready: true, .. })
    }

    fn attempt(&self) -> Option<u64> {
        match self.state {
            State::Opening { attempt } | State::Open { attempt, .. } => Some(attempt),
            State::Idle | State::Waiting { .. } | State::Due | State::Refused { .. } => None,
        }
    }
}
