//! One topic of the shared event stream: state, position, local ring, notifications (`cells-0.4.md` §2.5–2.7).

mod harness;
mod lifecycle;
mod ring;
#[cfg(test)]
mod tests;

use cells_protocol::events::{
    DirectoryFrame, EventCursor, Frame, HarnessEvent, NativeMessage, ProcessFrame, WatchCursor,
};
use cells_protocol::process::ProcessStatus;

use harness::HarnessTopic;
use lifecycle::Lifecycle;

/// The client side of one topic. `E` is the caller's error.
///
/// The caller gives it the frames of this topic and tells it what becomes of the stream; applications look at
/// [`EventTopic::snapshot`], which never waits.
///
/// A *harness* topic follows the event ring of a profile. The wire delivers at least once, the cursor makes that exactly once. A
/// position that cannot be continued is a *gap*: read the history again, then go on from the new cursor. A *directory* topic
/// has the newest version of a watched directory, which a fault does not take away. A *process* topic has the end of a process.
///
/// ```
/// use cells_machines::event_topic::EventTopic;
/// use cells_protocol::events::{EventCursor, Frame};
///
/// let epoch = "0".repeat(32);
/// let frame = |name, data: String| Frame::parse(name, data.as_bytes()).unwrap();
/// let mut topic: EventTopic<String> = EventTopic::harness();
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
    lifecycle: Lifecycle<E>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Harness(HarnessTopic),
    Directory { newest: Option<DirectoryFrame>, gap: bool },
    Process { ended: Option<ProcessStatus> },
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
    /// A frame of another kind of topic.
    #[error("a frame of a topic is of another kind")]
    Kind,
}

impl<E> EventTopic<E> {
    /// A topic of the events of a profile that nobody subscribes to.
    pub fn harness() -> Self {
        Self { lifecycle: Lifecycle::default(), content: Content::Harness(HarnessTopic::default()) }
    }

    /// A topic of a watched directory that nobody subscribes to.
    pub fn directory() -> Self {
        Self { lifecycle: Lifecycle::default(), content: Content::Directory { newest: None, gap: false } }
    }

    /// A topic of the end of a process that nobody subscribes to.
    pub fn process() -> Self {
        Self { lifecycle: Lifecycle::default(), content: Content::Process { ended: None } }
    }

    /// Somebody subscribes: a closed or failed topic goes to `connecting`; any other stays as it is. A failed topic goes
    /// on from its cursor.
    pub fn start_open(&mut self) {
        self.lifecycle.start_open();
    }

    /// The last subscriber left: everything known is dropped.
    pub fn start_close(&mut self) {
        *self = match self.content {
            Content::Harness(_) => Self::harness(),
            Content::Directory { .. } => Self::directory(),
            Content::Process { .. } => Self::process(),
        };
        self.lifecycle.mark_changed();
    }

    /// A frame of this topic. Frames of the stream itself are ignored, and so are those before the topic is open and after
    /// it failed.
    ///
    /// # Errors
    /// [`TopicViolation`] when the frame cannot follow what came before. The topic is as it was.
    pub fn handle_frame(&mut self, now_ms: u64, frame: Frame) -> Result<(), TopicViolation> {
        if !self.lifecycle.is_open() {
            return Ok(());
        }
        match frame {
            Frame::Open { cursor, .. } => {
                if let Content::Harness(harness) = &mut self.content {
                    harness.handle_open(cursor)?;
                }
                self.lifecycle.handle_open(now_ms);
            }
            Frame::TopicError(error) => self.lifecycle.handle_error(now_ms, error),
            Frame::Ready(_) | Frame::Heartbeat | Frame::Closing(_) | Frame::Unknown => {}
            // What follows an error, or comes before the topic is open, belongs to no position.
            _ if !matches!(self.lifecycle.state(), TopicState::Online) => {}
            frame => {
                if self.content.handle_frame(frame)? {
                    self.lifecycle.mark_changed();
                }
            }
        }
        Ok(())
    }

    /// The stream broke or could not be opened; it is being established anew.
    pub fn handle_offline(&mut self, error: E) {
        self.lifecycle.handle_offline(error);
    }

    /// The stream cannot be established for a reason that time does not heal.
    pub fn handle_failed(&mut self, error: E) {
        self.lifecycle.handle_failed(error);
    }

