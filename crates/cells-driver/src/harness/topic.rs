//! The topics of one client: who subscribes to which profile, and what is known of its events.

use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use cells_machines::event_topic::{EventTopic, TopicState as MachineState};
use cells_machines::id_map::IdMap;
use cells_protocol::events::EventCursor;
use cells_protocol::ids::ProfileId;

use super::events::{EventSnapshot, Subscription, TopicChange, closed, error_of, snapshot, state_of};
use super::stream;
use crate::cancellation::{CancelHandle, Cancellation};
use crate::error::{Error, Result};
use crate::node::Link;
use crate::sync::lock;

/// The topics of one client.
#[derive(Default)]
pub(super) struct Topics(Mutex<Vec<Arc<Topic>>>);

impl Topics {
    pub(super) fn subscribe(&self, link: &Link, profile_id: &ProfileId) -> Subscription {
        let mut topics = lock(&self.0);
        let topic = match topics.iter().find(|topic| topic.profile_id == *profile_id) {
            Some(topic) => Arc::clone(topic),
            None => {
                let topic = Arc::new(Topic::new(profile_id.clone()));
                topics.push(Arc::clone(&topic));
                topic
            }
        };
        drop(topics);
        let id = topic.join(link);
        Subscription::new(topic, id)
    }

    pub(super) fn snapshot(&self, profile_id: &ProfileId, cursor: Option<&EventCursor>) -> EventSnapshot {
        let topic = lock(&self.0).iter().find(|topic| topic.profile_id == *profile_id).cloned();
        match topic {
            Some(topic) => topic.snapshot(cursor),
            None => snapshot(&EventTopic::new(), cursor),
        }
    }

    pub(super) fn close(&self) {
        for topic in std::mem::take(&mut *lock(&self.0)) {
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
    subscribers: IdMap<Subscriber>,
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

impl Topic {
    fn new(profile_id: ProfileId) -> Self {
        let inner = Inner { machine: EventTopic::new(), subscribers: IdMap::default(), next_id: 0, stop: None };
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

    /// Removes a subscriber; the last one ends the stream.
    pub(super) fn leave(&self, id: u64) {
        let stop = {
            let mut inner = lock(&self.inner);
            inner.subscribers.remove(id);
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

    /// Resolves when the node has accepted the topic, or will not.
    pub(super) fn poll_ready(&self, id: u64, waker: &Waker) -> Poll<Result<()>> {
        let mut inner = lock(&self.inner);
        match inner.machine.state() {
            MachineState::Online => Poll::Ready(Ok(())),
            MachineState::Failed(failure) => Poll::Ready(Err(error_of(failure))),
            MachineState::Closed => Poll::Ready(Err(closed())),
            MachineState::Connecting | MachineState::Offline(_) => {
                if let Some(subscriber) = inner.subscribers.get_mut(id) {
                    subscriber.ready = Some(waker.clone());
                }
                Poll::Pending
            }
        }
    }

    /// The next change for this subscriber; `None` when it was ended.
    pub(super) fn poll_changed(&self, id: u64, waker: &Waker) -> Poll<Option<TopicChange>> {
        let mut inner = lock(&self.inner);
        let Some(subscriber) = inner.subscribers.get_mut(id) else { return Poll::Ready(None) };
        match subscriber.change.take() {
            Some(change) => Poll::Ready(Some(change)),
            None => {
                subscriber.changed = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    /// What is known now.
    pub(super) fn snapshot(&self, cursor: Option<&EventCursor>) -> EventSnapshot {
        snapshot(&lock(&self.inner).machine, cursor)
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
    /// Tells the subscribers what has changed.
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
