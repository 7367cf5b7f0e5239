//! Merges the stat calls of one turn into few requests (`driver-api.md` §9.3, `files-http.md` §4.3).

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cells_protocol::files::StatResult;
use cells_protocol::limits::{STAT_BATCH_MAX_PATH_BYTES, STAT_BATCH_MAX_PATHS};

use crate::id_map::IdMap;

/// Collects stat calls and answers each from a shared request. `E` is the caller's error.
///
/// * Calls until the end of the turn share requests. Equal paths are asked once; a request has at most 256 paths and
///   65,536 path bytes.
/// * Calls made while requests are under way belong to the next batch, also when they name the same path. Nothing is kept
///   across batches.
/// * Each subscriber has its own deadline and can leave by itself. A request that nobody waits for is aborted; a path that
///   nobody waits for at the end of the turn is not asked.
///
/// ```
/// use cells_machines::stat_batch::{StatAction, StatBatch, StatEvent, SubscriberId};
/// use cells_protocol::files::StatResult;
///
/// let mut batch: StatBatch<String> = StatBatch::new(30_000);
/// batch.start_stat(0, SubscriberId(1), "a", None);
/// batch.start_stat(0, SubscriberId(2), "a", Some(500));
/// assert_eq!(batch.poll_action(), Some(StatAction::AwaitTurnEnd));
///
/// batch.handle_turn_end(0);
/// let Some(StatAction::Send { request_id, paths, budget_ms }) = batch.poll_action() else { panic!() };
/// assert_eq!((paths, budget_ms), (vec!["a".into()], 30_000));
///
/// batch.handle_reply(request_id, Ok(vec![StatResult::Missing]));
/// let settled = |subscriber| Some(StatEvent { subscriber, result: Ok(StatResult::Missing) });
/// assert_eq!(batch.poll_event(), settled(SubscriberId(1)));
/// assert_eq!(batch.poll_event(), settled(SubscriberId(2)));
/// ```
#[derive(Debug)]
pub struct StatBatch<E> {
    default_budget_ms: u64,
    waiting: Waiting,
    requests: IdMap<Request>,
    subscribers: IdMap<Subscriber>,
    deadlines: BTreeSet<(u64, SubscriberId)>,
    next_request_id: u64,
    actions: VecDeque<StatAction>,
    events: VecDeque<StatEvent<E>>,
}

/// Identity of one stat call, given by the caller and never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriberId(pub u64);

/// Identity of one request, given by the machine and never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatRequestId(u64);

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatAction {
    /// Call [`StatBatch::handle_turn_end`] when everything that is ready to run now has run.
    AwaitTurnEnd,
    /// Send one stat request; its reply goes to [`StatBatch::handle_reply`].
    Send {
        /// Identity of the request.
        request_id: StatRequestId,
        /// Distinct paths, in the order in which they were first asked.
        paths: Vec<Box<str>>,
        /// The longest remaining budget of those who wait for it, in milliseconds.
        budget_ms: u64,
    },
    /// Nobody waits for this request: abort it. Its reply, if one comes, is ignored.
    Abort {
        /// Identity of the request.
        request_id: StatRequestId,
    },
}

/// A stat call ended. A subscriber that left has no event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatEvent<E> {
    /// Whose call.
    pub subscriber: SubscriberId,
    /// How.
    pub result: Result<StatResult, StatFailure<E>>,
}

/// Why a stat call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatFailure<E> {
    /// The deadline of this subscriber passed. Others of the same request still wait.
    TimedOut,
    /// The request failed, for everybody who waited for it.
    Request(E),
    /// The reply has another number of results than the request has paths.
    CountMismatch,
}

impl<E: Clone> StatBatch<E> {
    /// An empty batch. `default_budget_ms` is the budget of a call without a deadline.
    pub fn new(default_budget_ms: u64) -> Self {
        Self {
            default_budget_ms,
            waiting: Waiting::default(),
            requests: IdMap::default(),
            subscribers: IdMap::default(),
            deadlines: BTreeSet::new(),
            next_request_id: 0,
            actions: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Asks for `path`, which must be a checked export-relative path. `deadline_ms` is a time, not a duration; one that
    /// has passed times out at once, without a request.
    pub fn start_stat(&mut self, now_ms: u64, subscriber: SubscriberId, path: &str, deadline_ms: Option<u64>) {
        if deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms) {
            self.events.push_back(StatEvent { subscriber, result: Err(StatFailure::TimedOut) });
            return;
        }
        if self.waiting.paths.is_empty() {
            self.actions.push_back(StatAction::AwaitTurnEnd);
        }
        let path_idx = self.waiting.add(path, subscriber);
        self.subscribers.insert(subscriber.0, Subscriber { place: Place::Waiting { path_idx }, deadline_ms });
        if let Some(deadline_ms) = deadline_ms {
            self.deadlines.insert((deadline_ms, subscriber));
        }
    }

    /// The turn ended: what was collected goes out.
    pub fn handle_turn_end(&mut self, now_ms: u64) {
        let waiting = std::mem::take(&mut self.waiting);
        let mut paths = Vec::new();
        let mut n_bytes = 0;
        let mut request = Request::default();
        for WaitingPath { path, subscribers, n_alive, same_hash_idx: _ } in waiting.paths {
            if n_alive == 0 {
                continue;
            }
            let full = paths.len() == STAT_BATCH_MAX_PATHS || n_bytes + path.len() > STAT_BATCH_MAX_PATH_BYTES;
            if full && !paths.is_empty() {
                self.send(now_ms, std::mem::take(&mut paths), std::mem::take(&mut request));
                n_bytes = 0;
            }
            n_bytes += path.len();
            paths.push(path);
            request.n_alive += n_alive;
            request.subscribers.push(subscribers);
        }
        if !paths.is_empty() {
            self.send(now_ms, paths, request);
        }
    }

    /// The reply to a request, one result a path, or why there is none.
    pub fn handle_reply(&mut self, request_id: StatRequestId, reply: Result<Vec<StatResult>, E>) {
        let Some(request) = self.requests.remove(request_id.0) else { return };
        match reply {
            Ok(results) if results.len() == request.subscribers.len() => {
                for (subscribers, result) in request.subscribers.into_iter().zip(results) {
                    for subscriber in subscribers {
                        self.settle(subscriber, || Ok(result.clone()));
                    }
                }
            }
            Ok(_) => {
                for subscriber in request.subscribers.into_iter().flatten() {
                    self.settle(subscriber, || Err(StatFailure::CountMismatch));
                }
            }
            Err(error) => {
                for subscriber in request.subscribers.into_iter().flatten() {
                    self.settle(subscriber, || Err(StatFailure::Request(error.clone())));
                }
            }
        }
    }

    /// The subscriber left: it gets no event. The last one out aborts the request.
    pub fn handle_cancel(&mut self, subscriber: SubscriberId) {
        let Some(Subscriber { place, deadline_ms }) = self.subscribers.remove(subscriber.0) else { return };
        if let Some(deadline_ms) = deadline_ms {
            self.deadlines.remove(&(deadline_ms, subscriber));
        }
        match place {
            Place::Waiting { path_idx } => self.waiting.paths[path_idx].n_alive -= 1,
            Place::Sent { request_id } => {
                if let Some(request) = self.requests.get_mut(request_id.0) {
                    request.n_alive -= 1;
                    if request.n_alive == 0 {
                        self.requests.remove(request_id.0);
                        self.actions.push_back(StatAction::Abort { request_id });
                    }
                }
            }
        }
    }

    /// The next deadline of a subscriber.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline_ms, _)| *deadline_ms)
    }

