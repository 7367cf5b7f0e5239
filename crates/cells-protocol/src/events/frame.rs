//! What a node sends on an event stream (`cells-0.4.md` §2.4).

use serde::Serialize;

use super::{EventCursor, HarnessEvent, NativeMessage};
use crate::authorization::AuthorizationSnapshot;
use crate::ids::{EventEpoch, ServerId, TopicId};
use crate::json::{Malformed, Object};
use crate::limits::{EVENTS_PER_FRAME_MAX, HEARTBEAT_MAX_MS, HEARTBEAT_MIN_MS};
use crate::process::ProcessStatus;
use crate::text::is_code;

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
    /// The version of a watched directory.
    Directory(DirectoryFrame),
    /// A process has ended. Nothing follows on its topic.
    Process(ProcessFrame),
    /// The topic failed.
    TopicError(TopicError),
    /// The stream lives.
    Heartbeat,
    /// The last frame before an orderly end.
    Closing(Closing),
    /// A frame of a newer node.
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

/// Data of a `directory` frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectoryFrame {
    /// The topic.
    pub topic: TopicId,
    /// The watch.
    pub watch_id: String,
    /// Its version; compared for equality only.
    pub version: String,
    /// Changes since the asked version may have been missed.
    pub gap: bool,
    /// Not all of the directory is watched.
    pub truncated: bool,
}

impl DirectoryFrame {
    /// Reads the data.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            topic: object.id("topic")?,
            watch_id: object.string("watchId")?,
            version: object.string("version")?,
            gap: object.boolean("gap")?,
            truncated: object.boolean("truncated")?,
        })
    }
}

/// Data of a `process` frame.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessFrame {
    /// The topic.
    pub topic: TopicId,
    /// Process epoch of its start.
    pub epoch: String,
    /// Request id of its start.
    pub request_id: String,
    /// How it ended; never `running`.
    pub process: ProcessStatus,
}

impl ProcessFrame {
    /// Reads the data.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong, or the process still runs.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        let frame = Self {
            topic: object.id("topic")?,
            epoch: object.string("epoch")?,
            request_id: object.string("requestId")?,
            process: ProcessStatus::read(&mut object.object("process")?)?,
        };
        if frame.process.state.is_over() { Ok(frame) } else { Err(object.wrong("process")) }
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
    /// The topic that the frame belongs to; `None` for frames of the stream itself.
    pub fn topic(&self) -> Option<&TopicId> {
        match self {
            Self::Open { topic, .. } | Self::Gap { topic, .. } => Some(topic),
            Self::Events(frame) => Some(&frame.topic),
            Self::Requests(frame) => Some(&frame.topic),
            Self::Directory(frame) => Some(&frame.topic),
            Self::Process(frame) => Some(&frame.topic),
            Self::TopicError(error) => Some(&error.topic),
            Self::Ready(_) | Self::Heartbeat | Self::Closing(_) | Self::Unknown => None,
        }
    }

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
            "directory" => Ok(Self::Directory(DirectoryFrame::read(&mut data()?)?)),
            "process" => Ok(Self::Process(ProcessFrame::read(&mut data()?)?)),
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
