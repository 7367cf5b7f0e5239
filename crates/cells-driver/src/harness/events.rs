//! Subscriptions to the events of a profile, and what they tell (`cells-0.4.md` §2.7).

use std::sync::Arc;

use cells_machines::event_topic::{EventTopic, TopicFailure, TopicState as MachineState};
use cells_protocol::error::{ErrorKind, kind_of_tool_code};
use cells_protocol::events::{EventCursor, HarnessEvent, NativeMessage};
use cells_protocol::ids::EventEpoch;
use serde::{Deserialize, Serialize};

use super::stream;
use super::topic::Topic;
use crate::error::{Error, Result};

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
    pub(super) fn new(topic: Arc<Topic>, id: u64) -> Self {
        Self { topic, id }
    }

    /// Resolves when the node has accepted the topic. An interrupted stream keeps this waiting: it is connected again.
    ///
    /// # Errors
    /// Why the topic failed for good: `ECAPABILITY` with reason `NODE_UPGRADE_REQUIRED` from a node without event
    /// streams, `EACCES`, or the node's code for this topic; `ECANCELLED` when the client ends its streams.
    pub async fn ready(&self) -> Result<()> {
        std::future::poll_fn(|context| self.topic.poll_ready(self.id, context.waker())).await
    }

    /// The next change, at once if there was one since the last call; `None` when the client has ended its streams. Changes
    /// are merged: one call may stand for many events.
    pub async fn changed(&mut self) -> Option<TopicChange> {
        std::future::poll_fn(|context| self.topic.poll_changed(self.id, context.waker())).await
    }

    /// What is known of the events now, with those after `cursor`; see
    /// [`event_snapshot`](crate::HarnessClient::event_snapshot).
    pub fn snapshot(&self, cursor: Option<&EventCursor>) -> EventSnapshot {
        self.topic.snapshot(cursor)
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

/// What is known of a topic.
pub(super) fn snapshot(machine: &EventTopic<Error>, cursor: Option<&EventCursor>) -> EventSnapshot {
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
pub(super) fn state_of(state: &MachineState<Error>) -> TopicState {
    match state {
        MachineState::Closed => TopicState::Closed,
        MachineState::Connecting => TopicState::Connecting,
        MachineState::Online => TopicState::Online,
        MachineState::Offline(_) => TopicState::Offline,
        MachineState::Failed(_) => TopicState::Failed,
    }
}

/// Why a topic is offline or failed.
pub(super) fn error_of(failure: &TopicFailure<Error>) -> Error {
    match failure {
        TopicFailure::Stream(error) => error.clone(),
        TopicFailure::Topic { code } => {
            let message = format!("the node refused the events of the profile with code {code}");
            Error::new(kind_of_tool_code(code), stream::SUBSCRIBE, message).with_remote_code(code)
        }
    }
}

/// The error of a subscription that its client has ended.
pub(super) fn closed() -> Error {
    Error::new(ErrorKind::Cancelled, stream::SUBSCRIBE, "the client has ended its event streams")
}
