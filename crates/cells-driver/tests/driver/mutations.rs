//! Mutations: one request each, and an honest outcome whatever comes back.

use std::sync::{Arc, Mutex};

use cells_driver::host::HostError;
use cells_driver::{
    Cancellation, CommandName, Committed, Error, ErrorKind, HarnessClient, MutationOptions, OperationOptions, Outcome,
    Recovery, Result, Retry, TurnStarted,
};
use cells_testkit::fake_host::{FakeHost, FakeReply, FakeRequest};
use serde_json::{Value, json};

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{EPOCH, client, connection, harness, host, profile, receipt, sent, session, within, workspace};

/// A node that answers turns with `reply`.
fn turns(reply: impl Fn(&FakeRequest) -> FakeReply + Send + 'static) -> FakeHost {
    host(move |request| (request.tool().as_deref() == Some("harness_turn")).then(|| reply(request)))
}

fn turn(host: &FakeHost, options: MutationOptions) -> Result<Committed<TurnStarted>> {
    host.block_on(harness(host).turn(&profile(), &session(), "do it", options))
}

fn committed(request: &FakeRequest) -> FakeReply {
    receipt(request, "committed", &json!({"result": {"turnId": "t-9"}}))
}

/// What every error of a mutation that was sent must hold.
fn check_identity(error: &Error, host: &FakeHost) {
    let arguments = sent(host, "harness_turn")[0].arguments();
    let recovery = error.recovery().expect("a recovery");
    assert_eq!(error.request_id(), Some(&recovery.request_id));
    assert_eq!(arguments["requestId"], json!(recovery.request_id));
    assert_eq!(arguments["epoch"], json!(recovery.epoch));
    assert_eq!((recovery.profile_id.as_str(), &recovery.scope), ("main", &None));
}

