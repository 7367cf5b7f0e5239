//! All subscriptions to one node, and the task that feeds them over one stream.

use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use cells_machines::event_hub::{EventHub, HubAction, HubEvent, TopicKey};
use cells_machines::event_topic::{EventTopic, TopicState as MachineState};
use cells_machines::id_map::IdMap;
use cells_protocol::error::ErrorKind;
use cells_protocol::events::EventCursor;
use cells_protocol::ids::{ClientId, hex};
use futures::FutureExt;
use futures::future::{Either, select};

use super::{EventSnapshot, SUBSCRIBE, TopicChange, TopicNews, closed, error_of, snapshot, state_of, stream};
use crate::budget::disposed;
use crate::error::{Error, Result};
use crate::host::HostFuture;
use crate::node::{Link, authorization_changed};
use crate::run::stopped;
use crate::sync::lock;

/// The subscriptions to one node under one identity.
#[derive(Default)]
pub(crate) struct Events(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    hub: EventHub<Error>,
    /// Identity towards the node, made at the first subscription.
    client_id: Option<ClientId>,
    subscribers: IdMap<Subscriber>,
    next_id: u64,
    next_owner: u64,
    /// A task feeds the hub.
    is_fed: bool,
    /// Wakes that task.
    feeder: Option<Waker>,
}

struct Subscriber {
    /// Number of its topic in the hub.
    topic: u64,
    /// Who ends it.
    owner: u64,
    change: Option<TopicChange>,
    changed: Option<Waker>,
    ready: Option<Waker>,
}

impl Events {
    /// A number for somebody who ends all their subscriptions at once.
    pub(crate) fn new_owner(&self) -> u64 {
        let mut inner = lock(&self.0);
        inner.next_owner += 1;
        inner.next_owner
    }

    /// Subscribes to a topic of the node of `link`; gives the number of the subscription.
    ///
    /// # Errors
    /// `EBUSY` with reason `EVENTS_TOPIC_LIMIT` for a 129th topic; as for any call of a client that cannot be used.
    pub(super) fn join(link: &Link, key: TopicKey, owner: u64) -> Result<u64> {
        link.check_open(SUBSCRIBE)?;
        let client_id: [u8; 16] = link.core.random(SUBSCRIBE)?;
        let client_id = ClientId::new(hex(&client_id)).map_err(|error| Error::invalid(SUBSCRIBE, error))?;
        let (id, must_feed) = {
            let mut inner = lock(&link.node.events.0);
            let topic = inner.hub.start_subscribe(link.core.host.now_ms(), key).map_err(|limit| {
                Error::new(ErrorKind::Busy, SUBSCRIBE, limit.to_string()).with_reason(EVENTS_TOPIC_LIMIT)
            })?;
            inner.client_id.get_or_insert(client_id);
            let id = inner.next_id;
            inner.next_id += 1;
            let subscriber = Subscriber { topic, owner, change: None, changed: None, ready: None };
            inner.subscribers.insert(id, subscriber);
            inner.publish();
            inner.wake_feeder();
            (id, !std::mem::replace(&mut inner.is_fed, true))
        };
        if must_feed && let Err(error) = link.core.spawner.spawn(SUBSCRIBE, Box::pin(feed(link.clone()))) {
            link.node.events.leave(link.core.host.now_ms(), id);
            lock(&link.node.events.0).is_fed = false;
            return Err(error);
        }
        Ok(id)
    }

    /// Removes a subscription; the last one of all ends the stream.
    pub(super) fn leave(&self, now_ms: u64, id: u64) {
        let mut inner = lock(&self.0);
        let Some(subscriber) = inner.subscribers.remove(id) else { return };
        inner.hub.start_unsubscribe(now_ms, subscriber.topic);
        inner.publish();
        inner.wake_feeder();
    }

    /// Ends all subscriptions of `owner`.
    pub(crate) fn close(&self, now_ms: u64, owner: u64) {
        let ended: Vec<Subscriber> = {
            let mut inner = lock(&self.0);
            let ids = inner.subscribers.ids_where(|subscriber| subscriber.owner == owner);
            let ended: Vec<_> = ids.into_iter().filter_map(|id| inner.subscribers.remove(id)).collect();
            for subscriber in &ended {
                inner.hub.start_unsubscribe(now_ms, subscriber.topic);
            }
            inner.publish();
            inner.wake_feeder();
            ended
        };
        for waker in ended.into_iter().flat_map(|subscriber| [subscriber.changed, subscriber.ready]).flatten() {
            waker.wake();
        }
    }

