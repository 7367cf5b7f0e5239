//! What hosts rely on in the file part of the driver (`driver-api.md` §10, item 16): one test for each of its six words.

use cells_driver::{
    Cancellation, Connection, ErrorKind, FileConnection, FileMutationOptions, OperationOptions, Outcome, ReadOptions,
    ReplaceCondition, Secret, Upload,
};
use cells_testkit::fake_host::{FakeHost, FakeReply, FakeRequest};
use futures::future::join_all;
use serde_json::json;

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{host, sent, storage};

#[test]
fn stat_batching() {
    let host = host(|_| None);
    let storage = storage(&host);
    let stat = |path: &str| storage.files().stat(path, OperationOptions::default());
    // 300 paths, each asked for twice in one turn.
    let calls: Vec<_> = (0..600).map(|n| stat(&format!("file-{}", n % 300))).collect();
    let results = host.block_on(join_all(calls));
    assert!(results.iter().enumerate().all(|(n, result)| {
        let size = format!("file-{}", n % 300).len() as u64;
        result.as_ref().unwrap().as_ref().unwrap().size == Some(size)
    }));
    let sizes: Vec<_> = sent(&host, "/v1/fs/notes/stat").iter().map(n_paths).collect();
    assert_eq!(sizes, [256, 44], "one request for 256 paths, each path once");

    // A missing file is none; a failure is an error, of its own caller only; the next turn asks anew.
    let results = host.block_on(join_all(["gone", "closed", "file-1"].map(stat)));
    assert_eq!(results[0].as_ref().unwrap(), &None);
    assert_eq!(results[1].as_ref().unwrap_err().kind(), ErrorKind::AccessDenied);
    assert!(results[2].as_ref().unwrap().is_some());
    assert_eq!(sent(&host, "/v1/fs/notes/stat").len(), 3);
}

fn n_paths(request: &FakeRequest) -> usize {
    request.json()["paths"].as_array().unwrap().len()
}

#[test]
fn range_checks() {
    let part = |range: &str, body: &str| FakeReply::bytes(206, body.to_owned()).header("content-range", range);
    for (case, reply, expected) in [
        ("as asked", part("bytes 4-6/10", "456"), Ok("456")),
        ("the file ends before", part("bytes 4-5/6", "45"), Ok("45")),
        ("the whole file, sliced", FakeReply::bytes(200, "0123456789"), Ok("456")),
        ("the whole file, of unknown length", FakeReply::bytes(200, "0123456789").without_length(), Err(ErrorKind::Io)),
        ("another part", part("bytes 3-5/10", "345"), Err(ErrorKind::Io)),
        ("less than there is", part("bytes 4-5/10", "45"), Err(ErrorKind::Io)),
        ("no Content-Range", FakeReply::bytes(206, "456"), Err(ErrorKind::Io)),
        ("cut off", part("bytes 4-6/10", "45").without_length(), Err(ErrorKind::Io)),
        ("beyond the end", FakeReply::bytes(416, "").header("content-range", "bytes */3"), Err(ErrorKind::Invalid)),
    ] {
        let mut reply = Some(reply);
        let host = host(move |request| request.path().contains("/content").then(|| reply.take().unwrap()));
        let options = ReadOptions { offset: 4, length: Some(3), ..ReadOptions::default() };
        let read = host.block_on(storage(&host).files().read("a", options));
        assert_eq!(read.map(|content| content.data).map_err(|error| error.kind()), expected.map(Into::into), "{case}");
        assert_eq!(sent(&host, "/v1/fs/notes/content")[0].header("range"), Some("bytes=4-6"), "{case}");
    }
}

#[test]
fn definite_rejection_or_unknown() {
    for (case, reply, outcome) in [
        ("4xx with a code", FakeReply::status(403, &json!({"code": "EROFS"})), Outcome::NotCommitted),
        ("4xx without one", FakeReply::bytes(400, "no"), Outcome::NotCommitted),
        (
            "a receipt of any status",
            FakeReply::status(500, &json!({"outcome": "not-committed", "code": "EIO"})),
            Outcome::NotCommitted,
        ),
        ("an id in use", FakeReply::status(409, &json!({"code": "OPERATION_ID_REUSED"})), Outcome::Unknown),
        ("5xx", FakeReply::status(500, &json!({"code": "EIO"})), Outcome::Unknown),
        ("malformed success", FakeReply::bytes(200, "{}"), Outcome::Unknown),
        ("broken reply", FakeReply::bytes(200, "{").broken(), Outcome::Unknown),
        ("no reply", FakeReply::network_error(), Outcome::Unknown),
    ] {
        let mut reply = Some(reply);
        let host = host(move |request| match request.path() {
            "/v1/fs/notes/mutate" => Some(reply.take().expect("sent twice")),
            path if path.ends_with("/cancel") => Some(FakeReply::json(&json!({"outcome": "committed"}))),
            _ => None,
        });
        let storage = storage(&host);
        let call = storage.mutations().unwrap().mkdir("a", FileMutationOptions::default());
        let error = host.block_on(call).unwrap_err();
        assert_eq!(error.outcome(), Some(outcome), "{case}: {error}");
        host.run_for(60_000);
        let id = error.operation_id().unwrap();
        let questions = sent(&host, "/v1/fs/notes/operations");
        let paths: Vec<_> = questions.iter().map(FakeRequest::path).collect();
        let stop = format!("/v1/fs/notes/operations/{id}/cancel");
        let expected = if outcome == Outcome::Unknown { vec![stop.as_str()] } else { vec![] };
        assert_eq!(paths, expected, "{case}: a rejection starts no question");
    }
}

