//! One harness topic of the shared event stream: cursor, local ring, notifications (`cells-0.4.md` §2.5–2.7).

mod ring;
#[cfg(test)]
mod tests;

use cells_protocol::events::{
    EventCursor, EventsFrame, Frame, GapReason, HarnessEvent, NativeMessage, RequestsFrame, TopicError,
};
use cells_protocol::ids::EventEpoch;
use cells_protocol::limits::{PRODUCTIVE_AFTER_MS, TOPIC_RETRY_FIRST_MS, TOPIC_RETRY_MAX_MS};

use ring::Ring;

/// The client side of one harness topic. `E` is the caller's error.
///
/// The caller gives it the frames of this topic and tells it what becomes of the stream; applications look at
/// [`EventTopic::snapshot`], which never waits. The wire delivers at least once, the cursor makes that exactly once. A
/// position that cannot be continued is a *gap*: read the history again, then go on from the new cursor.
///
/// ```
/// use cells_machines::event_topic::EventTopic;
/// use cells_protocol::events::{EventCursor, Frame};
///
/// let epoch = "0".repeat(32);
/// let frame = |name, data: String| Frame::parse(name, data.as_bytes()).unwrap();
/// let mut topic: EventTopic<String> = EventTopic::new();
/// topic.start_open();
/// let open = format!(r#"{{"topic":"h1","kind":"harness","cursor":{{"after":7,"eventEpoch":"{epoch}"}}}}"#);
/// topic.handle_frame(0, frame("open", open))?;
/// let events = format!(r#"{{"topic":"h1","eventEpoch":"{epoch}","from":7,"to":8,"events":[{{"seq":8,"message":{{"method":"turn/started"}}}}]}}"#);
/// topic.handle_frame(0, frame("events", events.clone()))?;
/// topic.handle_frame(0, frame("events", events))?; // delivered twice
///
/// let start = EventCursor { after: 7, event_epoch: cells_protocol::ids::EventEpoch::new(epoch)? };
/// let snapshot = topic.snapshot(Some(&start));
/// assert_eq!((snapshot.gap, snapshot.events.len(), snapshot.cursor.unwrap().after), (false, 1, 8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EventTopic<E> {
    state: TopicState<E>,
    cursor: Option<EventCursor>,
    ring: Ring,
    requests: Vec<NativeMessage>,
    news: News,
    retry: Retry,
}

/// Where a topic stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicState<E> {
    /// Nobody subscribes.
    Closed,
    /// Subscribed, and the node has not accepted the topic yet.
    Connecting,
    /// The node sends events.
    Online,
    /// Interrupted. It is connected again by itself.
    Offline(TopicFailure<E>),
    /// Refused for good, until [`EventTopic::start_open`].
    Failed(TopicFailure<E>),
}

impl<E> TopicState<E> {
    /// The string form, for example `online`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Connecting => "connecting",
            Self::Online => "online",
            Self::Offline(_) => "offline",
            Self::Failed(_) => "failed",
        }
    }
}

/// Why a topic is offline or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicFailure<E> {
    /// The node refused this topic with this code. The others of the stream go on.
    Topic {
        /// The node's code.
        code: String,
    },
    /// The stream ended or could not be opened.
    Stream(E),
}

/// Something changed. Changes are merged until they are polled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicEvent {
    /// The position could not be continued: read the history again.
    pub gap: bool,
    /// The set of outstanding native requests changed.
    pub requests_changed: bool,
    /// The position now.
    pub cursor: Option<EventCursor>,
}

/// Something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicAction {
    /// The node refused the topic for the time being: establish the stream anew, with this topic in its list.
    Reestablish,
}

/// What is known of a topic, without asking the node.
#[derive(Debug, PartialEq)]
pub struct TopicSnapshot<'a, E> {
    /// The position now; `None` before the node accepted the topic.
    pub cursor: Option<&'a EventCursor>,
    /// The events since the asked position are not all here: read the history again.
    pub gap: bool,
    /// The events after the asked position, ascending. Empty without an asked position, and with a gap.
    pub events: Vec<&'a HarnessEvent>,
    /// The outstanding native requests.
    pub requests: &'a [NativeMessage],
    /// Where the topic stands.
    pub state: &'a TopicState<E>,
}

/// A frame that breaks the rules of its topic. The stream must be established anew, from the cursors that hold now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TopicViolation {
    /// An `open` frame without a cursor.
    #[error("a topic was opened without a cursor")]
    NoCursor,
    /// A frame of another ring without a gap before it.
    #[error("a frame of a topic belongs to another event epoch")]
    ForeignEpoch,
    /// A position that goes back, or that was skipped.
    #[error("a frame of a topic is not at the position that follows")]
    Position,
}

