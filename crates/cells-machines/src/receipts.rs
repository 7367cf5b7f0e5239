//! One mutation of a harness, from its only call to its proven outcome (`cells-0.4.md` §11.2, §11.4, §12.6).

mod classify;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use cells_protocol::limits::{RECEIPT_QUERY_FIRST_MS, RECEIPT_QUERY_MAX_MS};
use cells_protocol::receipts::Recovery;
use serde_json::Value;

pub use classify::{CallVerdict, Observation, QueryVerdict, Rejection, classify_call, classify_query};

/// One mutation. It is called at most once; what its reply left open is only ever asked about, with the epoch, the id and
/// the scope of the call.
///
/// * [`Operation::new`], then [`Operation::start_call`]: the call.
/// * [`Operation::resume`]: a mutation of an earlier run, whose outcome is unknown until a query says otherwise. It is
///   never called.
/// * [`Operation::start_query`]: asks for the receipt now. Any number of times.
///
/// While the reply is lost or the node still works on the mutation, the receipt is asked for by itself: after 2 s, then
/// at doubling intervals of at most 15 s. This ends with the outcome, with an answer that no query can improve, or after
/// [`MAX_FRUITLESS_QUERIES`] queries in a row that say nothing.
///
/// ```
/// use cells_machines::receipts::{Observation, Operation, OperationAction, OperationEvent, Settlement};
/// use cells_protocol::receipts::{Receipt, Recovery};
///
/// let recovery: Recovery = serde_json::from_value(serde_json::json!({
///     "profileId": "main", "epoch": "0".repeat(64), "requestId": "r1",
/// }))?;
/// let mut operation = Operation::new(recovery);
/// operation.start_call();
/// assert_eq!(operation.poll_action(), Some(OperationAction::Call));
///
/// operation.handle_call(0, Observation::NoReply);
/// assert!(matches!(operation.poll_event(), Some(OperationEvent::Unknown(_))));
///
/// operation.start_query();
/// assert_eq!(operation.poll_action(), Some(OperationAction::Query));
/// operation.handle_query(10, Observation::Receipt(Receipt::Committed(serde_json::Value::Null)));
/// assert_eq!(operation.settlement(), Some(&Settlement::Committed(serde_json::Value::Null)));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug)]
pub struct Operation {
    recovery: Recovery,
    state: State,
    actions: VecDeque<OperationAction>,
    events: VecDeque<OperationEvent>,
}

/// Something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationAction {
    /// Send the mutation, in one HTTP request, and give what came of it to [`Operation::handle_call`]. Occurs at most
    /// once.
    Call,
    /// Call `harness_operation` with [`Operation::recovery`], and give what came of it to [`Operation::handle_query`].
    Query,
    /// The node has another epoch: read the profiles before the next mutation.
    RefreshProfiles,
}

/// What is known now.
#[derive(Debug, Clone, PartialEq)]
pub enum OperationEvent {
    /// The outcome is proven. The last event.
    Settled(Settlement),
    /// The call, or a query, left the outcome open.
    Unknown(UnknownKind),
}

/// A proven outcome.
#[derive(Debug, Clone, PartialEq)]
pub enum Settlement {
    /// It happened. A result that the operation cannot decode does not change that.
    Committed(Value),
    /// It did not happen.
    Rejected(Rejection),
}

/// Why the outcome is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnknownKind {
    /// The reply is lost.
    Lost,
    /// The node still works on it.
    Running,
    /// The node itself does not know. It may find proof later, so that an explicit query can still settle it.
    Undetermined {
        /// `EIO`, `ETIMEDOUT`, `HARNESS_RESTARTED`, or the reason of a newer node.
        code: String,
    },
    /// The node has no receipts of that epoch any more.
    EpochGone,
}

impl Operation {
    /// A mutation that is about to be called.
    pub fn new(recovery: Recovery) -> Self {
        Self { recovery, state: State::Prepared, actions: VecDeque::new(), events: VecDeque::new() }
    }

    /// A mutation that was called in an earlier run. Nothing is asked until [`Operation::start_query`].
    pub fn resume(recovery: Recovery) -> Self {
        let open = Open { kind: UnknownKind::Lost, pace: Pace::Stopped };
        Self { recovery, state: State::Unknown(open), actions: VecDeque::new(), events: VecDeque::new() }
    }

    /// What every query of this mutation carries.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// The proven outcome, if there is one. It never changes.
    pub fn settlement(&self) -> Option<&Settlement> {
        match &self.state {
            State::Settled(settlement) => Some(settlement),
            State::Prepared | State::Dispatched | State::Unknown(_) | State::Querying(_) => None,
        }
    }

    /// Calls the mutation. Only the first time; later calls of this function do nothing.
    pub fn start_call(&mut self) {
        if matches!(self.state, State::Prepared) {
            self.state = State::Dispatched;
            self.actions.push_back(OperationAction::Call);
        }
    }

