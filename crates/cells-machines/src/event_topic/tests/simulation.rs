//! Both ends of a topic: a node with a small ring, a link that breaks, and an application that joins history and events.

use std::collections::{BTreeSet, VecDeque};

use cells_protocol::events::GapReason;
use cells_protocol::ids::{EventEpoch, TopicId};

use super::*;

const NODE_RING: usize = 8;

/// One event of the whole history of the node: number of the node's run, and sequence number.
type Truth = (usize, u64);

#[derive(Debug, Default)]
struct Node {
    run: usize,
    newest: u64,
    /// Events that summary mode drops.
    hidden: BTreeSet<Truth>,
    requests: Vec<u64>,
    history: Vec<Truth>,
    /// Position of the open stream.
    sent: Option<u64>,
    wire: VecDeque<Frame>,
}

impl Node {
    fn epoch(&self) -> String {
        format!("{:032x}", self.run)
    }

    fn cursor(&self) -> EventCursor {
        EventCursor { after: self.newest, event_epoch: EventEpoch::new(self.epoch()).unwrap() }
    }

    fn topic() -> TopicId {
        TopicId::new("h").unwrap()
    }

    fn emit(&mut self, hidden: bool) {
        self.newest += 1;
        self.history.push((self.run, self.newest));
        if hidden {
            self.hidden.insert((self.run, self.newest));
        }
    }

    fn restart(&mut self) {
        let Self { run, history, hidden, .. } = std::mem::take(self);
        *self = Self { run: run + 1, history, hidden, ..Self::default() };
    }

    fn accept(&mut self, asked: Option<&EventCursor>) {
        self.wire.clear();
        let newest = self.cursor();
        let (start, gap) = match asked {
            None => (newest.clone(), None),
            Some(asked) if asked.event_epoch != newest.event_epoch => (newest.clone(), Some(GapReason::Epoch)),
            Some(asked) if asked.after > newest.after => (newest.clone(), Some(GapReason::Ahead)),
            Some(asked) if asked.after + (NODE_RING as u64) < newest.after => {
                (newest.clone(), Some(GapReason::Evicted))
            }
            Some(asked) => (asked.clone(), None),
        };
        self.sent = Some(start.after);
        self.wire.push_back(Frame::Open { topic: Self::topic(), cursor: Some(start) });
        if let Some(reason) = gap {
            self.wire.push_back(Frame::Gap { topic: Self::topic(), cursor: newest, reason });
        }
    }

    /// Puts what the stream lacks on the wire, at most `n` events a frame, now and then with some sent before.
    fn pump(&mut self, n: u64, overlap: u64) {
        let Some(sent) = self.sent else { return };
        if sent + (NODE_RING as u64) < self.newest {
            let gap = Frame::Gap { topic: Self::topic(), cursor: self.cursor(), reason: GapReason::Evicted };
            self.wire.push_back(gap);
            self.sent = Some(self.newest);
        }
        while let Some(from) = self.sent.filter(|sent| *sent < self.newest) {
            let to = self.newest.min(from + n);
            let from = from.saturating_sub(overlap).max(self.newest.saturating_sub(NODE_RING as u64));
            let seqs = (from + 1..=to).filter(|seq| !self.hidden.contains(&(self.run, *seq)));
            let events: Vec<Value> = seqs.map(|seq| json!({"seq": seq, "message": {"method": "m"}})).collect();
            self.wire.push_back(super::frame(
                "events",
                &json!({"topic": "h", "eventEpoch": self.epoch(), "from": from, "to": to, "events": events}),
            ));
            self.sent = Some(to);
        }
        let requests: Vec<Value> = self.requests.iter().map(|id| json!({"id": id, "method": "ask"})).collect();
        self.wire.push_back(super::frame(
            "requests",
            &json!({"topic": "h", "eventEpoch": self.epoch(), "at": self.newest, "requests": requests}),
        ));
    }
}

