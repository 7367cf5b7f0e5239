//! Stat calls share requests.

use std::sync::{Arc, Mutex};

use cells_driver::{Cancellation, ErrorKind, FileStat, OperationOptions, Result};
use cells_testkit::fake_host::{FakeHost, FakeReply};
use futures::future::join_all;
use serde_json::json;

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{files, host, sent, within};

fn sizes(results: &[Result<Option<FileStat>>]) -> Vec<Option<u64>> {
    results.iter().map(|result| result.as_ref().unwrap().as_ref().and_then(|stat| stat.size)).collect()
}

fn batch_sizes(host: &FakeHost) -> Vec<usize> {
    sent(host, "/v1/fs/notes/stat").iter().map(|request| request.json()["paths"].as_array().unwrap().len()).collect()
}

#[test]
fn calls_of_one_turn_share_requests_of_distinct_paths() {
    let host = host(|_| None);
    let files = files(&host);
    let paths: Vec<String> = (0..10_000).map(|n| format!("dir/file-{:04}", n % 2_000)).collect();
    let results = host.block_on(async {
        let calls: Vec<_> = paths.iter().map(|path| files.stat(path, OperationOptions::default())).collect();
        let mut results = Vec::new();
        // One by one: they joined the batch when they were made.
        for call in calls {
            results.push(call.await);
        }
        results
    });
    assert_eq!(sizes(&results), vec![Some(13); 10_000]);
    assert_eq!(batch_sizes(&host), [256, 256, 256, 256, 256, 256, 256, 208]);
}

#[test]
fn nothing_is_kept_across_batches() {
    let host = host(|_| None);
    let files = files(&host);
    for _ in 0..3 {
        let stat = host.block_on(files.stat("a", OperationOptions::default())).unwrap();
        assert_eq!(stat.and_then(|stat| stat.size), Some(1));
    }
    assert_eq!(batch_sizes(&host), [1, 1, 1]);
}

#[test]
fn each_path_has_its_own_result() {
    let host = host(|_| None);
    let files = files(&host);
    let results = host.block_on(join_all(
        ["a", "gone/b", "closed/c", "../d"].map(|path| files.stat(path, OperationOptions::default())),
    ));
    assert_eq!(results[0].as_ref().unwrap().as_ref().and_then(|stat| stat.size), Some(1));
    assert_eq!(*results[1].as_ref().unwrap(), None);
    let closed = results[2].as_ref().unwrap_err();
    assert_eq!(
        (closed.kind(), closed.operation(), closed.remote_code()),
        (ErrorKind::AccessDenied, "stat", Some("EACCES"))
    );
    let invalid = results[3].as_ref().unwrap_err();
    assert_eq!((invalid.kind(), invalid.operation()), (ErrorKind::Invalid, "stat"));
    assert_eq!(batch_sizes(&host), [3], "a path that no export can have is not sent");
}

#[test]
fn a_failure_of_the_request_reaches_every_caller_and_is_not_sent_again() {
    for (reply, kind, operation) in [
        (FakeReply::status(503, &json!({"code": "EIO"})), ErrorKind::Busy, "stat"),
        (FakeReply::status(403, &json!({"code": "EACCES"})), ErrorKind::AccessDenied, "stat"),
        (FakeReply::network_error(), ErrorKind::Io, "connect"),
        (FakeReply::json(&json!({"results": []})), ErrorKind::Io, "protocol"),
        (FakeReply::bytes(200, "{\"results\":[{\"st"), ErrorKind::Io, "protocol"),
        (FakeReply::bytes(302, "").header("location", "http://evil/"), ErrorKind::Io, "protocol"),
    ] {
        let mut reply = Some(reply);
        let host = host(move |request| request.path().ends_with("/stat").then(|| reply.take().unwrap()));
        let files = files(&host);
        let calls = ["a", "b"].map(|path| files.stat(path, OperationOptions::default()));
        for result in host.block_on(join_all(calls)) {
            let error = result.unwrap_err();
            assert_eq!((error.kind(), error.operation()), (kind, operation), "{error}");
            assert!(error.to_string().contains("stat"), "{error}");
        }
        assert_eq!(batch_sizes(&host), [2]);
    }
}

