//! The shared event stream of a node: all topics of all subscribers over one connection (`cells-0.4.md` §2).

mod connection;
#[cfg(test)]
mod tests;

use cells_protocol::events::{Closing, Frame, Ready, TopicKind, TopicRequest};
use cells_protocol::ids::{ProfileId, TopicId};
use cells_protocol::limits::EVENT_TOPICS_MAX;
use cells_protocol::receipts::Scope;

use crate::event_topic::{EventTopic, TopicAction, TopicEvent, TopicFailure, TopicState, TopicViolation};
use connection::Connection;

/// The topics of one node, credential and authorization, and the one stream that feeds them. `E` is the caller's error.
///
/// Subscribers of the same [`TopicKey`] share a topic; all topics share one stream. A topic that comes or goes establishes
/// the stream anew, from the cursors of all topics; changes within 50 ms of each other do so once. A broken stream is
/// connected again with growing delays, a refused one is not. The caller carries out [`HubAction`]s, reports what becomes
/// of each connection under the number of its attempt, and tells subscribers of [`HubEvent`]s. What belongs to an attempt
/// that is over is ignored.
#[derive(Debug)]
pub struct EventHub<E> {
    /// In the order of their numbers.
    entries: Vec<Entry<E>>,
    n_topics: u64,
    connection: Connection,
    /// Topics with something to tell; may name one twice, or one that is gone.
    touched: Vec<u64>,
    ready: Option<Ready>,
}

#[derive(Debug)]
struct Entry<E> {
    number: u64,
    key: TopicKey,
    topic: EventTopic<E>,
    n_subscribers: u64,
}

/// What a topic watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicKey {
    /// The events of a profile.
    Harness {
        /// The profile.
        profile_id: ProfileId,
        /// The project, if the sessions belong to one.
        scope: Option<Scope>,
    },
    /// The directory of a project.
    Directory {
        /// The project.
        scope: Scope,
    },
    /// The end of a process.
    Process {
        /// Process epoch of its start.
        epoch: String,
        /// Request id of its start.
        request_id: String,
    },
}

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
pub enum HubAction {
    /// Open a stream for these topics, and report it under `attempt`.
    Connect {
        /// Names the connection in all calls that follow.
        attempt: u64,
        /// 1 to 128 topics, with the cursors that hold now.
        topics: Vec<TopicRequest>,
    },
    /// End the stream of this attempt, or the try to open it.
    Abort {
        /// The attempt.
        attempt: u64,
    },
}

/// Something changed.
#[derive(Debug, Clone, PartialEq)]
pub enum HubEvent {
    /// A stream is ready; the node says who it is.
    Ready(Ready),
    /// Tell the subscribers of a topic.
    Topic {
        /// The number that [`EventHub::start_subscribe`] gave.
        topic: u64,
        /// What changed. Changes are merged until they are polled.
        event: TopicEvent,
    },
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEnd<E> {
    /// It broke, or could not be opened for now: it is tried again.
    Broken {
        /// Why.
        error: E,
        /// What the node asked for.
        retry_after_ms: Option<u64>,
    },
    /// The node refused it, or what it said makes no sense to repeat.
    Refused {
        /// Why.
        error: E,
        /// Another secret may help: [`EventHub::handle_credential`] tries once more.
        waits_for_credential: bool,
    },
}

/// What the hub itself finds wrong with a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamFault {
    /// No byte for this long.
    #[error("nothing was heard from the node for {0} ms")]
    Silent(u64),
    /// The first frame was another one.
    #[error("the event stream does not start with ready")]
    NotReady,
    /// A frame that cannot follow what came before.
    #[error(transparent)]
    Violation(#[from] TopicViolation),
    /// The node ended the stream with this code.
    #[error("the node ended the event stream with code {0}")]
    Closed(String),
}

/// The hub has 128 topics already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event stream has at most 128 topics")]
pub struct TopicLimit;

impl<E: Clone + From<StreamFault>> EventHub<E> {
    /// A hub without topics.
    pub fn new() -> Self {
        Self { entries: Vec::new(), n_topics: 0, connection: Connection::new(), touched: Vec::new(), ready: None }
    }

    /// Somebody subscribes; gives the number of the topic. Every subscribe needs one [`start_unsubscribe`](Self::start_unsubscribe).
    /// A topic that failed is opened anew.
    ///
    /// # Errors
    /// [`TopicLimit`] for a 129th topic.
    pub fn start_subscribe(&mut self, now_ms: u64, key: TopicKey) -> Result<u64, TopicLimit> {
        let known = self.entries.iter().position(|entry| entry.key == key);
        let at = match known {
            Some(at) => at,
            None if self.entries.len() >= EVENT_TOPICS_MAX => return Err(TopicLimit),
            None => {
                self.n_topics += 1;
                let topic = key.topic();
                self.entries.push(Entry { number: self.n_topics, key, topic, n_subscribers: 0 });
                self.entries.len() - 1
            }
        };
        let Some(entry) = self.entries.get_mut(at) else { return Err(TopicLimit) };
        entry.n_subscribers += 1;
        let number = entry.number;
        if matches!(entry.topic.state(), TopicState::Closed | TopicState::Failed(_)) {
            entry.topic.start_open();
            self.touched.push(number);
            self.want_connection(now_ms);
        }
        Ok(number)
    }

