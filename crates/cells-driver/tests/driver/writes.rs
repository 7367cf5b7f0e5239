//! Writes: one request each, and an honest outcome whatever comes back.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cells_driver::host::{HostError, Method, Progress};
use cells_driver::{
    Cancellation, Error, ErrorKind, FileChange, FileCommitted, FileKind, FileMutationOptions, FileMutations, FileStat,
    FileStorage, OperationId, OperationOptions, Outcome, ReplaceCondition, Result, Retry, Upload,
};
use cells_testkit::fake_host::{FakeContent, FakeHost, FakeReply, FakeRequest, FakeUpload};
use futures::stream;
use serde_json::{Value, json};

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{capabilities, client, host, sent, storage, within};

/// A node that answers the PUT of content with `reply`, and requests to stop a write with `cancel`.
fn node(
    reply: impl Fn(&FakeRequest) -> FakeReply + Send + 'static,
    cancel: impl Fn(&FakeRequest) -> FakeReply + Send + 'static,
) -> FakeHost {
    host(move |request| match request.path() {
        path if path.starts_with("/v1/fs/notes/content") => Some(reply(request)),
        path if path.ends_with("/cancel") => Some(cancel(request)),
        _ => None,
    })
}

fn puts(reply: impl Fn(&FakeRequest) -> FakeReply + Send + 'static) -> FakeHost {
    node(reply, |_| not_committed("ECANCELLED"))
}

fn not_committed(code: &str) -> FakeReply {
    FakeReply::json(&json!({"outcome": "not-committed", "code": code}))
}

fn new_file() -> Value {
    json!({"kind": "file", "size": 5, "modifiedAt": 7, "createdAt": 7, "revision": "\"r:2\""})
}

fn committed(_: &FakeRequest) -> FakeReply {
    FakeReply::json(&json!({"outcome": "committed", "result": new_file()}))
}

fn writes(host: &FakeHost) -> FileMutations {
    storage(host).mutations().unwrap().clone()
}

fn put(host: &FakeHost, options: FileMutationOptions) -> Result<FileCommitted<FileStat>> {
    let writes = writes(host);
    host.block_on(writes.replace("a.md", Upload::bytes("hello"), ReplaceCondition::CreateOnly, options))
}

fn n_puts(host: &FakeHost) -> usize {
    sent(host, "/v1/fs/notes/content").len()
}

fn n_cancels(host: &FakeHost) -> usize {
    sent(host, "/v1/fs/notes/operations/").iter().filter(|request| request.path().ends_with("/cancel")).count()
}

#[test]
fn a_write_is_one_request_with_its_id_and_its_condition() {
    for (condition, header, value) in [
        (ReplaceCondition::CreateOnly, "if-none-match", "*"),
        (ReplaceCondition::Match("\"r:1\"".to_owned()), "if-match", "\"r:1\""),
    ] {
        let host = puts(committed);
        let writes = writes(&host);
        let options = FileMutationOptions { operation: within(9_000), ..FileMutationOptions::default() };
        let written = host.block_on(writes.replace("a b/ü:1.md", Upload::bytes("hello"), condition, options)).unwrap();
        assert_eq!((written.value.kind, written.value.revision.as_deref()), (FileKind::File, Some("\"r:2\"")));

        let [request] = &sent(&host, "/v1/fs/notes/content")[..] else { panic!("not one request") };
        assert_eq!(request.method, Method::Put);
        assert_eq!(request.path(), "/v1/fs/notes/content?path=a%20b%2F%C3%BC%3A1.md");
        assert_eq!((&request.body[..], request.upload), (&b"hello"[..], None));
        let id = request.header("x-operation-id").unwrap();
        assert_eq!((id.len(), id.as_bytes()[14]), (36, b'4'), "{id}");
        assert_eq!(id, written.operation_id.as_str());
        assert_eq!(request.header(header), Some(value));
        let conditions = ["if-none-match", "if-match"].into_iter().filter(|name| request.header(name).is_some());
        assert_eq!(conditions.count(), 1);
        assert_eq!(request.header("content-type"), Some("application/octet-stream"));
        assert_eq!(request.header("x-timeout-ms"), Some("9000"));
        assert_eq!(request.header("authorization"), Some("Bearer key-0123456789"));
        host.run_for(60_000);
        assert_eq!((n_puts(&host), n_cancels(&host)), (1, 0));
    }
}

