//! Models, messages to running turns, interrupts, tokens and metrics: what is sent, what is refused before, what comes back.

use cells_driver::{
    CommandName, CommandOptions, Error, ErrorKind, HarnessAttachment, HarnessClient, HarnessModelSelection,
    InterruptOptions, LockState, MutationOptions, NativeId, OperationOptions, Outcome, ProfileId, RequestId,
    RuntimeState, SteerOptions, TurnOptions,
};
use cells_testkit::fake_host::{FakeHost, FakeReply};
use serde_json::{Value, json};

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{EPOCH, harness, host, profile, receipt, sent, session};

/// A node that can do all of this, whose mutations give `result` and whose reads give what `value` says.
fn node(value: impl Fn(&str) -> Option<Value> + Send + 'static, result: Value) -> FakeHost {
    host(move |request| {
        let tool = request.tool()?;
        if tool == "harness_profiles" {
            let can = json!({"models": true, "steer": true, "usage": true, "metrics": true, "slashCommands": true,
                "attachments": ["text"]});
            let profiles = json!([
                {"id": "main", "kind": "scripted", "workspaces": [], "capabilities": can},
                {"id": "plain", "kind": "scripted", "workspaces": [], "capabilities": {"steer": 1, "models": "true"}},
            ]);
            return Some(FakeReply::tool(request, &json!({"epoch": EPOCH, "profiles": profiles})));
        }
        Some(match value(&tool) {
            Some(value) => FakeReply::tool(request, &value),
            None => receipt(request, "committed", &json!({"result": result})),
        })
    })
}

fn turn() -> NativeId {
    NativeId::new("t-1").unwrap()
}

fn chosen(model: &str, effort: Option<&str>) -> HarnessModelSelection {
    HarnessModelSelection { model_id: model.to_owned(), reasoning_effort: effort.map(str::to_owned) }
}

fn catalog(tool: &str) -> Option<Value> {
    let efforts = json!([{"id": "low", "label": "Low"}]);
    let models = json!([{"id": "m-1", "label": "One", "reasoningEfforts": efforts}, {"id": "m-2", "label": "Two"}]);
    let commands = json!([{"name": "review", "kind": "prompt"}, {"name": "status", "kind": "action"}]);
    match tool {
        "harness_models" => Some(json!({"models": models, "default": null, "current": {"modelId": "m-2"}})),
        "harness_commands" => Some(json!({"commands": commands})),
        _ => None,
    }
}

fn refused(error: &Error, kind: ErrorKind, host: &FakeHost, tool: &str, outcome: Option<Outcome>) {
    assert_eq!((error.kind(), error.outcome()), (kind, outcome), "{error}");
    assert_eq!(sent(host, tool).len(), 0, "{error}: nothing is sent");
}

async fn turn_with(
    harness: &HarnessClient,
    profile: &ProfileId,
    selection: HarnessModelSelection,
) -> Result<(), Error> {
    let options = TurnOptions { selection: Some(selection), ..TurnOptions::default() };
    harness.turn(profile, &session(), "go", options).await.map(|_| ())
}

#[test]
fn a_model_is_sent_and_checked_by_the_catalog_of_the_session_if_that_is_known() {
    let host = node(catalog, json!({"turnId": "t-1"}));
    let harness = harness(&host);
    host.block_on(async {
        // Not known: the node alone can tell.
        turn_with(&harness, &profile(), chosen("m-9", None)).await.unwrap();
        let models = harness.models(&profile(), Some(&session()), OperationOptions::default()).await.unwrap();
        assert_eq!(models.current, Some(chosen("m-2", None)));
        for bad in [chosen("m-9", None), chosen("m-2", Some("low")), chosen("m-1", Some("high"))] {
            let error = turn_with(&harness, &profile(), bad).await.unwrap_err();
            assert_eq!((error.kind(), error.reason()), (ErrorKind::Invalid, Some("HARNESS_SELECTION_INVALID")));
            assert_eq!(error.outcome(), Some(Outcome::NotStarted));
        }
        turn_with(&harness, &profile(), chosen("m-1", Some("low"))).await.unwrap();
    });
    let selections: Vec<_> =
        sent(&host, "harness_turn").iter().map(|request| request.arguments()["selection"].clone()).collect();
    assert_eq!(selections, [json!({"modelId": "m-9"}), json!({"modelId": "m-1", "reasoningEffort": "low"})]);
}

