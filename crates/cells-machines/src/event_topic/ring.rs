//! The newest events of a topic, bounded by number and size.

use std::collections::VecDeque;

use cells_protocol::events::HarnessEvent;
use cells_protocol::json::to_vec;
use cells_protocol::limits::{EVENT_RING_MAX_BYTES, EVENT_RING_MAX_EVENTS};

/// Events in ascending order of `seq`. Every event that the topic got with a `seq` above `start` is here.
#[derive(Debug, Default)]
pub(super) struct Ring {
    start: u64,
    events: VecDeque<(usize, HarnessEvent)>,
    n_bytes: usize,
}

impl Ring {
    /// Drops everything; the ring goes on after `start`.
    pub(super) fn restart(&mut self, start: u64) {
        *self = Self { start, ..Self::default() };
    }

    /// Appends an event whose `seq` is above all others, and drops the oldest ones beyond the bounds.
    pub(super) fn push(&mut self, event: HarnessEvent) {
        let n_bytes = to_vec(&event).len();
        self.n_bytes += n_bytes;
        self.events.push_back((n_bytes, event));
        while self.events.len() > EVENT_RING_MAX_EVENTS || self.n_bytes > EVENT_RING_MAX_BYTES {
            let Some((n_bytes, event)) = self.events.pop_front() else { break };
            self.n_bytes -= n_bytes;
            self.start = event.seq;
        }
    }

    /// Whether every event after `seq` is here.
    pub(super) fn reaches(&self, seq: u64) -> bool {
        seq >= self.start
    }

    /// The events after `seq`.
    pub(super) fn after(&self, seq: u64) -> Vec<&HarnessEvent> {
        let from = self.events.partition_point(|(_, event)| event.seq <= seq);
        self.events.range(from..).map(|(_, event)| event).collect()
    }
}