    /// A subscriber left. With the last one of a topic everything known of it is dropped; with the last of all topics the
    /// stream ends.
    pub fn start_unsubscribe(&mut self, now_ms: u64, topic: u64) {
        let Some(at) = self.position(topic) else { return };
        let Some(entry) = self.entries.get_mut(at) else { return };
        entry.n_subscribers = entry.n_subscribers.saturating_sub(1);
        if entry.n_subscribers > 0 {
            return;
        }
        let was_fed = entry.is_active();
        self.entries.remove(at);
        if self.entries.is_empty() {
            self.connection.stop();
        } else if was_fed {
            self.connection.plan_change(now_ms);
        }
    }

    /// The secret of the node was set: a stream that was refused for it is tried once more.
    pub fn handle_credential(&mut self, now_ms: u64) {
        if self.connection.is_refused_for_credential() {
            self.want_connection(now_ms);
        }
    }

    /// Whether a stream was refused in a way that another secret may heal.
    pub fn waits_for_credential(&self) -> bool {
        self.connection.is_refused_for_credential()
    }

    /// The caller gives the node up: the stream ends, and all topics fail with `error`.
    pub fn start_give_up(&mut self, error: &E) {
        self.connection.abort();
        self.connection.handle_refused(false);
        self.each_topic(|topic| topic.handle_failed(error.clone()));
    }

    /// The node accepted the request of this attempt; frames follow.
    pub fn handle_opened(&mut self, now_ms: u64, attempt: u64) {
        self.connection.handle_opened(now_ms, attempt);
    }

    /// Bytes arrived on the stream of this attempt.
    pub fn handle_bytes(&mut self, now_ms: u64, attempt: u64) {
        self.connection.handle_bytes(now_ms, attempt);
    }

    /// A frame of this attempt. `random` is any number; it spreads reconnects.
    pub fn handle_frame(&mut self, now_ms: u64, attempt: u64, frame: Frame, random: u32) {
        if !self.connection.is_open(attempt) {
            return;
        }
        let fault = match frame {
            Frame::Ready(ready) => {
                if self.connection.handle_ready(now_ms, ready.heartbeat_ms) {
                    self.ready = Some(ready);
                }
                return;
            }
            Frame::Closing(closing) => return self.break_off(now_ms, end_of(closing), random),
            Frame::Heartbeat | Frame::Unknown => return,
            _ if !self.connection.is_ready() => StreamFault::NotReady,
            frame => match self.handle_topic_frame(now_ms, frame) {
                Ok(()) => return,
                Err(violation) => violation.into(),
            },
        };
        self.break_off(now_ms, broken(fault), random);
    }