impl<E> EventTopic<E> {
    /// A topic that nobody subscribes to.
    pub fn new() -> Self {
        Self {
            state: TopicState::Closed,
            cursor: None,
            ring: Ring::default(),
            requests: Vec::new(),
            news: News::default(),
            retry: Retry::default(),
        }
    }

    /// Somebody subscribes: a closed or failed topic goes to `connecting`; any other stays as it is. A failed topic goes
    /// on from its cursor.
    pub fn start_open(&mut self) {
        match self.state {
            TopicState::Closed | TopicState::Failed(_) => {
                self.retry = Retry::default();
                self.enter(TopicState::Connecting);
            }
            TopicState::Connecting | TopicState::Online | TopicState::Offline(_) => {}
        }
    }

    /// The last subscriber left: everything known is dropped.
    pub fn start_close(&mut self) {
        *self = Self { news: News { changed: true, ..News::default() }, ..Self::new() };
    }

    /// A frame of this topic. Frames of the stream itself are ignored, and so are events before the topic is open and after
    /// it failed.
    ///
    /// # Errors
    /// [`TopicViolation`] when the frame cannot follow what came before. The topic is as it was.
    pub fn handle_frame(&mut self, now_ms: u64, frame: Frame) -> Result<(), TopicViolation> {
        let is_online = match self.state {
            TopicState::Closed | TopicState::Failed(_) => return Ok(()),
            TopicState::Connecting | TopicState::Offline(_) => false,
            TopicState::Online => true,
        };
        match frame {
            Frame::Open { cursor, .. } => self.handle_open(now_ms, cursor),
            Frame::TopicError(error) => self.handle_error(now_ms, error),
            // What follows an error, or comes before the topic is open, belongs to no position.
            Frame::Gap { .. } | Frame::Events(_) | Frame::Requests(_) if !is_online => Ok(()),
            Frame::Gap { cursor, reason, .. } => self.handle_gap(cursor, reason),
            Frame::Events(frame) => self.handle_events(frame),
            Frame::Requests(frame) => self.handle_requests(frame),
            Frame::Ready(_) | Frame::Heartbeat | Frame::Closing(_) | Frame::Unknown => Ok(()),
        }
    }

    /// The stream broke or could not be opened; it is being established anew.
    pub fn handle_offline(&mut self, error: E) {
        match self.state {
            TopicState::Connecting | TopicState::Online | TopicState::Offline(_) => {
                self.retry.at_ms = None;
                self.enter(TopicState::Offline(TopicFailure::Stream(error)));
            }
            TopicState::Closed | TopicState::Failed(_) => {}
        }
    }

    /// The stream cannot be established for a reason that time does not heal.
    pub fn handle_failed(&mut self, error: E) {
        match self.state {
            TopicState::Connecting | TopicState::Online | TopicState::Offline(_) => {
                self.retry.at_ms = None;
                self.enter(TopicState::Failed(TopicFailure::Stream(error)));
            }
            TopicState::Closed | TopicState::Failed(_) => {}
        }
    }