    /// Resolves when the node has accepted the topic of a subscription, or will not.
    pub(super) fn poll_ready(&self, id: u64, waker: &Waker) -> Poll<Result<()>> {
        let mut inner = lock(&self.0);
        let Inner { hub, subscribers, .. } = &mut *inner;
        let Some(subscriber) = subscribers.get_mut(id) else { return Poll::Ready(Err(closed())) };
        match hub.topic(subscriber.topic).map(EventTopic::state) {
            Some(MachineState::Online) => Poll::Ready(Ok(())),
            Some(MachineState::Failed(failure)) => Poll::Ready(Err(error_of(failure))),
            Some(MachineState::Closed) | None => Poll::Ready(Err(closed())),
            Some(MachineState::Connecting | MachineState::Offline(_)) => {
                subscriber.ready = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    /// The next change for a subscription; `None` when it was ended.
    pub(super) fn poll_changed(&self, id: u64, waker: &Waker) -> Poll<Option<TopicChange>> {
        let mut inner = lock(&self.0);
        let Some(subscriber) = inner.subscribers.get_mut(id) else { return Poll::Ready(None) };
        match subscriber.change.take() {
            Some(change) => Poll::Ready(Some(change)),
            None => {
                subscriber.changed = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    /// What is known of a topic now.
    pub(crate) fn snapshot(&self, key: &TopicKey, cursor: Option<&EventCursor>) -> EventSnapshot {
        let inner = lock(&self.0);
        match inner.hub.find(key).and_then(|topic| inner.hub.topic(topic)) {
            Some(topic) => snapshot(topic, cursor),
            None => snapshot(&EventTopic::harness(), cursor),
        }
    }

    /// What the topic of a process tells now.
    pub(super) fn process_news(&self, key: &TopicKey) -> TopicNews {
        let inner = lock(&self.0);
        let Some(topic) = inner.hub.find(key).and_then(|topic| inner.hub.topic(topic)) else { return TopicNews::Down };
        match (topic.process_ended(), topic.state()) {
            (Some(status), _) => TopicNews::Ended(status.clone()),
            (None, MachineState::Online) => TopicNews::Online,
            (None, _) => TopicNews::Down,
        }
    }

    /// Lets `change` work on the hub, and tells the subscribers what came of it.
    pub(super) fn update<R>(&self, change: impl FnOnce(&mut EventHub<Error>) -> R) -> R {
        let mut inner = lock(&self.0);
        let result = change(&mut inner.hub);
        inner.publish();
        result
    }

    pub(super) fn client_id(&self) -> Option<ClientId> {
        lock(&self.0).client_id.clone()
    }
}

impl Inner {
    /// Tells the subscribers what has changed.
    fn publish(&mut self) {
        while let Some(event) = self.hub.poll_event() {
            let HubEvent::Topic { topic, event } = event else { continue };
            let Some(state) = self.hub.topic(topic).map(|topic| state_of(topic.state())) else { continue };
            for subscriber in self.subscribers.values_mut().filter(|subscriber| subscriber.topic == topic) {
                let before = subscriber.change.take();
                subscriber.change = Some(TopicChange {
                    state,
                    gap: event.gap || before.as_ref().is_some_and(|change| change.gap),
                    requests_changed: event.requests_changed || before.is_some_and(|change| change.requests_changed),
                    cursor: event.cursor.clone(),
                });
                for waker in [subscriber.changed.take(), subscriber.ready.take()].into_iter().flatten() {
                    waker.wake();
                }
            }
        }
    }

    fn wake_feeder(&mut self) {
        if let Some(feeder) = self.feeder.take() {
            feeder.wake();
        }
    }
}

/// Keeps the stream that the hub wants, until nobody subscribes.
async fn feed(link: Link) {
    let mut guard = Guard { link: link.clone(), has_ended: false };
    let ended = select(link.core.disposal.cancelled(), link.node.revoked.cancelled());
    let mut feeder = Feeder { link, stream: None, renewed: None, timer: None };
    let fed = std::future::poll_fn(|context| feeder.poll(context));
    match select(fed, ended).await {
        Either::Left(_) => {}
        Either::Right((Either::Left(_), _)) => guard.give_up(&disposed(SUBSCRIBE)),
        Either::Right((Either::Right(_), _)) => guard.give_up(&authorization_changed(SUBSCRIBE)),
    }
    guard.has_ended = true;
}

/// Fails the topics if their task is dropped with [`Run`](crate::Run).
struct Guard {
    link: Link,
    has_ended: bool,
}

impl Guard {
    fn give_up(&self, error: &Error) {
        let mut inner = lock(&self.link.node.events.0);
        inner.is_fed = false;
        inner.hub.start_give_up(error);
        while inner.hub.poll_action().is_some() {}
        inner.publish();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.has_ended {
            self.give_up(&stopped(SUBSCRIBE));
        }
    }
}

/// Does what the hub asks for.
struct Feeder {
    link: Link,
    /// The connection of this attempt. Dropping it ends the request.
    stream: Option<(u64, HostFuture<'static, ()>)>,
    /// The secret was set, since before the connection used it.
    renewed: Option<HostFuture<'static, ()>>,
    /// A timer, and when it rings. It may ring before it is time.
    timer: Option<(u64, HostFuture<'static, ()>)>,
}

impl Feeder {
    /// Ready when there is nothing left to feed.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            lock(&self.link.node.events.0).feeder = Some(context.waker().clone());
            if let Some((_, stream)) = &mut self.stream
                && stream.poll_unpin(context).is_ready()
            {
                self.stream = None;
            }
            self.take_renewal(context);
            self.take_time(context);
            if self.act() {
                continue;
            }
            let mut inner = lock(&self.link.node.events.0);
            if inner.hub.is_idle() {
                inner.is_fed = false;
                return Poll::Ready(());
            }
            return Poll::Pending;
        }
    }

    /// Carries out what the hub wants; whether there was something.
    fn act(&mut self) -> bool {
        let mut has_acted = false;
        while let Some(action) = self.link.node.events.update(EventHub::poll_action) {
            has_acted = true;
            match action {
                HubAction::Abort { attempt } => {
                    self.stream.take_if(|(current, _)| *current == attempt);
                }
                HubAction::Connect { attempt, topics } => {
                    let renewed = self.link.core.credentials.renewed(&self.link.node.binding.identity);
                    self.renewed = Some(Box::pin(renewed));
                    self.stream = Some((attempt, Box::pin(stream::run(self.link.clone(), attempt, topics))));
                }
            }
        }
        has_acted
    }

    fn take_renewal(&mut self, context: &mut Context<'_>) {
        let events = &self.link.node.events;
        if let Some(renewed) = &mut self.renewed
            && events.update(|hub| hub.waits_for_credential())
            && renewed.poll_unpin(context).is_ready()
        {
            self.renewed = None;
            let now_ms = self.link.core.host.now_ms();
            events.update(|hub| hub.handle_credential(now_ms));
        }
    }

    fn take_time(&mut self, context: &mut Context<'_>) {
        let (host, events) = (&self.link.core.host, &self.link.node.events);
        while let Some(due_ms) = events.update(|hub| hub.poll_timeout()) {
            let now_ms = host.now_ms();
            if due_ms <= now_ms {
                self.timer = None;
                let random = self.link.core.jitter();
                events.update(|hub| hub.handle_timeout(now_ms, random));
                continue;
            }
            // Every chunk moves the time of silence: a timer that rings too early is cheaper than a new one for each.
            if self.timer.as_ref().is_none_or(|(rings_ms, _)| *rings_ms > due_ms) {
                self.timer = Some((due_ms, host.sleep(due_ms - now_ms)));
            }
            let Some((_, timer)) = &mut self.timer else { return };
            if Pin::new(timer).poll(context).is_pending() {
                return;
            }
            self.timer = None;
        }
        self.timer = None;
    }
}

/// Reason of a topic too many.
const EVENTS_TOPIC_LIMIT: &str = "EVENTS_TOPIC_LIMIT";
