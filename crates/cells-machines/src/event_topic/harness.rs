//! What a harness topic holds: its place in the node's ring, the newest events, the outstanding requests.

use cells_protocol::events::{EventCursor, EventsFrame, GapReason, NativeMessage, RequestsFrame};
use cells_protocol::ids::EventEpoch;

use super::TopicViolation;
use super::ring::Ring;

/// The events of one profile.
#[derive(Debug, Default)]
pub(super) struct HarnessTopic {
    pub(super) cursor: Option<EventCursor>,
    pub(super) ring: Ring,
    pub(super) requests: Vec<NativeMessage>,
    /// Not told yet: the position could not be continued.
    pub(super) gap: bool,
    /// Not told yet.
    pub(super) requests_changed: bool,
}

impl HarnessTopic {
    /// The node goes on at `start`.
    pub(super) fn handle_open(&mut self, start: Option<EventCursor>) -> Result<(), TopicViolation> {
        let start = start.ok_or(TopicViolation::NoCursor)?;
        match &self.cursor {
            // The node goes back to what is known here: the frames that follow are filtered.
            Some(cursor) if start.is_at_or_before(cursor) => {}
            Some(_) => self.move_to(start),
            None => {
                self.ring.restart(start.after);
                self.cursor = Some(start);
            }
        }
        Ok(())
    }

    /// The position cannot be continued; always news.
    pub(super) fn handle_gap(&mut self, to: EventCursor, reason: GapReason) -> Result<bool, TopicViolation> {
        let goes_back = self.cursor.as_ref().is_some_and(|cursor| to != *cursor && to.is_at_or_before(cursor));
        match reason {
            GapReason::Epoch | GapReason::Evicted if goes_back => Err(TopicViolation::Position),
            // The position is beyond the newest event: the only reason to go back within a ring.
            GapReason::Epoch | GapReason::Evicted | GapReason::Ahead => {
                self.move_to(to);
                Ok(true)
            }
        }
    }

    /// The next events; whether there are any that were not seen.
    pub(super) fn handle_events(&mut self, frame: EventsFrame) -> Result<bool, TopicViolation> {
        let cursor = self.cursor_in(&frame.event_epoch)?;
        if frame.to <= cursor.after {
            return Ok(false);
        }
        if frame.from > cursor.after {
            self.move_to(EventCursor { after: frame.to, event_epoch: frame.event_epoch });
            return Ok(true);
        }
        let after = std::mem::replace(&mut cursor.after, frame.to);
        for event in frame.events {
            if event.seq > after {
                self.ring.push(event);
            }
        }
        Ok(true)
    }

    /// All outstanding requests; whether they are news.
    pub(super) fn handle_requests(&mut self, frame: RequestsFrame) -> Result<bool, TopicViolation> {
        let cursor = self.cursor_in(&frame.event_epoch)?;
        if frame.at > cursor.after {
            return Err(TopicViolation::Position);
        }
        // An older set than the position is stale; a newer one follows.
        let is_new = frame.at == cursor.after && frame.requests != self.requests;
        if is_new {
            self.requests = frame.requests;
            self.requests_changed = true;
        }
        Ok(is_new)
    }

    /// The current cursor, if it belongs to `epoch`.
    fn cursor_in(&mut self, epoch: &EventEpoch) -> Result<&mut EventCursor, TopicViolation> {
        let cursor = self.cursor.as_mut().ok_or(TopicViolation::NoCursor)?;
        if cursor.event_epoch == *epoch { Ok(cursor) } else { Err(TopicViolation::ForeignEpoch) }
    }

    fn move_to(&mut self, cursor: EventCursor) {
        self.ring.restart(cursor.after);
        self.cursor = Some(cursor);
        self.gap = true;
    }
}