#[test]
fn every_reply_has_one_honest_outcome_and_nothing_is_sent_again() {
    use ErrorKind::{AccessDenied, Busy, Cancelled, Conflict, Io, NotFound, TimedOut, Unsupported};
    use Outcome::{Committed, NotCommitted, Unknown};
    let code = |outcome: &'static str, code: &'static str| {
        move |request: &FakeRequest| receipt(request, outcome, &json!({"code": code}))
    };
    let http = |status: u16, body: Value| move |_: &FakeRequest| FakeReply::status(status, &body);
    type Reply = Box<dyn Fn(&FakeRequest) -> FakeReply + Send>;
    let cases: Vec<(&str, Reply, Outcome, ErrorKind, &str)> = vec![
        ("not committed", Box::new(code("not-committed", "HARNESS_SESSION_BUSY")), NotCommitted, Busy, "harness_turn"),
        (
            "not admitted",
            Box::new(code("not-committed", "HARNESS_NOT_ADMITTED")),
            NotCommitted,
            Cancelled,
            "harness_turn",
        ),
        ("running", Box::new(|request| receipt(request, "unknown", &json!({}))), Unknown, TimedOut, "harness_turn"),
        ("undetermined", Box::new(code("unknown", "EIO")), Unknown, Io, "harness_turn"),
        ("restarted", Box::new(code("unknown", "HARNESS_RESTARTED")), Unknown, Io, "harness_turn"),
        (
            "bad result",
            Box::new(|request| receipt(request, "committed", &json!({"result": {"turnId": 7}}))),
            Committed,
            Io,
            "protocol",
        ),
        ("no result", Box::new(|request| receipt(request, "committed", &json!({}))), Committed, Io, "protocol"),
        (
            "foreign receipt",
            Box::new(|request| {
                FakeReply::tool(
                    request,
                    &json!({"outcome": "committed", "requestId": "other", "result": {"turnId": "t"}}),
                )
            }),
            Unknown,
            Io,
            "protocol",
        ),
        ("no such outcome", Box::new(|request| receipt(request, "perhaps", &json!({}))), Unknown, Io, "protocol"),
        ("unknown with a final code", Box::new(code("unknown", "EACCES")), Unknown, AccessDenied, "harness_turn"),
        (
            "not JSON",
            Box::new(|_| FakeReply::bytes(200, "{").header("content-type", "application/json")),
            Unknown,
            Io,
            "protocol",
        ),
        (
            "truncated",
            Box::new(|request| {
                FakeReply::bytes(200, "{\"jsonrpc\"")
                    .header("content-type", "application/json")
                    .header("content-length", "900")
                    .chunk(request.url.clone())
                    .broken()
            }),
            Unknown,
            Io,
            "connect",
        ),
        (
            "too large",
            Box::new(|_| {
                FakeReply::bytes(200, "")
                    .header("content-type", "application/json")
                    .header("content-length", "33554433")
            }),
            Unknown,
            ErrorKind::TooLarge,
            "harness_turn",
        ),
        (
            "foreign id",
            Box::new(|_| FakeReply::json(&json!({"jsonrpc": "2.0", "id": "x", "result": {}}))),
            Unknown,
            Io,
            "protocol",
        ),
        ("redirect", Box::new(|_| FakeReply::error(HostError::Redirect)), Unknown, Io, "protocol"),
        ("network", Box::new(|_| FakeReply::network_error()), Unknown, Io, "connect"),
        ("500", Box::new(http(500, json!({"code": "EIO"}))), Unknown, Io, "harness_turn"),
        ("503", Box::new(http(503, json!({"code": "EIO"}))), Unknown, Busy, "harness_turn"),
        ("408", Box::new(http(408, json!({"code": "ECANCELLED"}))), Unknown, Cancelled, "harness_turn"),
        ("401", Box::new(http(401, json!({"code": "EACCES"}))), NotCommitted, AccessDenied, "harness_turn"),
        ("403", Box::new(http(403, json!({"code": "EACCES"}))), NotCommitted, AccessDenied, "harness_turn"),
        (
            "JSON-RPC error",
            Box::new(|request| {
                FakeReply::status(
                    404,
                    &json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": {"code": -32601, "message": "Method not found"}}),
                )
            }),
            NotCommitted,
            Unsupported,
            "harness_turn",
        ),
        (
            "tool error",
            Box::new(|request| FakeReply::tool_error(request, "ENOENT")),
            NotCommitted,
            NotFound,
            "harness_turn",
        ),
        (
            "reused id",
            Box::new(|request| FakeReply::tool_error(request, "HARNESS_REQUEST_REUSED")),
            Unknown,
            Conflict,
            "harness_turn",
        ),
        (
            "other epoch",
            Box::new(|request| FakeReply::tool_error(request, "HARNESS_EPOCH_CHANGED")),
            NotCommitted,
            Conflict,
            "harness_turn",
        ),
        (
            "receipt store",
            Box::new(|request| FakeReply::tool_error(request, "HARNESS_RECEIPT_STORE")),
            NotCommitted,
            Io,
            "harness_turn",
        ),
    ];
    for (case, reply, outcome, kind, operation) in cases {
        let host = turns(reply);
        let error = turn(&host, MutationOptions::default()).unwrap_err();
        assert_eq!(
            (error.outcome(), error.kind(), error.operation()),
            (Some(outcome), kind, operation),
            "{case}: {error}"
        );
        check_identity(&error, &host);
        if outcome != NotCommitted {
            assert_eq!(error.retry(), Retry::Never, "{case}");
        }
        host.run_for(600_000);
        assert_eq!(sent(&host, "harness_turn").len(), 1, "{case}");
        assert_eq!(sent(&host, "harness_operation").len(), 0, "{case}: nothing is asked by itself");
    }
}

#[test]
fn a_committed_mutation_gives_its_result_and_its_identity() {
    let host = turns(committed);
    let dispatched = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&dispatched);
    let on_dispatch = Box::new(move |recovery| *seen.lock().unwrap() = Some(recovery));
    let turn = turn(&host, MutationOptions { on_dispatch: Some(on_dispatch), ..MutationOptions::default() }).unwrap();
    assert_eq!(turn.value.turn_id.as_str(), "t-9");
    assert_eq!(dispatched.lock().unwrap().as_ref(), Some(&turn.recovery));
    let call = &sent(&host, "harness_turn")[0];
    let id = turn.recovery.request_id.as_str();
    assert_eq!(
        call.arguments(),
        json!({"profileId": "main", "sessionId": "s-1", "prompt": "do it", "epoch": EPOCH, "requestId": id})
    );
    let form: Vec<usize> = id.split('-').map(str::len).collect();
    assert_eq!(
        (form, id.as_bytes()[14], id.to_lowercase().as_str()),
        (vec![8, 4, 4, 4, 12], b'4', id),
        "a lowercase UUID of version 4"
    );
    assert!(matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
}

#[test]
fn every_mutation_has_an_id_of_its_own_and_the_epoch_is_asked_once() {
    let host = turns(committed);
    let harness = harness(&host);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let turn = host.block_on(harness.turn(&profile(), &session(), "again", MutationOptions::default())).unwrap();
        ids.push(turn.recovery.request_id);
    }
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), sent(&host, "harness_profiles").len()), (3, 1));
}