#[test]
fn a_command_takes_a_model_only_if_it_is_a_prompt() {
    let result = json!({"commandId": "x", "name": "review", "state": "running", "turnId": "t-1"});
    let host = node(catalog, result);
    let harness = harness(&host);
    let run = async |name: &str| {
        let options = CommandOptions { selection: Some(chosen("m-1", None)), ..CommandOptions::default() };
        harness.command(&profile(), &session(), &CommandName::new(name).unwrap(), "", options).await
    };
    let error = host.block_on(run("status")).unwrap_err();
    refused(&error, ErrorKind::Invalid, &host, "harness_command", Some(Outcome::NotStarted));
    // The result names another command id: it ran, and only its result cannot be read.
    let error = host.block_on(run("review")).unwrap_err();
    assert_eq!((error.outcome(), error.reason()), (Some(Outcome::Committed), Some("HARNESS_RESULT_INVALID")));
    assert_eq!(sent(&host, "harness_command")[0].arguments()["selection"], json!({"modelId": "m-1"}));
}

#[test]
fn what_a_profile_does_not_offer_is_not_sent() {
    let host = node(|_| None, json!({}));
    let (harness, plain) = (harness(&host), ProfileId::new("plain").unwrap());
    let options = OperationOptions::default;
    host.block_on(async {
        let not_started = Some(Outcome::NotStarted);
        for (error, tool, outcome) in [
            (harness.models(&plain, None, options()).await.unwrap_err(), "harness_models", None),
            (harness.usage(&plain, &session(), options()).await.unwrap_err(), "harness_usage", None),
            (harness.metrics(&plain, &session(), options()).await.unwrap_err(), "harness_metrics", None),
            (turn_with(&harness, &plain, chosen("m", None)).await.unwrap_err(), "harness_turn", not_started),
            (
                harness.steer(&plain, &session(), &turn(), "x", MutationOptions::default()).await.unwrap_err(),
                "harness_steer",
                not_started,
            ),
        ] {
            refused(&error, ErrorKind::Unsupported, &host, tool, outcome);
        }
    });
}

#[test]
fn a_message_to_a_turn_goes_out_once_under_the_id_of_the_host() {
    let host = node(|_| None, json!({"turnId": "t-2", "targetTurnId": "t-1"}));
    let harness = harness(&host);
    let id = || Some(RequestId::new("mine-1").unwrap());
    let steer =
        async |text: &str, options: SteerOptions| harness.steer(&profile(), &session(), &turn(), text, options).await;
    host.block_on(async {
        let attachments = vec![HarnessAttachment::text("a.txt", "x")];
        let options = SteerOptions { attachments, submission_id: id(), ..SteerOptions::default() };
        let steered = steer("more", options).await.unwrap();
        assert_eq!((steered.value.turn_id.as_str(), steered.recovery.request_id.as_str()), ("t-2", "mine-1"));
        let again = SteerOptions { submission_id: id(), ..SteerOptions::default() };
        let error = steer("more", again).await.unwrap_err();
        assert_eq!((error.reason(), error.outcome()), (Some("SUBMISSION_ID_REUSED"), Some(Outcome::NotStarted)));
        for bad in ["", &"x".repeat(131_073)] {
            let error = steer(bad, SteerOptions::default()).await.unwrap_err();
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Some(Outcome::NotStarted)));
        }
        let image = vec![HarnessAttachment::image("a.png", "image/png", b"\x89PNG\r\n\x1a\n")];
        let error = steer("x", SteerOptions { attachments: image, ..SteerOptions::default() }).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unsupported, Some(Outcome::NotStarted)));
    });
    let sent = sent(&host, "harness_steer");
    let expected = json!({
        "profileId": "main", "epoch": EPOCH, "requestId": "mine-1", "sessionId": "s-1", "turnId": "t-1",
        "prompt": "more", "attachments": [{"kind": "text", "name": "a.txt", "content": "x"}],
    });
    assert_eq!((sent.len(), sent[0].arguments()), (1, expected));
}

