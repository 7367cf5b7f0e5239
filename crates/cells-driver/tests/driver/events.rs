//! Subscriptions: what is sent, what becomes of frames, and how a broken stream comes back.

use std::sync::{Arc, Mutex};

use cells_driver::{
    Client, ErrorKind, EventCursor, HarnessClient, MutationOptions, ProfileId, Secret, Subscription, TopicState,
};
use cells_testkit::fake_host::{FakeHost, FakeReply, FakeRequest};
use serde_json::{Value, json};

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{EPOCH, RING, client, connection, document, harness, host, profile, receipt, sent, session};

/// A node whose event streams are these, one after the other; then it refuses connections.
fn streams(replies: Vec<FakeReply>) -> FakeHost {
    let mut replies = replies.into_iter();
    host(move |request| {
        (request.path() == "/v1/events").then(|| replies.next().unwrap_or_else(FakeReply::network_error))
    })
}

fn frame(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn ready() -> String {
    let ready = json!({"version": 1, "streamId": RING, "heartbeatMs": 1_000, "serverId": null, "harnessEpoch": EPOCH, "processEpoch": "p"});
    frame("ready", &ready)
}

fn cursor(after: u64) -> EventCursor {
    serde_json::from_value(json!({"after": after, "eventEpoch": RING})).unwrap()
}

fn open(after: u64) -> String {
    frame("open", &json!({"topic": "t1", "kind": "harness", "cursor": cursor(after)}))
}

fn events(from: u64, to: u64) -> String {
    let events: Vec<Value> =
        (from + 1..=to).map(|seq| json!({"seq": seq, "message": {"method": format!("m/{seq}")}})).collect();
    frame("events", &json!({"topic": "t1", "eventEpoch": RING, "from": from, "to": to, "events": events}))
}

fn methods(harness: &HarnessClient, after: u64) -> Vec<String> {
    harness
        .event_snapshot(&profile(), Some(&cursor(after)))
        .events
        .into_iter()
        .map(|event| event.message.method)
        .collect()
}

fn state(harness: &HarnessClient) -> TopicState {
    harness.event_snapshot(&profile(), None).state
}

fn requests(host: &FakeHost) -> Vec<FakeRequest> {
    sent(host, "/v1/events")
}

#[test]
fn events_arrive_once_and_in_order() {
    let requests_frame = frame(
        "requests",
        &json!({"topic": "t1", "eventEpoch": RING, "at": 9, "requests": [{"id": "7", "method": "ask"}]}),
    );
    let foreign = frame("open", &json!({"topic": "other", "kind": "harness"}));
    let text = [
        ready(),
        foreign,
        frame("later/than/us", &json!(7)),
        open(5),
        events(5, 8),
        events(5, 8),
        events(7, 9),
        requests_frame,
    ]
    .concat();
    let host = streams(vec![FakeReply::events(text)]);
    let harness = harness(&host);
    assert_eq!(state(&harness), TopicState::Closed);
    let mut subscription = harness.subscribe(&profile());
    assert_eq!(state(&harness), TopicState::Connecting);
    host.block_on(subscription.ready()).unwrap();
    let mut seen = Vec::new();
    while seen.last() != Some(&9) {
        seen.extend(host.block_on(subscription.changed()).unwrap().cursor.map(|cursor| cursor.after));
    }
    assert_eq!(methods(&harness, 5), ["m/6", "m/7", "m/8", "m/9"]);
    assert_eq!(methods(&harness, 8), ["m/9"]);
    let snapshot = harness.event_snapshot(&profile(), None);
    assert_eq!(
        (snapshot.events.len(), snapshot.gap, snapshot.cursor, snapshot.requests.len()),
        (0, false, Some(cursor(9)), 1)
    );
    assert!(harness.event_snapshot(&profile(), Some(&cursor(4))).gap, "before the start");
    assert!(harness.event_snapshot(&profile(), Some(&cursor(10))).gap, "ahead");

    let request = &requests(&host)[0];
    assert_eq!(request.header("accept"), Some("text/event-stream"));
    let mut body = request.json();
    let client_id = body["clientId"].take();
    assert!(client_id.as_str().is_some_and(|id| id.len() == 32), "{client_id}");
    let topic = json!({"id": "t1", "kind": "harness", "profileId": "main", "toolDetail": "summary"});
    assert_eq!(body, json!({"version": 1, "clientId": null, "topics": [topic]}));
}

#[test]
fn changes_are_merged_until_they_are_taken() {
    let gap = frame("gap", &json!({"topic": "t1", "cursor": cursor(50), "reason": "evicted"}));
    let host = streams(vec![FakeReply::events([ready(), open(5), events(5, 6), gap, events(50, 51)].concat())]);
    let harness = harness(&host);
    let mut subscription = harness.subscribe(&profile());
    host.run_for(10);
    let change = host.block_on(subscription.changed()).unwrap();
    assert_eq!((change.state, change.gap, change.cursor), (TopicState::Online, true, Some(cursor(51))));
    assert_eq!(methods(&harness, 50), ["m/51"]);
    assert!(harness.event_snapshot(&profile(), Some(&cursor(6))).gap);
}

#[test]
fn a_broken_stream_goes_on_from_its_cursor() {
    let cut = |text: String| FakeReply::bytes(200, text).without_length().header("content-type", "text/event-stream");
    let silent = |text: String| FakeReply::events(text);
    for (case, first, second_at_ms) in [
        ("end of body", cut([ready(), open(5), events(5, 8)].concat()), 1_000),
        ("network", cut([ready(), open(5), events(5, 8)].concat()).broken(), 1_000),
        ("silence", silent([ready(), open(5), events(5, 8)].concat()), 11_000),
        (
            "not a frame",
            silent([ready(), open(5), events(5, 8), "event: events\ndata: {\n\n".to_owned()].concat()),
            1_000,
        ),
        (
            "a violation",
            silent(
                [
                    ready(),
                    open(5),
                    events(5, 8),
                    frame(
                        "events",
                        &json!({"topic": "t1", "eventEpoch": "f".repeat(32), "from": 8, "to": 8, "events": []}),
                    ),
                ]
                .concat(),
            ),
            1_000,
        ),
        (
            "closing",
            silent([ready(), open(5), events(5, 8), frame("closing", &json!({"code": "SERVER_STOPPING"}))].concat()),
            1_000,
        ),
    ] {
        let host = streams(vec![first, FakeReply::events([ready(), open(8), events(8, 9)].concat())]);
        let harness = harness(&host);
        let subscription = harness.subscribe(&profile());
        host.run_for(second_at_ms);
        assert_eq!(methods(&harness, 5), ["m/6", "m/7", "m/8", "m/9"], "{case}");
        assert_eq!(state(&harness), TopicState::Online, "{case}");
        let requests = requests(&host);
        assert_eq!(requests.len(), 2, "{case}");
        assert_eq!(requests[1].json()["topics"][0]["cursor"], json!(cursor(8)), "{case}");
        assert_eq!(requests[0].json()["clientId"], requests[1].json()["clientId"], "{case}");
        drop(subscription);
    }
}

#[test]
fn heartbeats_keep_a_stream_alive() {
    let mut reply =
        FakeReply::bytes(200, ready() + &open(1)).without_length().header("content-type", "text/event-stream");
    for _ in 0..10 {
        reply = reply.wait(9_000).chunk(frame("heartbeat", &json!({"time": 1})));
    }
    let host = streams(vec![reply.wait(u64::MAX)]);
    let harness = harness(&host);
    let _subscription = harness.subscribe(&profile());
    host.run_for(95_000);
    assert_eq!((state(&harness), requests(&host).len()), (TopicState::Online, 1));
    host.run_for(6_000);
    assert_eq!(requests(&host).len(), 2, "10 s without a byte");
}

#[test]
fn an_unreachable_node_is_tried_at_growing_intervals() {
    let host = streams(vec![]);
    let harness = harness(&host);
    let subscription = harness.subscribe(&profile());
    host.run_for(120_000);
    let n = requests(&host).len();
    assert!((8..=12).contains(&n), "{n} attempts in two minutes");
    let snapshot = harness.event_snapshot(&profile(), None);
    assert_eq!(snapshot.state, TopicState::Offline);
    assert_eq!(snapshot.error.unwrap().operation(), "connect");
    drop(subscription);
    host.run_for(120_000);
    assert_eq!(requests(&host).len(), n, "nobody subscribes");
    assert_eq!(state(&harness), TopicState::Closed);
}

#[test]
fn what_time_does_not_heal_fails_the_topic() {
    let status = |status: u16, code: &str| FakeReply::status(status, &json!({"code": code}));
    let topic_error = frame("error", &json!({"topic": "t1", "code": "ENOENT", "final": true}));
    for (case, reply, kind, remote_code, reason) in [
        ("401", status(401, "EACCES"), ErrorKind::AccessDenied, Some("EACCES"), None),
        ("403", status(403, "EACCES"), ErrorKind::AccessDenied, Some("EACCES"), None),
        ("404", FakeReply::bytes(404, ""), ErrorKind::Unsupported, None, Some("NODE_UPGRADE_REQUIRED")),
        ("405", FakeReply::bytes(405, ""), ErrorKind::Unsupported, None, Some("NODE_UPGRADE_REQUIRED")),
        ("422", status(422, "ECAPABILITY"), ErrorKind::Unsupported, None, Some("NODE_UPGRADE_REQUIRED")),
        ("400", status(400, "EINVAL"), ErrorKind::Io, None, None),
        ("409", status(409, "AUTHORIZATION_CHANGED"), ErrorKind::AccessDenied, Some("AUTHORIZATION_CHANGED"), None),
        (
            "authorization changed",
            FakeReply::events(ready() + &frame("closing", &json!({"code": "AUTHORIZATION_CHANGED"}))),
            ErrorKind::AccessDenied,
            Some("AUTHORIZATION_CHANGED"),
            None,
        ),
        (
            "superseded",
            FakeReply::events(ready() + &frame("closing", &json!({"code": "SUPERSEDED"}))),
            ErrorKind::Io,
            Some("SUPERSEDED"),
            None,
        ),
        ("topic", FakeReply::events(ready() + &topic_error), ErrorKind::NotFound, Some("ENOENT"), None),
    ] {
        let host = streams(vec![reply, FakeReply::events(ready() + &open(1))]);
        let harness = harness(&host);
        let subscription = harness.subscribe(&profile());
        let error = host.block_on(subscription.ready()).unwrap_err();
        assert_eq!((error.kind(), error.remote_code(), error.reason()), (kind, remote_code, reason), "{case}: {error}");
        assert_eq!(state(&harness), TopicState::Failed, "{case}");
        host.run_for(300_000);
        assert_eq!(requests(&host).len(), 1, "{case}: no attempt by itself");
        if remote_code != Some("AUTHORIZATION_CHANGED") {
            let again = harness.subscribe(&profile());
            assert!(host.block_on(again.ready()).is_ok(), "{case}: but by a new subscriber");
            assert!(host.block_on(subscription.ready()).is_ok(), "{case}: which helps the others");
        }
    }
}

#[test]
fn a_new_secret_gives_a_refused_stream_one_more_attempt() {
    let refused = || FakeReply::status(401, &json!({"code": "EACCES"}));
    let host = streams(vec![refused(), refused(), FakeReply::events(ready() + &open(1))]);
    let client = client(&host);
    let harness = client.harness(&connection()).unwrap();
    let _subscription = harness.subscribe(&profile());
    for (secret, n_requests, expected) in [
        (None, 1, TopicState::Failed),
        (Some(("home", "other")), 1, TopicState::Failed),
        (Some(("office", "second")), 2, TopicState::Failed),
        (Some(("office", "third")), 3, TopicState::Online),
    ] {
        if let Some((reference, secret)) = secret {
            client.set_credential(reference, Secret::new(secret));
        }
        host.run_for(5_000);
        assert_eq!((requests(&host).len(), state(&harness)), (n_requests, expected), "{secret:?}");
    }
    assert_eq!(requests(&host)[2].header("authorization"), Some("Bearer third"));
}

#[test]
fn what_time_heals_is_tried_again_as_the_node_asks() {
    let refused =
        |retry_after: &str| FakeReply::status(429, &json!({"code": "EVENTS_LIMIT"})).header("retry-after", retry_after);
    let later = frame("error", &json!({"topic": "t1", "code": "EIO", "final": false, "retryAfterMs": 5_000}));
    let beat = || frame("heartbeat", &json!({"time": 1}));
    let patient = FakeReply::bytes(200, ready() + &later)
        .without_length()
        .header("content-type", "text/event-stream")
        .wait(4_000)
        .chunk(beat())
        .wait(4_000)
        .chunk(beat())
        .wait(u64::MAX);
    for (case, reply, before_ms, after_ms) in
        [("stream limit", refused("20"), 19_000, 2_000), ("topic", patient, 4_500, 1_500)]
    {
        let host = streams(vec![reply, FakeReply::events(ready() + &open(1))]);
        let harness = harness(&host);
        let _subscription = harness.subscribe(&profile());
        host.run_for(before_ms);
        assert_eq!((state(&harness), requests(&host).len()), (TopicState::Offline, 1), "{case}");
        host.run_for(after_ms);
        assert_eq!((state(&harness), requests(&host).len()), (TopicState::Online, 2), "{case}");
    }
}

#[test]
fn a_node_without_event_streams_is_not_probed() {
    let mut old = document();
    old["events"] = json!({"version": 2, "endpoint": "v1/events"});
    let host = host(move |request| {
        (request.header("mcp-method") == Some("server/discover"))
            .then(|| FakeReply::rpc(request, &json!({"_meta": {"itookit/cells": old}})))
    });
    let harness = harness(&host);
    let subscription = harness.subscribe(&profile());
    let error = host.block_on(subscription.ready()).unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Unsupported, Some("NODE_UPGRADE_REQUIRED")));
    assert!(error.message().contains("http://node/"), "{error}");
    assert_eq!(requests(&host).len(), 0);
}

