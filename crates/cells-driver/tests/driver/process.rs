//! Commands on a node: one start, one budget, an honest end.

use std::sync::{Arc, Mutex};

use cells_driver::host::MaybeSend;
use cells_driver::{
    Cancellation, Connection, Error, ErrorKind, ExecOptions, OperationOptions, Outcome, OutputStream, ProcessExit,
    ProcessMount, ProcessSession, ProcessSpec, Result,
};
use cells_testkit::fake_host::{FakeHost, FakeReply, FakeRequest};
use serde_json::{Value, json};

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{RING, capabilities, client, connection, document, host, sent, within};

fn spec() -> ProcessSpec {
    let mount = ProcessMount {
        alias: "notes".to_owned(),
        path: "proj".to_owned(),
        at: "/workspace".to_owned(),
        access: "rw".to_owned(),
    };
    ProcessSpec {
        server_id: "node-17".to_owned(),
        epoch: "epoch-1".to_owned(),
        cwd: "/workspace".to_owned(),
        mounts: vec![mount],
    }
}

fn status(state: &str) -> Value {
    let code = if state == "exited" { json!(3) } else { Value::Null };
    let (stdout, stderr) = if state == "running" { ("", "") } else { ("out", "err") };
    json!({"state": state, "stdout": stdout, "stderr": stderr, "code": code, "error": null, "truncated": false})
}

/// What a request asks of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Start,
    Query,
    Cancel,
    Output,
}

fn ask(request: &FakeRequest) -> Option<Ask> {
    let rest = request.path().strip_prefix("/v1/processes")?;
    Some(match rest {
        "" => Ask::Start,
        rest if rest.ends_with("/cancel") => Ask::Cancel,
        rest if rest.contains("/output?") => Ask::Output,
        _ => Ask::Query,
    })
}

/// A node whose processes do what `script` says; without live output, and without an event stream.
fn node(mut script: impl FnMut(Ask, &FakeRequest) -> FakeReply + MaybeSend + 'static) -> FakeHost {
    host(move |request| {
        if request.header("mcp-method") == Some("server/discover") {
            let mut document = document();
            document.as_object_mut().unwrap().remove("events");
            return Some(FakeReply::rpc(request, &json!({"_meta": {"itookit/cells": document}})));
        }
        ask(request).map(|what| script(what, request))
    })
}

/// A node whose process runs at first and has ended when it is asked; its event streams are what `streams` makes of their
/// number and their topic.
fn with_streams(mut streams: impl FnMut(usize, &Value) -> FakeReply + MaybeSend + 'static) -> FakeHost {
    let mut n_streams = 0;
    host(move |request| {
        if request.path() == "/v1/events" {
            n_streams += 1;
            return Some(streams(n_streams, &request.json()["topics"][0]));
        }
        let state = match ask(request)? {
            Ask::Start => "running",
            Ask::Query | Ask::Output => "exited",
            Ask::Cancel => "cancelled",
        };
        Some(FakeReply::json(&status(state)))
    })
}

/// The frames of a stream that accepts `topic`, and tells its end if there is one.
fn frames(topic: &Value, end: Option<&str>) -> String {
    let ready = json!({"version": 1, "streamId": RING, "heartbeatMs": 15_000, "serverId": null, "harnessEpoch": null,
        "processEpoch": "epoch-1"});
    let open = json!({"topic": topic["id"], "kind": "process"});
    let mut text = format!("event: ready\ndata: {ready}\n\nevent: open\ndata: {open}\n\n");
    if let Some(end) = end {
        let (epoch, id) = (&topic["epoch"], &topic["requestId"]);
        let ended = json!({"topic": topic["id"], "epoch": epoch, "requestId": id, "process": status(end)});
        text.push_str(&format!("event: process\ndata: {ended}\n\n"));
    }
    text
}