    /// Times out every subscriber whose deadline has come.
    pub fn handle_timeout(&mut self, now_ms: u64) {
        while let Some(&(deadline_ms, subscriber)) = self.deadlines.first() {
            if deadline_ms > now_ms {
                break;
            }
            self.handle_cancel(subscriber);
            self.events.push_back(StatEvent { subscriber, result: Err(StatFailure::TimedOut) });
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<StatAction> {
        self.actions.pop_front()
    }

    /// The next call that ended.
    pub fn poll_event(&mut self) -> Option<StatEvent<E>> {
        self.events.pop_front()
    }

    fn send(&mut self, now_ms: u64, paths: Vec<Box<str>>, request: Request) {
        let request_id = StatRequestId(self.next_request_id);
        self.next_request_id += 1;
        let mut budget_ms = 0;
        for subscriber in request.subscribers.iter().flatten() {
            // Subscribers that left are still in the list; they are told apart by their absence here.
            let Some(entry) = self.subscribers.get_mut(subscriber.0) else { continue };
            entry.place = Place::Sent { request_id };
            let remaining_ms =
                entry.deadline_ms.map_or(self.default_budget_ms, |deadline_ms| deadline_ms.saturating_sub(now_ms));
            budget_ms = budget_ms.max(remaining_ms);
        }
        self.requests.insert(request_id.0, request);
        self.actions.push_back(StatAction::Send { request_id, paths, budget_ms });
    }

    fn settle(&mut self, subscriber: SubscriberId, result: impl FnOnce() -> Result<StatResult, StatFailure<E>>) {
        // Those who left are still in the lists of their request.
        let Some(Subscriber { deadline_ms, .. }) = self.subscribers.remove(subscriber.0) else { return };
        if let Some(deadline_ms) = deadline_ms {
            self.deadlines.remove(&(deadline_ms, subscriber));
        }
        self.events.push_back(StatEvent { subscriber, result: result() });
    }
}

/// The calls of the current turn, by path. Found by hash, because paths of one folder are long and differ at their ends.
#[derive(Debug, Default)]
struct Waiting {
    /// The latest path of each hash.
    idx_of_hash: BTreeMap<u64, u64>,
    paths: Vec<WaitingPath>,
}

#[derive(Debug)]
struct WaitingPath {
    path: Box<str>,
    /// The path before this one with the same hash.
    same_hash_idx: Option<usize>,
    subscribers: Vec<SubscriberId>,
    n_alive: usize,
}

impl Waiting {
    fn add(&mut self, path: &str, subscriber: SubscriberId) -> usize {
        let new_idx = self.paths.len();
        // 64 bits, so that the tree is the one of `IdMap`.
        let latest_idx = self.idx_of_hash.entry(hash_of(path)).or_insert(new_idx as u64);
        let same_hash_idx = Some(*latest_idx as usize).filter(|idx| *idx < new_idx);
        let mut known_idx = same_hash_idx;
        while let Some(path_idx) = known_idx {
            let known = &mut self.paths[path_idx];
            if *known.path == *path {
                known.subscribers.push(subscriber);
                known.n_alive += 1;
                return path_idx;
            }
            known_idx = known.same_hash_idx;
        }
        *latest_idx = new_idx as u64;
        self.paths.push(WaitingPath { path: path.into(), same_hash_idx, subscribers: vec![subscriber], n_alive: 1 });
        new_idx
    }
}

/// FNV-1a.
fn hash_of(path: &str) -> u64 {
    path.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A request under way: who waits for each of its paths. Those who left stay in the lists and are only counted out, so
/// that leaving costs the same however many wait.
#[derive(Debug, Default)]
struct Request {
    subscribers: Vec<Vec<SubscriberId>>,
    n_alive: usize,
}

#[derive(Debug)]
struct Subscriber {
    place: Place,
    deadline_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Waiting { path_idx: usize },
    Sent { request_id: StatRequestId },
}