#[test]
fn one_caller_leaves_by_itself_and_the_last_one_aborts_the_request() {
    let host = host(|request| request.path().ends_with("/stat").then(FakeReply::never));
    let files = files(&host);
    let (cancel, token) = Cancellation::new();
    let options = OperationOptions { timeout_ms: None, cancel: Some(token) };
    let mut first = Box::pin(files.stat("a", options));
    let second = files.stat("a", within(2_000));
    let third = files.stat("a", within(3_000));
    assert!(host.block_on(async { futures::poll!(first.as_mut()) }).is_pending());
    host.run_for(500);
    assert_eq!(batch_sizes(&host), [1]);
    cancel.cancel();
    assert_eq!(host.block_on(first.as_mut()).unwrap_err().kind(), ErrorKind::Cancelled);
    drop(second);
    host.run_for(100);
    assert!(!host.requests()[0].is_aborted(), "one still waits");
    assert_eq!(host.block_on(third).unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(host.requests()[0].is_aborted());
}

#[test]
fn budgets_are_each_callers_own_and_the_request_has_the_longest() {
    let host = host(|request| request.path().ends_with("/stat").then(FakeReply::never));
    let files = files(&host);
    let calls = [within(0), within(100), within(7_000)].map(|options| files.stat("a", options));
    let kinds = host.block_on(join_all(calls)).into_iter().map(|result| result.unwrap_err().kind());
    assert_eq!(kinds.collect::<Vec<_>>(), [ErrorKind::TimedOut; 3]);
    let request = &host.requests()[0];
    assert_eq!(request.header("x-timeout-ms"), Some("7000"));
}

#[test]
fn a_call_that_nobody_waits_for_is_not_sent() {
    let host = host(|_| None);
    let files = files(&host);
    drop(files.stat("a", OperationOptions::default()));
    let (cancel, token) = Cancellation::new();
    cancel.cancel();
    let late = files.stat("b", OperationOptions { timeout_ms: None, cancel: Some(token) });
    assert_eq!(host.block_on(late).unwrap_err().kind(), ErrorKind::Cancelled);
    host.run_for(1_000);
    assert_eq!(host.requests().len(), 0);
    assert!(host.block_on(files.stat("c", OperationOptions::default())).is_ok(), "the batch works on");
    drop(files.stat("d", OperationOptions::default()));
    drop(files);
    host.run_for(1_000);
    assert!(host.run_ended(), "nothing is left to do");
}

#[test]
fn a_batch_goes_out_when_one_of_its_calls_is_awaited() {
    let host = host(|_| None);
    let files = files(&host);
    for n_batches in 0..3 {
        let first = files.stat("a", OperationOptions::default());
        host.run_for(1_000);
        let second = files.stat("b", OperationOptions::default());
        host.run_for(1_000);
        assert_eq!(batch_sizes(&host), vec![2; n_batches]);
        assert!(host.block_on(second).is_ok());
        assert_eq!(batch_sizes(&host), vec![2; n_batches + 1]);
        assert!(host.block_on(first).is_ok());
    }
}

#[test]
fn callbacks_get_their_results_without_a_future() {
    let host = host(|_| None);
    let files = files(&host);
    let seen = Arc::new(Mutex::new(Vec::new()));
    for path in ["a", "/b", "a"] {
        let seen = Arc::clone(&seen);
        let on_settled = Box::new(move |result: Result<Option<FileStat>>| {
            seen.lock().unwrap().push(result.map(|stat| stat.and_then(|stat| stat.size)).map_err(|error| error.kind()));
        });
        files.stat_with(path, OperationOptions::default(), on_settled);
    }
    assert_eq!(*seen.lock().unwrap(), [Err(ErrorKind::Invalid)], "at once");
    host.run_for(0);
    assert_eq!(*seen.lock().unwrap(), [Err(ErrorKind::Invalid), Ok(Some(1)), Ok(Some(1))]);
    assert_eq!(batch_sizes(&host), [1]);
}

#[test]
fn a_client_that_is_not_driven_fails_its_calls() {
    let host = host(|request| request.path().ends_with("/stat").then(FakeReply::never));
    let files = files(&host);
    let mut pending = files.stat("a", OperationOptions::default());
    assert!(host.block_on(async { futures::poll!(&mut pending) }).is_pending());
    host.run_for(10);
    host.drop_run();
    for call in [pending, files.stat("b", OperationOptions::default())] {
        let error = host.block_on(call).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert!(error.message().contains("Run future"), "{error}");
    }
    assert!(host.requests()[0].is_aborted());
}