#[test]
fn a_node_with_an_event_stream_tells_the_end_and_is_not_asked() {
    let host = with_streams(|_, topic| {
        assert_eq!((&topic["kind"], &topic["epoch"]), (&json!("process"), &json!("epoch-1")));
        FakeReply::events(frames(topic, Some("exited")))
    });
    let session = session(&host);
    for _ in 0..2 {
        let exit = exec(&host, &session, ExecOptions::default()).unwrap();
        assert_eq!((exit.stdout.as_str(), exit.code), ("out", Some(3)));
    }
    assert_eq!(asked(&host), [Ask::Start, Ask::Start]);
}

#[test]
fn a_process_that_ended_while_its_stream_was_broken_is_asked_for() {
    let host = with_streams(|_, _| FakeReply::network_error());
    let before = cells_driver::host::Host::now_ms(&host);
    let exit = exec(&host, &session(&host), ExecOptions::default()).unwrap();
    assert_eq!(exit.code, Some(3));
    assert_eq!(asked(&host), [Ask::Start, Ask::Query]);
    assert!(cells_driver::host::Host::now_ms(&host) >= before + 5_000);
}

#[test]
fn a_stream_that_comes_back_tells_the_end() {
    let host = with_streams(|number, topic| match number {
        1 => FakeReply::events(frames(topic, None)).broken(),
        _ => FakeReply::events(frames(topic, Some("exited"))),
    });
    assert_eq!(exec(&host, &session(&host), ExecOptions::default()).unwrap().code, Some(3));
    assert_eq!(asked(&host), [Ask::Start]);
}

#[test]
fn a_topic_that_the_node_refuses_is_replaced_by_queries_and_a_cancel_is_confirmed_by_them() {
    let host = with_streams(|_, topic| {
        let error = json!({"topic": topic["id"], "code": "PROCESS_UNKNOWN", "final": true});
        let frames = frames(topic, None);
        let ready = frames.split("\n\n").next().unwrap();
        FakeReply::events(format!("{ready}\n\nevent: error\ndata: {error}\n\n"))
    });
    assert_eq!(exec(&host, &session(&host), ExecOptions::default()).unwrap().code, Some(3));
    assert_eq!(asked(&host), [Ask::Start, Ask::Query]);
    let host = with_streams(|_, topic| FakeReply::events(frames(topic, None)));
    let error = exec(&host, &session(&host), for_ms(20_000)).unwrap_err();
    assert_eq!(how(&error), (ErrorKind::TimedOut, Some(Outcome::Partial), true), "{error}");
    assert_eq!(asked(&host), [Ask::Start, Ask::Cancel]);
}

/// A node that answers each kind of request with one reply after the other, the last one again and again.
fn scripted(script: &[(Ask, &[&str])]) -> FakeHost {
    let script: Vec<(Ask, Vec<String>)> =
        script.iter().map(|(ask, replies)| (*ask, replies.iter().map(|reply| (*reply).to_owned()).collect())).collect();
    let mut n_asked = [0_usize; 4];
    node(move |what, _| {
        let replies =
            script.iter().find(|(ask, _)| *ask == what).map(|(_, replies)| replies.clone()).unwrap_or_default();
        let n = n_asked[what as usize];
        n_asked[what as usize] += 1;
        reply(replies.get(n).or(replies.last()).map_or("none", String::as_str))
    })
}

/// A reply in a word: a state, a status with a code, or a fault.
fn reply(word: &str) -> FakeReply {
    match word.split_once(' ') {
        Some((code, name)) => FakeReply::status(code.parse().unwrap(), &json!({"code": name})),
        None => match word {
            "lost" => FakeReply::network_error(),
            "garbage" => FakeReply::bytes(200, "<html>"),
            "short" => FakeReply::bytes(200, "{\"state\":").broken(),
            "proxy" => FakeReply::bytes(502, "bad gateway"),
            "never" => FakeReply::never(),
            "none" => panic!("not expected"),
            state => FakeReply::json(&status(state)),
        },
    }
}

fn session(host: &FakeHost) -> ProcessSession {
    client(host).process(&connection(), spec()).unwrap()
}

fn exec(host: &FakeHost, session: &ProcessSession, options: ExecOptions) -> Result<ProcessExit> {
    host.block_on(session.exec("make", &["test".to_owned()], options))
}

