use cells_protocol::events::EventCursor;
use cells_protocol::ids::EventEpoch;
use cells_protocol::limits::{EVENT_RING_MAX_BYTES, EVENT_RING_MAX_EVENTS};
use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

mod simulation;

fn epoch(name: char) -> String {
    name.to_string().repeat(32)
}

fn cursor(name: char, after: u64) -> EventCursor {
    EventCursor { after, event_epoch: EventEpoch::new(epoch(name)).unwrap() }
}

fn frame(name: &str, data: &Value) -> Frame {
    Frame::parse(name, data.to_string().as_bytes()).unwrap()
}

fn open(name: char, after: u64) -> Frame {
    frame("open", &json!({"topic": "h", "kind": "harness", "cursor": {"after": after, "eventEpoch": epoch(name)}}))
}

fn gap(name: char, after: u64, reason: &str) -> Frame {
    frame("gap", &json!({"topic": "h", "cursor": {"after": after, "eventEpoch": epoch(name)}, "reason": reason}))
}

fn events(name: char, from: u64, to: u64, seqs: &[u64]) -> Frame {
    let events: Vec<Value> = seqs.iter().map(|seq| json!({"seq": seq, "message": {"method": "m"}})).collect();
    frame("events", &json!({"topic": "h", "eventEpoch": epoch(name), "from": from, "to": to, "events": events}))
}

fn requests(name: char, at: u64, ids: &[u64]) -> Frame {
    let requests: Vec<Value> = ids.iter().map(|id| json!({"id": id, "method": "ask"})).collect();
    frame("requests", &json!({"topic": "h", "eventEpoch": epoch(name), "at": at, "requests": requests}))
}

fn error(code: &str, is_final: bool, retry_after_ms: Option<u64>) -> Frame {
    frame("error", &json!({"topic": "h", "code": code, "final": is_final, "retryAfterMs": retry_after_ms}))
}

enum Step {
    Open,
    Close,
    Frame(Frame),
    Offline,
    Failed,
    Time(u64),
    Look(Option<EventCursor>),
}
use Step::{Close, Failed, Look, Offline, Open, Time};

/// Runs the steps and writes down what comes out of each.
fn trace(steps: Vec<Step>) -> String {
    let mut topic: EventTopic<&str> = EventTopic::harness();
    let mut now_ms = 0;
    let mut lines = Vec::new();
    for step in steps {
        match step {
            Open => topic.start_open(),
            Close => topic.start_close(),
            Step::Frame(frame) => {
                if let Err(violation) = topic.handle_frame(now_ms, frame) {
                    lines.push(format!("violation: {violation}"));
                }
            }
            Offline => topic.handle_offline("cut"),
            Failed => topic.handle_failed("denied"),
            Time(time_ms) => {
                now_ms = time_ms;
                topic.handle_timeout(now_ms);
            }
            Look(since) => {
                let snapshot = topic.snapshot(since.as_ref());
                let seqs: Vec<u64> = snapshot.events.iter().map(|event| event.seq).collect();
                lines.push(format!(
                    "look: gap {}, events {seqs:?}, {} requests",
                    snapshot.gap,
                    snapshot.requests.len()
                ));
            }
        }
        while let Some(action) = topic.poll_action() {
            lines.push(format!("{now_ms}: do {action:?}"));
        }
        if let Some(event) = topic.poll_event() {
            let at = event
                .cursor
                .map_or("none".to_owned(), |cursor| format!("{}{}", &cursor.event_epoch.as_str()[..1], cursor.after));
            let gap = if event.gap { ", gap" } else { "" };
            let requests = if event.requests_changed { ", requests" } else { "" };
            lines.push(format!("{} at {at}{gap}{requests}", topic.state().as_str()));
            assert_eq!(topic.poll_event(), None);
        }
    }
    lines.push(format!("{:?}, next timeout: {:?}", topic.state(), topic.poll_timeout()));
    lines.join("\n")
}

