//! What topics of every kind share: their state, the retries of one that the node refused for the time being.

use cells_protocol::events::TopicError;
use cells_protocol::limits::{PRODUCTIVE_AFTER_MS, TOPIC_RETRY_FIRST_MS, TOPIC_RETRY_MAX_MS};

use super::{TopicAction, TopicFailure, TopicState};

/// State and retries of a topic.
#[derive(Debug)]
pub(super) struct Lifecycle<E> {
    state: TopicState<E>,
    /// Something was not told yet.
    changed: bool,
    n_errors: u32,
    open_since_ms: Option<u64>,
    retry_at_ms: Option<u64>,
    retry_due: bool,
}

impl<E> Lifecycle<E> {
    pub(super) fn state(&self) -> &TopicState<E> {
        &self.state
    }

    pub(super) fn start_open(&mut self) {
        match self.state {
            TopicState::Closed | TopicState::Failed(_) => {
                (self.n_errors, self.open_since_ms) = (0, None);
                self.enter(TopicState::Connecting);
            }
            TopicState::Connecting | TopicState::Online | TopicState::Offline(_) => {}
        }
    }

    pub(super) fn handle_open(&mut self, now_ms: u64) {
        self.open_since_ms = Some(now_ms);
        self.enter(TopicState::Online);
    }

    pub(super) fn handle_error(&mut self, now_ms: u64, error: TopicError) {
        let failure = TopicFailure::Topic { code: error.code };
        if error.is_final {
            self.enter(TopicState::Failed(failure));
        } else {
            self.enter(TopicState::Offline(failure));
            self.plan_retry(now_ms, error.retry_after_ms);
        }
    }

    pub(super) fn handle_offline(&mut self, error: E) {
        if self.is_open() {
            self.enter(TopicState::Offline(TopicFailure::Stream(error)));
        }
    }

    pub(super) fn handle_failed(&mut self, error: E) {
        if self.is_open() {
            self.enter(TopicState::Failed(TopicFailure::Stream(error)));
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.retry_at_ms
    }

    pub(super) fn handle_timeout(&mut self, now_ms: u64) {
        if self.retry_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            self.retry_at_ms = None;
            self.retry_due = true;
        }
    }

    pub(super) fn poll_action(&mut self) -> Option<TopicAction> {
        std::mem::take(&mut self.retry_due).then_some(TopicAction::Reestablish)
    }

    /// Whether something was not told yet; the next call says no.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    pub(super) fn mark_changed(&mut self) {
        self.changed = true;
    }

    /// Whether frames count: somebody subscribes and the topic did not fail.
    pub(super) fn is_open(&self) -> bool {
        match self.state {
            TopicState::Connecting | TopicState::Online | TopicState::Offline(_) => true,
            TopicState::Closed | TopicState::Failed(_) => false,
        }
    }

    fn enter(&mut self, state: TopicState<E>) {
        self.state = state;
        self.changed = true;
        self.retry_at_ms = None;
    }

    fn plan_retry(&mut self, now_ms: u64, retry_after_ms: Option<u64>) {
        let open_for_ms = self.open_since_ms.take().map_or(0, |since_ms| now_ms.saturating_sub(since_ms));
        if open_for_ms >= PRODUCTIVE_AFTER_MS {
            self.n_errors = 0;
        }
        let delay_ms = TOPIC_RETRY_FIRST_MS.saturating_mul(1 << self.n_errors.min(16)).min(TOPIC_RETRY_MAX_MS);
        self.n_errors = self.n_errors.saturating_add(1);
        let delay_ms = delay_ms.max(retry_after_ms.unwrap_or(0).min(TOPIC_RETRY_MAX_MS));
        self.retry_at_ms = Some(now_ms.saturating_add(delay_ms));
    }
}

impl<E> Default for Lifecycle<E> {
    fn default() -> Self {
        Self {
            state: TopicState::Closed,
            changed: false,
            n_errors: 0,
            open_since_ms: None,
            retry_at_ms: None,
            retry_due: false,
        }
    }
}
