//! Subscriptions to the events of a profile, and what is known of them locally (`cells-0.4.md` §2.7).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use cells_machines::event_topic::{EventTopic, TopicFailure, TopicState as MachineState};
use cells_protocol::error::{ErrorKind, kind_of_tool_code};
use cells_protocol::events::{EventCursor, HarnessEvent, NativeMessage};
use cells_protocol::ids::{EventEpoch, ProfileId};
use serde::{Deserialize, Serialize};

use super::stream;
use crate::cancellation::{CancelHandle, Cancellation};
use crate::error::{Error, Result};
use crate::node::Link;
use crate::sync::lock;

/// Where a topic stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TopicState {
    /// Nobody subscribes.
    Closed,
    /// The node has not accepted the topic yet.
    Connecting,
    /// Events arrive.
    Online,
    /// Interrupted; connected again by itself.
    Offline,
    /// Refused for good: until somebody subscribes again, or, if it was for the credential, until that is set.
    Failed,
}

/// What is known of the events of a profile.
#[derive(Debug, Clone)]
pub struct EventSnapshot {
    /// The event ring; `None` before the node accepted the topic.
    pub epoch: Option<EventEpoch>,
    /// The position now; `None` before the node accepted the topic.
    pub cursor: Option<EventCursor>,
    /// The events since the asked position are not all here: read the history again.
    pub gap: bool,
    /// The events after the asked position, ascending.
    pub events: Vec<HarnessEvent>,
    /// All outstanding approvals and questions.
    pub requests: Vec<NativeMessage>,
    /// Where the topic stands.
    pub state: TopicState,
    /// Why the topic is offline or failed.
    pub error: Option<Error>,
}

/// Something changed. Changes are merged until they are taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicChange {
    /// Where the topic stands.
    pub state: TopicState,
    /// The position could not be continued: read the history again.
    pub gap: bool,
    /// The set of outstanding requests changed.
    pub requests_changed: bool,
    /// The position now.
    pub cursor: Option<EventCursor>,
}

/// Keeps the events of a profile coming. Dropping it ends that; the last one of a profile ends its stream. Turns go on.
///
/// Join history and events so: subscribe, await [`ready`](Self::ready), read the history, then take the events after the
/// history's cursor from [`event_snapshot`](crate::HarnessClient::event_snapshot) whenever something
/// [`changed`](Self::changed).
///
/// ```no_run
/// # use cells_driver::{HarnessClient, HistoryOptions, NativeId, ProfileId, Result};
/// # async fn example(harness: HarnessClient, profile: ProfileId, session: NativeId) -> Result<()> {
/// let mut subscription = harness.subscribe(&profile);
/// subscription.ready().await?;
/// let history = harness.read(&profile, &session, HistoryOptions::default()).await?;
/// let mut cursor = history.event_cursor;
/// while subscription.changed().await.is_some() {
///     let snapshot = harness.event_snapshot(&profile, cursor.as_ref());
///     for event in &snapshot.events {
///         println!("{}", event.message.method);
///     }
///     cursor = snapshot.cursor;
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a subscription ends it"]
pub struct Subscription {
    topic: Arc<Topic>,
    id: u64,
}

impl Subscription {
    /// Resolves when the node has accepted the topic. An interrupted stream keeps this waiting: it is connected again.
    ///
    /// # Errors
    /// Why the topic failed for good: `ECAPABILITY` with reason `NODE_UPGRADE_REQUIRED` from a node without event
    /// streams, `EACCES`, or the node's code for this topic; `ECANCELLED` when the client ends its streams.
    pub async fn ready(&self) -> Result<()> {
        std::future::poll_fn(|context| {
            let mut inner = lock(&self.topic.inner);
            let result = match inner.machine.state() {
                MachineState::Online => Ok(()),
                MachineState::Failed(failure) => Err(error_of(failure)),
                MachineState::Closed => Err(closed()),
                MachineState::Connecting | MachineState::Offline(_) => {
                    inner.wait(self.id, context.waker(), Waiting::Ready);
                    return Poll::Pending;
                }
            };
            Poll::Ready(result)
        })
        .await
    }

    /// The next change, at once if there was one since the last call; `None` when the client has ended its streams. Changes
    /// are merged: one call may stand for many events.
    pub async fn changed(&mut self) -> Option<TopicChange> {
        std::future::poll_fn(|context| {
            let mut inner = lock(&self.topic.inner);
            let Some(subscriber) = inner.subscribers.get_mut(&self.id) else { return Poll::Ready(None) };
            if let Some(change) = subscriber.change.take() {
                return Poll::Ready(Some(change));
            }
            inner.wait(self.id, context.waker(), Waiting::Changed);
            Poll::Pending
        })
        .await
    }

    /// What is known of the events now, with those after `cursor`; see
    /// [`event_snapshot`](crate::HarnessClient::event_snapshot).
    pub fn snapshot(&self, cursor: Option<&EventCursor>) -> EventSnapshot {
        snapshot(&lock(&self.topic.inner).machine, cursor)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.topic.leave(self.id);
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subscription({})", self.topic.profile_id)
    }
}

/// The topics of one client.
#[derive(Default)]
pub(super) struct Topics(Mutex<BTreeMap<ProfileId, Arc<Topic>>>);

impl Topics {
    pub(super) fn subscribe(&self, link: &Link, profile_id: &ProfileId) -> Subscription {
        let mut topics = lock(&self.0);
        let topic = topics.entry(profile_id.clone()).or_insert_with(|| Arc::new(Topic::new(profile_id.clone())));
        let topic = Arc::clone(topic);
        drop(topics);
        let id = topic.join(link);
        Subscription { topic, id }
    }

