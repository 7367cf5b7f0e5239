//! Subscriptions to the events of a node, and what they tell (`cells-0.4.md` §2.7). All subscriptions to one node under one
//! identity share one stream.

mod hub;
mod stream;

use cells_machines::event_hub::TopicKey;

use cells_machines::event_topic::{EventTopic, TopicFailure, TopicState as MachineState};
use cells_protocol::error::{ErrorKind, kind_of_tool_code};
use cells_protocol::events::{EventCursor, HarnessEvent, NativeMessage};
use cells_protocol::ids::EventEpoch;
use cells_protocol::process::ProcessStatus;
use serde::{Deserialize, Serialize};

pub(crate) use hub::Events;

use crate::error::{Error, Result};
use crate::node::Link;

/// Whether the events of a profile arrive.
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
    /// The events after the asked position, ascending: of the newest 1,024, or 8 MiB.
    pub events: Vec<HarnessEvent>,
    /// All outstanding approvals and questions, at most 128.
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

/// Keeps the events of a profile coming. Dropping it ends that; the last one of all to a node ends the stream. Turns go on.
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
    link: Link,
    key: TopicKey,
    /// Number of the subscription, or why there is none.
    id: Result<u64>,
}

impl Subscription {
    pub(crate) fn new(link: &Link, key: TopicKey, owner: u64) -> Self {
        Self { link: link.clone(), id: Events::join(link, key.clone(), owner), key }
    }

    /// Resolves when the node has accepted the topic. An interrupted stream keeps this waiting: it is connected again.
    ///
    /// # Errors
    /// Why the topic failed for good: `ECAPABILITY` with reason `NODE_UPGRADE_REQUIRED` from a node without event
    /// streams, `EACCES`, or the node's code for this topic; `ECANCELLED` when the client ends its streams.
    pub async fn ready(&self) -> Result<()> {
        let id = self.id.clone()?;
        std::future::poll_fn(|context| self.link.node.events.poll_ready(id, context.waker())).await
    }

    /// The next change, at once if there was one since the last call; `None` when the client has ended its streams. Changes
    /// are merged: one call may stand for many events.
    pub async fn changed(&mut self) -> Option<TopicChange> {
        let id = *self.id.as_ref().ok()?;
        std::future::poll_fn(|context| self.link.node.events.poll_changed(id, context.waker())).await
    }

    /// What is known of the events now, with those after `cursor`; see
    /// [`event_snapshot`](crate::HarnessClient::event_snapshot).
    pub fn snapshot(&self, cursor: Option<&EventCursor>) -> EventSnapshot {
        let mut snapshot = self.link.node.events.snapshot(&self.key, cursor);
        if let Err(error) = &self.id {
            (snapshot.state, snapshot.error) = (TopicState::Failed, Some(error.clone()));
        }
        snapshot
    }
}

/// What a process topic tells.
pub(crate) enum TopicNews {
    /// The process is over.
    Ended(ProcessStatus),
    /// Its end will be told.
    Online,
    /// The stream is not there, or the node does not know the process.
    Down,
}

impl Subscription {
    /// What the topic of a process tells now.
    pub(crate) fn process_news(&self) -> TopicNews {
        self.link.node.events.process_news(&self.key)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Ok(id) = self.id {
            self.link.node.events.leave(self.link.core.host.now_ms(), id);
        }
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subscription({:?})", self.key)
    }
}

/// What is known of a topic.
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

/// Without the reason.
fn state_of(state: &MachineState<Error>) -> TopicState {
    match state {
        MachineState::Closed => TopicState::Closed,
        MachineState::Connecting => TopicState::Connecting,
        MachineState::Online => TopicState::Online,
        MachineState::Offline(_) => TopicState::Offline,
        MachineState::Failed(_) => TopicState::Failed,
    }
}

/// Why a topic is offline or failed.
fn error_of(failure: &TopicFailure<Error>) -> Error {
    match failure {
        TopicFailure::Stream(error) => error.clone(),
        TopicFailure::Topic { code } => {
            let message = format!("the node refused the topic with code {code}");
            Error::new(kind_of_tool_code(code), SUBSCRIBE, message).with_remote_code(code)
        }
    }
}

/// The error of a subscription that its client has ended.
fn closed() -> Error {
    Error::new(ErrorKind::Cancelled, SUBSCRIBE, "the client has ended its event streams")
}

const SUBSCRIBE: &str = "subscribe";