    /// When a topic that the node refused for the time being is tried again.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.lifecycle.poll_timeout()
    }

    /// Asks for the stream to be established anew if it is time.
    pub fn handle_timeout(&mut self, now_ms: u64) {
        self.lifecycle.handle_timeout(now_ms);
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<TopicAction> {
        self.lifecycle.poll_action()
    }

    /// What changed since the last call, if anything did.
    pub fn poll_event(&mut self) -> Option<TopicEvent> {
        if !self.lifecycle.take_changed() {
            return None;
        }
        Some(match &mut self.content {
            Content::Harness(harness) => TopicEvent {
                gap: std::mem::take(&mut harness.gap),
                requests_changed: std::mem::take(&mut harness.requests_changed),
                cursor: harness.cursor.clone(),
            },
            Content::Directory { gap, .. } => {
                TopicEvent { gap: std::mem::take(gap), requests_changed: false, cursor: None }
            }
            Content::Process { .. } => TopicEvent { gap: false, requests_changed: false, cursor: None },
        })
    }

    /// Where the topic stands.
    pub fn state(&self) -> &TopicState<E> {
        self.lifecycle.state()
    }

    /// Where a harness topic goes on when the stream is established anew; `None` = from now.
    pub fn cursor(&self) -> Option<&EventCursor> {
        match &self.content {
            Content::Harness(harness) => harness.cursor.as_ref(),
            Content::Directory { .. } | Content::Process { .. } => None,
        }
    }

    /// Where a directory topic goes on when the stream is established anew; `None` = with a new watch.
    pub fn watch_cursor(&self) -> Option<WatchCursor> {
        let newest = self.directory_version()?;
        Some(WatchCursor { watch_id: newest.watch_id.clone(), version: newest.version.clone() })
    }

    /// The newest version of a watched directory; `None` before the node sent one.
    pub fn directory_version(&self) -> Option<&DirectoryFrame> {
        match &self.content {
            Content::Directory { newest, .. } => newest.as_ref(),
            Content::Harness(_) | Content::Process { .. } => None,
        }
    }

    /// How the process ended; `None` while that is not known. Once known it stays.
    pub fn process_ended(&self) -> Option<&ProcessStatus> {
        match &self.content {
            Content::Process { ended } => ended.as_ref(),
            Content::Harness(_) | Content::Directory { .. } => None,
        }
    }

    /// What is known of a harness topic now, with the events after `since`. Without `since` there are no events and no gap.
    ///
    /// There is a gap when `since` belongs to another ring, is ahead of the position, or is before the oldest event that
    /// is kept here (1,024 events, 8 MiB).
    pub fn snapshot(&self, since: Option<&EventCursor>) -> TopicSnapshot<'_, E> {
        let state = self.state();
        let Content::Harness(HarnessTopic { cursor, ring, requests, .. }) = &self.content else {
            return TopicSnapshot { cursor: None, gap: since.is_some(), events: Vec::new(), requests: &[], state };
        };
        let (gap, events) = match (since, cursor) {
            (None, _) => (false, Vec::new()),
            (Some(since), Some(cursor)) if ring.reaches(since.after) && since.is_at_or_before(cursor) => {
                (false, ring.after(since.after))
            }
            (Some(_), _) => (true, Vec::new()),
        };
        TopicSnapshot { cursor: cursor.as_ref(), gap, events, requests, state }
    }
}

impl Content {
    /// Takes a frame that says something new; whether it did.
    fn handle_frame(&mut self, frame: Frame) -> Result<bool, TopicViolation> {
        match (self, frame) {
            (Self::Harness(harness), Frame::Gap { cursor, reason, .. }) => harness.handle_gap(cursor, reason),
            (Self::Harness(harness), Frame::Events(frame)) => harness.handle_events(frame),
            (Self::Harness(harness), Frame::Requests(frame)) => harness.handle_requests(frame),
            (Self::Directory { newest, gap }, Frame::Directory(frame)) => {
                *gap |= frame.gap;
                let is_new = newest.as_ref() != Some(&frame);
                *newest = Some(frame);
                Ok(is_new)
            }
            (Self::Process { ended }, Frame::Process(ProcessFrame { process, .. })) => {
                let is_new = ended.is_none();
                ended.get_or_insert(process);
                Ok(is_new)
            }
            (Self::Harness(_) | Self::Directory { .. } | Self::Process { .. }, _) => Err(TopicViolation::Kind),
        }
    }
}
