//! Sources that are shared, and what is asked of a node before one is opened.

use cells_driver::{
    Cancellation, Client, Connection, Error, ErrorKind, FileConnection, FileMutationOptions, FileSource,
    OperationOptions, Outcome, ReadOptions, ReplaceCondition, Result, Secret, Upload,
};
use cells_testkit::fake_host::{FakeHost, FakeReply, FakeRequest};
use futures::future::join_all;
use serde_json::{Value, json};

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{client, connection, host, sent, within};

fn notes() -> FileConnection {
    FileConnection::new(connection(), "notes")
}

fn pinned(revision: &str) -> Connection {
    let snapshot = json!({"principalId": "owner", "anonymous": false, "revision": revision});
    Connection { authorization: Some(serde_json::from_value(snapshot).unwrap()), ..connection() }
}

fn open(host: &FakeHost, client: &Client, connection: &FileConnection) -> Result<FileSource> {
    host.block_on(client.open(connection, OperationOptions::default()))
}

fn stat(host: &FakeHost, source: &FileSource, path: &str) -> Result<Option<u64>> {
    let stat = host.block_on(source.fs().stat(path, OperationOptions::default()))?;
    Ok(stat.and_then(|stat| stat.size))
}

fn n_opened(host: &FakeHost) -> usize {
    sent(host, "/v1/exports").len()
}

/// A node whose exports take 100 ms.
fn slow_exports() -> FakeHost {
    host(|request| (request.path() == "/v1/exports").then(|| exports("rw").delay(100)))
}

fn exports(access: &str) -> FakeReply {
    let export = json!({"alias": "notes", "access": access, "nameSemantics": "source", "strongRevision": true});
    FakeReply::json(&json!({"version": 1, "exports": [export, {"alias": "ref"}]}))
}

#[test]
fn equal_connections_share_a_source_and_the_last_handle_closes_it() {
    let host = slow_exports();
    let client = client(&host);
    let connection = notes();
    let calls = [1, 2, 3].map(|_| client.open(&connection, OperationOptions::default()));
    let sources: Vec<FileSource> = host.block_on(join_all(calls)).into_iter().map(Result::unwrap).collect();
    assert_eq!((n_opened(&host), sources[0].fs().view_id()), (1, "http:office"));

    sources[0].dispose();
    sources[0].dispose();
    let error = stat(&host, &sources[0], "/a").unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::AccessDenied, "stat"), "{error}");
    assert_eq!(stat(&host, &sources[1], "/abc").unwrap(), Some(3), "the others go on");
    drop(sources);

    let again = open(&host, &client, &notes()).unwrap();
    assert_eq!(n_opened(&host), 2, "the last one closed it");
    assert_eq!(stat(&host, &again, "/ab").unwrap(), Some(2));
}

#[test]
fn connections_that_differ_in_anything_have_sources_of_their_own() {
    let host = host(|request| (request.path() == "/v1/exports").then(|| exports("rw")));
    let client = client(&host);
    client.set_credential("home", Secret::new("key-9876543210"));
    let at = |connection: Connection| FileConnection::new(connection, "notes");
    let connections = [
        notes(),
        at(Connection::new("http://other", "office")),
        FileConnection::new(connection(), "ref"),
        at(Connection::new("http://node", "home")),
        at(Connection { username: Some("ann".to_owned()), ..connection() }),
        at(Connection::anonymous("http://node")),
        at(pinned("r1")),
        at(pinned("r2")),
    ];
    let mut sources = Vec::new();
    for connection in &connections {
        let n_before = n_opened(&host);
        sources.push(open(&host, &client, connection).unwrap());
        sources.push(open(&host, &client, connection).unwrap());
        assert_eq!(n_opened(&host), n_before + 1, "{connection:?}");
    }
}