#[test]
fn names_are_made_moved_and_removed() {
    let host = host(|request| {
        let is_mutation = request.path() == "/v1/fs/notes/mutate" && request.method == Method::Post;
        is_mutation.then(|| FakeReply::json(&json!({"outcome": "committed", "result": {}})))
    });
    let writes = writes(&host);
    let none = FileMutationOptions::default;
    let id = OperationId::new("my-own-id").unwrap();
    let named = FileMutationOptions { operation_id: Some(id.clone()), ..none() };
    let made = host.block_on(writes.mkdir("a", none())).unwrap();
    assert_eq!((made.value.kind, made.value.size), (FileKind::Directory, None));
    assert_eq!(host.block_on(writes.rename("a", "b", named)).unwrap(), FileCommitted { value: (), operation_id: id });
    assert_eq!(host.block_on(writes.remove("b", none())).unwrap().value, ());
    let requests = sent(&host, "/v1/fs/notes/mutate");
    let bodies: Vec<Value> = requests.iter().map(FakeRequest::json).collect();
    assert_eq!(
        bodies,
        [
            json!({"action": "mkdir", "path": "a"}),
            json!({"action": "rename", "path": "a", "to": "b"}),
            json!({"action": "remove", "path": "b"}),
        ]
    );
    assert_eq!(requests[1].header("x-operation-id"), Some("my-own-id"));
    assert!(requests.iter().all(|request| request.header("content-type") == Some("application/json")));
}

