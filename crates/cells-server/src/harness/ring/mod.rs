//! The event ring of one profile instance (`harness.md` §5.1, `cells-0.4.md` §2.5).
//!
//! Messages are serialised once, when they are pushed; every reader shares that text.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cells_protocol::events::{EventCursor, GapReason, NativeMessage};
use cells_protocol::ids::EventEpoch;
use cells_protocol::limits::{EVENT_RING_MAX_BYTES, EVENT_RING_MAX_EVENTS, EVENTS_PER_FRAME_MAX, PENDING_REQUESTS_MAX};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::clock::now_ms;
use super::plugin::ToolError;
use super::summary::{Summary, summarise_message};

/// Events of one profile instance and its outstanding requests.
///
/// Keeps the newest 1024 events and 8 MiB of their text, and at most 128 requests of 8 MiB together. Requests outlive the
/// eviction of their event. All methods take `&self`; none blocks for longer than a copy in memory.
///
/// ```
/// use cells_server::harness::ring::EventRing;
/// use serde_json::json;
///
/// let ring = EventRing::new([7; 16]);
/// let start = ring.newest();
/// ring.push("turn/started", json!({"threadId": "s-1", "turn": {"id": "t-1"}}))?;
/// let page = ring.page(&start)?;
/// assert_eq!((page.from, page.to, page.events.len()), (0, 1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EventRing {
    seed: [u8; 16],
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

/// One event as it is kept.
#[derive(Debug, Clone)]
pub struct RingEvent {
    /// Its sequence number.
    pub seq: u64,
    /// When it was pushed, in Unix milliseconds.
    pub timestamp: u64,
    /// The message as compact JSON.
    pub message: Arc<str>,
    /// The message in summary form (`harness.md` §4.4); `None` when summary mode leaves it out.
    pub summary: Option<Arc<str>>,
}

/// What follows a cursor.
#[derive(Debug, Clone)]
pub struct Page {
    /// The ring.
    pub epoch: EventEpoch,
    /// The position asked for.
    pub from: u64,
    /// The position of the last event of the page; `from` when there is none.
    pub to: u64,
    /// At most 128 events and, beyond the first, 512 KiB, with `from < seq ≤ to`, ascending.
    pub events: Vec<RingEvent>,
    /// Nothing follows `to`.
    pub is_newest: bool,
    /// The complete set of outstanding requests as of `to`, as compact JSON.
    pub requests: Vec<Arc<str>>,
    /// An event of this page changed that set.
    pub requests_changed: bool,
}

/// A cursor cannot be continued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the position cannot be continued")]
pub struct Gap {
    /// The newest position.
    pub cursor: EventCursor,
    /// Why.
    pub reason: GapReason,
}

impl EventRing {
    /// An empty ring. `seed` is random; the epochs of the ring are derived from it.
    pub fn new(seed: [u8; 16]) -> Self {
        let state = State::empty(epoch(&seed, 0), 0);
        Self { seed, state: Mutex::new(state), changed: watch::Sender::new(()) }
    }

    /// Appends a notification and gives its sequence number.
    ///
    /// # Errors
    /// `EFBIG` when the message is larger than 8 MiB; it is not stored.
    pub fn push(&self, method: &str, params: Value) -> Result<u64, ToolError> {
        let texts = Texts::of(&NativeMessage { id: None, method: method.to_owned(), params })?;
        let seq = self.lock().push(texts);
        self.changed.send_replace(());
        Ok(seq)
    }

    /// Appends a native request and keeps it as outstanding until it is resolved. Ids are compared as JSON.
    ///
    /// # Errors
    /// `EFBIG` when the message is larger than 8 MiB, `HARNESS_REQUEST_LIMIT` when 128 requests or 8 MiB of them are
    /// outstanding, `EINVAL` when a request with this id is.
    pub fn add_request(&self, id: Value, method: &str, params: Value) -> Result<u64, ToolError> {
        let message = NativeMessage { id: Some(id), method: method.to_owned(), params };
        let texts = Texts::of(&message)?;
        let text = Arc::clone(&texts.message);
        let mut state = self.lock();
        let id = message.id.clone().unwrap_or_default();
        if state.outstanding().any(|request| request.id == id) {
            return Err(ToolError("EINVAL"));
        }
        let bytes: usize = state.outstanding().map(|request| request.text.len()).sum();
        if state.outstanding().count() >= PENDING_REQUESTS_MAX || bytes + text.len() > EVENT_RING_MAX_BYTES {
            return Err(ToolError("HARNESS_REQUEST_LIMIT"));
        }
        let seq = state.push(texts);
        state.requests.push(Request { id, message, text, added: seq, resolved: None });
        drop(state);
        self.changed.send_replace(());
        Ok(seq)
    }

    /// The outstanding request with this id.
    pub fn request(&self, id: &Value) -> Option<NativeMessage> {
        self.lock().outstanding().find(|request| request.id == *id).map(|request| request.message.clone())
    }

    /// Ends an outstanding request and appends `serverRequest/resolved`, in one step. Gives the request, or `None` when no
    /// request with this id is outstanding.
    pub fn resolve_request(&self, id: &Value) -> Option<NativeMessage> {
        let mut state = self.lock();
        let request = state.outstanding().find(|request| request.id == *id)?.message.clone();
        let thread = request.params.get("threadId").cloned().unwrap_or_default();
        let params = serde_json::json!({"threadId": thread, "requestId": id});
        let resolved = NativeMessage { id: None, method: "serverRequest/resolved".to_owned(), params };
        let seq = state.push(Texts::of(&resolved).ok()?);
        if let Some(found) = state.requests.iter_mut().find(|request| request.resolved.is_none() && request.id == *id) {
            found.resolved = Some(seq);
        }
        drop(state);
        self.changed.send_replace(());
        Some(request)
    }

