use cells_protocol::ids::EventEpoch;
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;

mod simulation;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure(String);

impl From<StreamFault> for Failure {
    fn from(fault: StreamFault) -> Self {
        Self(fault.to_string())
    }
}

fn profile(name: &str) -> TopicKey {
    TopicKey::Harness { profile_id: ProfileId::new(name).unwrap(), scope: None }
}

fn process(request_id: &str) -> TopicKey {
    TopicKey::Process { epoch: "e".into(), request_id: request_id.into() }
}

fn frame(name: &str, data: &Value) -> Frame {
    Frame::parse(name, data.to_string().as_bytes()).unwrap()
}

fn ready() -> Frame {
    frame("ready", &json!({"version": 1, "streamId": "s", "heartbeatMs": 15000, "processEpoch": "e"}))
}

fn epoch(name: char) -> EventEpoch {
    EventEpoch::new(name.to_string().repeat(32)).unwrap()
}

fn open(topic: u64, after: u64) -> Frame {
    let cursor = json!({"after": after, "eventEpoch": epoch('a')});
    frame("open", &json!({"topic": format!("t{topic}"), "kind": "harness", "cursor": cursor}))
}

fn events(topic: u64, from: u64, to: u64) -> Frame {
    let events: Vec<Value> = (from + 1..=to).map(|seq| json!({"seq": seq, "message": {"method": "m"}})).collect();
    let topic = format!("t{topic}");
    frame("events", &json!({"topic": topic, "eventEpoch": epoch('a'), "from": from, "to": to, "events": events}))
}

fn ended(topic: u64, request_id: &str) -> Frame {
    let status = json!({"state": "exited", "stdout": "", "stderr": "", "code": 0, "truncated": false});
    let topic = format!("t{topic}");
    frame("process", &json!({"topic": topic, "epoch": "e", "requestId": request_id, "process": status}))
}

fn error(topic: u64, code: &str, is_final: bool) -> Frame {
    frame("error", &json!({"topic": format!("t{topic}"), "code": code, "final": is_final}))
}

fn closing(code: &str) -> Frame {
    frame("closing", &json!({"code": code}))
}

enum Step {
    Subscribe(TopicKey),
    Unsubscribe(u64),
    Opened(u64),
    Frame(u64, Frame),
    Broken(u64),
    Denied(u64),
    Credential,
    Time(u64),
}
use Step::{Broken, Credential, Denied, Opened, Subscribe, Time, Unsubscribe};

/// Runs the steps and writes down what comes out of each.
fn trace(steps: Vec<Step>) -> String {
    let mut hub = EventHub::<Failure>::new();
    let mut now_ms = 0;
    let mut lines = Vec::new();
    let random = u32::MAX / 2 + 1;
    for step in steps {
        match step {
            Subscribe(key) => drop(hub.start_subscribe(now_ms, key).unwrap()),
            Unsubscribe(topic) => hub.start_unsubscribe(now_ms, topic),
            Opened(attempt) => hub.handle_opened(now_ms, attempt),
            Step::Frame(attempt, frame) => hub.handle_frame(now_ms, attempt, frame, random),
            Broken(attempt) => {
                let error = Failure("cut".into());
                hub.handle_end(now_ms, attempt, StreamEnd::Broken { error, retry_after_ms: None }, random);
            }
            Denied(attempt) => {
                let error = Failure("denied".into());
                hub.handle_end(now_ms, attempt, StreamEnd::Refused { error, waits_for_credential: true }, random);
            }
            Credential => hub.handle_credential(now_ms),
            Time(time_ms) => {
                now_ms = time_ms;
                hub.handle_timeout(now_ms, random);
            }
        }
        while let Some(action) = hub.poll_action() {
            lines.push(match action {
                HubAction::Abort { attempt } => format!("{now_ms}: abort {attempt}"),
                HubAction::Connect { attempt, topics } => {
                    let topics: Vec<String> = topics.iter().map(describe).collect();
                    format!("{now_ms}: connect {attempt} with {}", topics.join(" "))
                }
            });
        }
        while let Some(event) = hub.poll_event() {
            lines.push(match event {
                HubEvent::Ready(_) => format!("{now_ms}: ready"),
                HubEvent::Topic { topic, .. } => match hub.topic(topic).unwrap().state() {
                    TopicState::Offline(failure) | TopicState::Failed(failure) => {
                        format!("{now_ms}: t{topic} {}: {failure:?}", hub.topic(topic).unwrap().state().as_str())
                    }
                    state => format!("{now_ms}: t{topic} {}", state.as_str()),
                },
            });
        }
    }
    let idle = if hub.is_idle() { "idle" } else { "busy" };
    lines.push(format!("{idle}, next timeout: {:?}", hub.poll_timeout()));
    lines.join("\n")
}

fn describe(topic: &TopicRequest) -> String {
    match &topic.kind {
        TopicKind::Harness { cursor: Some(cursor), .. } => format!("{}@{}", topic.id, cursor.after),
        _ => topic.id.to_string(),
    }
}