fn for_ms(timeout_ms: u64) -> ExecOptions {
    ExecOptions { timeout_ms: Some(timeout_ms), ..ExecOptions::default() }
}

fn asked(host: &FakeHost) -> Vec<Ask> {
    host.requests().iter().filter_map(ask).collect()
}

fn how(error: &Error) -> (ErrorKind, Option<Outcome>, bool) {
    (error.kind(), error.outcome(), error.process_id().is_some())
}

#[test]
fn a_command_is_started_once_and_its_status_is_asked_for_until_it_ends() {
    let host = scripted(&[(Ask::Start, &["running"]), (Ask::Query, &["running", "running", "exited"])]);
    let pieces = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&pieces);
    let options = ExecOptions {
        cwd: Some("sub/../src".to_owned()),
        timeout_ms: Some(400_000),
        on_output: Some(Box::new(move |stream, data| seen.lock().unwrap().push((stream, data.to_vec())))),
        ..ExecOptions::default()
    };
    let session = session(&host);
    let exit = exec(&host, &session, options).unwrap();
    let expected = ProcessExit {
        stdout: "out".to_owned(),
        stderr: "err".to_owned(),
        code: Some(3),
        truncated: false,
        has_gaps: false,
    };
    assert_eq!(exit, expected);
    let expected = [(OutputStream::Stdout, b"out".to_vec()), (OutputStream::Stderr, b"err".to_vec())];
    assert_eq!(*pieces.lock().unwrap(), expected, "once, at the end");
    assert_eq!(asked(&host), [Ask::Start, Ask::Query, Ask::Query, Ask::Query]);

    let start = sent(&host, "/v1/processes")[0].json();
    let id = start["requestId"].as_str().unwrap().to_owned();
    let mounts = json!([{"alias": "notes", "path": "proj", "at": "/workspace", "access": "rw"}]);
    let expected = json!({
        "serverId": "node-17", "epoch": "epoch-1", "requestId": id, "command": "make", "args": ["test"],
        "cwd": "/workspace/src", "timeoutMs": 300_000, "mounts": mounts,
    });
    assert_eq!((start, id.len()), (expected, 36));
    assert_eq!(sent(&host, &format!("/v1/processes/epoch-1/{id}")).len(), 3);
    assert!(host.block_on(session.release(OperationOptions::default())).is_ok());
    assert_eq!(asked(&host).len(), 4, "nothing is left to confirm");
}

#[test]
fn a_refused_start_is_not_committed_and_nothing_is_cancelled() {
    for (answer, kind) in [
        ("409 EBUSY", ErrorKind::Busy),
        ("409 STALE_SERVER_EPOCH", ErrorKind::Conflict),
        ("409 SERVER_ID_CHANGED", ErrorKind::Conflict),
        ("422 ECAPABILITY", ErrorKind::Unsupported),
        ("429 PROCESS_LIMIT", ErrorKind::Busy),
        ("403 EROFS", ErrorKind::ReadOnly),
        ("401 EACCES", ErrorKind::AccessDenied),
    ] {
        let host = scripted(&[(Ask::Start, &[answer])]);
        let session = session(&host);
        let error = exec(&host, &session, ExecOptions::default()).unwrap_err();
        assert_eq!(how(&error), (kind, Some(Outcome::NotCommitted), true), "{answer}: {error}");
        assert!(host.block_on(session.release(OperationOptions::default())).is_ok());
        assert_eq!(asked(&host), [Ask::Start], "{answer}");
    }
}