#[test]
fn an_opener_that_leaves_does_not_disturb_the_others_and_the_last_one_aborts() {
    let host = slow_exports();
    let client = client(&host);
    let (cancel, token) = Cancellation::new();
    let connection = notes();
    let impatient = client.open(&connection, within(20));
    let cancelled = client.open(&connection, OperationOptions { cancel: Some(token), ..OperationOptions::default() });
    let mut dropped = Some(Box::pin(client.open(&connection, OperationOptions::default())));
    let patient = client.open(&connection, OperationOptions::default());
    let others = async {
        if let Some(call) = &mut dropped {
            assert!(futures::poll!(call.as_mut()).is_pending());
        }
        cells_driver::host::Host::sleep(&host, 50).await;
        cancel.cancel();
        dropped = None;
    };
    let (impatient, cancelled, patient, ()) =
        host.block_on(async { futures::join!(impatient, cancelled, patient, others) });
    assert_eq!(impatient.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(cancelled.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(stat(&host, &patient.unwrap(), "/abcd").unwrap(), Some(4));
    assert_eq!(n_opened(&host), 1);

    let error = host.block_on(client.open(&connection, within(20))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    host.run_for(1);
    assert!(sent(&host, "/v1/exports")[1].is_aborted(), "nobody waits for it");
    let error = host.block_on(client.open(&connection, within(0))).unwrap_err();
    assert_eq!((error.kind(), n_opened(&host)), (ErrorKind::TimedOut, 2), "nothing is sent");
}

#[test]
fn a_failed_start_is_told_to_all_and_not_kept() {
    let mut n = 0;
    let host = host(move |request| {
        n += u32::from(request.path() == "/v1/exports");
        match (request.path(), n) {
            ("/v1/exports", 1) => Some(FakeReply::network_error().delay(10)),
            _ => None,
        }
    });
    let client = client(&host);
    let connection = notes();
    let calls = [1, 2].map(|_| client.open(&connection, OperationOptions::default()));
    for result in host.block_on(join_all(calls)) {
        assert_eq!(result.unwrap_err().operation(), "connect");
    }
    assert_eq!(n_opened(&host), 1);
    assert!(open(&host, &client, &connection).is_ok());
    let error = open(&host, &client, &FileConnection::new(self::connection(), "gone")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    let error = open(&host, &client, &FileConnection::new(self::connection(), "a/b")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[test]
fn the_last_release_ends_calls_under_way() {
    let host = host(|request| request.path().contains("/entries").then(FakeReply::never));
    let client = client(&host);
    let source = open(&host, &client, &notes()).unwrap();
    let other = open(&host, &client, &notes()).unwrap();
    let fs = source.fs().clone();
    let mut list = Box::pin(fs.list("/", OperationOptions::default()));
    assert!(host.block_on(async { futures::poll!(list.as_mut()) }).is_pending());
    drop(source);
    assert!(host.block_on(async { futures::poll!(list.as_mut()) }).is_pending(), "another handle keeps the source");
    drop(other);
    assert_eq!(host.block_on(list).unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn an_unshared_source_is_its_own() {
    let host = host(|_| None);
    let client = client(&host);
    let open = |view: Option<&str>| {
        let view = view.map(str::to_owned);
        host.block_on(client.open_http_file_source(&notes(), view, OperationOptions::default())).unwrap()
    };
    let (one, two) = (open(None), open(Some("mine")));
    assert_eq!((one.fs().view_id(), two.fs().view_id(), n_opened(&host)), ("http:notes", "mine", 2));
    one.dispose();
    assert_eq!(stat(&host, &one, "/a").unwrap_err().kind(), ErrorKind::AccessDenied);
    assert_eq!(stat(&host, &two, "/a").unwrap(), Some(1));
    client.dispose();
    let error = stat(&host, &two, "/a").unwrap_err();
    assert!(error.message().contains("disposed"), "{error}");
}

#[test]
fn disposing_of_the_client_closes_every_source() {
    let host = slow_exports();
    let client = client(&host);
    let source = open(&host, &client, &notes()).unwrap();
    let reference = FileConnection::new(connection(), "ref");
    let mut waiting = Box::pin(client.open(&reference, OperationOptions::default()));
    assert!(host.block_on(async { futures::poll!(waiting.as_mut()) }).is_pending());
    client.dispose();
    assert!(host.block_on(waiting).is_err());
    assert_eq!(stat(&host, &source, "/a").unwrap_err().kind(), ErrorKind::AccessDenied);
    assert_eq!(open(&host, &client, &notes()).unwrap_err().kind(), ErrorKind::AccessDenied);
    drop((source, client));
    host.run_for(200);
    assert!(host.run_ended(), "nothing is left");
}

fn page(names: &[&str], next: Option<&str>, warnings: &[&str]) -> FakeReply {
    let kind = |name: &str| if name.starts_with("dir") { "directory" } else { "file" };
    let entry = |name: &&str| json!({"name": name, "stat": {"kind": kind(name)}});
    let entries: Vec<Value> = names.iter().map(entry).collect();
    FakeReply::json(&json!({"entries": entries, "nextCursor": next, "warnings": warnings}))
}

#[test]
fn a_listing_is_whole_or_an_error() {
    let host = host(|request| {
        let (path, query) = request.path().split_once('?')?;
        if path != "/v1/fs/notes/entries" {
            return None;
        }
        Some(match query {
            "path=two" => page(&["a", "b"], Some("c1"), &[]),
            "path=two&cursor=c1" => page(&["c"], None, &[]),
            "path=loop" | "path=loop&cursor=c1" => page(&["a"], Some("c1"), &[]),
            "path=strange" => page(&["a"], None, &["NON_UTF8_NAME"]),
            _ => page(&[], None, &[]),
        })
    });
    let source = open(&host, &client(&host), &notes()).unwrap();
    let list = |path: &str| {
        let entries = host.block_on(source.fs().list(path, OperationOptions::default()))?;
        Ok(entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>())
    };
    let how = |result: Result<Vec<String>>| result.map_err(|error| (error.kind(), error.operation().to_owned()));
    assert_eq!(how(list("/two")).unwrap(), ["a", "b", "c"]);
    assert_eq!(how(list("/")).unwrap(), Vec::<String>::new());
    assert_eq!(how(list("/strange")).unwrap_err().0, ErrorKind::Unsupported);
    assert_eq!(how(list("/loop")).unwrap_err(), (ErrorKind::Io, "protocol".to_owned()));
    assert_eq!(how(list("two")).unwrap_err().0, ErrorKind::Invalid);
    assert_eq!(how(list("/../two")).unwrap_err().0, ErrorKind::Invalid);
}

#[test]
fn virtual_paths_become_paths_of_the_export() {
    let committed = json!({"outcome": "committed", "result": {"kind": "file", "size": 1, "revision": "\"r:2\""}});
    let host = host(move |request| {
        let path = request.path();
        if path.starts_with("/v1/fs/notes/content") && request.body.is_empty() {
            return Some(FakeReply::bytes(200, "x").header("etag", "\"r:1\""));
        }
        (path.contains("/content") || path.contains("/mutate")).then(|| FakeReply::json(&committed))
    });
    let source = open(&host, &client(&host), &notes()).unwrap();
    let fs = source.fs();
    let read = host.block_on(fs.read("/a/b", ReadOptions::default())).unwrap();
    assert_eq!((&read.data[..], read.revision.as_deref()), (&b"x"[..], Some("\"r:1\"")));
    let condition = ReplaceCondition::Match("\"r:1\"".to_owned());
    let written = host.block_on(fs.replace("/a/b", Upload::bytes("y"), condition, FileMutationOptions::default()));
    assert_eq!(written.unwrap().value.revision.as_deref(), Some("\"r:2\""));
    host.block_on(fs.rename("/a/b", "/a/c", FileMutationOptions::default())).unwrap();
    host.block_on(fs.delete("/a/c", FileMutationOptions::default())).unwrap();
    host.block_on(fs.mkdir("/d", FileMutationOptions::default())).unwrap();
    let contents = sent(&host, "/v1/fs/notes/content");
    assert!(contents.iter().all(|request| request.path().ends_with("?path=a%2Fb")), "{contents:?}");
    let changes: Vec<Value> = sent(&host, "/v1/fs/notes/mutate").iter().map(FakeRequest::json).collect();
    let expected = [
        json!({"action": "rename", "path": "a/b", "to": "a/c"}),
        json!({"action": "remove", "path": "a/c"}),
        json!({"action": "mkdir", "path": "d"}),
    ];
    for (change, expected) in changes.iter().zip(&expected) {
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&change[name], value, "{change}");
        }
    }
    assert_eq!(changes.len(), 3);
}

#[test]
fn an_export_without_writes_is_read_only() {
    let host = host(|request| (request.path() == "/v1/exports").then(|| exports("ro")));
    let source = open(&host, &client(&host), &notes()).unwrap();
    let fs = source.fs();
    let options = FileMutationOptions::default;
    let n_requests = host.requests().len();
    let errors: Vec<Error> = vec![
        host.block_on(fs.replace("/a", Upload::bytes("y"), ReplaceCondition::CreateOnly, options())).unwrap_err(),
        host.block_on(fs.mkdir("/a", options())).unwrap_err(),
        host.block_on(fs.delete("/a", options())).unwrap_err(),
        host.block_on(fs.rename("/a", "/b", options())).unwrap_err(),
    ];
    for error in errors {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::ReadOnly, Some(Outcome::NotStarted)), "{error}");
    }
    assert_eq!(host.requests().len(), n_requests);
}

#[test]
fn a_changed_authorization_closes_the_sources_and_streams_of_its_snapshot_only() {
    let mut n_exports = 0;
    let host = host(move |request| match request.path() {
        "/v1/exports" => {
            n_exports += 1;
            // The third question finds that the grants have changed.
            Some(if n_exports == 3 {
                FakeReply::status(409, &json!({"code": "AUTHORIZATION_CHANGED"}))
            } else {
                exports("rw")
            })
        }
        path if path.contains("/content") => Some(
            FakeReply::bytes(200, "").header("content-length", "10").without_length().chunk("12345").wait(u64::MAX),
        ),
        path if path.contains("/entries") => Some(FakeReply::never()),
        _ => None,
    });
    let client = client(&host);
    let of = |revision: &str| FileConnection::new(pinned(revision), "notes");
    let (old, other) = (open(&host, &client, &of("r1")).unwrap(), open(&host, &client, &of("r2")).unwrap());
    let files = client.files(&of("r1")).unwrap();
    let mut stream = host.block_on(files.read_stream("big", ReadOptions::default())).unwrap();
    assert_eq!(host.block_on(stream.next()).unwrap().as_deref(), Some(&b"12345"[..]));
    let fs = old.fs().clone();
    let refused = host.block_on(async {
        let list = fs.list("/", OperationOptions::default());
        let check = async {
            cells_driver::host::Host::sleep(&host, 10).await;
            client.check(&pinned("r1"), OperationOptions::default()).await
        };
        let (list, next, check) = futures::join!(list, stream.next(), check);
        [list.map(drop).unwrap_err(), next.map(drop).unwrap_err(), check.unwrap_err()]
    });
    let n_requests = host.requests().len();
    let after = [
        stat(&host, &old, "/a").map(drop).unwrap_err(),
        host.block_on(stream.next()).map(drop).unwrap_err(),
        host.block_on(files.stat("a", OperationOptions::default())).map(drop).unwrap_err(),
        host.block_on(old.fs().mkdir("/a", FileMutationOptions::default())).map(drop).unwrap_err(),
    ];
    for error in refused.iter().chain(&after) {
        assert_eq!(
            (error.kind(), error.remote_code()),
            (ErrorKind::AccessDenied, Some("AUTHORIZATION_CHANGED")),
            "{error}"
        );
    }
    assert_eq!(host.requests().len(), n_requests, "nothing is sent through the old binding");
    assert_eq!(stat(&host, &other, "/ab").unwrap(), Some(2), "another snapshot goes on");
    drop(old);
    assert!(open(&host, &client, &of("r1")).is_ok(), "a new source asks the node again");
}

#[test]
fn a_mutation_that_finds_a_changed_authorization_is_not_committed() {
    let host = host(|request| {
        let is_write = request.path().contains("/mutate");
        is_write.then(|| FakeReply::status(409, &json!({"code": "AUTHORIZATION_CHANGED"})))
    });
    let client = client(&host);
    let source = open(&host, &client, &FileConnection::new(pinned("r1"), "notes")).unwrap();
    let error = host.block_on(source.fs().mkdir("/a", FileMutationOptions::default())).unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::AccessDenied, Some(Outcome::NotCommitted)), "{error}");
    assert_eq!(error.remote_code(), Some("AUTHORIZATION_CHANGED"));
    assert_eq!(stat(&host, &source, "/a").unwrap_err().remote_code(), Some("AUTHORIZATION_CHANGED"));
    assert_eq!(sent(&host, "/v1/fs/notes").len(), 1);
}

#[test]
fn every_request_of_a_pinned_source_carries_its_pins() {
    let host = host(|request| request.path().contains("/entries").then(|| page(&[], None, &[])));
    let client = client(&host);
    let source = open(&host, &client, &FileConnection::new(pinned("r1"), "notes")).unwrap();
    stat(&host, &source, "/a").unwrap();
    host.block_on(source.fs().list("/", OperationOptions::default())).unwrap();
    assert!(host.block_on(source.fs().read("/a", ReadOptions::default())).is_err());
    assert!(host.block_on(source.fs().mkdir("/a", FileMutationOptions::default())).is_err());
    assert!(host.requests().len() >= 5);
    for request in host.requests() {
        let pins = (request.header("x-fsagent-principal"), request.header("x-fsagent-principal-revision"));
        assert_eq!(pins, (Some("owner"), Some("r1")), "{request:?}");
    }
    let mismatch = Connection { anonymous: true, ..pinned("r1") };
    let error = open(&host, &client, &FileConnection::new(mismatch, "notes")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[test]
fn a_draft_is_checked_with_its_own_secret_and_changes_nothing() {
    let host = host(|request| {
        let is_good = request.header("authorization") == Some("Bearer draft");
        (request.path() == "/v1/exports" && !is_good).then(|| FakeReply::status(401, &json!({"code": "EACCES"})))
    });
    let client = client(&host);
    let check = |secret: Option<&str>| {
        host.block_on(client.check_draft(&connection(), secret.map(Secret::new), OperationOptions::default()))
    };
    assert!(check(Some("draft")).is_ok());
    for stored in
        [check(None), check(Some("")), host.block_on(client.check(&connection(), OperationOptions::default()))]
    {
        let error = stored.unwrap_err();
        assert_eq!((error.kind(), error.status()), (ErrorKind::AccessDenied, Some(401)));
    }
    let sent: Vec<_> =
        host.requests().iter().map(|request| request.header("authorization").unwrap().to_owned()).collect();
    assert_eq!(sent, ["Bearer draft", "Bearer key-0123456789", "Bearer key-0123456789", "Bearer key-0123456789"]);
    let unknown = Connection::new("http://node", "unknown");
    assert!(
        host.block_on(client.check_draft(&unknown, Some(Secret::new("draft")), OperationOptions::default())).is_ok()
    );
}

#[test]
fn browsing_shows_exports_and_then_directories_only() {
    let host = host(|request| {
        if request.path() == "/v1/exports" {
            return Some(exports("rw"));
        }
        let (path, query) = request.path().split_once('?')?;
        Some(match (path, query) {
            ("/v1/fs/notes/entries", "path=") => page(&["a.md", "dir 1", "dir2"], Some("c1"), &["UNSUPPORTED_NODE"]),
            ("/v1/fs/notes/entries", "path=&cursor=c1") => page(&["z"], None, &[]),
            ("/v1/fs/notes/entries", "path=dir%201%2Fdir2") => page(&["dir3"], None, &[]),
            _ => FakeReply::status(404, &json!({"code": "ENOENT"})),
        })
    });
    let client = client(&host);
    let browse = |path: &str, cursor: Option<&str>| {
        let page = host.block_on(client.browse(&connection(), path, cursor, OperationOptions::default()));
        page.map(|page| (page.paths.join(" | "), page.next_cursor)).map_err(|error| error.kind())
    };
    for (path, cursor, expected) in [
        ("/", None, Ok(("/notes | /ref", None))),
        ("/notes", None, Ok(("/notes/dir 1 | /notes/dir2", Some("c1")))),
        ("/notes", Some("c1"), Ok(("", None))),
        ("/notes/dir 1/dir2", None, Ok(("/notes/dir 1/dir2/dir3", None))),
        ("/notes/gone", None, Err(ErrorKind::NotFound)),
        ("", None, Err(ErrorKind::Invalid)),
        ("notes", None, Err(ErrorKind::Invalid)),
        ("/no tes", None, Err(ErrorKind::Invalid)),
        ("/notes/", None, Err(ErrorKind::Invalid)),
        ("/notes//a", None, Err(ErrorKind::Invalid)),
        ("/notes/../a", None, Err(ErrorKind::Invalid)),
    ] {
        let expected = expected.map(|(paths, next)| (paths.to_owned(), next.map(str::to_owned)));
        assert_eq!(browse(path, cursor), expected, "{path} {cursor:?}");
    }
}

#[test]
fn opening_and_releasing_leaves_nothing_behind() {
    let host = host(|_| None);
    let client = client(&host);
    for round in 0..300 {
        let source = open(&host, &client, &notes()).unwrap();
        assert_eq!(n_opened(&host), round + 1);
        drop(source);
    }
    drop(client);
    host.run_for(10);
    assert!(host.run_ended(), "no source keeps the client alive");
}
