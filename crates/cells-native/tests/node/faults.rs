//! A network that breaks between the client and a running node.

use std::time::Duration;

use cells_driver::{ErrorKind, MutationOptions, OperationOptions, Outcome, ReadOptions, Result, TopicState};
use cells_testkit::fault_proxy::{Fault, Plan, Rule};

use crate::stage::{Stage, content, sha256};

async fn receive(stage: &Stage, alias: &str) -> Result<Vec<u8>> {
    let mut stream = stage.files(alias).read_stream("large", ReadOptions::default()).await?;
    let mut received = Vec::new();
    while let Some(piece) = stream.next().await? {
        received.extend_from_slice(&piece);
    }
    Ok(received)
}

#[tokio::test]
async fn a_stream_that_is_cut_goes_on_with_the_same_file() {
    let stage = Stage::new().await;
    let bytes = content(3_000_000);
    stage.write("large", &bytes);
    for alias in ["work", "library"] {
        let path = format!("/v1/fs/{alias}/content");
        let cut = |n| Rule::path(path.clone(), Fault::Truncate { at: 700_000 }).nth(n);
        stage.proxy.set_plan(Plan::new([cut(1), cut(2), cut(3)]));
        stage.proxy.reset_counts();
        let received = receive(&stage, alias).await.unwrap();
        assert_eq!(sha256(&received), sha256(&bytes), "{alias}");
        assert_eq!(stage.proxy.counts().paths[&format!("GET {path}")], 4, "{alias}");
    }
}

#[tokio::test]
async fn a_file_that_changed_while_the_stream_was_cut_is_a_conflict() {
    let stage = Stage::new().await;
    for alias in ["work", "library"] {
        stage.write("large", &content(3_000_000));
        stage.proxy.set_plan(Plan::new([Rule::path("/v1/fs/*", Fault::Truncate { at: 100_000 }).nth(2)]));
        let mut stream = stage.files(alias).read_stream("large", ReadOptions::default()).await.unwrap();
        assert!(stream.next().await.unwrap().is_some());
        let mut other = content(3_000_000);
        other.reverse();
        // Another time of modification, whatever the clock of the file system.
        tokio::time::sleep(Duration::from_millis(20)).await;
        stage.write("large", &other);
        let error = loop {
            match stream.next().await {
                Ok(piece) => assert!(piece.is_some(), "{alias}: the stream ended"),
                Err(error) => break error,
            }
        };
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Conflict, "read_stream"), "{alias}: {error}");
    }
}