#[test]
fn whatever_goes_wrong_the_process_is_cancelled_and_the_end_is_told_as_it_is() {
    let partial = |kind| Some((kind, Some(Outcome::Partial)));
    for (start, query, cancel, expected) in [
        ("lost", "none", "cancelled", partial(ErrorKind::Io)),
        ("garbage", "none", "cancelled", partial(ErrorKind::Io)),
        ("short", "none", "cancelled", partial(ErrorKind::Io)),
        ("proxy", "none", "cancelled", partial(ErrorKind::Io)),
        ("408 ETIMEDOUT", "none", "cancelled", partial(ErrorKind::TimedOut)),
        ("500 EIO", "none", "cancelled", partial(ErrorKind::Io)),
        // Only the answer was lost.
        ("lost", "none", "exited", None),
        ("lost", "exited", "running", None),
        ("running", "garbage", "cancelled", partial(ErrorKind::Io)),
        ("running", "404 PROCESS_UNKNOWN", "cancelled", partial(ErrorKind::NotFound)),
        ("running", "409 STALE_SERVER_EPOCH", "409 STALE_SERVER_EPOCH", Some((ErrorKind::Io, Some(Outcome::Unknown)))),
        ("lost", "none", "lost", Some((ErrorKind::Io, Some(Outcome::Unknown)))),
        ("lost", "none", "garbage", Some((ErrorKind::Io, Some(Outcome::Unknown)))),
        ("lost", "running", "running", Some((ErrorKind::Io, Some(Outcome::Unknown)))),
        ("lost", "none", "unknown", Some((ErrorKind::Io, Some(Outcome::Unknown)))),
        ("running", "unknown", "none", Some((ErrorKind::Io, Some(Outcome::Unknown)))),
        ("running", "cancelled", "none", partial(ErrorKind::Cancelled)),
        ("running", "timed-out", "none", partial(ErrorKind::TimedOut)),
        ("running", "failed", "none", Some((ErrorKind::Io, Some(Outcome::NotCommitted)))),
    ] {
        let host = scripted(&[(Ask::Start, &[start]), (Ask::Query, &[query]), (Ask::Cancel, &[cancel])]);
        let case = format!("{start}, {query}, {cancel}");
        match (exec(&host, &session(&host), ExecOptions::default()), expected) {
            (Ok(exit), None) => assert_eq!((exit.stdout.as_str(), exit.code), ("out", Some(3)), "{case}"),
            (Err(error), Some((kind, outcome))) => assert_eq!(how(&error), (kind, outcome, true), "{case}: {error}"),
            (result, _) => panic!("{case}: {result:?}"),
        }
        let n_starts = asked(&host).iter().filter(|what| **what == Ask::Start).count();
        assert_eq!(n_starts, 1, "{case}");
    }
}

#[test]
fn output_that_is_too_much_for_an_old_node_is_an_error() {
    for state in ["exited", "cancelled"] {
        let host = node(move |_, _| {
            let mut reply = status(state);
            reply["truncated"] = json!(true);
            FakeReply::json(&reply)
        });
        let error = exec(&host, &session(&host), ExecOptions::default()).unwrap_err();
        assert_eq!(error.outcome(), Some(Outcome::Partial));
        assert!(error.message().contains("more than 65536 bytes"), "{error}");
    }
}

#[test]
fn one_budget_holds_from_the_call_to_the_end() {
    let host = scripted(&[(Ask::Start, &["running"]), (Ask::Query, &["running"]), (Ask::Cancel, &["cancelled"])]);
    let error = exec(&host, &session(&host), for_ms(1_000)).unwrap_err();
    assert_eq!(how(&error), (ErrorKind::TimedOut, Some(Outcome::Partial), true), "{error}");
    assert_eq!(sent(&host, "/v1/processes")[0].json()["timeoutMs"], 1_000);
    // 100, 300 and 700 ms after the start.
    assert_eq!(asked(&host), [Ask::Start, Ask::Query, Ask::Query, Ask::Query, Ask::Cancel]);
}

#[test]
fn a_budget_that_is_used_up_or_cancelled_before_sends_nothing() {
    let host = scripted(&[]);
    let session = session(&host);
    let (cancel, token) = Cancellation::new();
    cancel.cancel();
    let cancelled = ExecOptions { cancel: Some(token), ..ExecOptions::default() };
    for (options, kind) in [(for_ms(0), ErrorKind::TimedOut), (cancelled, ErrorKind::Cancelled)] {
        let error = exec(&host, &session, options).unwrap_err();
        assert_eq!(how(&error), (kind, Some(Outcome::NotStarted), false), "{error}");
    }
    assert_eq!(host.requests().len(), 0);
}