    /// Starts anew under another epoch: no events, no requests. For an agent whose process was started again.
    pub fn restart(&self) {
        let mut state = self.lock();
        let generation = state.generation + 1;
        *state = State::empty(epoch(&self.seed, generation), generation);
        drop(state);
        self.changed.send_replace(());
    }

    /// The newest position.
    pub fn newest(&self) -> EventCursor {
        self.lock().newest()
    }

    /// The position before the oldest event that is kept.
    pub fn oldest(&self) -> EventCursor {
        let state = self.lock();
        EventCursor { after: state.evicted, event_epoch: state.epoch.clone() }
    }

    /// The complete set of outstanding requests now, as compact JSON.
    pub fn outstanding(&self) -> Vec<Arc<str>> {
        self.lock().outstanding().map(|request| Arc::clone(&request.text)).collect()
    }

    /// What follows `cursor`.
    ///
    /// # Errors
    /// [`Gap`] when the ring has another epoch, the cursor is beyond the newest event, or events after it are gone.
    pub fn page(&self, cursor: &EventCursor) -> Result<Page, Gap> {
        let state = self.lock();
        let newest = state.newest();
        let reason = if cursor.event_epoch != state.epoch {
            Some(GapReason::Epoch)
        } else if cursor.after > newest.after {
            Some(GapReason::Ahead)
        } else {
            (cursor.after < state.evicted).then_some(GapReason::Evicted)
        };
        if let Some(reason) = reason {
            return Err(Gap { cursor: newest, reason });
        }
        let skip = usize::try_from(cursor.after - state.evicted).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let fits = |event: &&RingEvent| {
            bytes += event.message.len();
            bytes <= PAGE_BYTES_MAX || bytes == event.message.len()
        };
        let following = state.events.iter().skip(skip).take(EVENTS_PER_FRAME_MAX);
        let events: Vec<RingEvent> = following.take_while(fits).cloned().collect();
        let to = events.last().map_or(cursor.after, |event| event.seq);
        let inside = |seq: u64| cursor.after < seq && seq <= to;
        let requests_changed =
            state.requests.iter().any(|request| inside(request.added) || request.resolved.is_some_and(inside));
        Ok(Page {
            epoch: state.epoch.clone(),
            from: cursor.after,
            to,
            events,
            is_newest: to == newest.after,
            requests: state.requests_at(to),
            requests_changed,
        })
    }

    /// Wakes whenever something was pushed, resolved or started anew.
    pub fn changed(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct State {
    epoch: EventEpoch,
    /// How often the ring was started anew.
    generation: u64,
    events: VecDeque<RingEvent>,
    bytes: usize,
    /// Sequence number of the last event that is gone; 0 when none is.
    evicted: u64,
    /// Outstanding requests, and resolved ones for as long as a reader can be before their end.
    requests: Vec<Request>,
}

#[derive(Debug)]
struct Request {
    id: Value,
    message: NativeMessage,
    text: Arc<str>,
    added: u64,
    resolved: Option<u64>,
}

impl State {
    fn empty(epoch: EventEpoch, generation: u64) -> Self {
        Self { epoch, generation, events: VecDeque::new(), bytes: 0, evicted: 0, requests: Vec::new() }
    }

    fn push(&mut self, texts: Texts) -> u64 {
        let Texts { message, summary } = texts;
        let seq = self.newest_seq() + 1;
        self.bytes += message.len();
        self.events.push_back(RingEvent { seq, timestamp: now_ms(), message, summary });
        while self.events.len() > EVENT_RING_MAX_EVENTS || self.bytes > EVENT_RING_MAX_BYTES {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.message.len();
            self.evicted = oldest.seq;
        }
        let evicted = self.evicted;
        self.requests.retain(|request| request.resolved.is_none_or(|resolved| resolved > evicted));
        seq
    }

    fn newest_seq(&self) -> u64 {
        self.events.back().map_or(self.evicted, |event| event.seq)
    }

    fn newest(&self) -> EventCursor {
        EventCursor { after: self.newest_seq(), event_epoch: self.epoch.clone() }
    }

    fn outstanding(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|request| request.resolved.is_none())
    }

    fn requests_at(&self, at: u64) -> Vec<Arc<str>> {
        let outstanding =
            |request: &&Request| request.added <= at && request.resolved.is_none_or(|resolved| resolved > at);
        self.requests.iter().filter(outstanding).map(|request| Arc::clone(&request.text)).collect()
    }
}

/// A message as it is kept: made once, whoever reads it.
struct Texts {
    message: Arc<str>,
    summary: Option<Arc<str>>,
}

impl Texts {
    fn of(message: &NativeMessage) -> Result<Self, ToolError> {
        let text: Arc<str> = serialise(message)?.into();
        if text.len() > EVENT_RING_MAX_BYTES {
            return Err(ToolError("EFBIG"));
        }
        let summary = match summarise_message(&message.method, &message.params) {
            Summary::Same => Some(Arc::clone(&text)),
            Summary::Dropped => None,
            Summary::Replaced(params) => Some(serialise(&NativeMessage { params, ..message.clone() })?.into()),
        };
        Ok(Self { message: text, summary })
    }
}

fn serialise(message: &NativeMessage) -> Result<String, ToolError> {
    serde_json::to_string(message).map_err(|_| ToolError("EIO"))
}

fn epoch(seed: &[u8; 16], generation: u64) -> EventEpoch {
    let digest: [u8; 32] = Sha256::new().chain_update(seed).chain_update(generation.to_be_bytes()).finalize().into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    EventEpoch::from_bytes(bytes)
}

/// Text of the events of one page, so that a slow reader never holds much.
const PAGE_BYTES_MAX: usize = 512 * 1024;