#[test]
fn topics_that_come_and_go_establish_the_stream_anew_once() {
    let steps = vec![
        Subscribe(profile("a")),
        Opened(1),
        Step::Frame(1, ready()),
        Step::Frame(1, open(1, 5)),
        Subscribe(profile("a")),
        Step::Frame(1, events(1, 5, 7)),
        Time(100),
        Subscribe(profile("b")),
        Time(120),
        Subscribe(profile("c")),
        Time(150),
        Step::Frame(1, events(1, 7, 8)),
        Opened(2),
        Step::Frame(2, ready()),
        Step::Frame(2, open(1, 7)),
        Step::Frame(2, open(2, 0)),
        Time(200),
        Unsubscribe(1),
        Time(260),
        Unsubscribe(1),
        Unsubscribe(3),
        Time(310),
        Unsubscribe(2),
    ];
    assert_snapshot!(trace(steps), @r#"
    0: connect 1 with t1
    0: t1 connecting
    0: ready
    0: t1 online
    0: t1 online
    100: t2 connecting
    120: t3 connecting
    150: abort 1
    150: connect 2 with t1@7 t2 t3
    150: ready
    150: t1 online
    150: t2 online
    310: abort 2
    310: connect 3 with t2@0
    310: abort 3
    idle, next timeout: None
    "#);
}

#[test]
fn a_broken_stream_is_connected_again_and_a_silent_one_is_broken() {
    let steps = vec![
        Subscribe(profile("a")),
        Broken(1),
        Time(500),
        Opened(2),
        Step::Frame(2, ready()),
        Step::Frame(2, open(1, 0)),
        Time(45_499),
        Time(45_500),
        Broken(2),
        Time(46_000),
        Opened(3),
        Step::Frame(3, events(1, 0, 1)),
        Time(47_000),
    ];
    assert_snapshot!(trace(steps), @r#"
    0: connect 1 with t1
    0: t1 connecting
    0: t1 offline: Stream(Failure("cut"))
    500: connect 2 with t1
    500: ready
    500: t1 online
    45500: abort 2
    45500: t1 offline: Stream(Failure("nothing was heard from the node for 45000 ms"))
    46000: connect 3 with t1@0
    46000: abort 3
    46000: t1 offline: Stream(Failure("the event stream does not start with ready"))
    47000: connect 4 with t1@0
    busy, next timeout: None
    "#);
}

#[test]
fn a_refused_stream_stays_refused_until_a_secret_or_a_subscriber_comes() {
    let steps = vec![
        Subscribe(profile("a")),
        Denied(1),
        Time(100_000),
        Credential,
        Denied(2),
        Subscribe(profile("b")),
        Opened(3),
        Step::Frame(3, ready()),
        Step::Frame(3, closing("SUPERSEDED")),
        Credential,
        Time(200_000),
    ];
    assert_snapshot!(trace(steps), @r#"
    0: connect 1 with t1
    0: t1 connecting
    0: t1 failed: Stream(Failure("denied"))
    100000: connect 2 with t1
    100000: t1 connecting
    100000: t1 failed: Stream(Failure("denied"))
    100000: connect 3 with t1 t2
    100000: t1 connecting
    100000: t2 connecting
    100000: ready
    100000: abort 3
    100000: t2 failed: Stream(Failure("the node ended the event stream with code SUPERSEDED"))
    100000: t1 failed: Stream(Failure("the node ended the event stream with code SUPERSEDED"))
    busy, next timeout: None
    "#);
}

#[test]
fn a_topic_that_fails_or_ends_costs_the_others_nothing() {
    let steps = vec![
        Subscribe(profile("a")),
        Subscribe(process("p")),
        Subscribe(profile("c")),
        Time(50),
        Opened(2),
        Step::Frame(2, ready()),
        Step::Frame(2, error(1, "ENOENT", true)),
        Step::Frame(2, frame("open", &json!({"topic": "t2", "kind": "process"}))),
        Step::Frame(2, ended(2, "p")),
        Step::Frame(2, open(3, 0)),
        Step::Frame(2, error(3, "EIO", false)),
        Time(2_049),
        Time(2_050),
        Opened(3),
        Step::Frame(3, ready()),
        Step::Frame(3, open(3, 0)),
        Unsubscribe(2),
        Time(2_100),
        Subscribe(profile("a")),
        Time(2_150),
        Step::Frame(3, closing("SERVER_STOPPING")),
        Opened(4),
        Step::Frame(4, closing("SERVER_STOPPING")),
    ];
    assert_snapshot!(trace(steps), @r#"
    0: connect 1 with t1
    0: t1 connecting
    0: t2 connecting
    0: t3 connecting
    50: abort 1
    50: connect 2 with t1 t2 t3
    50: ready
    50: t1 failed: Topic { code: "ENOENT" }
    50: t2 online
    50: t2 online
    50: t3 online
    50: t3 offline: Topic { code: "EIO" }
    2050: abort 2
    2050: connect 3 with t3@0
    2050: ready
    2050: t3 online
    2100: t1 connecting
    2150: abort 3
    2150: connect 4 with t1 t3@0
    2150: abort 4
    2150: t3 offline: Stream(Failure("the node ended the event stream with code SERVER_STOPPING"))
    2150: t1 offline: Stream(Failure("the node ended the event stream with code SERVER_STOPPING"))
    busy, next timeout: Some(2650)
    "#);
}

#[test]
fn a_hub_has_at_most_128_topics() {
    let mut hub = EventHub::<Failure>::new();
    for number in 0..128 {
        hub.start_subscribe(0, profile(&format!("p{number}"))).unwrap();
    }
    assert_eq!(hub.start_subscribe(0, profile("one-more")), Err(TopicLimit));
    hub.start_subscribe(0, profile("p7")).unwrap();
    hub.start_unsubscribe(0, 1);
    hub.start_subscribe(0, profile("one-more")).unwrap();
}