#[test]
fn a_caller_that_cancels_is_told_when_the_process_is_over() {
    for stage in ["start", "query"] {
        let mut is_stuck = false;
        let host = node(move |what, _| match (stage, what) {
            ("start", Ask::Start) | ("query", Ask::Query) if !is_stuck => {
                is_stuck = true;
                FakeReply::never()
            }
            (_, Ask::Cancel | Ask::Start) => FakeReply::json(&status("running")),
            _ => FakeReply::json(&status("cancelled")),
        });
        let session = session(&host);
        let (cancel, token) = Cancellation::new();
        let options = ExecOptions { cancel: Some(token), ..ExecOptions::default() };
        let args = Vec::new();
        let cancel_later = async {
            cells_driver::host::Host::sleep(&host, 150).await;
            cancel.cancel();
        };
        let (ended, ()) = host.block_on(async { futures::join!(session.exec("sleep", &args, options), cancel_later) });
        let error = ended.unwrap_err();
        assert_eq!(how(&error), (ErrorKind::Cancelled, Some(Outcome::Partial), true), "{stage}: {error}");
        assert!(host.requests().iter().any(|request| request.is_aborted()), "the request is given up");
        assert!(asked(&host).ends_with(&[Ask::Cancel, Ask::Query]), "{stage}: {:?}", asked(&host));
    }
}

#[test]
fn a_dropped_call_cancels_the_process() {
    let host = scripted(&[(Ask::Start, &["running"]), (Ask::Query, &["running"]), (Ask::Cancel, &["cancelled"])]);
    let session = session(&host);
    {
        let args = Vec::new();
        let mut call = Box::pin(session.exec("sleep", &args, ExecOptions::default()));
        assert!(host.block_on(async { futures::poll!(call.as_mut()) }).is_pending());
        host.run_for(50);
        assert_eq!(asked(&host), [Ask::Start]);
    }
    host.run_for(10);
    assert_eq!(asked(&host), [Ask::Start, Ask::Cancel]);
    assert_eq!(format!("{session:?}"), "ProcessSession(0 running, 0 outstanding)");
}

#[test]
fn an_end_without_proof_is_confirmed_by_release_which_may_be_called_again() {
    let answers = Arc::new(Mutex::new("lost"));
    let cancel = Arc::clone(&answers);
    let host = node(move |what, _| match what {
        Ask::Cancel => reply(*cancel.lock().unwrap()),
        Ask::Start => reply("lost"),
        Ask::Query | Ask::Output => reply("running"),
    });
    let session = session(&host);
    let error = exec(&host, &session, ExecOptions::default()).unwrap_err();
    assert_eq!(how(&error), (ErrorKind::Io, Some(Outcome::Unknown), true), "{error}");
    assert!(std::error::Error::source(&error).is_some(), "the cause is kept");
    let process_id = error.process_id().cloned();
    for (answer, kind) in [
        ("lost", ErrorKind::Io),
        ("garbage", ErrorKind::Io),
        ("unknown", ErrorKind::Busy),
        ("running", ErrorKind::TimedOut),
        ("409 STALE_SERVER_EPOCH", ErrorKind::Conflict),
    ] {
        *answers.lock().unwrap() = answer;
        let error = host.block_on(session.release(OperationOptions::default())).unwrap_err();
        assert_eq!(how(&error), (kind, Some(Outcome::Unknown), true), "{answer}: {error}");
        assert_eq!(error.process_id().cloned(), process_id);
    }
    let error = exec(&host, &session, ExecOptions::default()).unwrap_err();
    assert_eq!(how(&error), (ErrorKind::AccessDenied, Some(Outcome::NotStarted), false), "no new commands");
    *answers.lock().unwrap() = "cancelled";
    assert!(host.block_on(session.release(OperationOptions::default())).is_ok());
    let n_requests = host.requests().len();
    assert!(host.block_on(session.release(OperationOptions::default())).is_ok());
    assert_eq!(host.requests().len(), n_requests, "it is confirmed once");
}

