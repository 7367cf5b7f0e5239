use std::time::Duration;

use cells_protocol::ids::EventEpoch;
use serde_json::{Value, json};

use super::{EVENTS_PATH, Streams};
use crate::testing::{Frames, KEY, TestNode, reply};

fn request(client: &str, topics: &Value) -> Value {
    json!({"version": 1, "clientId": client, "topics": topics})
}

/// Opens a stream of one topic and reads `ready`.
async fn open(node: &TestNode, client: &str, topic: &Value) -> Frames {
    let mut frames = Frames::of(node.json(EVENTS_PATH, &request(client, &json!([topic])))).await;
    frames.expect("ready").await;
    frames
}

fn topic() -> Value {
    json!({"id": "h", "kind": "harness", "profileId": "scripted"})
}

fn at(node: &TestNode, after: u64) -> Value {
    json!({"after": after, "eventEpoch": node.ring().newest().event_epoch})
}

fn from(node: &TestNode, after: u64) -> Value {
    json!({"id": "h", "kind": "harness", "profileId": "scripted", "cursor": at(node, after)})
}

fn push(node: &TestNode, number: u64) {
    node.ring().push("turn/started", json!({"threadId": "s", "number": number})).unwrap();
}

#[tokio::test]
async fn a_stream_starts_with_what_the_node_is() {
    let node = TestNode::start().await;
    let mut frames = Frames::of(node.json(EVENTS_PATH, &request("c", &json!([topic()])))).await;
    assert_eq!(frames.header("content-type"), Some("text/event-stream"));
    assert_eq!(frames.header("cache-control"), Some("no-store"));
    assert_eq!((frames.header("content-length"), frames.header("content-encoding")), (None, None));
    let ready = frames.expect("ready").await;
    assert_eq!((&ready["version"], &ready["heartbeatMs"]), (&json!(1), &json!(15_000)));
    assert_eq!((&ready["serverId"], &ready["harnessEpoch"]), (&json!(node.server_id), &json!(node.harness.epoch())));
    assert_eq!(ready["authorization"]["principalId"], json!("owner"));
    assert!(ready["processEpoch"].is_string() && ready["streamId"].as_str().unwrap().len() == 32);
    node.stop().await;
}

