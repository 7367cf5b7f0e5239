//! Conversations with the built-in agent of a running node.

use cells_driver::{
    CommandName, ErrorKind, EventCursor, HarnessClient, HarnessEvent, HistoryOptions, MutationOptions, NativeId,
    OperationOptions, Outcome, OutputLoadOptions, OutputReadOptions, ProfileId, Subscription, TopicState,
};
use serde_json::json;

use crate::stage::{Stage, sha256};

/// Waits for the next request of the agent, or for the end of the turn.
async fn until(
    events: &mut Subscription,
    cursor: &mut Option<EventCursor>,
    is_wanted: impl Fn(&HarnessEvent) -> bool,
) -> Vec<HarnessEvent> {
    let mut seen = Vec::new();
    loop {
        let snapshot = events.snapshot(cursor.as_ref());
        assert!(!snapshot.gap, "{snapshot:?}");
        *cursor = snapshot.cursor;
        for event in snapshot.events {
            let is_last = is_wanted(&event);
            seen.push(event);
            if is_last {
                return seen;
            }
        }
        assert!(events.changed().await.is_some());
    }
}

fn is(method: &'static str) -> impl Fn(&HarnessEvent) -> bool {
    move |event| event.message.method == method
}

async fn start(stage: &Stage) -> (HarnessClient, ProfileId, NativeId, Subscription, Option<EventCursor>) {
    let harness = stage.harness();
    let (profile, session) = stage.session(&harness).await;
    let events = harness.subscribe(&profile);
    events.ready().await.unwrap();
    let cursor = events.snapshot(None).cursor;
    (harness, profile, session, events, cursor)
}

#[tokio::test]
async fn the_text_of_a_turn_streams_and_stays_in_the_history() {
    let stage = Stage::new().await;
    let (harness, profile, session, mut events, mut cursor) = start(&stage).await;
    let turn = harness.turn(&profile, &session, "say Hello, world.", MutationOptions::default()).await.unwrap();
    let seen = until(&mut events, &mut cursor, is("turn/completed")).await;
    let deltas = seen.iter().filter(|event| is("item/agentMessage/delta")(event));
    let text: String = deltas.filter_map(|event| event.message.params["delta"].as_str()).collect();
    assert_eq!(text, "Hello, world.");
    let history = harness.read(&profile, &session, HistoryOptions::default()).await.unwrap();
    assert_eq!(history.turns.last().unwrap().id.as_ref(), Some(&turn.value.turn_id));
    assert!(history.event_cursor.is_some());
    let info = harness.inspect(&profile, &session, OperationOptions::default()).await.unwrap();
    assert_eq!(info.session.id, session);
    let listed = harness.list(&profile, Default::default()).await.unwrap();
    assert_eq!(listed.sessions.iter().map(|listed| &listed.id).collect::<Vec<_>>(), [&session]);
}

#[tokio::test]
async fn an_approved_command_really_runs_and_its_output_is_quoted() {
    let stage = Stage::new().await;
    stage.write("answer.txt", b"forty-two\n");
    let (harness, profile, session, mut events, mut cursor) = start(&stage).await;
    harness.turn(&profile, &session, "run cat answer.txt", MutationOptions::default()).await.unwrap();
    let asked = until(&mut events, &mut cursor, is("item/commandExecution/requestApproval")).await;
    let id = asked.last().and_then(|event| event.message.id.clone()).unwrap();
    let answer =
        harness.respond(&profile, id.clone(), json!({"decision": "accept"}), MutationOptions::default()).await.unwrap();
    let seen = until(&mut events, &mut cursor, is("turn/completed")).await;
    let quoted = |event: &HarnessEvent| {
        event.message.params["item"]["text"].as_str().is_some_and(|text| text.contains("forty-two"))
    };
    assert!(seen.iter().any(quoted), "{seen:?}");

    let receipt = harness.operation(&answer.recovery, OperationOptions::default()).await.unwrap();
    assert_eq!(receipt.outcome, Outcome::Committed);
    let error =
        harness.respond(&profile, id, json!({"decision": "accept"}), MutationOptions::default()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::NotFound, Some(Outcome::NotCommitted)), "answered before");
}

#[tokio::test]
async fn a_turn_is_interrupted() {
    let stage = Stage::new().await;
    let (harness, profile, session, mut events, mut cursor) = start(&stage).await;
    let turn = harness.turn(&profile, &session, "wait", MutationOptions::default()).await.unwrap().value.turn_id;
    let busy = harness.turn(&profile, &session, "say x", MutationOptions::default()).await.unwrap_err();
    assert_eq!((busy.kind(), busy.outcome()), (ErrorKind::Busy, Some(Outcome::NotCommitted)));
    harness.interrupt(&profile, &session, &turn, MutationOptions::default()).await.unwrap();
    until(&mut events, &mut cursor, is("turn/completed")).await;
    let late = harness.interrupt(&profile, &session, &turn, MutationOptions::default()).await.unwrap_err();
    assert_eq!((late.kind(), late.remote_code()), (ErrorKind::Conflict, Some("HARNESS_TURN_NOT_ACTIVE")));
}

