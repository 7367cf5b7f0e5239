//! Frames as they stand in the stream: `event: NAME`, `data: JSON`, an empty line. Texts of the ring are put in as they
//! are.

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use cells_protocol::events::{Closing, EventCursor, GapReason, Ready, TopicError};
use cells_protocol::ids::TopicId;
use cells_protocol::process::ProcessStatus;
use serde::Serialize;
use serde_json::json;

use crate::harness::ring::Page;

/// Some frames, in order.
#[derive(Debug, Default)]
pub(super) struct Frames {
    text: String,
}

impl Frames {
    pub(super) fn ready(ready: &Ready) -> Self {
        let mut frames = Self::default();
        frames.add("ready", ready);
        frames
    }

    pub(super) fn closing(code: &'static str) -> Self {
        let mut frames = Self::default();
        frames.add("closing", &Closing { code: code.to_owned(), retry_after_ms: None });
        frames
    }

    pub(super) fn heartbeat(now_ms: u64) -> Self {
        let mut frames = Self::default();
        frames.add("heartbeat", &json!({"time": now_ms}));
        frames
    }

    pub(super) fn open(&mut self, topic: &TopicId, cursor: &EventCursor) {
        self.add("open", &json!({"topic": topic, "kind": "harness", "cursor": cursor}));
    }

    pub(super) fn open_process(&mut self, topic: &TopicId) {
        self.add("open", &json!({"topic": topic, "kind": "process"}));
    }

    pub(super) fn process(&mut self, topic: &TopicId, epoch: &str, request_id: &str, process: &ProcessStatus) {
        self.add("process", &json!({"topic": topic, "epoch": epoch, "requestId": request_id, "process": process}));
    }

    pub(super) fn gap(&mut self, topic: &TopicId, cursor: &EventCursor, reason: GapReason) {
        self.add("gap", &json!({"topic": topic, "cursor": cursor, "reason": reason}));
    }

    pub(super) fn error(&mut self, error: &TopicError) {
        self.add("error", error);
    }

    pub(super) fn events(&mut self, topic: &TopicId, page: &Page, summary: bool) {
        let Page { epoch, from, to, events, .. } = page;
        self.text.push_str("event: events\ndata: ");
        let _ = write!(self.text, r#"{{"topic":"{topic}","eventEpoch":"{epoch}","from":{from},"to":{to},"events":["#);
        let mut separator = "";
        for event in events {
            let Some(message) = (if summary { event.summary.as_ref() } else { Some(&event.message) }) else { continue };
            let (seq, timestamp) = (event.seq, event.timestamp);
            let _ = write!(self.text, r#"{separator}{{"seq":{seq},"timestamp":{timestamp},"message":{message}}}"#);
            separator = ",";
        }
        self.text.push_str("]}\n\n");
    }

    pub(super) fn requests(&mut self, topic: &TopicId, at: &EventCursor, requests: &[Arc<str>]) {
        let EventCursor { after, event_epoch } = at;
        self.text.push_str("event: requests\ndata: ");
        let _ = write!(self.text, r#"{{"topic":"{topic}","eventEpoch":"{event_epoch}","at":{after},"requests":["#);
        for (number, request) in requests.iter().enumerate() {
            let separator = if number == 0 { "" } else { "," };
            let _ = write!(self.text, "{separator}{request}");
        }
        self.text.push_str("]}\n\n");
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn add(&mut self, name: &str, data: &impl Serialize) {
        let data = serde_json::to_string(data).unwrap_or_default();
        let _ = write!(self.text, "event: {name}\ndata: {data}\n\n");
    }
}

impl From<Frames> for Bytes {
    fn from(frames: Frames) -> Self {
        frames.text.into()
    }
}
