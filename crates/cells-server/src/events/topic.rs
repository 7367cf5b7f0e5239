//! One harness topic: its place in a ring (`cells-0.4.md` §2.5).

use std::sync::Arc;

use cells_protocol::events::{EventCursor, TopicError, TopicKind, TopicRequest};
use cells_protocol::ids::TopicId;
use tokio::sync::watch;

use super::frame::Frames;
use crate::auth::Principal;
use crate::harness::HarnessService;
use crate::harness::ring::EventRing;

/// A topic that was accepted.
pub(super) struct Topic {
    id: TopicId,
    ring: Arc<EventRing>,
    pub(super) changed: watch::Receiver<()>,
    cursor: EventCursor,
    summary: bool,
    /// The client has seen everything there was when the topic was opened, or after the last gap.
    live: bool,
    /// The client does not have the outstanding requests of its position.
    owes_requests: bool,
}

impl Topic {
    /// Opens a topic and writes its first frames, or writes why it cannot be opened.
    pub(super) fn open(
        request: TopicRequest,
        harness: &HarnessService,
        principal: &Principal,
        frames: &mut Frames,
    ) -> Option<Self> {
        let ring = match &request.kind {
            _ if principal.is_anonymous() => Err("EACCES"),
            TopicKind::Other
            | TopicKind::Directory { .. }
            | TopicKind::Process { .. }
            | TopicKind::Harness { scope: Some(_), .. } => Err("ECAPABILITY"),
            TopicKind::Harness { profile_id, .. } if !principal.profiles().contains(profile_id) => Err("ENOENT"),
            TopicKind::Harness { profile_id, .. } => harness.ring(profile_id).ok_or("ENOENT"),
        };
        let (ring, TopicKind::Harness { cursor, tool_detail, .. }) = (match ring {
            Ok(ring) => (ring, request.kind),
            Err(code) => {
                let (topic, code) = (request.id, code.to_owned());
                frames.error(&TopicError { topic, code, is_final: true, retry_after_ms: None });
                return None;
            }
        }) else {
            return None;
        };
        let changed = ring.changed();
        let asked = cursor.unwrap_or_else(|| ring.newest());
        let (cursor, gap) = match ring.page(&asked) {
            Ok(_) => (asked, None),
            Err(gap) => (gap.cursor, Some(gap.reason)),
        };
        frames.open(&request.id, &cursor);
        if let Some(reason) = gap {
            frames.gap(&request.id, &cursor, reason);
        }
        let summary = tool_detail.as_deref() == Some("summary");
        Some(Self { id: request.id, ring, changed, cursor, summary, live: false, owes_requests: true })
    }

    /// Writes the next page; nothing when there is none.
    pub(super) fn advance(&mut self, frames: &mut Frames) {
        self.changed.mark_unchanged();
        let page = match self.ring.page(&self.cursor) {
            Ok(page) => page,
            Err(gap) => {
                self.cursor = gap.cursor;
                (self.live, self.owes_requests) = (false, true);
                frames.gap(&self.id, &self.cursor, gap.reason);
                return;
            }
        };
        if page.to > page.from {
            frames.events(&self.id, &page, self.summary);
            self.cursor.after = page.to;
        }
        self.live |= page.is_newest;
        self.owes_requests |= page.requests_changed;
        if self.live && self.owes_requests {
            frames.requests(&self.id, &self.cursor, &page.requests);
            self.owes_requests = false;
        }
    }
}