#[test]
fn all_subscribers_share_one_stream_until_the_last_one_leaves() {
    let second_topic = frame("open", &json!({"topic": "t2", "kind": "harness", "cursor": cursor(4)}));
    let host = streams(vec![
        FakeReply::events(ready() + &open(1)),
        FakeReply::events(ready() + &open(1) + &second_topic),
        FakeReply::events(ready() + &second_topic),
    ]);
    let client = client(&host);
    let harness = || client.harness(&connection()).unwrap();
    let (one, two) = (harness(), harness());
    let mut first = one.subscribe(&profile());
    let mut second = two.subscribe(&profile());
    host.block_on(first.ready()).unwrap();
    host.block_on(second.ready()).unwrap();
    assert!(host.block_on(first.changed()).is_some() && host.block_on(second.changed()).is_some());
    let other = two.subscribe(&ProfileId::new("plain").unwrap());
    host.block_on(other.ready()).unwrap();
    let topics = |at: usize| {
        let body = requests(&host)[at].json();
        let topics = body["topics"].as_array().unwrap().iter();
        topics.map(|topic| (topic["profileId"].clone(), topic["cursor"]["after"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(topics(1), [(json!(profile()), json!(1)), (json!("plain"), Value::Null)]);
    assert_eq!(requests(&host)[0].json()["clientId"], requests(&host)[1].json()["clientId"]);
    assert!(requests(&host)[0].is_aborted() && !requests(&host)[1].is_aborted(), "one stream at a time");

    drop(first);
    host.run_for(1_000);
    assert_eq!(requests(&host).len(), 2, "the topic has a subscriber left");
    two.close();
    assert!(host.block_on(second.changed()).is_none());
    host.run_for(1);
    assert!(requests(&host)[1].is_aborted(), "nobody is left");
    assert_eq!(state(&one), TopicState::Closed);
    assert_eq!(requests(&host).len(), 2);
}

#[test]
fn what_ends_a_client_ends_its_streams() {
    type End = fn(&FakeHost, &Client, &HarnessClient);
    let ends: [(&str, End); 3] = [
        ("close", |_, _, harness| harness.close()),
        ("dispose", |_, client, _| client.dispose()),
        ("not driven any more", |host, _, _| host.drop_run()),
    ];
    for (case, end) in ends {
        let host = streams(vec![FakeReply::events(ready() + &open(1))]);
        let client = client(&host);
        let harness = client.harness(&connection()).unwrap();
        let subscription: Subscription = harness.subscribe(&profile());
        host.block_on(subscription.ready()).unwrap();
        end(&host, &client, &harness);
        host.run_for(1);
        assert!(requests(&host)[0].is_aborted(), "{case}");
        assert!(host.block_on(subscription.ready()).is_err(), "{case}");
        let n = host.requests().len();
        host.run_for(60_000);
        assert_eq!(host.requests().len(), n, "{case}: nothing is sent");
    }
}

#[test]
fn a_waiting_caller_is_told_that_the_streams_were_closed() {
    let host = streams(vec![FakeReply::never()]);
    let harness = harness(&host);
    let mut subscription = harness.subscribe(&profile());
    assert_eq!(host.block_on(subscription.changed()).map(|change| change.state), Some(TopicState::Connecting));
    let ended = Arc::new(Mutex::new(false));
    let flag = Arc::clone(&ended);
    let both = futures::future::join(async { assert_eq!(subscription.changed().await, None) }, async {
        *flag.lock().unwrap() = true;
        harness.close();
    });
    host.block_on(both);
    assert!(*ended.lock().unwrap());
    assert_eq!(host.block_on(subscription.ready()).unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn a_restarted_node_makes_the_next_mutation_ask_for_the_epoch() {
    let new_epoch = "e".repeat(64);
    let ready = ready().replace(EPOCH, &new_epoch);
    let now = json!(new_epoch);
    let mut n_asked = 0;
    let host = host(move |request| {
        if request.path() == "/v1/events" {
            return Some(FakeReply::events(ready.clone() + &open(1)));
        }
        match request.tool()?.as_str() {
            "harness_profiles" => {
                n_asked += 1;
                let mut profiles = crate::node::profiles();
                if n_asked > 1 {
                    profiles["epoch"] = now.clone();
                }
                Some(FakeReply::tool(request, &profiles))
            }
            "harness_turn" => Some(receipt(request, "committed", &json!({"result": {"turnId": "t"}}))),
            _ => None,
        }
    });
    let harness = harness(&host);
    let turn = || host.block_on(harness.turn(&profile(), &session(), "x", MutationOptions::default())).unwrap();
    assert_eq!(turn().recovery.epoch.as_str(), EPOCH);
    let subscription = harness.subscribe(&profile());
    host.block_on(subscription.ready()).unwrap();
    assert_eq!(turn().recovery.epoch.as_str(), new_epoch);
}
