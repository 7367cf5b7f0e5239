//! Models, messages to a running turn, tokens and evidence of runtimes, on a running node.

use cells_driver::{
    CommandName, CommandOptions, ErrorKind, HarnessModelSelection, HistoryOptions, InterruptOptions, MutationOptions,
    NativeId, OperationOptions, Outcome, RequestId, RuntimeState, SteerOptions, TurnOptions,
};

use crate::stage::Stage;

#[tokio::test]
async fn a_turn_is_steered_interrupted_and_accounted_for() {
    let stage = Stage::new().await;
    let harness = stage.harness();
    let (profile, session) = stage.session(&harness).await;
    let (read, write) = (OperationOptions::default, MutationOptions::default);

    let models = harness.models(&profile, Some(&session), read()).await.unwrap();
    assert_eq!(models.current, models.default);
    let fast = HarnessModelSelection { model_id: "scripted-fast".to_owned(), reasoning_effort: None };
    let none = HarnessModelSelection { model_id: "none".to_owned(), reasoning_effort: None };
    let with = |selection: &HarnessModelSelection| TurnOptions { selection: Some(selection.clone()), ..write().into() };
    let error = harness.turn(&profile, &session, "say x", with(&none)).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Some(Outcome::NotStarted)));
    // A client that has not read the models hears it from the node, and nothing happened there.
    let error = stage.harness().turn(&profile, &session, "say x", with(&none)).await.unwrap_err();
    assert_eq!(error.remote_code(), Some("HARNESS_SELECTION_INVALID"));
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Some(Outcome::NotCommitted)));

    let turn = harness.turn(&profile, &session, "listen\nwait", with(&fast)).await.unwrap().value.turn_id;
    let info = harness.inspect(&profile, &session, read()).await.unwrap().session;
    let evidence = info.execution_recovery.unwrap();
    assert_eq!((evidence.state, evidence.turn_id), (RuntimeState::Running, Some(turn.clone())));
    let submission_id = RequestId::new("addition-1").unwrap();
    let options = SteerOptions { submission_id: Some(submission_id), ..write().into() };
    let steered = harness.steer(&profile, &session, &turn, "quickly", options).await.unwrap();
    assert_eq!((&steered.value.turn_id, steered.recovery.request_id.as_str()), (&turn, "addition-1"));
    let receipt = harness.operation(&steered.recovery, read()).await.unwrap();
    assert_eq!(receipt.outcome, Outcome::Committed);
    let other = NativeId::new("other").unwrap();
    let error = harness.steer(&profile, &session, &other, "x", write()).await.unwrap_err();
    assert_eq!((error.kind(), error.remote_code()), (ErrorKind::Conflict, Some("HARNESS_TURN_NOT_ACTIVE")));

    let operation_id = RequestId::new("stop-1").unwrap();
    let options = InterruptOptions { operation_id: Some(operation_id), ..write().into() };
    harness.interrupt(&profile, &session, &turn, options).await.unwrap();
    let ended = loop {
        let page = harness.read(&profile, &session, HistoryOptions::default()).await.unwrap();
        if page.session.active_turn_id.is_none() {
            break page;
        }
        tokio::task::yield_now().await;
    };
    let usage = harness.usage(&profile, &session, read()).await.unwrap();
    assert_eq!(ended.session.usage.as_ref(), Some(&usage));
    assert_eq!(usage.entries.len(), 1);
    assert_eq!(usage.entries[0].model_id.as_deref(), Some("scripted-fast"));
    let metrics = harness.metrics(&profile, &session, read()).await.unwrap();
    let used = usage.totals.counts.input_tokens + usage.totals.counts.output_tokens;
    assert_eq!(metrics.context.unwrap().used_tokens, Some(used));

    let status = CommandName::new("status").unwrap();
    let chosen = CommandOptions { selection: Some(fast), ..write().into() };
    let error = harness.command(&profile, &session, &status, "", chosen).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Some(Outcome::NotStarted)));
    let commanded = harness.command(&profile, &session, &status, "", write()).await.unwrap().value;
    assert!(commanded.preview.unwrap().contains("Model: scripted-fast"));
}
