//! Commands on a running node.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cells_driver::{
    Cancellation, Client, Connection, ErrorKind, ExecOptions, OperationOptions, Outcome, OutputStream, ProcessExit,
    ProcessMount, ProcessSession, ProcessSpec, Result, Secret,
};
use cells_testkit::fault_proxy::{Fault, Plan, Rule};
use cells_testkit::old_node::{OldCredential, OldExport, OldNode, OldNodeOptions};

use crate::stage::Stage;

async fn session(client: &Client, connection: &Connection) -> ProcessSession {
    let mount = |alias: &str, at: &str, access: &str| ProcessMount {
        alias: alias.to_owned(),
        path: String::new(),
        at: at.to_owned(),
        access: access.to_owned(),
    };
    let capabilities = client.capabilities(connection, OperationOptions::default()).await.unwrap();
    let spec = ProcessSpec::on(&capabilities, "/workspace", vec![mount("work", "/workspace", "rw")]).unwrap();
    client.process(connection, spec).unwrap()
}

async fn sh(session: &ProcessSession, script: &str, options: ExecOptions) -> Result<ProcessExit> {
    session.exec("/bin/sh", &["-c".to_owned(), script.to_owned()], options).await
}

/// How often the script of a test has run.
fn n_runs(stage: &Stage) -> usize {
    std::fs::read_to_string(stage.path("work", "ran")).map_or(0, |text| text.lines().count())
}

const RUN: &str = "echo run >> ran; echo done";

#[tokio::test]
async fn a_command_runs_and_its_output_arrives_while_it_does() {
    let stage = Stage::new().await;
    std::fs::create_dir(stage.path("work", "sub")).unwrap();
    let session = session(&stage.client, &stage.connection()).await;
    let pieces: Arc<Mutex<Vec<(OutputStream, String)>>> = Arc::default();
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let seen = Arc::clone(&pieces);
    let options = ExecOptions {
        cwd: Some("sub".to_owned()),
        on_output: Some(Box::new(move |stream, data| {
            seen.lock().unwrap().push((stream, String::from_utf8_lossy(&data).into_owned()));
            let _ = heard.send(());
        })),
        ..ExecOptions::default()
    };
    // It waits for a file that is only written once its first output was heard.
    let script = "echo one; while ! [ -e go ]; do sleep 0.05; done; echo two >&2; pwd > where; exit 3";
    let call = sh(&session, script, options);
    let listen = async {
        hears.recv().await.unwrap();
        std::fs::write(stage.path("work", "sub/go"), "").unwrap();
    };
    let (exit, ()) = tokio::join!(call, listen);
    let expected = ProcessExit {
        stdout: "one\n".to_owned(),
        stderr: "two\n".to_owned(),
        code: Some(3),
        truncated: false,
        has_gaps: false,
    };
    assert_eq!(exit.unwrap(), expected);
    let expected = [(OutputStream::Stdout, "one\n".to_owned()), (OutputStream::Stderr, "two\n".to_owned())];
    assert_eq!(*pieces.lock().unwrap(), expected);
    assert!(std::fs::read_to_string(stage.path("work", "sub/where")).unwrap().trim_end().ends_with("/sub"));
    session.release(OperationOptions::default()).await.unwrap();
}

#[tokio::test]
async fn output_of_any_length_arrives_whole() {
    let stage = Stage::new().await;
    let session = session(&stage.client, &stage.connection()).await;
    let received = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&received);
    let options = ExecOptions {
        on_output: Some(Box::new(move |_, data| *counted.lock().unwrap() += data.len())),
        ..ExecOptions::default()
    };
    let exit = sh(&session, "seq 1 200000", options).await.unwrap();
    let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    assert!(exit.stdout == expected && !exit.truncated && exit.code == Some(0));
    assert_eq!(*received.lock().unwrap(), expected.len());
}

#[tokio::test]
async fn a_command_that_is_cancelled_or_takes_too_long_is_over_when_the_caller_is_told() {
    let stage = Stage::new().await;
    let session = session(&stage.client, &stage.connection()).await;
    let (cancel, token) = Cancellation::new();
    let begun = Box::new(move |_: OutputStream, _| cancel.cancel());
    let cancelled = ExecOptions { cancel: Some(token), on_output: Some(begun), ..ExecOptions::default() };
    let late = ExecOptions { timeout_ms: Some(500), ..ExecOptions::default() };
    for (options, kind) in [(cancelled, ErrorKind::Cancelled), (late, ErrorKind::TimedOut)] {
        let error = sh(&session, "echo begun; sleep 60; echo run >> ran", options).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (kind, Some(Outcome::Partial)), "{error}");
        assert!(error.process_id().is_some());
    }
    assert_eq!(n_runs(&stage), 0);
    // The node takes part in nothing but the two commands: no process is left to confirm.
    stage.proxy.reset_counts();
    session.release(OperationOptions::default()).await.unwrap();
    assert_eq!(stage.proxy.counts().paths.len(), 0);
}