#[test]
fn colon_names() {
    let committed = json!({"outcome": "committed", "result": {"kind": "file", "size": 1}});
    let host = host(move |request| {
        (request.path().contains("/content") || request.path().ends_with("/mutate"))
            .then(|| FakeReply::json(&committed))
    });
    let storage = storage(&host);
    let writes = storage.mutations().unwrap();
    let options = FileMutationOptions::default;
    for path in ["2024:Q1.md", "a/b:c", "a/C:", ":", "é:x"] {
        let create = ReplaceCondition::CreateOnly;
        host.block_on(writes.replace(path, Upload::bytes("x"), create, options())).unwrap();
        host.block_on(writes.rename(path, "other", options())).unwrap();
        assert!(host.block_on(storage.files().stat(path, OperationOptions::default())).unwrap().is_some());
        let mutation = sent(&host, "/v1/fs/notes/mutate").pop().unwrap();
        assert_eq!(mutation.json()["path"], path);
    }
    assert_eq!(sent(&host, "/v1/fs/notes/content")[0].path(), "/v1/fs/notes/content?path=2024%3AQ1.md");
    for path in ["C:", "c:/x", "Z:notes"] {
        let error = host.block_on(storage.files().stat(path, OperationOptions::default())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{path} looks like a drive");
    }
}

#[test]
fn utf8_basic() {
    let host = host(|_| None);
    let client = host.client(Default::default());
    client.set_credential("office", Secret::new("pässword:x"));
    let connection = Connection { username: Some("jürgen".to_owned()), ..Connection::new("http://node", "office") };
    let connection = FileConnection::new(connection, "notes");
    host.block_on(client.file_storage(&connection, OperationOptions::default())).unwrap();
    let header = host.requests()[0].header("authorization").map(str::to_owned);
    // The UTF-8 bytes of `jürgen:pässword:x`, in the alphabet of base64 with padding.
    assert_eq!(header.as_deref(), Some("Basic asO8cmdlbjpww6Rzc3dvcmQ6eA=="));
    for username in ["", "a:b", "a\nb"] {
        let mut refused = connection.clone();
        refused.connection.username = Some(username.to_owned());
        let error = host.block_on(client.file_storage(&refused, OperationOptions::default())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{username:?}");
    }
}

#[test]
fn cancellation_on_the_wire() {
    let host = host(|request| {
        (request.path().contains("/content") || request.path().ends_with("/stat")).then(FakeReply::never)
    });
    let storage = storage(&host);
    let (cancel, token) = Cancellation::new();
    let options = || OperationOptions { timeout_ms: None, cancel: Some(token.clone()) };
    let mut read = Box::pin(storage.files().read("a", ReadOptions { operation: options(), ..ReadOptions::default() }));
    let mut stat = storage.files().stat("a", options());
    let mut other = storage.files().stat("b", OperationOptions::default());
    assert!(host.block_on(async { futures::poll!(read.as_mut()) }).is_pending());
    assert!(host.block_on(async { futures::poll!(&mut stat) }).is_pending());
    assert!(host.block_on(async { futures::poll!(&mut other) }).is_pending());
    host.run_for(10);
    cancel.cancel();
    assert_eq!(host.block_on(read).unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(host.block_on(stat).unwrap_err().kind(), ErrorKind::Cancelled);
    let aborted = |host: &FakeHost, path: &str| sent(host, path)[0].is_aborted();
    assert!(aborted(&host, "/v1/fs/notes/content"), "a request that nobody wants is aborted");
    assert!(!aborted(&host, "/v1/fs/notes/stat"), "one that somebody wants is not");
    drop(other);
    host.run_for(10);
    assert!(aborted(&host, "/v1/fs/notes/stat"));
}