#[test]
fn a_new_epoch_is_learnt_after_a_refusal_and_nothing_is_repeated() {
    let new_epoch = "e".repeat(64);
    let (first, later) = (json!(EPOCH), json!(new_epoch));
    let mut n_asked = 0;
    let host = host(move |request| match request.tool()?.as_str() {
        "harness_profiles" => {
            n_asked += 1;
            let mut profiles = crate::node::profiles();
            profiles["epoch"] = if n_asked == 1 { first.clone() } else { later.clone() };
            Some(FakeReply::tool(request, &profiles))
        }
        "harness_turn" if request.arguments()["epoch"] == later => Some(committed(request)),
        "harness_turn" => Some(FakeReply::tool_error(request, "HARNESS_EPOCH_CHANGED")),
        _ => None,
    });
    let harness = harness(&host);
    let turn = || host.block_on(harness.turn(&profile(), &session(), "x", MutationOptions::default()));
    let error = turn().unwrap_err();
    assert_eq!(error.recovery().unwrap().epoch.as_str(), EPOCH);
    assert_eq!(sent(&host, "harness_turn").len(), 1);
    assert_eq!(turn().unwrap().recovery.epoch.as_str(), new_epoch);
}

#[test]
fn what_is_wrong_before_it_is_sent_is_not_started() {
    let (cancel, token) = Cancellation::new();
    cancel.cancel();
    let cancelled = OperationOptions { timeout_ms: None, cancel: Some(token) };
    let host = turns(committed);
    let harness = harness(&host);
    let (profile, session) = (profile(), session());
    let options = MutationOptions::default;
    let with = |operation| MutationOptions { operation, on_dispatch: Some(Box::new(|_| panic!("nothing is sent"))) };
    let name = CommandName::new("status").unwrap();
    let long = "x".repeat(131_073);
    let errors = [
        (host.block_on(harness.turn(&profile, &session, "", options())).map(drop), ErrorKind::Invalid),
        (host.block_on(harness.turn(&profile, &session, &long, options())).map(drop), ErrorKind::Invalid),
        (host.block_on(harness.respond(&profile, json!([1]), json!({}), options())).map(drop), ErrorKind::Invalid),
        (host.block_on(harness.respond(&profile, json!(1.5), json!({}), options())).map(drop), ErrorKind::Invalid),
        (host.block_on(harness.respond(&profile, json!(1), json!("yes"), options())).map(drop), ErrorKind::Invalid),
        (host.block_on(harness.command(&profile, &session, &name, "a\0b", options())).map(drop), ErrorKind::Invalid),
        (host.block_on(harness.turn(&profile, &session, "x", with(within(0)))).map(drop), ErrorKind::TimedOut),
        (host.block_on(harness.turn(&profile, &session, "x", with(cancelled))).map(drop), ErrorKind::Cancelled),
    ];
    for (result, kind) in errors {
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (kind, Some(Outcome::NotStarted)), "{error}");
    }
    host.without_randomness();
    let error = host.block_on(harness.turn(&profile, &session, "x", options())).unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unsupported, Some(Outcome::NotStarted)));
    assert!(host.requests().iter().all(|request| request.tool().is_none_or(|tool| tool == "harness_profiles")));
}

#[test]
fn a_mutation_whose_preparation_fails_is_not_started() {
    for (case, reply) in [
        ("profiles", FakeReply::network_error()),
        ("profiles refused", FakeReply::status(401, &json!({"code": "EACCES"}))),
    ] {
        let mut reply = Some(reply);
        let host =
            host(move |request| (request.tool().as_deref() == Some("harness_profiles")).then(|| reply.take().unwrap()));
        let error = turn(&host, MutationOptions::default()).unwrap_err();
        assert_eq!((error.outcome(), error.request_id()), (Some(Outcome::NotStarted), None), "{case}");
    }
}