    /// When a topic that the node refused for the time being is tried again.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.retry.at_ms
    }

    /// Asks for the stream to be established anew if it is time.
    pub fn handle_timeout(&mut self, now_ms: u64) {
        if self.retry.at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            self.retry.at_ms = None;
            self.retry.due = true;
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<TopicAction> {
        std::mem::take(&mut self.retry.due).then_some(TopicAction::Reestablish)
    }

    /// What changed since the last call, if anything did.
    pub fn poll_event(&mut self) -> Option<TopicEvent> {
        let news = std::mem::take(&mut self.news);
        let event = TopicEvent { gap: news.gap, requests_changed: news.requests_changed, cursor: self.cursor.clone() };
        news.changed.then_some(event)
    }

    /// Where the topic stands.
    pub fn state(&self) -> &TopicState<E> {
        &self.state
    }

    /// Where the topic goes on when the stream is established anew; `None` = from now.
    pub fn cursor(&self) -> Option<&EventCursor> {
        self.cursor.as_ref()
    }

    /// What is known now, with the events after `since`. Without `since` there are no events and no gap.
    ///
    /// There is a gap when `since` belongs to another ring, is ahead of the position, or is before the oldest event that
    /// is kept here (1,024 events, 8 MiB).
    pub fn snapshot(&self, since: Option<&EventCursor>) -> TopicSnapshot<'_, E> {
        let (gap, events) = match (since, &self.cursor) {
            (None, _) => (false, Vec::new()),
            (Some(since), Some(cursor)) if self.ring.reaches(since.after) && since.is_at_or_before(cursor) => {
                (false, self.ring.after(since.after))
            }
            (Some(_), _) => (true, Vec::new()),
        };
        TopicSnapshot { cursor: self.cursor.as_ref(), gap, events, requests: &self.requests, state: &self.state }
    }

    fn handle_open(&mut self, now_ms: u64, start: Option<EventCursor>) -> Result<(), TopicViolation> {
        let start = start.ok_or(TopicViolation::NoCursor)?;
        match &self.cursor {
            // The node goes back to what is known here: the frames that follow are filtered.
            Some(cursor) if start.is_at_or_before(cursor) => {}
            Some(_) => self.move_to(start),
            None => {
                self.ring.restart(start.after);
                self.cursor = Some(start);
            }
        }
        self.retry.at_ms = None;
        self.retry.open_since_ms = Some(now_ms);
        self.enter(TopicState::Online);
        Ok(())
    }

    fn handle_gap(&mut self, to: EventCursor, reason: GapReason) -> Result<(), TopicViolation> {
        let goes_back = self.cursor.as_ref().is_some_and(|cursor| to != *cursor && to.is_at_or_before(cursor));
        match reason {
            GapReason::Epoch | GapReason::Evicted if goes_back => Err(TopicViolation::Position),
            // The position is beyond the newest event: the only reason to go back within a ring.
            GapReason::Epoch | GapReason::Evicted | GapReason::Ahead => {
                self.move_to(to);
                Ok(())
            }
        }
    }

    fn handle_events(&mut self, frame: EventsFrame) -> Result<(), TopicViolation> {
        let cursor = self.cursor_in(&frame.event_epoch)?;
        if frame.to <= cursor.after {
            return Ok(());
        }
        if frame.from > cursor.after {
            self.move_to(EventCursor { after: frame.to, event_epoch: frame.event_epoch });
            return Ok(());
        }
        let after = std::mem::replace(&mut cursor.after, frame.to);
        for event in frame.events {
            if event.seq > after {
                self.ring.push(event);
            }
        }
        self.news.changed = true;
        Ok(())
    }

    fn handle_requests(&mut self, frame: RequestsFrame) -> Result<(), TopicViolation> {
        let cursor = self.cursor_in(&frame.event_epoch)?;
        if frame.at > cursor.after {
            return Err(TopicViolation::Position);
        }
        // An older set than the position is stale; a newer one follows.
        if frame.at == cursor.after && frame.requests != self.requests {
            self.requests = frame.requests;
            self.news.changed = true;
            self.news.requests_changed = true;
        }
        Ok(())
    }

    fn handle_error(&mut self, now_ms: u64, error: TopicError) -> Result<(), TopicViolation> {
        let failure = TopicFailure::Topic { code: error.code };
        if error.is_final {
            self.retry.at_ms = None;
            self.enter(TopicState::Failed(failure));
        } else {
            self.retry.plan(now_ms, error.retry_after_ms);
            self.enter(TopicState::Offline(failure));
        }
        Ok(())
    }

    /// The current cursor, if it belongs to `epoch`.
    fn cursor_in(&mut self, epoch: &EventEpoch) -> Result<&mut EventCursor, TopicViolation> {
        let cursor = self.cursor.as_mut().ok_or(TopicViolation::NoCursor)?;
        if cursor.event_epoch == *epoch { Ok(cursor) } else { Err(TopicViolation::ForeignEpoch) }
    }

    fn move_to(&mut self, cursor: EventCursor) {
        self.ring.restart(cursor.after);
        self.cursor = Some(cursor);
        self.news.changed = true;
        self.news.gap = true;
    }

    fn enter(&mut self, state: TopicState<E>) {
        self.state = state;
        self.news.changed = true;
    }
}

impl<E> Default for EventTopic<E> {
    fn default() -> Self {
        Self::new()
    }
}

/// What was not told yet.
#[derive(Debug, Default)]
struct News {
    changed: bool,
    gap: bool,
    requests_changed: bool,
}

/// When a topic that was refused for the time being is tried again.
#[derive(Debug, Default)]
struct Retry {
    n_errors: u32,
    open_since_ms: Option<u64>,
    at_ms: Option<u64>,
    due: bool,
}

impl Retry {
    fn plan(&mut self, now_ms: u64, retry_after_ms: Option<u64>) {
        let open_for_ms = self.open_since_ms.take().map_or(0, |since_ms| now_ms.saturating_sub(since_ms));
        if open_for_ms >= PRODUCTIVE_AFTER_MS {
            self.n_errors = 0;
        }
        let delay_ms = TOPIC_RETRY_FIRST_MS.saturating_mul(1 << self.n_errors.min(16)).min(TOPIC_RETRY_MAX_MS);
        self.n_errors = self.n_errors.saturating_add(1);
        self.at_ms = Some(now_ms.saturating_add(delay_ms.max(retry_after_ms.unwrap_or(0).min(TOPIC_RETRY_MAX_MS))));
    }
}