#[test]
fn every_reply_has_one_honest_outcome_and_nothing_is_sent_again() {
    use ErrorKind::{
        AccessDenied, Busy, Cancelled, Conflict, Invalid, Io, NoSpace, NotFound, ReadOnly, TimedOut, TooLarge,
    };
    use Outcome::{Committed, NotCommitted, NotStarted, Unknown};
    let receipt =
        |status: u16, outcome: &str, code: &str| FakeReply::status(status, &json!({"outcome": outcome, "code": code}));
    let bare = |status: u16, code: &str| FakeReply::status(status, &json!({"code": code}));
    let large = format!(r#"{{"outcome":"committed","result":{{}},"x":"{}"}}"#, "x".repeat(1024 * 1024));
    let cases: Vec<(&str, FakeReply, Outcome, ErrorKind, &str)> = vec![
        ("conflict", receipt(412, "not-committed", "ECONFLICT"), NotCommitted, Conflict, "replace"),
        ("no parent", receipt(404, "not-committed", "ENOENT"), NotCommitted, NotFound, "replace"),
        ("stopped", receipt(408, "not-committed", "ECANCELLED"), NotCommitted, Cancelled, "replace"),
        ("too large", receipt(413, "not-committed", "UPLOAD_LIMIT"), NotCommitted, TooLarge, "replace"),
        ("disk full", receipt(507, "not-committed", "ENOSPC"), NotCommitted, NoSpace, "replace"),
        ("disk broken", receipt(500, "not-committed", "EIO"), NotCommitted, Io, "replace"),
        ("read-only", bare(403, "EROFS"), NotCommitted, ReadOnly, "replace"),
        ("no credential", bare(401, "EACCES"), NotCommitted, AccessDenied, "replace"),
        ("gate", bare(409, "EBUSY"), NotCommitted, Busy, "replace"),
        ("full table", bare(429, "OPERATION_LIMIT"), NotCommitted, Busy, "replace"),
        ("no condition", bare(428, "REVISION_REQUIRED"), NotCommitted, Conflict, "replace"),
        ("words of a proxy", FakeReply::bytes(413, "<html>"), NotCommitted, Invalid, "replace"),
        ("broken refusal", FakeReply::bytes(403, "{").without_length().broken(), NotCommitted, AccessDenied, "replace"),
        ("id in use", bare(409, "OPERATION_ID_REUSED"), Unknown, Conflict, "replace"),
        ("409 of nobody", FakeReply::bytes(409, ""), Unknown, ErrorKind::AlreadyExists, "replace"),
        ("deadline", receipt(504, "unknown", "ETIMEDOUT"), Unknown, TimedOut, "replace"),
        ("running", FakeReply::json(&json!({"outcome": "unknown", "state": "running"})), Unknown, Io, "protocol"),
        ("poisoned", bare(503, "EIO").header("retry-after", "1"), Unknown, Busy, "replace"),
        ("gateway", FakeReply::bytes(502, "bad gateway"), Unknown, Io, "replace"),
        ("success without a receipt", FakeReply::json(&json!({})), Unknown, Io, "protocol"),
        ("success that is not JSON", FakeReply::bytes(200, "ok"), Unknown, Io, "protocol"),
        ("empty success", FakeReply::bytes(200, ""), Unknown, Io, "protocol"),
        ("cut off", FakeReply::bytes(200, "{").header("content-length", "90"), Unknown, Io, "protocol"),
        ("broken", FakeReply::bytes(200, "{").without_length().broken(), Unknown, Io, "connect"),
        ("too long a receipt", FakeReply::bytes(200, large), Unknown, TooLarge, "replace"),
        ("reset", FakeReply::network_error(), Unknown, Io, "connect"),
        ("redirect", FakeReply::bytes(307, "").header("location", "http://evil/"), Unknown, Io, "protocol"),
        ("refused", FakeReply::error(HostError::Unreachable("connection refused".into())), NotStarted, Io, "connect"),
        ("header", FakeReply::error(HostError::Unsendable("x".into())), NotStarted, Invalid, "replace"),
        ("no result", FakeReply::json(&json!({"outcome": "committed"})), Committed, Io, "protocol"),
        (
            "wrong result",
            FakeReply::json(&json!({"outcome": "committed", "result": {"kind": "directory"}})),
            Committed,
            Io,
            "protocol",
        ),
    ];
    for (case, reply, outcome, kind, operation) in cases {
        let reply = Mutex::new(Some(reply));
        let host = puts(move |_| reply.lock().unwrap().take().expect("sent twice"));
        let error = put(&host, FileMutationOptions::default()).unwrap_err();
        assert_eq!(
            (error.outcome(), error.kind(), error.operation()),
            (Some(outcome), kind, operation),
            "{case}: {error}"
        );
        if outcome != NotStarted {
            let id = sent(&host, "/v1/fs/notes/content")[0].header("x-operation-id").map(str::to_owned);
            assert_eq!(error.operation_id().map(OperationId::as_str), id.as_deref(), "{case}");
        }
        assert_eq!(error.file_recovery().is_some(), outcome == Unknown, "{case}");
        if outcome == Unknown || outcome == Committed {
            assert_eq!(error.retry(), Retry::Never, "{case}");
        }
        host.run_for(120_000);
        assert_eq!(n_puts(&host), 1, "{case}");
        assert_eq!(n_cancels(&host), usize::from(outcome == Unknown), "{case}: what is in doubt is stopped, once");
    }
}

#[test]
fn what_is_not_valid_is_not_sent() {
    let host = puts(committed);
    let storage = storage(&host);
    let writes = storage.mutations().unwrap();
    let n_before = host.requests().len();
    let options = FileMutationOptions::default;
    let check = |error: Error, kind: ErrorKind, operation: &str| {
        assert_eq!((error.kind(), error.operation()), (kind, operation), "{error}");
        assert_eq!((error.outcome(), error.operation_id()), (Some(Outcome::NotStarted), None), "{error}");
    };
    for path in
        ["", "/a", "a/", "a//b", "../a", "a/./b", "a\\b", "a\0", "C:/x", ".itookit-upload-1", &"x".repeat(4_097)]
    {
        let content = || Upload::bytes("x");
        let create = ReplaceCondition::CreateOnly;
        let replaced = host.block_on(writes.replace(path, content(), create, options())).unwrap_err();
        check(replaced, ErrorKind::Invalid, "replace");
        check(host.block_on(writes.mkdir(path, options())).unwrap_err(), ErrorKind::Invalid, "mkdir");
        check(host.block_on(writes.remove(path, options())).unwrap_err(), ErrorKind::Invalid, "remove");
        check(host.block_on(writes.rename(path, "b", options())).unwrap_err(), ErrorKind::Invalid, "rename");
        check(host.block_on(writes.rename("a", path, options())).unwrap_err(), ErrorKind::Invalid, "rename");
    }
    for revision in ["", "a b", "a\r\nx-evil: 1", "ü"] {
        let condition = ReplaceCondition::Match(revision.to_owned());
        let error = host.block_on(writes.replace("a", Upload::bytes("x"), condition, options())).unwrap_err();
        check(error, ErrorKind::Invalid, "replace");
    }
    let large = Upload::stream(Some(256 * 1024 * 1024 + 1), stream::empty());
    let error = host.block_on(writes.replace("a", large, ReplaceCondition::CreateOnly, options())).unwrap_err();
    check(error, ErrorKind::TooLarge, "replace");
    let no_time = FileMutationOptions { operation: within(0), ..options() };
    let error = host.block_on(writes.mkdir("a", no_time)).unwrap_err();
    check(error, ErrorKind::TimedOut, "mkdir");
    host.without_randomness();
    check(host.block_on(writes.mkdir("a", options())).unwrap_err(), ErrorKind::Unsupported, "mkdir");
    storage.close();
    check(host.block_on(writes.mkdir("a", options())).unwrap_err(), ErrorKind::AccessDenied, "mkdir");
    assert_eq!(host.requests().len(), n_before);
}

/// What a progress is told.
type Told = Arc<Mutex<Vec<(u64, u64)>>>;

fn progress() -> (Told, Option<Progress>) {
    let told = Told::default();
    let progress = {
        let told = Arc::clone(&told);
        move |done, all| told.lock().unwrap().push((done, all))
    };
    (told, Some(Box::new(progress)))
}

#[test]
fn content_is_sent_as_it_comes_and_progress_counts_what_was_taken() {
    let pieces = || stream::iter(["he", "", "llo"].map(|piece| Ok(Bytes::from(piece))));
    let platform = || Upload::platform(FakeContent(Bytes::from("hello")));
    let size = Some(5);
    for (case, content, streams, expected, told) in [
        ("bytes", Upload::bytes("hello"), true, Some(FakeUpload::Stream { size }), vec![(5, 5)]),
        ("stream", Upload::stream(size, pieces()), true, Some(FakeUpload::Stream { size }), vec![(2, 5), (5, 5)]),
        (
            "stream of unknown size",
            Upload::stream(None, pieces()),
            true,
            Some(FakeUpload::Stream { size: None }),
            vec![(2, 2), (5, 5)],
        ),
        ("platform", platform(), true, Some(FakeUpload::Platform), vec![(0, 5), (5, 5)]),
        ("bytes in a browser", Upload::bytes("hello"), false, None, vec![(0, 5), (5, 5)]),
        ("platform in a browser", platform(), false, Some(FakeUpload::Platform), vec![(0, 5), (5, 5)]),
    ] {
        let host = puts(committed);
        if !streams {
            host.refuses_streams();
        }
        let (seen, progress) = progress();
        let options = FileMutationOptions { progress, ..FileMutationOptions::default() };
        let writes = writes(&host);
        let written = host.block_on(writes.replace("a", content, ReplaceCondition::CreateOnly, options));
        assert!(written.is_ok(), "{case}: {written:?}");
        let [request] = &sent(&host, "/v1/fs/notes/content")[..] else { panic!("{case}") };
        assert_eq!((&request.body[..], request.upload), (&b"hello"[..], expected), "{case}");
        assert_eq!(*seen.lock().unwrap(), told, "{case}");
    }
    let host = puts(committed);
    host.refuses_streams();
    let writes = writes(&host);
    let options = FileMutationOptions::default();
    let streamed = writes.replace("a", Upload::stream(size, pieces()), ReplaceCondition::CreateOnly, options);
    let error = host.block_on(streamed).unwrap_err();
    assert_eq!((error.kind(), error.outcome(), n_puts(&host)), (ErrorKind::Unsupported, Some(Outcome::NotStarted), 0));
}

#[test]
fn a_write_whose_source_fails_was_never_whole() {
    let broken = || Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof));
    let ok = |piece: &'static str| Ok(Bytes::from(piece));
    for (size, pieces, kind, message) in [
        (Some(9), vec![ok("he")], ErrorKind::Invalid, "has 2 bytes, but 9 were announced"),
        (Some(3), vec![ok("hello")], ErrorKind::Invalid, "more than the 3 bytes"),
        (Some(9), vec![ok("he"), broken()], ErrorKind::Io, "could not be read"),
        (None, vec![broken()], ErrorKind::Io, "could not be read"),
    ] {
        let host = puts(committed);
        let writes = writes(&host);
        let content = Upload::stream(size, stream::iter(pieces));
        let options = FileMutationOptions::default();
        let replaced = writes.replace("a", content, ReplaceCondition::CreateOnly, options);
        let error = host.block_on(replaced).unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (kind, Some(Outcome::NotCommitted)), "{error}");
        assert!(error.message().contains(message), "{error}");
        assert_eq!((n_puts(&host), n_cancels(&host)), (1, 0));
    }
}