#[test]
fn a_caller_that_gives_up_learns_the_id_and_the_request_goes_on() {
    for how in ["timeout", "cancel", "drop"] {
        let host = turns(|request| committed(request).delay(20_000));
        let harness = harness(&host);
        let (cancel, token) = Cancellation::new();
        let timeout_ms = (how == "timeout").then_some(5_000);
        let options =
            MutationOptions { operation: OperationOptions { timeout_ms, cancel: Some(token) }, on_dispatch: None };
        let (profile, session) = (profile(), session());
        let mut call = Box::pin(harness.turn(&profile, &session, "do it", options));
        assert!(host.block_on(async { futures::poll!(call.as_mut()) }).is_pending());
        // The preparation takes a few turns of the client; then the request is under way.
        for _ in 0..20 {
            host.run_for(1);
            assert!(host.block_on(async { futures::poll!(call.as_mut()) }).is_pending());
        }
        assert_eq!(sent(&host, "harness_turn").len(), 1, "{how}");
        match how {
            "drop" => drop(call),
            _ => {
                if how == "cancel" {
                    cancel.cancel();
                }
                let error = host.block_on(call).unwrap_err();
                assert_eq!(error.outcome(), Some(Outcome::Unknown), "{how}");
                check_identity(&error, &host);
            }
        }
        host.run_for(30_000);
        assert!(!sent(&host, "harness_turn")[0].is_aborted(), "{how}: it was followed to its end");
    }
}

#[test]
fn a_mutation_that_was_given_up_before_it_was_sent_is_never_sent() {
    for is_dropped in [false, true] {
        let host = turns(committed);
        let harness = harness(&host);
        let (profile, session) = (profile(), session());
        host.pause(true);
        let options =
            MutationOptions { operation: within(5_000), on_dispatch: Some(Box::new(|_| panic!("it was sent"))) };
        let mut call = Box::pin(harness.turn(&profile, &session, "do it", options));
        if is_dropped {
            for _ in 0..20 {
                assert!(host.block_on(async { futures::poll!(call.as_mut()) }).is_pending());
            }
            drop(call);
        } else {
            let error = host.block_on(call).unwrap_err();
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::TimedOut, Some(Outcome::NotStarted)));
        }
        host.pause(false);
        host.run_for(10_000);
        assert_eq!((sent(&host, "harness_profiles").len(), sent(&host, "harness_turn").len()), (1, 0));
    }
}

#[test]
fn a_client_that_is_not_driven_any_more_says_what_it_knows() {
    let host = turns(|_| FakeReply::never());
    let harness = harness(&host);
    let (profile, session) = (profile(), session());
    let mut call = Box::pin(harness.turn(&profile, &session, "do it", MutationOptions::default()));
    for _ in 0..20 {
        assert!(host.block_on(async { futures::poll!(call.as_mut()) }).is_pending());
        host.run_for(1);
    }
    host.drop_run();
    let error = host.block_on(call).unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Cancelled, Some(Outcome::Unknown)));
    check_identity(&error, &host);
    let error = host.block_on(harness.turn(&profile, &session, "x", MutationOptions::default())).unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Cancelled, Some(Outcome::NotStarted)));
    assert_eq!(sent(&host, "harness_turn").len(), 1);
}

#[test]
fn dispose_leaves_a_mutation_unknown() {
    let host = turns(|_| FakeReply::never());
    let client = client(&host);
    let harness = client.harness(&connection()).unwrap();
    let (profile, session) = (profile(), session());
    let mut call = Box::pin(harness.turn(&profile, &session, "do it", MutationOptions::default()));
    for _ in 0..20 {
        assert!(host.block_on(async { futures::poll!(call.as_mut()) }).is_pending());
        host.run_for(1);
    }
    client.dispose();
    let error = host.block_on(call).unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Cancelled, Some(Outcome::Unknown)));
    check_identity(&error, &host);
    host.run_for(1);
    assert!(host.run_ended());
}

#[test]
fn an_answer_passes_a_turn_that_waits_for_it() {
    let answered = Arc::new(Mutex::new(false));
    let flag = Arc::clone(&answered);
    let host = host(move |request| match request.tool()?.as_str() {
        "harness_turn" => Some(committed(request).delay(10_000)),
        "harness_respond" => {
            *flag.lock().unwrap() = true;
            Some(receipt(request, "committed", &json!({"result": {}})))
        }
        _ => None,
    });
    let harness = harness(&host);
    let (profile, session) = (profile(), session());
    let both = futures::future::join(
        harness.turn(&profile, &session, "ask me", MutationOptions::default()),
        harness.respond(&profile, json!("7"), json!({"decision": "accept"}), MutationOptions::default()),
    );
    let (turn, respond) = host.block_on(both);
    assert!(turn.is_ok() && respond.is_ok() && *answered.lock().unwrap());
    assert_eq!(sent(&host, "harness_respond")[0].arguments()["nativeRequestId"], json!("7"), "a string stays a string");
}