#[test]
fn a_topic_opens_and_follows_the_ring() {
    let steps = vec![
        Look(None),
        Step::Frame(open('a', 5)),
        Open,
        Open,
        Step::Frame(events('a', 5, 6, &[6])),
        Step::Frame(open('a', 5)),
        Step::Frame(requests('a', 5, &[])),
        Step::Frame(events('a', 5, 8, &[6, 8])),
        Step::Frame(requests('a', 8, &[1])),
        Step::Frame(requests('a', 8, &[1])),
        Step::Frame(events('a', 8, 9, &[])),
        Look(None),
        Look(Some(cursor('a', 5))),
        Look(Some(cursor('a', 6))),
        Look(Some(cursor('a', 9))),
        Look(Some(cursor('a', 4))),
        Look(Some(cursor('a', 10))),
        Look(Some(cursor('b', 8))),
        Close,
        Look(Some(cursor('a', 9))),
    ];
    assert_snapshot!(trace(steps), @r#"
    look: gap false, events [], 0 requests
    connecting at none
    online at a5
    online at a8
    online at a8, requests
    online at a9
    look: gap false, events [], 1 requests
    look: gap false, events [6, 8], 1 requests
    look: gap false, events [8], 1 requests
    look: gap false, events [], 1 requests
    look: gap true, events [], 1 requests
    look: gap true, events [], 1 requests
    look: gap true, events [], 1 requests
    closed at none
    look: gap true, events [], 0 requests
    Closed, next timeout: None
    "#);
}

#[test]
fn frames_are_filtered_by_the_cursor() {
    let steps = vec![
        Open,
        Step::Frame(open('a', 10)),
        Step::Frame(events('a', 10, 12, &[11, 12])),
        Step::Frame(events('a', 10, 12, &[11, 12])),
        Step::Frame(events('a', 11, 14, &[12, 13, 14])),
        Step::Frame(events('b', 14, 15, &[15])),
        Step::Frame(requests('b', 14, &[])),
        Step::Frame(requests('a', 15, &[1])),
        Step::Frame(requests('a', 13, &[1])),
        Step::Frame(events('a', 16, 17, &[17])),
        Look(Some(cursor('a', 14))),
        Step::Frame(events('a', 17, 18, &[18])),
        Look(Some(cursor('a', 17))),
    ];
    assert_snapshot!(trace(steps), @r#"
    connecting at none
    online at a10
    online at a12
    online at a14
    violation: a frame of a topic belongs to another event epoch
    violation: a frame of a topic belongs to another event epoch
    violation: a frame of a topic is not at the position that follows
    online at a17, gap
    look: gap true, events [], 0 requests
    online at a18
    look: gap false, events [18], 0 requests
    Online, next timeout: None
    "#);
}

#[test]
fn a_reconnected_topic_goes_on_or_tells_a_gap() {
    let steps = vec![
        Open,
        Step::Frame(open('a', 1)),
        Step::Frame(events('a', 1, 3, &[2, 3])),
        Offline,
        Offline,
        Step::Frame(events('a', 3, 4, &[4])),
        Step::Frame(open('a', 3)),
        Step::Frame(events('a', 3, 4, &[4])),
        Look(Some(cursor('a', 1))),
        Offline,
        Step::Frame(open('a', 2)),
        Step::Frame(events('a', 2, 5, &[3, 4, 5])),
        Look(Some(cursor('a', 1))),
        Offline,
        Step::Frame(open('a', 9)),
        Look(Some(cursor('a', 5))),
        Offline,
        Step::Frame(open('b', 0)),
        Step::Frame(gap('b', 0, "epoch")),
        Look(Some(cursor('b', 0))),
        Step::Frame(gap('b', 4, "evicted")),
        Step::Frame(gap('b', 2, "evicted")),
        Step::Frame(gap('b', 2, "ahead")),
        Look(Some(cursor('b', 4))),
    ];
    assert_snapshot!(trace(steps), @r#"
    connecting at none
    online at a1
    online at a3
    offline at a3
    offline at a3
    online at a3
    online at a4
    look: gap false, events [2, 3, 4], 0 requests
    offline at a4
    online at a4
    online at a5
    look: gap false, events [2, 3, 4, 5], 0 requests
    offline at a5
    online at a9, gap
    look: gap true, events [], 0 requests
    offline at a9
    online at b0, gap
    online at b0, gap
    look: gap false, events [], 0 requests
    online at b4, gap
    violation: a frame of a topic is not at the position that follows
    online at b2, gap
    look: gap true, events [], 0 requests
    Online, next timeout: None
    "#);
}

#[test]
fn a_topic_that_is_refused_for_good_stays_so_until_it_is_opened_again() {
    let steps = vec![
        Open,
        Step::Frame(open('a', 1)),
        Step::Frame(events('a', 1, 2, &[2])),
        Step::Frame(error("EACCES", true, None)),
        Step::Frame(events('a', 2, 3, &[3])),
        Offline,
        Time(1_000_000),
        Open,
        Step::Frame(open('a', 2)),
        Look(Some(cursor('a', 1))),
        Failed,
        Failed,
        Close,
        Failed,
        Offline,
    ];
    assert_snapshot!(trace(steps), @r#"
    connecting at none
    online at a1
    online at a2
    failed at a2
    connecting at a2
    online at a2
    look: gap false, events [2], 0 requests
    failed at a2
    closed at none
    Closed, next timeout: None
    "#);
}

#[test]
fn a_topic_that_is_refused_for_now_is_tried_again_ever_later() {
    let refuse = || Step::Frame(error("EIO", false, None));
    let steps = vec![
        Open,
        refuse(),
        Time(1_999),
        Time(2_000),
        Step::Frame(open('a', 1)),
        refuse(),
        Time(6_000),
        Step::Frame(error("PROJECT_WATCH_BUSY", false, Some(20_000))),
        Time(26_000),
        Step::Frame(open('a', 1)),
        Time(36_000),
        refuse(),
        Step::Frame(events('a', 1, 2, &[2])),
        Offline,
        Step::Frame(open('a', 1)),
        Step::Frame(error("EIO", false, Some(u64::MAX >> 12))),
    ];
    assert_snapshot!(trace(steps), @r#"
    connecting at none
    offline at none
    2000: do Reestablish
    online at a1
    offline at a1
    6000: do Reestablish
    offline at a1
    26000: do Reestablish
    online at a1
    offline at a1
    offline at a1
    online at a1
    offline at a1
    Offline(Topic { code: "EIO" }), next timeout: Some(96000)
    "#);
}

#[test]
fn an_open_frame_needs_a_cursor_and_frames_of_the_stream_do_not_matter() {
    let bare = || Step::Frame(frame("open", &json!({"topic": "h", "kind": "harness"})));
    let steps = vec![
        Open,
        bare(),
        Step::Frame(open('a', 1)),
        Step::Frame(Frame::Heartbeat),
        Step::Frame(Frame::Unknown),
        Step::Frame(frame("closing", &json!({"code": "SERVER_STOPPING"}))),
        bare(),
    ];
    assert_snapshot!(trace(steps), @r#"
    connecting at none
    violation: a topic was opened without a cursor
    online at a1
    violation: a topic was opened without a cursor
    Online, next timeout: None
    "#);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn the_local_ring_keeps_the_newest_events_within_its_bounds(
        start in 0..50_u64,
        sizes in proptest::collection::vec(prop_oneof![8 => 0..300_usize, 1 => 0..2_000_000_usize], 1..60),
        repeats in 1..40_usize,
        steps in proptest::collection::vec(1..4_u64, 1..10),
    ) {
        let mut topic: EventTopic<()> = EventTopic::harness();
        topic.start_open();
        topic.handle_frame(0, open('a', start)).unwrap();
        // The reference keeps everything and looks from the end.
        let mut all: Vec<(u64, usize)> = Vec::new();
        let mut seq = start;
        for n in 0..sizes.len() * repeats {
            // Large events only once, or the case takes long.
            let size = if n < sizes.len() { sizes[n] } else { sizes[n % sizes.len()].min(300) };
            let from = seq;
            seq += steps[n % steps.len()];
            let event = json!({"seq": seq, "message": {"method": "m", "params": "x".repeat(size)}});
            all.push((seq, event.to_string().len()));
            let data = json!({"topic": "h", "eventEpoch": epoch('a'), "from": from, "to": seq, "events": [event]});
            topic.handle_frame(0, frame("events", &data)).unwrap();
        }
        let mut n_kept = 0;
        let mut n_bytes = 0;
        for (_, size) in all.iter().rev() {
            n_bytes += size;
            if n_kept == EVENT_RING_MAX_EVENTS || n_bytes > EVENT_RING_MAX_BYTES {
                break;
            }
            n_kept += 1;
        }
        let kept: Vec<u64> = all[all.len() - n_kept..].iter().map(|(seq, _)| *seq).collect();
        let ring_start = if n_kept == all.len() { start } else { all[all.len() - n_kept - 1].0 };
        for since in (ring_start.saturating_sub(3)..=seq + 2).step_by(1 + all.len() / 50).chain([ring_start, seq]) {
            let at = cursor('a', since);
            let snapshot = topic.snapshot(Some(&at));
            let gap = since < ring_start || since > seq;
            prop_assert_eq!(snapshot.gap, gap, "since {}", since);
            let seen: Vec<u64> = snapshot.events.iter().map(|event| event.seq).collect();
            let expected: Vec<u64> = kept.iter().copied().filter(|seq| !gap && *seq > since).collect();
            prop_assert_eq!(seen, expected);
        }
    }
}