#[tokio::test]
async fn nothing_of_a_broken_reply_is_handed_out() {
    let stage = Stage::new().await;
    stage.write("a", b"0123456789");
    let files = stage.files("work");
    for (case, fault, operation) in [
        ("cut off", Fault::Truncate { at: 5 }, "connect"),
        ("reset", Fault::ResetAfter, "connect"),
        ("never sent", Fault::ResetBefore, "connect"),
    ] {
        stage.proxy.set_plan(Plan::new([Rule::path("/v1/fs/work/content", fault)]));
        let error = files.read("a", ReadOptions::default()).await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Io, operation), "{case}: {error}");
    }
    for (case, fault, operation) in [
        ("cut off", Fault::Truncate { at: 5 }, "connect"),
        ("not UTF-8", Fault::Corrupt { at: 3, xor: 255 }, "protocol"),
        ("not JSON", Fault::Corrupt { at: 0, xor: 1 }, "protocol"),
        ("reset", Fault::ResetAfter, "connect"),
    ] {
        stage.proxy.set_plan(Plan::new([Rule::path("/v1/fs/work/*", fault)]));
        let stat = files.stat("a", OperationOptions::default()).await.unwrap_err();
        let list = files.list("", None, OperationOptions::default()).await.unwrap_err();
        for error in [stat, list] {
            assert_eq!((error.kind(), error.operation()), (ErrorKind::Io, operation), "{case}: {error}");
        }
    }
    stage.proxy.set_plan(Plan::new([Rule::any(Fault::DelayReply { ms: 5_000 })]));
    let options = OperationOptions { timeout_ms: Some(200), cancel: None };
    assert_eq!(files.list("", None, options).await.unwrap_err().kind(), ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_lost_reply_is_unknown_until_the_node_is_asked() {
    let stage = Stage::new().await;
    let harness = stage.harness();
    let (profile, session) = stage.session(&harness).await;
    for (case, fault, reached) in [
        ("reset after", Fault::ResetAfter, true),
        ("cut off", Fault::Truncate { at: 20 }, true),
        ("corrupted", Fault::Corrupt { at: 10, xor: 255 }, true),
        ("reset before", Fault::ResetBefore, false),
    ] {
        stage.proxy.set_plan(Plan::new([Rule::tool("harness_turn", fault).nth(1)]));
        stage.proxy.reset_counts();
        let error = harness.turn(&profile, &session, "say hello", MutationOptions::default()).await.unwrap_err();
        assert_eq!((error.outcome(), error.kind()), (Some(Outcome::Unknown), ErrorKind::Io), "{case}: {error}");
        let recovery = error.recovery().unwrap();
        assert_eq!(Some(&recovery.request_id), error.request_id());
        // Another client, as after a restart of this process, from what was written down.
        let written = serde_json::to_string(recovery).unwrap();
        let answer =
            stage.harness().operation(&serde_json::from_str(&written).unwrap(), OperationOptions::default()).await;
        match answer {
            Ok(receipt) => assert_eq!((receipt.outcome, reached), (Outcome::Committed, true), "{case}"),
            Err(error) => assert_eq!((error.kind(), reached), (ErrorKind::NotFound, false), "{case}: {error}"),
        }
        assert_eq!(stage.proxy.counts().tools["harness_turn"], 1, "{case}: nothing is sent again");
        settle(&harness, &profile, &session).await;
    }
}

/// Waits until no turn runs.
async fn settle(
    harness: &cells_driver::HarnessClient,
    profile: &cells_driver::ProfileId,
    session: &cells_driver::NativeId,
) {
    while harness.inspect(profile, session, OperationOptions::default()).await.unwrap().session.active_turn_id.is_some()
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_stop_the_turn() {
    let stage = Stage::new().await;
    let harness = stage.harness();
    let (profile, session) = stage.session(&harness).await;
    stage.proxy.set_plan(Plan::new([Rule::tool("harness_turn", Fault::DelayRequest { ms: 300 })]));
    let (sender, dispatched) = tokio::sync::oneshot::channel();
    let on_dispatch = Box::new(move |recovery| drop(sender.send(recovery)));
    let options = MutationOptions { on_dispatch: Some(on_dispatch), ..MutationOptions::default() };
    let mut call = Box::pin(harness.turn(&profile, &session, "say hello", options));
    let recovery = tokio::select! {
        result = call.as_mut() => panic!("{result:?}"),
        recovery = dispatched => recovery.unwrap(),
    };
    drop(call);
    let outcome = loop {
        match harness.operation(&recovery, OperationOptions::default()).await {
            Ok(receipt) if receipt.outcome != Outcome::Unknown => break receipt.outcome,
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(outcome, Outcome::Committed);
}

#[tokio::test]
async fn an_event_stream_that_breaks_comes_back_without_loss() {
    let stage = Stage::new().await;
    let harness = stage.harness();
    let (profile, session) = stage.session(&harness).await;
    // The stream breaks inside the first turn.
    stage.proxy.set_plan(Plan::new([Rule::path("/v1/events", Fault::Truncate { at: 900 }).nth(1)]));
    let mut events = harness.subscribe(&profile);
    events.ready().await.unwrap();
    let mut cursor = events.snapshot(None).cursor;
    harness.turn(&profile, &session, "stream 50", MutationOptions::default()).await.unwrap();
    let (mut text, mut was_offline) = (String::new(), false);
    'turn: loop {
        let snapshot = events.snapshot(cursor.as_ref());
        assert!(!snapshot.gap);
        cursor = snapshot.cursor;
        for event in snapshot.events {
            text.push_str(event.message.params["delta"].as_str().unwrap_or_default());
            if event.message.method == "turn/completed" {
                break 'turn;
            }
        }
        was_offline |= events.changed().await.unwrap().state == TopicState::Offline;
    }
    let expected: String = (1..=50).map(|n| format!("{n} ")).collect();
    assert!(text == expected || text == expected.trim_end(), "{text}");
    assert!(was_offline);
    assert_eq!(stage.proxy.counts().paths["POST /v1/events"], 2);
}