#[test]
fn release_cancels_what_runs_and_waits_for_its_end() {
    let mut is_cancelled = false;
    let host = node(move |what, _| {
        is_cancelled |= what == Ask::Cancel;
        FakeReply::json(&status(if is_cancelled { "cancelled" } else { "running" }))
    });
    let session = session(&host);
    let args = Vec::new();
    let call = session.exec("sleep", &args, ExecOptions::default());
    let (ended, released) = host.block_on(async {
        let release = async {
            // The command has begun.
            cells_driver::host::Host::sleep(&host, 250).await;
            session.release(OperationOptions::default()).await
        };
        futures::join!(call, release)
    });
    let error = ended.unwrap_err();
    assert_eq!(how(&error), (ErrorKind::Cancelled, Some(Outcome::Partial), true), "{error}");
    assert!(released.is_ok());
    assert_eq!(format!("{session:?}"), "ProcessSession(0 running, 0 outstanding)");
}

#[test]
fn a_release_while_a_command_is_prepared_keeps_it_from_being_started() {
    let host =
        host(|request| (request.path() == "/v1/capabilities").then(|| FakeReply::status(404, &json!({})).delay(500)));
    let session = session(&host);
    let args = Vec::new();
    let call = session.exec("sleep", &args, ExecOptions::default());
    let (ended, released) = host.block_on(async {
        let release = async {
            cells_driver::host::Host::sleep(&host, 250).await;
            session.release(OperationOptions::default()).await
        };
        futures::join!(call, release)
    });
    let error = ended.unwrap_err();
    assert_eq!(how(&error), (ErrorKind::AccessDenied, Some(Outcome::NotStarted), false), "{error}");
    assert!(released.is_ok());
    assert_eq!(asked(&host), [], "nothing was sent");
}

/// A node with live output: `out` and `err` grow by a piece with each question.
fn live_node(pieces: &'static [(&'static str, &'static str)]) -> FakeHost {
    let mut n_asked = 0;
    host(move |request| {
        if request.path() == "/v1/capabilities" {
            let mut document = capabilities();
            document["process"] = json!({"exec": true, "output": {"version": 1}});
            for model in ["executionModel", "workspaceConsistency", "pathModel"] {
                document[model] = json!(match model {
                    "executionModel" => "sandbox",
                    "workspaceConsistency" => "isolated",
                    _ => "virtual-root",
                });
            }
            return Some(FakeReply::json(&document));
        }
        Some(match ask(request)? {
            Ask::Start => reply("running"),
            Ask::Output => {
                let query = request.path().split_once('?').unwrap().1;
                let offset = |name: &str| -> usize {
                    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)).unwrap();
                    value.parse().unwrap()
                };
                n_asked += 1;
                let written = &pieces[..pieces.len().min(n_asked)];
                let chunk = |all: String, offset: usize| json!({"offset": offset, "data": base64(&all.as_bytes()[offset..]), "truncated": false});
                let out = written.iter().map(|(out, _)| *out).collect::<String>();
                let err = written.iter().map(|(_, err)| *err).collect::<String>();
                let state = if n_asked >= pieces.len() { "exited" } else { "running" };
                let (stdout, stderr) = (chunk(out, offset("stdout=")), chunk(err, offset("stderr=")));
                FakeReply::json(&json!({"stdout": stdout, "stderr": stderr, "state": state}))
            }
            Ask::Query => {
                let mut status = status("exited");
                status["truncated"] = json!(true);
                FakeReply::json(&status)
            }
            Ask::Cancel => reply("none"),
        })
    })
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[test]
fn live_output_arrives_piece_by_piece_and_whole_at_the_end() {
    let host = live_node(&[("one ", ""), ("", ""), ("two ", "oops"), ("", "!")]);
    let pieces: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&pieces);
    let (tell, told) = std::sync::mpsc::channel();
    let options = ExecOptions {
        on_output: Some(Box::new(move |stream, data| {
            seen.lock().unwrap().push(format!("{stream:?} {}", String::from_utf8_lossy(&data)));
        })),
        on_dispatch: Some(Box::new(move |id| tell.send(id.as_str().to_owned()).unwrap())),
        ..ExecOptions::default()
    };
    let session = session(&host);
    let exit = exec(&host, &session, options).unwrap();
    let expected = ProcessExit {
        stdout: "one two ".to_owned(),
        stderr: "oops!".to_owned(),
        code: Some(3),
        truncated: false,
        has_gaps: false,
    };
    assert_eq!(exit, expected);
    assert_eq!(*pieces.lock().unwrap(), ["Stdout one ", "Stdout two ", "Stderr oops", "Stderr !"]);
    let processes = sent(&host, "/v1/processes");
    assert_eq!(processes[0].json()["keepOutput"], true);
    assert_eq!(processes[0].json()["requestId"], told.recv().unwrap());
    assert!(processes[3].path().ends_with("/output?stdout=4&stderr=0"), "{:?}", processes[3]);
    exec(&host, &session, ExecOptions::default()).unwrap();
    assert_eq!(sent(&host, "/v1/capabilities").len(), 1, "asked once a session");
}

