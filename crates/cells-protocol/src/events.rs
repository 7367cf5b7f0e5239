//! The event stream: request and frames (`cells-0.4.md` §2).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::authorization::AuthorizationSnapshot;
use crate::ids::{ClientId, EventEpoch, ProfileId, ServerId, TopicId};
use crate::json::{self, Malformed, Object};
use crate::limits::{EVENTS_PER_FRAME_MAX, HEARTBEAT_MAX_MS, HEARTBEAT_MIN_MS};
use crate::receipts::Scope;
use crate::text::is_code;

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
    /// A kind that this crate does not know; a node answers it with the topic error `ECAPABILITY`.
    #[serde(other)]
    Other,
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
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self { id: object.optional_value("id")?, method: object.string("method")?, params: object.value("params")? })
    }
}

/// Why a cursor could not be continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GapReason {
    /// Another ring.
    Epoch,
    /// The cursor is beyond the newest event.
    Ahead,
    /// Events after the cursor are gone.
    Evicted,
}

impl GapReason {
    const WORDS: &'static [(&'static str, Self)] =
        &[("epoch", Self::Epoch), ("ahead", Self::Ahead), ("evicted", Self::Evicted)];
}

/// One frame of the stream, of at most 8 MiB + 64 KiB.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// The first frame.
    Ready(Ready),
    /// A topic was accepted. Harness topics carry their start position.
    Open {
        /// The topic.
        topic: TopicId,
        /// Effective start of a harness topic.
        cursor: Option<EventCursor>,
    },
    /// The position cannot be continued; delivery goes on from `cursor`. Read history again after this frame.
    Gap {
        /// The topic.
        topic: TopicId,
        /// The newest position.
        cursor: EventCursor,
        /// Why.
        reason: GapReason,
    },
    /// Events with `from < seq ≤ to`, ascending, at most 128.
    Events(EventsFrame),
    /// The complete set of outstanding native requests.
    Requests(RequestsFrame),
    /// The topic failed.
    TopicError(TopicError),
    /// The stream lives.
    Heartbeat,
    /// The last frame before an orderly end.
    Closing(Closing),
    /// A frame of a newer node, or of a topic kind that this driver does not use.
    Unknown,
}

/// Data of a `ready` frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    /// Always 1.
    pub version: u64,
    /// Identity of this stream.
    pub stream_id: String,
    /// Longest silence of a living stream, in milliseconds: 1,000 to 60,000.
    pub heartbeat_ms: u64,
    /// Identity of the installation.
    pub server_id: Option<ServerId>,
    /// Process epoch of the harness service.
    pub harness_epoch: Option<String>,
    /// Process epoch of the file service.
    pub process_epoch: String,
    /// Who the node says the caller is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization: Option<AuthorizationSnapshot>,
}

impl Ready {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            version: object.integer("version")?,
            stream_id: object.string("streamId")?,
            heartbeat_ms: object.integer("heartbeatMs")?,
            server_id: object.optional_id("serverId")?,
            harness_epoch: object.optional_string("harnessEpoch")?,
            process_epoch: object.string_or_empty("processEpoch")?,
            authorization: object.lenient("authorization", AuthorizationSnapshot::read)?,
        })
    }
}

/// Data of an `events` frame.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventsFrame {
    /// The topic.
    pub topic: TopicId,
    /// The ring.
    pub event_epoch: EventEpoch,
    /// Position before the first event.
    pub from: u64,
    /// Position after the last event.
    pub to: u64,
    /// May be empty, when summary mode dropped them all.
    pub events: Vec<HarnessEvent>,
}

impl EventsFrame {
    /// Reads the data; [`Frame::parse`] checks the order besides.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            topic: object.id("topic")?,
            event_epoch: object.id("eventEpoch")?,
            from: object.integer("from")?,
            to: object.integer("to")?,
            events: object.objects("events", HarnessEvent::read)?,
        })
    }
}

/// Data of a `requests` frame.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestsFrame {
    /// The topic.
    pub topic: TopicId,
    /// The ring.
    pub event_epoch: EventEpoch,
    /// The position as of which the set is complete.
    pub at: u64,
    /// The requests.
    pub requests: Vec<NativeMessage>,
}

impl RequestsFrame {
    /// Reads the data.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            topic: object.id("topic")?,
            event_epoch: object.id("eventEpoch")?,
            at: object.integer("at")?,
            requests: object.objects("requests", NativeMessage::read)?,
        })
    }
}

/// Data of an `error` frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicError {
    /// The topic.
    pub topic: TopicId,
    /// The node's code.
    pub code: String,
    /// No frame follows until the topic is opened anew.
    #[serde(rename = "final")]
    pub is_final: bool,
    /// Do not try again before this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl TopicError {
    /// Reads the data.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            topic: object.id("topic")?,
            code: object.string("code")?,
            is_final: object.boolean("final")?,
            retry_after_ms: object.optional_integer("retryAfterMs")?,
        })
    }
}

/// Data of a `closing` frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Closing {
    /// The node's code.
    pub code: String,
    /// Do not try again before this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Closing {
    /// Reads the data.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self { code: object.string("code")?, retry_after_ms: object.optional_integer("retryAfterMs")? })
    }
}

impl Frame {
    /// Parses the frame with the SSE event name `event` and the data `data`.
    ///
    /// # Errors
    /// [`Malformed`] when the data is not what the name says. The stream must then be opened anew.
    pub fn parse(event: &str, data: &[u8]) -> Result<Self, Malformed> {
        const WHAT: &str = "the event frame";
        let wrong = |problem: &str| Err(Malformed::new(WHAT, problem));
        let data = || Object::parse(WHAT, data);
        match event {
            "ready" => {
                let ready = Ready::read(&mut data()?)?;
                if ready.version != 1 {
                    return wrong("has another version than 1");
                }
                if !(HEARTBEAT_MIN_MS..=HEARTBEAT_MAX_MS).contains(&ready.heartbeat_ms) {
                    return wrong("has a heartbeat outside 1000 to 60000 ms");
                }
                Ok(Self::Ready(ready))
            }
            "open" => {
                let mut open = data()?;
                Ok(Self::Open { topic: open.id("topic")?, cursor: open.lenient("cursor", EventCursor::read)? })
            }
            "gap" => {
                let mut gap = data()?;
                let cursor = EventCursor::read(&mut gap.object("cursor")?)?;
                Ok(Self::Gap { topic: gap.id("topic")?, cursor, reason: gap.word("reason", GapReason::WORDS)? })
            }
            "events" => {
                let frame = EventsFrame::read(&mut data()?)?;
                if frame.events.len() > EVENTS_PER_FRAME_MAX {
                    return wrong("has more than 128 events");
                }
                let ascending = frame.events.windows(2).all(|pair| pair[0].seq < pair[1].seq);
                let inside = frame.events.iter().all(|event| frame.from < event.seq && event.seq <= frame.to);
                if frame.from > frame.to || !ascending || !inside {
                    return wrong("has events out of order or outside its range");
                }
                Ok(Self::Events(frame))
            }
            "requests" => Ok(Self::Requests(RequestsFrame::read(&mut data()?)?)),
            "error" => {
                let error = TopicError::read(&mut data()?)?;
                if is_code(&error.code) { Ok(Self::TopicError(error)) } else { wrong("has a code that is not one") }
            }
            "heartbeat" => Ok(Self::Heartbeat),
            "closing" => {
                let closing = Closing::read(&mut data()?)?;
                if is_code(&closing.code) { Ok(Self::Closing(closing)) } else { wrong("has a code that is not one") }
            }
            _ => Ok(Self::Unknown),
        }
    }
}