#[tokio::test]
async fn megabytes_of_command_output_are_loaded_and_verified() {
    let stage = Stage::new().await;
    let harness = stage.harness();
    let (profile, session) = stage.session(&harness).await;
    let catalog = harness.commands(&profile, &session, OperationOptions::default()).await.unwrap();
    assert!(catalog.commands.iter().any(|command| command.name.as_str() == "output"));
    let name = CommandName::new("output").unwrap();
    let run = |bytes: u64| {
        let (harness, profile, session, name) = (&harness, &profile, &session, &name);
        async move { harness.command(profile, session, name, &bytes.to_string(), MutationOptions::default()).await.unwrap() }
    };
    let done = run(3_000_000).await;
    let reference = done.value.output_ref.unwrap();
    assert_eq!((reference.bytes, &reference.request_id), (3_000_000, &done.recovery.request_id));
    let output = harness.load_command_output(&profile, &reference, OutputLoadOptions::default()).await.unwrap();
    assert_eq!((output.len(), sha256(&output).as_str()), (3_000_000, reference.sha256.as_str()));
    assert!(output.starts_with(done.value.preview.unwrap().as_bytes()));
    let options = OutputReadOptions { offset: 2_999_000, limit: 600, ..OutputReadOptions::default() };
    let page = harness.read_command_output(&profile, &reference, options).await.unwrap();
    assert!(page.data == output[2_999_000..2_999_600] && page.next_offset == Some(2_999_600));

    let large = run(9_000_000).await.value.output_ref.unwrap();
    let error = harness.load_command_output(&profile, &large, OutputLoadOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

#[tokio::test]
async fn refusals_name_the_reason_of_the_node() {
    let stage = Stage::new().await;
    let harness = stage.harness();
    let (profile, session) = stage.session(&harness).await;
    let options = MutationOptions::default;
    let other = NativeId::new("no-such-session").unwrap();
    let unknown = ProfileId::new("nobody").unwrap();
    let command = CommandName::new("nothing").unwrap();
    let errors = [
        harness.turn(&profile, &other, "x", options()).await.map(drop),
        harness.turn(&unknown, &session, "x", options()).await.map(drop),
        harness.command(&profile, &session, &command, "", options()).await.map(drop),
        harness.turn(&profile, &session, "reject HARNESS_SESSION_BUSY", options()).await.map(drop),
    ];
    for error in errors.map(Result::unwrap_err) {
        assert_eq!(error.outcome(), Some(Outcome::NotCommitted), "{error}");
        assert!(error.remote_code().is_some() && error.request_id().is_some(), "{error}");
    }
    let error = harness.turn(&profile, &session, "reject EIO", options()).await.unwrap_err();
    assert_eq!((error.outcome(), error.remote_code()), (Some(Outcome::Unknown), Some("EIO")));
    let receipt = harness.operation(error.recovery().unwrap(), OperationOptions::default()).await.unwrap();
    assert_eq!((receipt.outcome, receipt.code.as_deref()), (Outcome::Unknown, Some("EIO")));
}

#[tokio::test]
async fn clients_of_a_node_share_one_stream_and_take_nothing_from_each_other() {
    let stage = Stage::new().await;
    let (harness, profile, session, mut events, mut cursor) = start(&stage).await;
    let n_before = stage.proxy.counts().paths["POST /v1/events"];
    let other = stage.harness();
    let mut other_events = other.subscribe(&profile);
    other_events.ready().await.unwrap();
    let mut other_cursor = other_events.snapshot(None).cursor;
    assert_eq!(stage.proxy.counts().paths["POST /v1/events"], n_before);
    harness.turn(&profile, &session, "say two", MutationOptions::default()).await.unwrap();
    let seen = until(&mut events, &mut cursor, is("turn/completed")).await;
    assert_eq!(until(&mut other_events, &mut other_cursor, is("turn/completed")).await, seen);
    drop(other_events);
    harness.turn(&profile, &session, "say three", MutationOptions::default()).await.unwrap();
    let seen = until(&mut events, &mut cursor, is("turn/completed")).await;
    assert!(seen.iter().any(|event| event.message.params["delta"] == json!("three")), "{seen:?}");
    assert_eq!(events.snapshot(None).state, TopicState::Online);
}
