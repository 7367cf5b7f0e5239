//! One topic of a stream. A harness topic is a place in a ring (`cells-0.4.md` §2.5).

use std::sync::Arc;

use cells_protocol::events::{EventCursor, TopicError, TopicKind, TopicRequest};
use cells_protocol::ids::{ProfileId, TopicId};
use tokio::sync::watch;

use super::frame::Frames;
use super::process::ProcessTopic;
use crate::app::App;
use crate::auth::Principal;
use crate::harness::ring::EventRing;

/// A topic that was accepted.
pub(super) enum Topic {
    /// Events of a profile.
    Harness(HarnessTopic),
    /// The end of a process.
    Process(ProcessTopic),
}

/// A place in the events of a profile.
pub(super) struct HarnessTopic {
    id: TopicId,
    ring: Arc<EventRing>,
    changed: watch::Receiver<()>,
    cursor: EventCursor,
    summary: bool,
    /// The client has seen everything there was when the topic was opened, or after the last gap.
    live: bool,
    /// The client does not have the outstanding requests of its position.
    owes_requests: bool,
}

impl Topic {
    /// Opens a topic and writes its first frames, or writes why it cannot be opened.
    pub(super) fn open(request: TopicRequest, app: &App, principal: &Principal, frames: &mut Frames) -> Option<Self> {
        let id = request.id.clone();
        let opened = match request.kind {
            _ if principal.is_anonymous() => Err("EACCES"),
            TopicKind::Other | TopicKind::Directory { .. } | TopicKind::Harness { scope: Some(_), .. } => {
                Err("ECAPABILITY")
            }
            TopicKind::Process { epoch, request_id } => {
                ProcessTopic::open(request.id, epoch, request_id, (app, principal), frames).map(Self::Process)
            }
            TopicKind::Harness { profile_id, cursor, tool_detail, .. } => {
                let summary = tool_detail.as_deref() == Some("summary");
                let ring = ring(app, principal, &profile_id);
                ring.map(|ring| Self::Harness(HarnessTopic::open(request.id, ring, cursor, summary, frames)))
            }
        };
        let refuse = |code: &'static str| {
            frames.error(&TopicError { topic: id, code: code.to_owned(), is_final: true, retry_after_ms: None });
        };
        opened.map_err(refuse).ok()
    }

    /// Writes what comes next; nothing when there is nothing.
    pub(super) fn advance(&mut self, frames: &mut Frames) {
        match self {
            Self::Harness(topic) => topic.advance(frames),
            Self::Process(topic) => topic.advance(frames),
        }
    }

    /// Waits until there may be something to write.
    pub(super) async fn changed(&mut self) {
        match self {
            // A ring lives as long as its topic, so that waiting for it cannot fail.
            Self::Harness(topic) => {
                let _ = topic.changed.changed().await;
            }
            Self::Process(topic) => topic.changed().await,
        }
    }
}

fn ring(app: &App, principal: &Principal, profile_id: &ProfileId) -> Result<Arc<EventRing>, &'static str> {
    let is_granted = principal.profiles().contains(profile_id);
    app.harness.ring(profile_id).filter(|_| is_granted).ok_or("ENOENT")
}

impl HarnessTopic {
    fn open(
        id: TopicId,
        ring: Arc<EventRing>,
        cursor: Option<EventCursor>,
        summary: bool,
        frames: &mut Frames,
    ) -> Self {
        let changed = ring.changed();
        let asked = cursor.unwrap_or_else(|| ring.newest());
        let (cursor, gap) = match ring.page(&asked) {
            Ok(_) => (asked, None),
            Err(gap) => (gap.cursor, Some(gap.reason)),
        };
        frames.open(&id, &cursor);
        if let Some(reason) = gap {
            frames.gap(&id, &cursor, reason);
        }
        Self { id, ring, changed, cursor, summary, live: false, owes_requests: true }
    }

    fn advance(&mut self, frames: &mut Frames) {
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