#[test]
fn sessions_are_created_resumed_and_interrupted() {
    let host = host(|request| match request.tool()?.as_str() {
        "harness_create" | "harness_resume" => Some(receipt(
            request,
            "committed",
            &json!({"result": {"session": {"id": "s-1", "title": "", "owned": true}}}),
        )),
        "harness_interrupt" => Some(receipt(request, "committed", &json!({"result": {"anything": [1]}}))),
        _ => None,
    });
    let harness = harness(&host);
    let options = MutationOptions::default;
    let created = host.block_on(harness.create(&profile(), &workspace(), options())).unwrap();
    assert_eq!(created.value.session.id, session());
    assert!(host.block_on(harness.resume(&profile(), &session(), options())).is_ok());
    assert!(host.block_on(harness.interrupt(&profile(), &session(), &session(), options())).is_ok());
    let arguments = sent(&host, "harness_interrupt")[0].arguments();
    assert_eq!((&arguments["sessionId"], &arguments["turnId"]), (&json!("s-1"), &json!("s-1")));
}

fn recovery() -> Recovery {
    serde_json::from_value(json!({"profileId": "main", "epoch": "e".repeat(64), "requestId": "r-1"})).unwrap()
}

fn query(harness: &HarnessClient, host: &FakeHost, recovery: &Recovery) -> Result<Value> {
    let view = host.block_on(harness.operation(recovery, OperationOptions::default()))?;
    Ok(serde_json::to_value(view).unwrap())
}

#[test]
fn a_query_asks_with_the_original_identity_and_only_asks() {
    let scope = json!({"projectId": "project-1", "revision": 3, "readOnly": true});
    let mut scoped = json!(recovery());
    scoped["scope"] = scope;
    for (recovery, arguments) in [
        (recovery(), json!({"profileId": "main", "epoch": "e".repeat(64), "requestId": "r-1"})),
        (
            serde_json::from_value(scoped).unwrap(),
            json!({"profileId": "main", "epoch": "e".repeat(64), "requestId": "r-1", "projectId": "project-1", "revision": 3, "readOnly": true}),
        ),
    ] {
        let host = host(|request| {
            (request.tool().as_deref() == Some("harness_operation"))
                .then(|| receipt(request, "committed", &json!({"result": {"turnId": "t"}, "epoch": "e"})))
        });
        let view = query(&harness(&host), &host, &recovery).unwrap();
        assert_eq!(
            view,
            json!({"outcome": "committed", "requestId": "r-1", "epoch": "e".repeat(64), "result": {"turnId": "t"}})
        );
        assert_eq!(sent(&host, "harness_operation")[0].arguments(), arguments);
        let tools: Vec<_> = host.requests().iter().filter_map(FakeRequest::tool).collect();
        assert_eq!(tools, ["harness_operation"], "not even the profiles are asked");
    }
}

#[test]
fn what_a_query_says() {
    for (outcome, extra, expected) in [
        ("not-committed", json!({"code": "ECANCELLED"}), json!({"outcome": "not-committed", "code": "ECANCELLED"})),
        ("unknown", json!({}), json!({"outcome": "unknown"})),
        ("unknown", json!({"code": "HARNESS_RESTARTED"}), json!({"outcome": "unknown", "code": "HARNESS_RESTARTED"})),
    ] {
        let host = host(move |request| {
            (request.tool().as_deref() == Some("harness_operation")).then(|| receipt(request, outcome, &extra))
        });
        let mut expected = expected;
        expected["requestId"] = json!("r-1");
        expected["epoch"] = json!("e".repeat(64));
        assert_eq!(query(&harness(&host), &host, &recovery()).unwrap(), expected);
    }
    for (reply, kind) in [
        (Some("ENOENT"), ErrorKind::NotFound),
        (Some("HARNESS_EPOCH_CHANGED"), ErrorKind::Conflict),
        (Some("HARNESS_REQUEST_REUSED"), ErrorKind::Conflict),
        (None, ErrorKind::Io),
    ] {
        let host = host(move |request| {
            (request.tool().as_deref() == Some("harness_operation"))
                .then(|| reply.map_or_else(FakeReply::network_error, |code| FakeReply::tool_error(request, code)))
        });
        let error = query(&harness(&host), &host, &recovery()).unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (kind, Some(Outcome::Unknown)),
            "a failed question settles nothing"
        );
        assert_eq!(error.recovery(), Some(&recovery()));
    }
}