#[test]
fn a_command_or_session_that_cannot_be_is_refused_before_anything_is_sent() {
    let host = scripted(&[]);
    let session = session(&host);
    for (command, cwd) in
        [("", None), ("a\0b", None), ("ls", Some("..")), ("ls", Some("/elsewhere")), ("ls", Some("/"))]
    {
        let options = ExecOptions { cwd: cwd.map(str::to_owned), ..ExecOptions::default() };
        let error = host.block_on(session.exec(command, &[], options)).unwrap_err();
        assert_eq!(how(&error), (ErrorKind::Invalid, Some(Outcome::NotStarted), false), "{command:?} {cwd:?}");
    }
    for spec in [
        ProcessSpec { server_id: "a b".to_owned(), ..spec() },
        ProcessSpec { epoch: String::new(), ..spec() },
        ProcessSpec { cwd: "/elsewhere".to_owned(), ..spec() },
        ProcessSpec { mounts: Vec::new(), ..spec() },
    ] {
        let error = client(&host).process(&connection(), spec).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(host.requests().len(), 0);
}

#[test]
fn a_changed_authorization_refuses_a_command_and_closes_the_session() {
    let host = scripted(&[(Ask::Start, &["409 AUTHORIZATION_CHANGED"])]);
    let snapshot =
        serde_json::from_value(json!({"principalId": "owner", "anonymous": false, "revision": "r1"})).unwrap();
    let pinned = Connection { authorization: Some(snapshot), ..connection() };
    let session = client(&host).process(&pinned, spec()).unwrap();
    let error = exec(&host, &session, ExecOptions::default()).unwrap_err();
    assert_eq!(how(&error), (ErrorKind::AccessDenied, Some(Outcome::NotCommitted), true), "{error}");
    assert_eq!(error.remote_code(), Some("AUTHORIZATION_CHANGED"));
    let start = &sent(&host, "/v1/processes")[0];
    assert_eq!(start.header("x-fsagent-principal"), Some("owner"));
    let error = exec(&host, &session, ExecOptions::default()).unwrap_err();
    assert_eq!(how(&error), (ErrorKind::AccessDenied, Some(Outcome::NotStarted), false), "{error}");
    assert_eq!(asked(&host), [Ask::Start]);
}

#[test]
fn without_the_driving_future_a_command_fails_and_a_client_that_is_gone_leaves_it_unknown() {
    let host = scripted(&[(Ask::Start, &["never"])]);
    let session = session(&host);
    host.drop_run();
    let error = exec(&host, &session, ExecOptions::default()).unwrap_err();
    assert_eq!(how(&error), (ErrorKind::Cancelled, Some(Outcome::NotStarted), false), "{error}");

    let host = scripted(&[(Ask::Start, &["never"])]);
    let client = client(&host);
    let session = client.process(&connection(), spec()).unwrap();
    let args = Vec::new();
    let mut call = Box::pin(session.exec("sleep", &args, ExecOptions::default()));
    assert!(host.block_on(async { futures::poll!(call.as_mut()) }).is_pending());
    host.run_for(10);
    client.dispose();
    let error = host.block_on(call).unwrap_err();
    assert_eq!((error.outcome(), error.process_id().is_some()), (Some(Outcome::Unknown), true), "{error}");
    let error = host.block_on(session.release(within(100))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
}