    pub(super) fn snapshot(&self, profile_id: &ProfileId, cursor: Option<&EventCursor>) -> EventSnapshot {
        let topic = lock(&self.0).get(profile_id).cloned();
        match topic {
            Some(topic) => snapshot(&lock(&topic.inner).machine, cursor),
            None => snapshot(&EventTopic::new(), cursor),
        }
    }

    pub(super) fn close(&self) {
        for topic in std::mem::take(&mut *lock(&self.0)).into_values() {
            topic.close();
        }
    }
}

/// The events of one profile.
pub(super) struct Topic {
    pub(super) profile_id: ProfileId,
    inner: Mutex<Inner>,
}

struct Inner {
    machine: EventTopic<Error>,
    subscribers: BTreeMap<u64, Subscriber>,
    next_id: u64,
    /// Ends the stream that feeds the topic.
    stop: Option<CancelHandle>,
}

#[derive(Default)]
struct Subscriber {
    change: Option<TopicChange>,
    changed: Option<Waker>,
    ready: Option<Waker>,
}

#[derive(Clone, Copy)]
enum Waiting {
    Ready,
    Changed,
}

impl Topic {
    fn new(profile_id: ProfileId) -> Self {
        let inner = Inner { machine: EventTopic::new(), subscribers: BTreeMap::new(), next_id: 0, stop: None };
        Self { profile_id, inner: Mutex::new(inner) }
    }

    /// Adds a subscriber, and opens a stream if there is none.
    fn join(self: &Arc<Self>, link: &Link) -> u64 {
        let mut inner = lock(&self.inner);
        let id = inner.next_id;
        inner.next_id += 1;
        inner.subscribers.insert(id, Subscriber::default());
        let needs_stream = matches!(inner.machine.state(), MachineState::Closed | MachineState::Failed(_));
        inner.machine.start_open();
        inner.publish();
        if needs_stream {
            let (stop, stopped) = Cancellation::new();
            let before = inner.stop.replace(stop);
            drop(inner);
            if let Some(before) = before {
                before.cancel();
            }
            if let Err(error) = stream::start(link, self, stopped) {
                self.update(|machine| machine.handle_failed(error));
            }
        }
        id
    }

    fn leave(&self, id: u64) {
        let stop = {
            let mut inner = lock(&self.inner);
            inner.subscribers.remove(&id);
            if !inner.subscribers.is_empty() {
                return;
            }
            inner.machine.start_close();
            inner.stop.take()
        };
        if let Some(stop) = stop {
            stop.cancel();
        }
    }

    /// Ends all subscriptions.
    fn close(&self) {
        let (stop, subscribers) = {
            let mut inner = lock(&self.inner);
            inner.machine.start_close();
            (inner.stop.take(), std::mem::take(&mut inner.subscribers))
        };
        if let Some(stop) = stop {
            stop.cancel();
        }
        for waker in subscribers.into_values().flat_map(|subscriber| [subscriber.changed, subscriber.ready]).flatten() {
            waker.wake();
        }
    }

    /// Lets `change` work on the machine, and tells the subscribers what came of it.
    pub(super) fn update<R>(&self, change: impl FnOnce(&mut EventTopic<Error>) -> R) -> R {
        let mut inner = lock(&self.inner);
        let result = change(&mut inner.machine);
        inner.publish();
        result
    }
}

impl Inner {
    fn wait(&mut self, id: u64, waker: &Waker, waiting: Waiting) {
        if let Some(subscriber) = self.subscribers.get_mut(&id) {
            match waiting {
                Waiting::Ready => subscriber.ready = Some(waker.clone()),
                Waiting::Changed => subscriber.changed = Some(waker.clone()),
            }
        }
    }

    fn publish(&mut self) {
        let Some(news) = self.machine.poll_event() else { return };
        let state = state_of(self.machine.state());
        for subscriber in self.subscribers.values_mut() {
            let before = subscriber.change.take();
            subscriber.change = Some(TopicChange {
                state,
                gap: news.gap || before.as_ref().is_some_and(|change| change.gap),
                requests_changed: news.requests_changed || before.is_some_and(|change| change.requests_changed),
                cursor: news.cursor.clone(),
            });
            for waker in [subscriber.changed.take(), subscriber.ready.take()].into_iter().flatten() {
                waker.wake();
            }
        }
    }
}

fn snapshot(machine: &EventTopic<Error>, cursor: Option<&EventCursor>) -> EventSnapshot {
    let snapshot = machine.snapshot(cursor);
    EventSnapshot {
        epoch: snapshot.cursor.map(|cursor| cursor.event_epoch.clone()),
        cursor: snapshot.cursor.cloned(),
        gap: snapshot.gap,
        events: snapshot.events.into_iter().cloned().collect(),
        requests: snapshot.requests.to_vec(),
        state: state_of(snapshot.state),
        error: match snapshot.state {
            MachineState::Offline(failure) | MachineState::Failed(failure) => Some(error_of(failure)),
            MachineState::Closed | MachineState::Connecting | MachineState::Online => None,
        },
    }
}

fn state_of(state: &MachineState<Error>) -> TopicState {
    match state {
        MachineState::Closed => TopicState::Closed,
        MachineState::Connecting => TopicState::Connecting,
        MachineState::Online => TopicState::Online,
        MachineState::Offline(_) => TopicState::Offline,
        MachineState::Failed(_) => TopicState::Failed,
    }
}

fn error_of(failure: &TopicFailure<Error>) -> Error {
    match failure {
        TopicFailure::Stream(error) => error.clone(),
        TopicFailure::Topic { code } => {
            let message = format!("the node refused the events of the profile with code {code}");
            Error::new(kind_of_tool_code(code), stream::SUBSCRIBE, message).with_remote_code(code)
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Cancelled, stream::SUBSCRIBE, "the client has ended its event streams")
}