/// A node whose receipts are durable, or live in a process with this epoch.
fn receipts_of(durable: bool, epoch: &str) -> Value {
    let mut document = capabilities();
    document["processEpoch"] = json!(epoch);
    if durable {
        document["files"]["receipts"] = json!({"version": 1, "durable": true});
    }
    document
}

#[test]
fn a_cancelled_write_reports_what_became_of_it() {
    use Outcome::{NotCommitted, Unknown};
    let running = || FakeReply::json(&json!({"outcome": "unknown", "state": "running"}));
    let done = || FakeReply::json(&json!({"outcome": "committed", "result": new_file()}));
    // Whether receipts are durable, the epoch when it is asked again, the replies to the request to stop and to those for
    // the receipt.
    type Case = (&'static str, bool, &'static str, Vec<FakeReply>, Vec<FakeReply>, Option<Outcome>);
    let cases: Vec<Case> = vec![
        ("too late", true, "e-1", vec![done()], vec![], None),
        ("never seen by a durable node", true, "e-2", vec![not_committed("ECANCELLED")], vec![], Some(NotCommitted)),
        ("never seen by this process", false, "e-1", vec![not_committed("ECANCELLED")], vec![], Some(NotCommitted)),
        ("not known by another process", false, "e-2", vec![not_committed("ECANCELLED")], vec![], Some(Unknown)),
        ("body cut", false, "e-2", vec![not_committed("EINVAL")], vec![], Some(NotCommitted)),
        ("stops", false, "e-2", vec![running()], vec![running(), not_committed("ECANCELLED")], Some(NotCommitted)),
        ("commits all the same", true, "e-1", vec![running()], vec![done()], None),
        ("does not stop", true, "e-1", vec![running()], (0..40).map(|_| running()).collect(), Some(Unknown)),
        ("no answer", true, "e-1", vec![FakeReply::never(), done()], vec![], Some(Unknown)),
        ("no connection", true, "e-1", vec![FakeReply::network_error(), done()], vec![], Some(Unknown)),
        ("nonsense", true, "e-1", vec![FakeReply::json(&json!({})), done()], vec![], Some(Unknown)),
    ];
    for (case, durable, epoch, cancels, queries, outcome) in cases {
        let mut epochs = ["e-1", epoch].into_iter();
        let (mut cancels, mut queries) = (cancels.into_iter(), queries.into_iter());
        let host = host(move |request| match request.path() {
            "/v1/capabilities" => Some(FakeReply::json(&receipts_of(durable, epochs.next().expect("asked too often")))),
            path if path.starts_with("/v1/fs/notes/content") => Some(FakeReply::never()),
            path if path.ends_with("/cancel") => cancels.next(),
            path if path.contains("/operations/") => queries.next(),
            _ => None,
        });
        let writes = writes(&host);
        let (cancel, token) = Cancellation::new();
        let operation = OperationOptions { timeout_ms: Some(20_000), cancel: Some(token) };
        let options = FileMutationOptions { operation, ..FileMutationOptions::default() };
        let mut call = Box::pin(writes.replace("a", Upload::bytes("x"), ReplaceCondition::CreateOnly, options));
        assert!(host.block_on(async { futures::poll!(call.as_mut()) }).is_pending());
        host.run_for(1_000);
        cancel.cancel();
        let before_ms = host.now_ms();
        let result = host.block_on(call);
        assert!(host.now_ms() - before_ms <= 5_000, "{case}");
        match (outcome, result) {
            (None, Ok(written)) => assert_eq!(written.value.size, Some(5), "{case}"),
            (Some(outcome), Err(error)) => {
                assert_eq!((error.kind(), error.outcome()), (ErrorKind::Cancelled, Some(outcome)), "{case}: {error}");
                assert!(error.operation_id().is_some(), "{case}");
                assert_eq!(error.file_recovery().is_some(), outcome == Unknown, "{case}");
            }
            (_, result) => panic!("{case}: {result:?}"),
        }
        assert!(sent(&host, "/v1/fs/notes/content")[0].is_aborted(), "{case}");
        assert_eq!(n_puts(&host), 1, "{case}");
    }
}