#[tokio::test]
async fn whatever_is_lost_a_command_runs_at_most_once_and_its_end_is_told_as_it_is() {
    let stage = Stage::new().await;
    for (case, fault) in [
        ("never sent", Fault::ResetBefore),
        ("reset", Fault::ResetAfter),
        ("cut off", Fault::Truncate { at: 20 }),
        ("corrupt", Fault::Corrupt { at: 0, xor: 1 }),
    ] {
        let session = session(&stage.client, &stage.connection()).await;
        stage.proxy.reset_counts();
        let _ = std::fs::remove_file(stage.path("work", "ran"));
        stage.proxy.set_plan(Plan::new([Rule::path("/v1/processes", fault)]));
        let ended = sh(&session, RUN, ExecOptions::default()).await;
        stage.proxy.set_plan(Plan::default());
        let starts = stage.proxy.counts().paths["POST /v1/processes"];
        assert_eq!(starts, 1, "{case}");
        let error = ended.unwrap_err();
        let outcome = error.outcome().unwrap();
        assert!(matches!(outcome, Outcome::Partial | Outcome::NotStarted), "{case}: {error}");
        assert!(n_runs(&stage) <= 1, "{case}");
        if case == "never sent" {
            assert_eq!(n_runs(&stage), 0);
        }
        session.release(OperationOptions::default()).await.unwrap();
        assert!(sh(&session, RUN, ExecOptions::default()).await.is_err(), "it is released");
    }
}

#[tokio::test]
async fn an_end_that_could_not_be_proven_is_confirmed_by_release() {
    let stage = Stage::new().await;
    let session = session(&stage.client, &stage.connection()).await;
    stage.proxy.set_plan(Plan::new([Rule::path("/v1/processes*", Fault::ResetAfter)]));
    let error = sh(&session, "sleep 60", ExecOptions::default()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Io, Some(Outcome::Unknown)), "{error}");
    let failed = session.release(OperationOptions::default()).await.unwrap_err();
    assert_eq!((failed.outcome(), failed.process_id()), (Some(Outcome::Unknown), error.process_id()), "{failed}");
    stage.proxy.set_plan(Plan::default());
    session.release(OperationOptions::default()).await.unwrap();
}

#[tokio::test]
async fn release_ends_commands_that_run() {
    let stage = Stage::new().await;
    let session = session(&stage.client, &stage.connection()).await;
    let calls = [1, 2].map(|_| {
        let session = session.clone();
        tokio::spawn(async move { sh(&session, "sleep 60", ExecOptions::default()).await })
    });
    while !format!("{session:?}").contains("2 outstanding") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    session.release(OperationOptions::default()).await.unwrap();
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Cancelled, Some(Outcome::Partial)), "{error}");
    }
}

#[tokio::test]
async fn the_node_says_what_it_cannot_run() {
    let stage = Stage::new().await;
    let connection = stage.connection();
    let working = session(&stage.client, &connection).await;
    let exit = sh(&working, "no-such-command", ExecOptions::default()).await.unwrap();
    assert_eq!((exit.code, exit.stderr.is_empty()), (Some(127), false));

    let capabilities = stage.client.capabilities(&connection, OperationOptions::default()).await.unwrap();
    let mount = |alias: &str, access: &str| ProcessMount {
        alias: alias.to_owned(),
        path: String::new(),
        at: "/w".to_owned(),
        access: access.to_owned(),
    };
    for (mount, epoch, kind) in [
        (mount("library", "rw"), None, ErrorKind::ReadOnly),
        (mount("nothere", "ro"), None, ErrorKind::AccessDenied),
        (mount("work", "rw"), Some("of-yesterday"), ErrorKind::Conflict),
    ] {
        let mut spec = ProcessSpec::on(&capabilities, "/w", vec![mount]).unwrap();
        spec.epoch = epoch.map_or(spec.epoch, str::to_owned);
        let session = stage.client.process(&connection, spec).unwrap();
        let error = sh(&session, RUN, ExecOptions::default()).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (kind, Some(Outcome::NotCommitted)), "{error}");
        session.release(OperationOptions::default()).await.unwrap();
    }
    assert_eq!(n_runs(&stage), 0);
}

#[tokio::test]
async fn an_old_node_gives_the_output_at_the_end_and_no_more_than_it_can() {
    let stage = Stage::new().await;
    let token = "old-node-token-0123456789abcdef";
    let export = OldExport { alias: "work".to_owned(), path: stage.path("work", ""), writable: true };
    let mut options = OldNodeOptions::new(OldCredential::Token { token: token.to_owned() }, [export]);
    options.execution = true;
    let node = OldNode::start(options).await.unwrap();
    stage.client.set_credential("old", Secret::new(token));
    let session = session(&stage.client, &Connection::new(node.endpoint(), "old")).await;
    let pieces: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&pieces);
    let options = ExecOptions {
        on_output: Some(Box::new(move |stream, data| {
            seen.lock().unwrap().push(format!("{stream:?} {}", String::from_utf8_lossy(&data)));
        })),
        ..ExecOptions::default()
    };
    let exit = sh(&session, "echo one; echo two >&2; sleep 0.2; echo three; exit 4", options).await.unwrap();
    let expected = ProcessExit {
        stdout: "one\nthree\n".to_owned(),
        stderr: "two\n".to_owned(),
        code: Some(4),
        truncated: false,
        has_gaps: false,
    };
    assert_eq!(exit, expected);
    assert_eq!(*pieces.lock().unwrap(), ["Stdout one\nthree\n", "Stderr two\n"]);
    let error = sh(&session, "seq 1 200000", ExecOptions::default()).await.unwrap_err();
    assert!(error.message().contains("more than 65536 bytes"), "{error}");
    let late = ExecOptions { timeout_ms: Some(400), ..ExecOptions::default() };
    let error = sh(&session, "sleep 60", late).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TimedOut, Some(Outcome::Partial)), "{error}");
    session.release(OperationOptions::default()).await.unwrap();
    node.stop().await.unwrap();
}
