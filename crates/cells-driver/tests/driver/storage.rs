//! Opening an export: what may be done with it.

use cells_driver::{
    Access, ErrorKind, FileConnection, FileKind, FileMutationOptions, OperationOptions, Outcome, ReadOptions,
};
use cells_testkit::fake_host::{FakeHost, FakeReply};
use serde_json::{Value, json};

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{client, connection, host, storage};

fn exports(export: &Value) -> FakeHost {
    let export = export.clone();
    host(move |request| {
        (request.path() == "/v1/exports").then(|| FakeReply::json(&json!({"version": 1, "exports": [export]})))
    })
}

#[test]
fn writes_are_there_only_where_the_export_says_all_three() {
    for (export, is_writable) in [
        (json!({"access": "rw", "strongRevision": true, "nameSemantics": "source"}), true),
        (json!({"access": "ro", "strongRevision": true, "nameSemantics": "source"}), false),
        (json!({"strongRevision": true, "nameSemantics": "source"}), false),
        (json!({"access": "rw", "strongRevision": false, "nameSemantics": "source"}), false),
        (json!({"access": "rw", "nameSemantics": "source"}), false),
        (json!({"access": "rw", "strongRevision": true}), false),
        (json!({"access": "rw", "strongRevision": true, "nameSemantics": "folded"}), false),
    ] {
        let mut export = export;
        export["alias"] = json!("notes");
        let host = exports(&export);
        let storage = storage(&host);
        assert_eq!(storage.mutations().is_some(), is_writable, "{export}");
        assert_eq!(storage.access(), if is_writable { Access::Rw } else { Access::Ro });
        let transaction = host.block_on(storage.seq().transaction("a.seq", None, &[], FileMutationOptions::default()));
        let error = transaction.unwrap_err();
        assert_eq!(error.kind() == ErrorKind::ReadOnly, !is_writable, "{error}");
        assert_eq!(
            host.block_on(storage.files().stat("a", OperationOptions::default())).unwrap().unwrap().size,
            Some(1)
        );
    }
}

#[test]
fn an_export_that_is_not_listed_is_not_opened() {
    let host = exports(&json!({"alias": "other", "access": "rw"}));
    let open = |alias: &str| {
        let client = client(&host);
        host.block_on(client.file_storage(&FileConnection::new(connection(), alias), OperationOptions::default()))
    };
    for (alias, kind, text) in [
        (
            "notes",
            ErrorKind::AccessDenied,
            "open: the node has no export notes, or this credential may not see it (EACCES)",
        ),
        ("a/b", ErrorKind::Invalid, "alias"),
    ] {
        let error = open(alias).unwrap_err();
        assert_eq!((error.kind(), error.operation()), (kind, "open"));
        assert!(error.to_string().contains(text), "{error}");
    }
    assert!(open("other").is_ok());
}

#[test]
fn a_node_without_capabilities_is_opened_and_one_that_fails_is_not() {
    for (reply, expected) in [
        (FakeReply::bytes(404, ""), Ok(())),
        (FakeReply::status(500, &json!({"code": "EIO"})), Err((ErrorKind::Io, "capabilities"))),
        (FakeReply::network_error(), Err((ErrorKind::Io, "connect"))),
        (FakeReply::bytes(200, "{"), Err((ErrorKind::Io, "protocol"))),
    ] {
        let mut reply = Some(reply);
        let host = host(move |request| if request.path() == "/v1/capabilities" { reply.take() } else { None });
        let client = client(&host);
        let connection = FileConnection::new(connection(), "notes");
        let opened = host.block_on(client.file_storage(&connection, OperationOptions::default()));
        let seen = opened.map(drop).map_err(|error| (error.kind(), error.operation().to_owned()));
        assert_eq!(seen, expected.map_err(|(kind, operation)| (kind, operation.to_owned())));
    }
}

#[test]
fn closing_ends_what_is_under_way_and_refuses_the_rest() {
    let host = host(|request| request.path().contains("/entries").then(FakeReply::never));
    let storage = storage(&host);
    let files = storage.files().clone();
    let mut list = Box::pin(files.list("", None, OperationOptions::default()));
    assert!(host.block_on(async { futures::poll!(list.as_mut()) }).is_pending());
    let clone = storage.clone();
    clone.close();
    assert_eq!(host.block_on(list).unwrap_err().kind(), ErrorKind::Cancelled);
    let n_requests = host.requests().len();
    let refused = |error: cells_driver::Error| {
        assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    };
    refused(host.block_on(files.stat("a", OperationOptions::default())).unwrap_err());
    refused(host.block_on(files.list("", None, OperationOptions::default())).unwrap_err());
    refused(host.block_on(files.read("a", ReadOptions::default())).unwrap_err());
    refused(host.block_on(storage.seq().snapshot("a.seq", OperationOptions::default())).unwrap_err());
    let remove = storage.mutations().unwrap().remove("a", FileMutationOptions::default());
    let error = host.block_on(remove).unwrap_err();
    assert_eq!(error.outcome(), Some(Outcome::NotStarted));
    refused(error);
    assert_eq!(host.requests().len(), n_requests);
}

#[test]
fn the_type_of_an_entry_comes_with_the_same_batch() {
    let host = host(|_| None);
    let files = storage(&host).files().clone();
    let options = OperationOptions::default;
    let both = futures::future::join3(
        files.stat_type("a", options()),
        files.stat_type("gone", options()),
        files.stat_type("closed", options()),
    );
    let (file, gone, closed) = host.block_on(both);
    assert_eq!((file.unwrap(), gone.unwrap()), (Some(FileKind::File), None));
    assert_eq!(closed.unwrap_err().kind(), ErrorKind::AccessDenied);
    assert_eq!(crate::node::sent(&host, "/v1/fs/notes/stat").len(), 1);
}