#[test]
fn a_write_whose_time_is_up_is_unknown_at_once_and_stopped() {
    let host = puts(|_| FakeReply::never());
    let options = FileMutationOptions { operation: within(2_000), ..FileMutationOptions::default() };
    let before_ms = host.now_ms();
    let error = put(&host, options).unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TimedOut, Some(Outcome::Unknown)));
    assert_eq!(host.now_ms() - before_ms, 2_000);
    host.run_for(1);
    assert_eq!((n_puts(&host), n_cancels(&host)), (1, 1));
    assert!(sent(&host, "/v1/fs/notes/content")[0].is_aborted());
}

#[test]
fn a_dropped_call_is_held_back_before_it_is_sent_and_followed_after() {
    let replies = Arc::new(Mutex::new(0));
    let count = Arc::clone(&replies);
    let host = puts(move |request| {
        *count.lock().unwrap() += 1;
        committed(request).delay(3_000)
    });
    let writes = writes(&host);
    let start = || {
        let options = FileMutationOptions::default();
        let mut call = Box::pin(writes.replace("a", Upload::bytes("x"), ReplaceCondition::CreateOnly, options));
        let is_pending = host.block_on(async { futures::poll!(call.as_mut()) }).is_pending();
        assert!(is_pending);
        call
    };
    host.pause(true);
    drop(start());
    host.pause(false);
    host.run_for(10);
    assert_eq!(n_puts(&host), 0, "nobody wants it");

    let call = start();
    host.run_for(10);
    drop(call);
    host.run_for(10_000);
    assert_eq!((n_puts(&host), n_cancels(&host)), (1, 0));
    assert!(!sent(&host, "/v1/fs/notes/content")[0].is_aborted());
}