/// Reads the history when it has to, and pulls events otherwise.
#[derive(Debug, Default)]
struct App {
    at: Option<EventCursor>,
    from_history: BTreeSet<Truth>,
    pulled: Vec<Truth>,
}

impl App {
    fn pull(&mut self, topic: &EventTopic<()>, node: &Node) {
        let snapshot = topic.snapshot(self.at.as_ref());
        let Some(cursor) = snapshot.cursor else { return };
        if self.at.is_none() || snapshot.gap {
            // The history is read after the gap was seen, so it contains everything up to the position.
            self.from_history.extend(&node.history);
        }
        let run = usize::from_str_radix(cursor.event_epoch.as_str(), 16).unwrap();
        self.pulled.extend(snapshot.events.iter().map(|event| (run, event.seq)));
        self.at = Some(cursor.clone());
    }
}

#[derive(Debug, Clone)]
enum Op {
    Emit { hidden: bool },
    Ask(u64),
    Pump { n: u64, overlap: u64 },
    Deliver { n: usize },
    Cut,
    Reconnect,
    RestartNode,
    Pull,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => any::<bool>().prop_map(|hidden| Op::Emit { hidden }),
        1 => (0..3_u64).prop_map(Op::Ask),
        5 => (1..5_u64, 0..3_u64).prop_map(|(n, overlap)| Op::Pump { n, overlap }),
        6 => (1..4_usize).prop_map(|n| Op::Deliver { n }),
        1 => Just(Op::Cut),
        3 => Just(Op::Reconnect),
        1 => Just(Op::RestartNode),
        4 => Just(Op::Pull),
    ]
}

fn deliver(node: &mut Node, topic: &mut EventTopic<()>, n: usize) -> Result<(), TestCaseError> {
    for _ in 0..n {
        let Some(frame) = node.wire.pop_front() else { break };
        let before = topic.cursor().cloned();
        prop_assert_eq!(topic.handle_frame(0, frame), Ok(()), "a correct node breaks no rule");
        if let (Some(before), Some(after)) = (before, topic.cursor()) {
            prop_assert!(after == &before || !after.is_at_or_before(&before), "the cursor went back");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_application_sees_every_event_exactly_once_or_in_a_history_read(
        ops in proptest::collection::vec(op(), 1..150),
    ) {
        let mut node = Node::default();
        let mut topic: EventTopic<()> = EventTopic::harness();
        let mut app = App::default();
        topic.start_open();
        let quiesce = [Op::Reconnect, Op::Pump { n: 128, overlap: 0 }, Op::Deliver { n: usize::MAX }, Op::Pull];
        for op in ops.into_iter().chain(quiesce) {
            match op {
                Op::Emit { hidden } => node.emit(hidden),
                Op::Ask(id) => node.requests = vec![id; id as usize],
                Op::Pump { n, overlap } => node.pump(n, overlap),
                Op::Deliver { n } => deliver(&mut node, &mut topic, n)?,
                Op::Cut => {
                    node.wire.clear();
                    node.sent = None;
                    topic.handle_offline(());
                }
                Op::Reconnect => node.accept(topic.cursor()),
                Op::RestartNode => {
                    node.restart();
                    topic.handle_offline(());
                }
                Op::Pull => app.pull(&topic, &node),
            }
        }
        prop_assert_eq!(topic.state(), &TopicState::Online);
        prop_assert_eq!(topic.cursor(), Some(&node.cursor()));
        let ids = topic.snapshot(None).requests.iter().filter_map(|request| request.id.as_ref()?.as_u64());
        prop_assert_eq!(ids.collect::<Vec<_>>(), node.requests);
        let distinct: BTreeSet<Truth> = app.pulled.iter().copied().collect();
        prop_assert_eq!(distinct.len(), app.pulled.len(), "an event twice");
        prop_assert!(app.pulled.is_sorted(), "events out of order");
        for truth in &node.history {
            let seen = distinct.contains(truth) || app.from_history.contains(truth) || node.hidden.contains(truth);
            prop_assert!(seen, "event {truth:?} is missing");
        }
    }
}