    /// Asks for the receipt now. Does nothing while the call or a query is under way, before the call, or when the outcome
    /// is proven.
    pub fn start_query(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Prepared) {
            State::Unknown(open) => {
                self.actions.push_back(OperationAction::Query);
                State::Querying(open)
            }
            other => other,
        };
    }

    /// What came of the call.
    pub fn handle_call(&mut self, now_ms: u64, observation: Observation) {
        if !matches!(self.state, State::Dispatched) {
            return;
        }
        match classify_call(observation) {
            CallVerdict::Committed(result) => self.settle(Settlement::Committed(result)),
            CallVerdict::Rejected(rejection) => {
                if rejection.is_epoch_change() {
                    self.actions.push_back(OperationAction::RefreshProfiles);
                }
                self.settle(Settlement::Rejected(rejection));
            }
            CallVerdict::Running => self.leave_open(UnknownKind::Running, Pace::start(now_ms)),
            CallVerdict::Lost => self.leave_open(UnknownKind::Lost, Pace::start(now_ms)),
            CallVerdict::Undetermined { code } => self.leave_open(UnknownKind::Undetermined { code }, Pace::Stopped),
        }
    }

    /// What came of a query.
    pub fn handle_query(&mut self, now_ms: u64, observation: Observation) {
        let State::Querying(Open { kind, pace }) = &self.state else { return };
        let (kind, pace) = (kind.clone(), *pace);
        match classify_query(observation) {
            QueryVerdict::Committed(result) => self.settle(Settlement::Committed(result)),
            QueryVerdict::Rejected(rejection) => self.settle(Settlement::Rejected(rejection)),
            QueryVerdict::Running => self.leave_open(UnknownKind::Running, pace.after_running(now_ms)),
            QueryVerdict::Absent => self.leave_open(UnknownKind::Lost, pace.after_nothing(now_ms)),
            QueryVerdict::NoAnswer => self.leave_open(kind, pace.after_nothing(now_ms)),
            QueryVerdict::EpochGone => self.leave_open(UnknownKind::EpochGone, Pace::Stopped),
            QueryVerdict::Undetermined { code } => self.leave_open(UnknownKind::Undetermined { code }, Pace::Stopped),
        }
    }

    /// When the receipt is asked for by itself.
    pub fn poll_timeout(&self) -> Option<u64> {
        match &self.state {
            State::Unknown(Open { pace: Pace::Next { at_ms, .. }, .. }) => Some(*at_ms),
            State::Unknown(Open { pace: Pace::Stopped, .. })
            | State::Prepared
            | State::Dispatched
            | State::Querying(_)
            | State::Settled(_) => None,
        }
    }

    /// Asks for the receipt if it is time.
    pub fn handle_timeout(&mut self, now_ms: u64) {
        if self.poll_timeout().is_some_and(|at_ms| at_ms <= now_ms) {
            self.start_query();
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<OperationAction> {
        self.actions.pop_front()
    }

    /// The next thing that became known.
    pub fn poll_event(&mut self) -> Option<OperationEvent> {
        self.events.pop_front()
    }

    fn settle(&mut self, settlement: Settlement) {
        self.state = State::Settled(settlement.clone());
        self.events.push_back(OperationEvent::Settled(settlement));
    }

    fn leave_open(&mut self, kind: UnknownKind, pace: Pace) {
        self.state = State::Unknown(Open { kind: kind.clone(), pace });
        self.events.push_back(OperationEvent::Unknown(kind));
    }
}

#[derive(Debug)]
enum State {
    Prepared,
    Dispatched,
    Unknown(Open),
    Querying(Open),
    Settled(Settlement),
}

#[derive(Debug)]
struct Open {
    kind: UnknownKind,
    pace: Pace,
}

/// When the next query comes by itself.
#[derive(Debug, Clone, Copy)]
enum Pace {
    /// Not any more.
    Stopped,
    Next {
        at_ms: u64,
        n_queries: u32,
        n_fruitless: u32,
    },
}

impl Pace {
    fn start(now_ms: u64) -> Self {
        Self::next(now_ms, 0, 0)
    }

    fn after_running(self, now_ms: u64) -> Self {
        match self {
            Self::Next { n_queries, .. } => Self::next(now_ms, n_queries.saturating_add(1), 0),
            Self::Stopped => Self::start(now_ms),
        }
    }

    fn after_nothing(self, now_ms: u64) -> Self {
        match self {
            Self::Next { n_queries, n_fruitless, .. } if n_fruitless + 1 < MAX_FRUITLESS_QUERIES => {
                Self::next(now_ms, n_queries.saturating_add(1), n_fruitless + 1)
            }
            Self::Next { .. } | Self::Stopped => Self::Stopped,
        }
    }

    fn next(now_ms: u64, n_queries: u32, n_fruitless: u32) -> Self {
        let delay_ms = RECEIPT_QUERY_FIRST_MS.saturating_mul(1 << n_queries.min(16)).min(RECEIPT_QUERY_MAX_MS);
        Self::Next { at_ms: now_ms.saturating_add(delay_ms), n_queries, n_fruitless }
    }
}

/// Queries in a row without an answer, or with the answer that there is no receipt, after which no more follow by
/// themselves: about ten minutes.
pub const MAX_FRUITLESS_QUERIES: u32 = 40;