#[tokio::test]
async fn a_topic_is_open_then_old_events_then_requests_then_live() {
    let node = TestNode::start().await;
    for number in 1..=200 {
        push(&node, number);
    }
    node.ring().add_request(json!("ask-1"), "item/tool/requestUserInput", json!({"threadId": "s"})).unwrap();
    let mut frames = open(&node, "c", &from(&node, 3)).await;
    assert_eq!(frames.expect("open").await, json!({"topic": "h", "kind": "harness", "cursor": at(&node, 3)}));
    for (start, end) in [(3, 131), (131, 201)] {
        let events = frames.expect("events").await;
        assert_eq!((&events["from"], &events["to"]), (&json!(start), &json!(end)));
        assert_eq!(events["eventEpoch"], at(&node, 0)["eventEpoch"]);
        let seqs: Vec<u64> =
            events["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, (start + 1..=end).collect::<Vec<_>>());
    }
    let requests = frames.expect("requests").await;
    assert_eq!((&requests["at"], &requests["requests"][0]["id"]), (&json!(201), &json!("ask-1")));

    push(&node, 202);
    let live = frames.expect("events").await;
    assert_eq!(
        live["events"][0]["message"],
        json!({"method": "turn/started", "params": {"threadId": "s", "number": 202}})
    );
    node.ring().resolve_request(&json!("ask-1")).unwrap();
    let resolved = frames.expect("events").await;
    assert_eq!(resolved["events"][0]["message"]["method"], json!("serverRequest/resolved"));
    assert_eq!(frames.expect("requests").await["requests"], json!([]));
    node.stop().await;
}

#[tokio::test]
async fn a_topic_without_cursor_starts_now() {
    let node = TestNode::start().await;
    push(&node, 1);
    let mut frames = open(&node, "c", &topic()).await;
    assert_eq!(frames.expect("open").await["cursor"], at(&node, 1));
    assert_eq!(frames.expect("requests").await["at"], json!(1));
    push(&node, 2);
    assert_eq!(frames.expect("events").await["from"], json!(1));
    node.stop().await;
}

#[tokio::test]
async fn a_position_that_cannot_be_continued_is_a_gap() {
    let node = TestNode::start().await;
    for number in 1..=1025 {
        push(&node, number);
    }
    let foreign = EventEpoch::from_bytes([9; 16]);
    for (name, cursor, reason) in [
        ("epoch", json!({"after": 1025, "eventEpoch": foreign}), Some("epoch")),
        ("ahead", at(&node, 1026), Some("ahead")),
        ("evicted", at(&node, 0), Some("evicted")),
        ("oldest", at(&node, 1), None),
        ("newest", at(&node, 1025), None),
    ] {
        let topic = json!({"id": "h", "kind": "harness", "profileId": "scripted", "cursor": cursor});
        let mut frames = open(&node, name, &topic).await;
        let open = frames.expect("open").await;
        match reason {
            Some(reason) => {
                assert_eq!(open["cursor"], at(&node, 1025), "{name}");
                let gap = frames.expect("gap").await;
                assert_eq!(gap, json!({"topic": "h", "cursor": at(&node, 1025), "reason": reason}), "{name}");
                assert_eq!(frames.expect("requests").await["at"], json!(1025), "{name}");
            }
            None => assert_eq!(open["cursor"], cursor, "{name}"),
        }
    }
    node.stop().await;
}

#[tokio::test]
async fn a_new_ring_is_a_gap_in_a_running_stream() {
    let node = TestNode::start().await;
    push(&node, 1);
    let mut frames = open(&node, "c", &topic()).await;
    frames.expect("open").await;
    frames.expect("requests").await;
    node.ring().restart();
    let gap = frames.expect("gap").await;
    assert_eq!((&gap["reason"], &gap["cursor"]), (&json!("epoch"), &at(&node, 0)));
    assert_eq!(frames.expect("requests").await["at"], json!(0));
    push(&node, 1);
    assert_eq!(frames.expect("events").await["to"], json!(1));
    node.stop().await;
}

#[tokio::test]
async fn a_summary_leaves_out_tool_output_and_still_moves_on() {
    let node = TestNode::start().await;
    let mut topic = topic();
    topic["toolDetail"] = json!("summary");
    let mut frames = open(&node, "c", &topic).await;
    frames.expect("open").await;
    frames.expect("requests").await;
    node.ring().push("item/commandExecution/outputDelta", json!({"delta": "secret"})).unwrap();
    let dropped = frames.expect("events").await;
    assert_eq!((&dropped["to"], &dropped["events"]), (&json!(1), &json!([])));
    let item = json!({"id": "i", "type": "commandExecution", "command": "ls", "aggregatedOutput": "secret"});
    node.ring().push("item/completed", json!({"threadId": "s", "item": item})).unwrap();
    let completed = frames.expect("events").await;
    let item = &completed["events"][0]["message"]["params"]["item"];
    assert_eq!((&item["commandPreview"], item.get("aggregatedOutput")), (&json!("ls"), None));
    node.stop().await;
}

#[tokio::test]
async fn topics_that_cannot_be_opened_do_not_disturb_the_others() {
    let node = TestNode::start().await;
    let scope = json!({"projectId": "p", "revision": 1, "readOnly": true});
    let topics = json!([
        {"id": "a", "kind": "directory", "scope": scope},
        {"id": "b", "kind": "no-such-kind", "anything": 1},
        {"id": "c", "kind": "harness", "profileId": "absent"},
        {"id": "d", "kind": "harness", "profileId": "scripted", "scope": scope},
        {"id": "e", "kind": "harness", "profileId": "scripted"},
        {"id": "f", "kind": "harness", "profileId": "scripted"},
    ]);
    let mut frames = Frames::of(node.json(EVENTS_PATH, &request("c", &topics))).await;
    frames.expect("ready").await;
    for (topic, code) in [("a", "ECAPABILITY"), ("b", "ECAPABILITY"), ("c", "ENOENT"), ("d", "ECAPABILITY")] {
        assert_eq!(frames.expect("error").await, json!({"topic": topic, "code": code, "final": true}));
    }
    for topic in ["e", "f"] {
        assert_eq!(frames.expect("open").await["topic"], json!(topic));
    }
    for topic in ["e", "f"] {
        assert_eq!(frames.expect("requests").await["topic"], json!(topic));
    }
    push(&node, 1);
    let mut seen = [frames.expect("events").await["topic"].clone(), frames.expect("events").await["topic"].clone()];
    seen.sort_by_key(ToString::to_string);
    assert_eq!(seen, [json!("e"), json!("f")]);
    node.stop().await;
}

#[tokio::test]
async fn a_silent_stream_beats() {
    let streams = Streams::new(Duration::from_secs(1), Duration::from_secs(60));
    let node = TestNode::start_with(streams, |_| {}).await;
    let mut frames = open(&node, "c", &topic()).await;
    frames.expect("open").await;
    frames.expect("requests").await;
    assert!(frames.expect("heartbeat").await["time"].as_u64().unwrap() > 1_600_000_000_000);
    node.stop().await;
}

#[tokio::test]
async fn a_newer_stream_of_the_same_client_ends_the_older() {
    let node = TestNode::start().await;
    let mut older = open(&node, "c", &topic()).await;
    older.expect("open").await;
    older.expect("requests").await;
    let mut newer = open(&node, "c", &topic()).await;
    assert_eq!(older.expect("closing").await, json!({"code": "SUPERSEDED"}));
    assert_eq!(older.next().await, None);
    newer.expect("open").await;
    node.stop().await;
}

#[tokio::test]
async fn a_node_that_stops_says_so_and_opens_no_stream() {
    let node = TestNode::start().await;
    let mut frames = open(&node, "c", &topic()).await;
    frames.expect("open").await;
    frames.expect("requests").await;
    node.streams.stop();
    assert_eq!(frames.expect("closing").await, json!({"code": "SERVER_STOPPING"}));
    assert_eq!(frames.next().await, None);
    let refused = reply(node.json(EVENTS_PATH, &request("d", &json!([topic()])))).await;
    assert_eq!(refused, (503, json!({"code": "EIO"})));
    node.stop().await;
}

#[tokio::test]
async fn a_stream_ends_when_the_node_is_asked_to_stop() {
    let node = TestNode::start().await;
    let mut frames = open(&node, "c", &topic()).await;
    frames.expect("open").await;
    frames.expect("requests").await;
    node.stop().await;
    assert_eq!(frames.expect("closing").await, json!({"code": "SERVER_STOPPING"}));
}

#[tokio::test]
async fn a_principal_has_16_streams_and_a_closed_one_makes_room() {
    let node = TestNode::start().await;
    let mut streams = Vec::new();
    for number in 0..16 {
        streams.push(open(&node, &format!("c{number}"), &topic()).await);
    }
    let refused = reply(node.json(EVENTS_PATH, &request("d", &json!([topic()])))).await;
    assert_eq!(refused, (429, json!({"code": "EVENTS_LIMIT"})));
    streams.pop();
    // The node sees the closed connection a moment later.
    while node.json(EVENTS_PATH, &request("d", &json!([topic()]))).send().await.unwrap().status() == 429 {
        tokio::task::yield_now().await;
    }
    node.stop().await;
}

#[tokio::test]
async fn a_reader_that_falls_behind_the_ring_gets_a_gap() {
    let node = TestNode::start().await;
    let mut frames = open(&node, "c", &topic()).await;
    // More than the ring and the buffers of the sockets hold.
    let text = "x".repeat(1024 * 1024);
    for _ in 0..64 {
        node.ring().push("item/agentMessage/delta", json!({"delta": text})).unwrap();
        tokio::task::yield_now().await;
    }
    let mut after = 0;
    let gap = loop {
        match frames.next().await.unwrap() {
            (name, events) if name == "events" => {
                assert_eq!(events["from"], json!(after));
                after = events["to"].as_u64().unwrap();
            }
            (name, gap) if name == "gap" => break gap,
            (name, _) => assert!(name == "open" || name == "requests", "{name}"),
        }
    };
    assert_eq!((&gap["reason"], &gap["cursor"]), (&json!("evicted"), &at(&node, 64)));
    assert_eq!(frames.expect("requests").await["at"], json!(64));
    node.stop().await;
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_given_up() {
    let streams = Streams::new(Duration::from_secs(15), Duration::from_millis(50));
    let node = TestNode::start_with(streams, |_| {}).await;
    let mut frames = open(&node, "c", &topic()).await;
    let text = "x".repeat(1024 * 1024);
    while node.streams.count() > 0 {
        node.ring().push("item/agentMessage/delta", json!({"delta": text})).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let last = loop {
        match frames.next().await.unwrap() {
            (name, closing) if name == "closing" => break closing,
            _ => {}
        }
    };
    assert_eq!(last, json!({"code": "EVENTS_SLOW_CONSUMER"}));
    assert_eq!(frames.next().await, None);
    node.stop().await;
}

#[tokio::test]
async fn requests_are_refused_in_the_order_of_the_specification() {
    let node = TestNode::start().await;
    let good = request("c", &json!([topic()]));
    let with = |change: fn(&mut Value)| {
        let mut body = good.clone();
        change(&mut body);
        body.to_string()
    };
    let many: Vec<Value> =
        (0..129).map(|n| json!({"id": n.to_string(), "kind": "harness", "profileId": "scripted"})).collect();
    let json_type = Some("application/json");
    let pin = |revision: &str| {
        vec![("x-fsagent-principal", "owner".to_owned()), ("x-fsagent-principal-revision", revision.to_owned())]
    };
    let invalid = (400, Some("EINVAL"));
    type Case =
        (&'static str, Option<&'static str>, String, bool, Vec<(&'static str, String)>, (u16, Option<&'static str>));
    let cases: Vec<Case> = vec![
        ("no content type", None, good.to_string(), false, vec![], (415, None)),
        ("another content type", Some("text/plain"), good.to_string(), false, vec![], (415, None)),
        ("too large", json_type, format!("\"{}\"", "x".repeat(64 * 1024)), false, vec![], (413, None)),
        ("not JSON", json_type, "{".to_owned(), false, vec![], (400, None)),
        ("no credential", json_type, "[]".to_owned(), false, pin("x"), (401, Some("EACCES"))),
        ("another revision", json_type, "[]".to_owned(), true, pin("x"), (409, Some("AUTHORIZATION_CHANGED"))),
        ("half a pin", json_type, "[]".to_owned(), true, vec![pin("x").remove(0)], invalid),
        ("not an object", json_type, "[]".to_owned(), true, vec![], invalid),
        ("no topics", json_type, with(|body| body["topics"] = json!([])), true, vec![], invalid),
        ("129 topics", json_type, request("c", &json!(many)).to_string(), true, vec![], invalid),
        ("a topic id twice", json_type, request("c", &json!([topic(), topic()])).to_string(), true, vec![], invalid),
        ("a bad topic id", json_type, with(|body| body["topics"][0]["id"] = json!("a b")), true, vec![], invalid),
        ("no kind", json_type, with(|body| body["topics"][0]["kind"] = json!(null)), true, vec![], invalid),
        ("no profile", json_type, with(|body| body["topics"][0]["profileId"] = json!(null)), true, vec![], invalid),
        (
            "a bad cursor",
            json_type,
            with(|body| body["topics"][0]["cursor"] = json!({"after": 1})),
            true,
            vec![],
            invalid,
        ),
        ("a bad client id", json_type, with(|body| body["clientId"] = json!("")), true, vec![], invalid),
        ("a version that is no number", json_type, with(|body| body["version"] = json!("1")), true, vec![], invalid),
        (
            "a bad shape of another version",
            json_type,
            with(|body| {
                body["version"] = json!(2);
                body["topics"] = json!([]);
            }),
            true,
            vec![],
            invalid,
        ),
        (
            "another version",
            json_type,
            with(|body| body["version"] = json!(2)),
            true,
            vec![],
            (422, Some("ECAPABILITY")),
        ),
    ];
    for (name, content_type, body, authenticated, headers, (status, code)) in cases {
        let mut request = node.post(EVENTS_PATH).body(body);
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        if authenticated {
            request = request.bearer_auth(KEY);
        }
        for (header, value) in headers {
            request = request.header(header, value);
        }
        let (found, body) = reply(request).await;
        assert_eq!(found, status, "{name}: {body}");
        match code {
            Some(code) => assert_eq!(body, json!({"code": code}), "{name}"),
            None => assert!(body.is_string(), "{name}: {body}"),
        }
    }
    node.stop().await;
}

#[tokio::test]
async fn a_request_with_128_topics_and_unknown_members_is_served() {
    let node = TestNode::start().await;
    let topics: Vec<Value> = (0..128)
        .map(|n| json!({"id": n.to_string(), "kind": "harness", "profileId": "scripted", "unknown": n}))
        .collect();
    let mut body = request("c", &json!(topics));
    body["unknown"] = json!(1);
    let mut frames = Frames::of(node.json(EVENTS_PATH, &body)).await;
    frames.expect("ready").await;
    for number in 0..128 {
        assert_eq!(frames.expect("open").await["topic"], json!(number.to_string()));
    }
    node.stop().await;
}