#[test]
fn a_message_to_another_turn_was_taken_all_the_same() {
    let host = node(|_| None, json!({"turnId": "t-2", "targetTurnId": "t-9"}));
    let harness = harness(&host);
    let (profile, session, turn) = (profile(), session(), turn());
    let steered = harness.steer(&profile, &session, &turn, "more", MutationOptions::default());
    let error = host.block_on(steered).unwrap_err();
    assert_eq!((error.outcome(), error.reason()), (Some(Outcome::Committed), Some("HARNESS_RESULT_INVALID")));
}

#[test]
fn an_interrupt_has_the_id_of_the_host_once() {
    let host = node(|_| None, json!({}));
    let harness = harness(&host);
    let interrupt = async || {
        let operation_id = Some(RequestId::new("stop-1").unwrap());
        let options = InterruptOptions { operation_id, ..InterruptOptions::default() };
        harness.interrupt(&profile(), &session(), &turn(), options).await
    };
    let recovery = host.block_on(interrupt()).unwrap().recovery;
    assert_eq!(recovery.request_id.as_str(), "stop-1");
    let error = host.block_on(interrupt()).unwrap_err();
    assert_eq!((error.reason(), error.outcome()), (Some("OPERATION_ID_REUSED"), Some(Outcome::NotStarted)));
    assert_eq!(sent(&host, "harness_interrupt").len(), 1);
}

#[test]
fn numbers_that_do_not_fit_together_are_refused() {
    let counts = |input: u64| json!({"inputTokens": input, "cacheReadTokens": 0, "cacheWriteTokens": 0, "outputTokens": 1, "reasoningTokens": 0});
    let with = |mut counts: Value, name: &str, value: Value| {
        counts[name] = value;
        counts
    };
    for (sum, is_read) in [(4, true), (5, false)] {
        let host = node(
            move |tool| {
                let entries = json!([with(counts(4), "modelId", json!("m"))]);
                let totals = with(counts(sum), "totalTokens", json!(sum + 1));
                let usage = json!({"version": 1, "sessionId": "s-1", "entries": entries, "totals": totals});
                let metrics = json!({"version": sum - 3, "sessionId": "s-1", "observedAt": 5});
                match tool {
                    "harness_usage" => Some(json!({"usage": usage})),
                    "harness_metrics" => Some(json!({"metrics": metrics})),
                    _ => None,
                }
            },
            json!({}),
        );
        let harness = harness(&host);
        let (profile, session) = (profile(), session());
        let usage = host.block_on(harness.usage(&profile, &session, OperationOptions::default()));
        let metrics = host.block_on(harness.metrics(&profile, &session, OperationOptions::default()));
        assert_eq!((usage.is_ok(), metrics.is_ok()), (is_read, is_read), "{sum}");
        for error in usage.err().into_iter().chain(metrics.err()) {
            assert_eq!((error.kind(), error.operation()), (ErrorKind::Io, "protocol"), "{error}");
        }
    }
}

#[test]
fn a_runtime_is_over_only_if_everything_says_so() {
    for (owned, lock, expected) in [
        (false, "not-held", RuntimeState::Detached),
        (true, "not-held", RuntimeState::Unknown),
        (false, "unknown", RuntimeState::Unknown),
    ] {
        let host = node(
            move |tool| {
                (tool == "harness_session_info").then(|| {
                    let evidence = json!({"state": "detached", "turnId": "t-1", "pid": 7, "runtimeId": null,
                        "startedAt": null, "lock": lock, "observedAt": 5});
                    json!({"session": {"id": "s-1", "title": "", "status": "notLoaded", "owned": owned,
                        "resumable": true, "archived": false, "executionRecovery": evidence}})
                })
            },
            json!({}),
        );
        let info = host.block_on(harness(&host).inspect(&profile(), &session(), OperationOptions::default())).unwrap();
        let evidence = info.session.execution_recovery.unwrap();
        assert_eq!((evidence.state, evidence.lock == LockState::NotHeld), (expected, lock == "not-held"));
    }
}
