//! The event stream: request and frames (`cells-0.4.md` §2).

mod frame;

pub use frame::{
    Closing, DirectoryFrame, EventsFrame, Frame, GapReason, ProcessFrame, Ready, RequestsFrame, TopicError,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{ClientId, EventEpoch, ProfileId, TopicId};
use crate::json::{self, Malformed, Object};
use crate::receipts::Scope;

/// A position in an event ring.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventCursor {
    /// Sequence number of the last event seen.
    pub after: u64,
    /// The ring.
    pub event_epoch: EventEpoch,
}

impl EventCursor {
    /// Reads a position.
    ///
    /// # Errors
    /// [`Malformed`] when a member is wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self { after: object.integer("after")?, event_epoch: object.id("eventEpoch")? })
    }

    /// Whether this position is `other` or one before it in the same ring.
    pub fn is_at_or_before(&self, other: &Self) -> bool {
        self.event_epoch == other.event_epoch && self.after <= other.after
    }
}

json::deserialize_by_read!(EventCursor);

/// Body of `POST /v1/events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventsRequest {
    /// Always 1.
    pub version: u64,
    /// Random identity of the driver instance; a newer stream of the same identity supersedes an older one.
    pub client_id: ClientId,
    /// 1 to 128 topics with unique ids.
    pub topics: Vec<TopicRequest>,
}

/// One topic of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicRequest {
    /// Addresses the frames of this topic.
    pub id: TopicId,
    /// What is watched.
    #[serde(flatten)]
    pub kind: TopicKind,
}

/// What a topic watches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum TopicKind {
    /// The events of a profile instance.
    Harness {
        /// The profile.
        profile_id: ProfileId,
        /// The project scope, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<Scope>,
        /// Where to go on; absent = from now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor: Option<EventCursor>,
        /// `summary` drops tool output.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_detail: Option<String>,
    },
    /// The changes of a project's directory.
    Directory {
        /// The project; `readOnly` is ignored.
        scope: Scope,
        /// The last known watch; absent = a new one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor: Option<WatchCursor>,
    },
    /// The end of a process.
    Process {
        /// Process epoch of its start.
        epoch: String,
        /// Request id of its start.
        request_id: String,
    },
    /// A kind that this crate does not know; a node answers it with the topic error `ECAPABILITY`.
    #[serde(other)]
    Other,
}

/// The last known version of a watched directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchCursor {
    /// The watch.
    pub watch_id: String,
    /// Its version; compared for equality only.
    pub version: String,
}

/// One event of a profile. The node keeps the newest 1,024, of at most 8 MiB, in a ring.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HarnessEvent {
    /// Its sequence number; rings start at 1 and step by 1.
    pub seq: u64,
    /// When it happened, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<u64>,
    /// The native notification or request.
    pub message: NativeMessage,
}

impl HarnessEvent {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            seq: object.integer("seq")?,
            timestamp: object.optional_integer("timestamp")?,
            message: NativeMessage::read(&mut object.object("message")?)?,
        })
    }
}

/// A native notification (`method`, `params`) or request (with `id`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NativeMessage {
    /// Identity of a request; compared as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    /// For example `turn/started`.
    pub method: String,
    /// The native parameters.
    pub params: Value,
}

impl NativeMessage {
    /// Reads a message.
    ///
    /// # Errors
    /// [`Malformed`] when it has no method.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self { id: object.optional_value("id")?, method: object.string("method")?, params: object.value("params")? })
    }
}