#[test]
fn who_stores_the_recovery_before_the_request_can_ask_later() {
    let host = puts(|_| FakeReply::network_error());
    let stored = Arc::new(Mutex::new(None));
    let on_dispatch: cells_driver::host::Callback<_> = {
        let (stored, host) = (Arc::clone(&stored), host.clone());
        Box::new(move |recovery| *stored.lock().unwrap() = Some((recovery, n_puts(&host))))
    };
    let options = FileMutationOptions { on_dispatch: Some(on_dispatch), ..FileMutationOptions::default() };
    let error = put(&host, options).unwrap_err();
    let (before, n_sent) = stored.lock().unwrap().take().unwrap();
    let after = error.file_recovery().unwrap();
    assert_eq!((n_sent, &before.operation_id, before.alias.as_str()), (0, &after.operation_id, "notes"));
    let FileChange::Replace { path, revision, size, sha256 } = &after.change else { panic!("{after:?}") };
    assert_eq!((path.as_str(), revision, size), ("a.md", &None, &Some(5)));
    let hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert_eq!(sha256.as_ref().map(|hash| hash.as_str()), Some(hello), "content in memory is hashed when in doubt");
}

#[test]
fn closing_and_disposing_leave_a_write_to_the_node() {
    for (case, end) in [
        ("close", (|storage: &FileStorage, _: &cells_driver::Client| storage.close()) as fn(&_, &_)),
        ("dispose", |_, client| client.dispose()),
    ] {
        let host = puts(|_| FakeReply::never());
        let client = client(&host);
        let connection = cells_driver::FileConnection::new(crate::node::connection(), "notes");
        let storage = host.block_on(client.file_storage(&connection, OperationOptions::default())).unwrap();
        let writes = storage.mutations().unwrap();
        let mut call = Box::pin(writes.mkdir("a", FileMutationOptions::default()));
        let host_ = host.clone();
        let mut write = Box::pin(writes.replace(
            "a",
            Upload::bytes("x"),
            ReplaceCondition::CreateOnly,
            FileMutationOptions::default(),
        ));
        assert!(host.block_on(async { futures::poll!(write.as_mut()) }).is_pending());
        host.run_for(10);
        end(&storage, &client);
        let error = host_.block_on(write).unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Cancelled, Some(Outcome::Unknown)), "{case}: {error}");
        let late = host.block_on(call.as_mut()).unwrap_err();
        assert_eq!(
            (late.kind(), late.outcome()),
            (ErrorKind::AccessDenied, Some(Outcome::NotStarted)),
            "{case}: {late}"
        );
        host.run_for(60_000);
        assert_eq!((n_puts(&host), n_cancels(&host)), (1, 0), "{case}");
    }
}