    /// The connection of this attempt ended, or was not to be had. `random` is any number; it spreads reconnects.
    pub fn handle_end(&mut self, now_ms: u64, attempt: u64, end: StreamEnd<E>, random: u32) {
        if !self.connection.is_current(attempt) {
            return;
        }
        match end {
            StreamEnd::Broken { error, retry_after_ms } => {
                self.connection.handle_broken(now_ms, retry_after_ms, random);
                self.each_topic(|topic| topic.handle_offline(error.clone()));
            }
            StreamEnd::Refused { error, waits_for_credential } => {
                self.connection.handle_refused(waits_for_credential);
                self.each_topic(|topic| topic.handle_failed(error.clone()));
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called.
    pub fn poll_timeout(&self) -> Option<u64> {
        let topics = self.entries.iter().filter_map(|entry| entry.topic.poll_timeout());
        topics.chain(self.connection.poll_timeout()).min()
    }

    /// Time has passed. `random` is any number; it spreads reconnects.
    pub fn handle_timeout(&mut self, now_ms: u64, random: u32) {
        for entry in &mut self.entries {
            entry.topic.handle_timeout(now_ms);
            match entry.topic.poll_action() {
                Some(TopicAction::Reestablish) => self.connection.reestablish(now_ms),
                None => {}
            }
        }
        if let Some(silence_ms) = self.connection.silence_at(now_ms) {
            self.break_off(now_ms, broken(StreamFault::Silent(silence_ms)), random);
        }
        self.connection.handle_timeout(now_ms);
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<HubAction> {
        if let Some(attempt) = self.connection.poll_abort() {
            return Some(HubAction::Abort { attempt });
        }
        if !self.connection.is_due() {
            return None;
        }
        let topics: Vec<_> = self.entries.iter().filter(|entry| entry.is_active()).filter_map(Entry::request).collect();
        if topics.is_empty() {
            self.connection.stop();
            return None;
        }
        Some(HubAction::Connect { attempt: self.connection.start_attempt(), topics })
    }

    /// What changed and was not told yet.
    pub fn poll_event(&mut self) -> Option<HubEvent> {
        if let Some(ready) = self.ready.take() {
            return Some(HubEvent::Ready(ready));
        }
        while let Some(number) = self.touched.pop() {
            let event = self.position(number).and_then(|at| self.entries.get_mut(at)?.topic.poll_event());
            if let Some(event) = event {
                return Some(HubEvent::Topic { topic: number, event });
            }
        }
        None
    }

    /// A topic by its number; `None` when nobody subscribes to it.
    pub fn topic(&self, number: u64) -> Option<&EventTopic<E>> {
        self.position(number).and_then(|at| self.entries.get(at)).map(|entry| &entry.topic)
    }

    /// The number of the topic that watches `key`, if somebody subscribes to it.
    pub fn find(&self, key: &TopicKey) -> Option<u64> {
        self.entries.iter().find(|entry| entry.key == *key).map(|entry| entry.number)
    }

    /// Whether there is neither a topic nor a stream.
    pub fn is_idle(&self) -> bool {
        self.entries.is_empty() && self.connection.is_idle()
    }

    /// Opens what failed with the stream, and wants one.
    fn want_connection(&mut self, now_ms: u64) {
        if self.connection.is_refused() {
            for entry in &mut self.entries {
                if matches!(entry.topic.state(), TopicState::Failed(TopicFailure::Stream(_))) {
                    entry.topic.start_open();
                    self.touched.push(entry.number);
                }
            }
        }
        self.connection.plan_change(now_ms);
    }

    fn handle_topic_frame(&mut self, now_ms: u64, frame: Frame) -> Result<(), TopicViolation> {
        let number = frame.topic().and_then(number_of);
        let Some(entry) = number.and_then(|number| self.position(number)).and_then(|at| self.entries.get_mut(at))
        else {
            return Ok(());
        };
        self.touched.push(entry.number);
        entry.topic.handle_frame(now_ms, frame)
    }

    /// Ends the stream for what it said, or did not say.
    fn break_off(&mut self, now_ms: u64, end: StreamEnd<E>, random: u32) {
        let Some(attempt) = self.connection.abort() else { return };
        self.handle_end(now_ms, attempt, end, random);
    }

    fn each_topic(&mut self, change: impl Fn(&mut EventTopic<E>)) {
        for entry in &mut self.entries {
            if entry.is_active() {
                change(&mut entry.topic);
                self.touched.push(entry.number);
            }
        }
    }

    fn position(&self, number: u64) -> Option<usize> {
        self.entries.binary_search_by_key(&number, |entry| entry.number).ok()
    }
}

impl<E: Clone + From<StreamFault>> Default for EventHub<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Entry<E> {
    /// Whether it belongs into the list of a stream.
    fn is_active(&self) -> bool {
        let is_open = !matches!(self.topic.state(), TopicState::Closed | TopicState::Failed(_));
        is_open && self.topic.process_ended().is_none()
    }

    fn request(&self) -> Option<TopicRequest> {
        let kind = match self.key.clone() {
            TopicKey::Harness { profile_id, scope } => {
                let (cursor, tool_detail) = (self.topic.cursor().cloned(), Some("summary".to_owned()));
                TopicKind::Harness { profile_id, scope, cursor, tool_detail }
            }
            TopicKey::Directory { scope } => TopicKind::Directory { scope, cursor: self.topic.watch_cursor() },
            TopicKey::Process { epoch, request_id } => TopicKind::Process { epoch, request_id },
        };
        let id = TopicId::new(format!("t{}", self.number)).ok()?;
        Some(TopicRequest { id, kind })
    }
}

impl TopicKey {
    fn topic<E>(&self) -> EventTopic<E> {
        match self {
            Self::Harness { .. } => EventTopic::harness(),
            Self::Directory { .. } => EventTopic::directory(),
            Self::Process { .. } => EventTopic::process(),
        }
    }
}

fn broken<E: From<StreamFault>>(fault: StreamFault) -> StreamEnd<E> {
    StreamEnd::Broken { error: fault.into(), retry_after_ms: None }
}

/// What a `closing` frame means.
fn end_of<E: From<StreamFault>>(closing: Closing) -> StreamEnd<E> {
    let Closing { code, retry_after_ms } = closing;
    let is_final = matches!(code.as_str(), "AUTHORIZATION_CHANGED" | "SUPERSEDED");
    let error = StreamFault::Closed(code).into();
    if is_final {
        StreamEnd::Refused { error, waits_for_credential: false }
    } else {
        StreamEnd::Broken { error, retry_after_ms }
    }
}

fn number_of(topic: &TopicId) -> Option<u64> {
    topic.as_str().strip_prefix('t')?.parse().ok()
}