#[test]
fn a_write_of_a_client_that_is_not_driven_says_what_is_known() {
    let host = puts(|_| FakeReply::never());
    let writes = writes(&host);
    let options = FileMutationOptions::default;
    let mut call = Box::pin(writes.replace("a", Upload::bytes("x"), ReplaceCondition::CreateOnly, options()));
    assert!(host.block_on(async { futures::poll!(call.as_mut()) }).is_pending());
    host.run_for(10);
    host.drop_run();
    for (call, outcome) in [
        (call, Outcome::Unknown),
        (
            Box::pin(writes.replace("a", Upload::bytes("x"), ReplaceCondition::CreateOnly, options())),
            Outcome::NotStarted,
        ),
    ] {
        let error = host.block_on(call).unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Cancelled, Some(outcome)));
        assert!(error.message().contains("Run future"), "{error}");
    }
    assert_eq!(n_puts(&host), 1);
}

#[test]
fn a_changed_authorization_refuses_the_write_and_closes_the_binding() {
    let host = puts(|_| FakeReply::status(409, &json!({"code": "AUTHORIZATION_CHANGED"})));
    let writes = writes(&host);
    let options = FileMutationOptions::default;
    for (outcome, n) in [(Outcome::NotCommitted, 1), (Outcome::NotStarted, 1)] {
        let call = writes.replace("a", Upload::bytes("x"), ReplaceCondition::CreateOnly, options());
        let error = host.block_on(call).unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::AccessDenied, Some(outcome)));
        assert_eq!((error.remote_code(), n_puts(&host)), (Some("AUTHORIZATION_CHANGED"), n));
    }
}
