//! Writes to running nodes: what is on their disks afterwards, with and without faults of the network.

use std::any::Any;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cells_driver::{
    Cancellation, Connection, ErrorKind, FileConnection, FileKind, FileMutationOptions, FileMutations, FileReceipt,
    FileStorage, OperationOptions, Outcome, ReadOptions, ReplaceCondition, Secret, SeqChange, Upload,
};
use cells_testkit::fault_proxy::{Fault, FaultProxy, Plan, Rule};
use cells_testkit::old_node::{OldCredential, OldExport, OldNode, OldNodeOptions};
use futures::{StreamExt, stream};
use serde_json::json;

use crate::stage::{Stage, content, sha256};

/// A writable export of a running node behind a fault proxy.
struct Target {
    name: &'static str,
    storage: FileStorage,
    proxy: FaultProxy,
    directory: PathBuf,
    /// What ends with the target.
    _kept: Box<dyn Any>,
}

impl Target {
    /// The local node, and one of the generation before.
    async fn both() -> [Self; 2] {
        [Self::local().await, Self::old().await]
    }

    async fn local() -> Self {
        let stage = Stage::new().await;
        let directory = stage.path("work", "");
        let proxy = FaultProxy::start(address(&stage.direct)).await.unwrap();
        let connection = FileConnection::new(Connection::new(proxy.url(), "home"), "work");
        let storage = stage.client.file_storage(&connection, OperationOptions::default()).await.unwrap();
        Self { name: "local", storage, proxy, directory, _kept: Box::new(stage) }
    }

    async fn old() -> Self {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("work");
        std::fs::create_dir(&directory).unwrap();
        let key = "key-0123456789abcdef-0123".to_owned();
        let export = OldExport { alias: "work".to_owned(), path: directory.clone(), writable: true };
        let options = OldNodeOptions::new(OldCredential::Token { token: key.clone() }, [export]);
        let node = OldNode::start(options).await.unwrap();
        let proxy = FaultProxy::start(node.address()).await.unwrap();
        let client = cells_native::spawn(Default::default()).unwrap();
        client.set_credential("home", Secret::new(key));
        let connection = FileConnection::new(Connection::new(proxy.url(), "home"), "work");
        let storage = client.file_storage(&connection, OperationOptions::default()).await.unwrap();
        Self { name: "old", storage, proxy, directory, _kept: Box::new((root, node)) }
    }

    fn writes(&self) -> &FileMutations {
        self.storage.mutations().unwrap()
    }

    fn on_disk(&self, path: &str) -> Option<Vec<u8>> {
        std::fs::read(self.directory.join(path)).ok()
    }

    /// Everything in the export, staging files too.
    fn names(&self) -> Vec<String> {
        let entry = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = std::fs::read_dir(&self.directory).unwrap().map(entry).collect();
        names.sort();
        names
    }

    fn n_sent(&self, what: &str) -> u64 {
        self.proxy.counts().paths.get(what).copied().unwrap_or(0)
    }
}

fn address(endpoint: &str) -> SocketAddr {
    endpoint.strip_prefix("http://").unwrap().parse().unwrap()
}

fn options() -> FileMutationOptions {
    FileMutationOptions::default()
}

const CREATE: ReplaceCondition = ReplaceCondition::CreateOnly;

#[tokio::test]
async fn files_and_names_are_written_as_the_conditions_say() {
    for target in Target::both().await {
        let target = &target;
        let writes = target.writes();
        let first = writes.replace("2024:ü.md", Upload::bytes("one"), CREATE, options()).await.unwrap();
        assert_eq!((first.value.kind, first.value.size), (FileKind::File, Some(3)));
        let revision = first.value.revision.unwrap();
        let exists = writes.replace("2024:ü.md", Upload::bytes("two"), CREATE, options()).await.unwrap_err();
        assert_eq!((exists.kind(), exists.outcome()), (ErrorKind::Conflict, Some(Outcome::NotCommitted)), "{exists}");

        let same = ReplaceCondition::Match(revision);
        let second = writes.replace("2024:ü.md", Upload::bytes("second"), same.clone(), options()).await.unwrap();
        let stale = writes.replace("2024:ü.md", Upload::bytes("third"), same, options()).await.unwrap_err();
        assert_eq!((stale.kind(), stale.outcome()), (ErrorKind::Conflict, Some(Outcome::NotCommitted)), "{stale}");
        let read = target.storage.files().read("2024:ü.md", ReadOptions::default()).await.unwrap();
        assert_eq!((&read.data[..], read.revision), (&b"second"[..], second.value.revision));

        writes.mkdir("sub", options()).await.unwrap();
        writes.rename("2024:ü.md", "sub/b", options()).await.unwrap();
        for (kind, result) in [
            (ErrorKind::AlreadyExists, writes.mkdir("sub", options()).await.map(drop)),
            (ErrorKind::NotEmpty, writes.remove("sub", options()).await.map(drop)),
            (ErrorKind::NotFound, writes.remove("gone", options()).await.map(drop)),
            (ErrorKind::AlreadyExists, writes.rename("sub/b", "sub", options()).await.map(drop)),
            (ErrorKind::NotFound, writes.replace("no/a", Upload::bytes(""), CREATE, options()).await.map(drop)),
        ] {
            let error = result.unwrap_err();
            assert_eq!((error.kind(), error.outcome()), (kind, Some(Outcome::NotCommitted)), "{error}");
        }
        assert_eq!(target.on_disk("sub/b").as_deref(), Some(&b"second"[..]));
        writes.remove("sub/b", options()).await.unwrap();
        writes.remove("sub", options()).await.unwrap();
        assert_eq!(target.names(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_is_sent_from_disk_with_progress() {
    for target in Target::both().await {
        let target = &target;
        let bytes = content(9_000_001);
        let source = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(source.path(), &bytes).unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let progress: cells_driver::host::Progress = {
            let told = Arc::clone(&told);
            Box::new(move |done, all| told.lock().unwrap().push((done, all)))
        };
        let upload = cells_native::upload_file(source.path()).await.unwrap();
        assert_eq!(upload.size(), Some(9_000_001));
        let with_progress = FileMutationOptions { progress: Some(progress), ..options() };
        let written = target.writes().replace("large", upload, CREATE, with_progress).await.unwrap();
        assert_eq!(written.value.size, Some(9_000_001));
        assert_eq!(sha256(&target.on_disk("large").unwrap()), sha256(&bytes));
        let told = told.lock().unwrap().clone();
        assert!(told.len() > 30 && told.is_sorted() && told.iter().all(|(_, all)| *all == 9_000_001), "{told:?}");
        assert_eq!(told.last(), Some(&(9_000_001, 9_000_001)));

        for changed in [&b"shorter"[..], &content(9_000_001)] {
            std::fs::write(source.path(), &bytes).unwrap();
            let upload = cells_native::upload_file(source.path()).await.unwrap();
            std::fs::write(source.path(), changed).unwrap();
            source.as_file().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            let error = target.writes().replace("changed", upload, CREATE, options()).await.unwrap_err();
            assert_eq!(error.outcome(), Some(Outcome::NotCommitted), "{error}");
            assert_eq!(target.on_disk("changed"), None);
        }

        let missing = cells_native::upload_file(Path::new("/nowhere/at all")).await.unwrap_err();
        assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
        assert!(cells_native::upload_file(target.directory.clone()).await.is_err());
    }
}

#[tokio::test]
async fn content_that_breaks_off_or_is_cancelled_leaves_nothing_behind() {
    for target in Target::both().await {
        let target = &target;
        let piece = || Ok(Bytes::from(vec![b'x'; 100_000]));
        let broken = || Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        for (size, pieces) in [
            (Some(900_000), vec![piece(), piece()]),
            (None, vec![piece(), piece(), broken()]),
            (Some(100_000), vec![piece(), piece()]),
        ] {
            let upload = Upload::stream(size, stream::iter(pieces));
            let error = target.writes().replace("a", upload, CREATE, options()).await.unwrap_err();
            assert_eq!(error.outcome(), Some(Outcome::NotCommitted), "{error}");
        }

        let (cancel, token) = Cancellation::new();
        let endless = stream::iter([piece()]).chain(stream::once(async move {
            cancel.cancel();
            std::future::pending().await
        }));
        let operation = OperationOptions { timeout_ms: None, cancel: Some(token) };
        let with_token = FileMutationOptions { operation, ..options() };
        let upload = Upload::stream(Some(200_000), endless);
        let error = target.writes().replace("a", upload, CREATE, with_token).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Cancelled, Some(Outcome::NotCommitted)), "{error}");
        let receipt = target.storage.operation_status(error.operation_id().unwrap(), OperationOptions::default()).await;
        assert!(matches!(receipt, Ok(FileReceipt::NotCommitted { .. })), "{receipt:?}");

        // The node notices a broken connection in its own time.
        while target.names() != Vec::<String>::new() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn faults_of_the_network_leave_one_effect_at_most_and_are_settled() {
    for (case, fault, is_committed) in [
        ("before", Fault::ResetBefore, false),
        ("after", Fault::ResetAfter, true),
        ("cut off", Fault::Truncate { at: 9 }, true),
        ("corrupt", Fault::Corrupt { at: 0, xor: 255 }, true),
        ("late reply", Fault::DelayReply { ms: 30_000 }, true),
    ] {
        for target in Target::both().await {
            let case = format!("{case}, {} node", target.name);
            let writes = target.writes();
            let old = writes.replace("a", Upload::bytes("old"), CREATE, options()).await.unwrap();
            let condition = ReplaceCondition::Match(old.value.revision.unwrap());
            target.proxy.set_plan(Plan::new([Rule::path("/v1/fs/work/content", fault).first(1)]));
            target.proxy.reset_counts();
            let operation = OperationOptions { timeout_ms: Some(1_000), cancel: None };
            let bounded = FileMutationOptions { operation, ..options() };
            let error = writes.replace("a", Upload::bytes("new"), condition, bounded).await.unwrap_err();
            assert_eq!(error.outcome(), Some(Outcome::Unknown), "{case}: {error}");

            let recovery = error.file_recovery().unwrap();
            assert_eq!(recovery.durable, target.name == "local", "{case}");
            let settled = target.storage.settle(recovery, OperationOptions::default()).await.unwrap();
            let content = match settled {
                FileReceipt::Committed { .. } if is_committed => "new",
                FileReceipt::NotCommitted { .. } if !is_committed => "old",
                receipt => panic!("{case}: {receipt:?}"),
            };
            assert_eq!(target.on_disk("a").as_deref(), Some(content.as_bytes()), "{case}");
            assert_eq!(target.names(), ["a"], "{case}");
            assert_eq!(target.n_sent("PUT /v1/fs/work/content"), 1, "{case}: never sent again");
        }
    }
}

#[tokio::test]
async fn a_node_that_cannot_be_reached_has_started_nothing() {
    for target in Target::both().await {
        target.proxy.refuse().await;
        // A connection that was kept alive may break while it is used; the next ones are not made at all.
        let mut outcomes = Vec::new();
        for _ in 0..3 {
            let error = target.writes().mkdir("sub", options()).await.unwrap_err();
            assert_eq!((error.kind(), error.operation(), error.status()), (ErrorKind::Io, "connect", None), "{error}");
            outcomes.push(error.outcome().unwrap());
        }
        assert_eq!(outcomes.last(), Some(&Outcome::NotStarted), "{outcomes:?}");
        target.proxy.listen().await;
        target.writes().mkdir("sub", options()).await.unwrap();
    }
}

#[tokio::test]
async fn a_write_whose_caller_is_gone_is_followed_to_its_end() {
    for target in Target::both().await {
        let target = &target;
        let (sent, dispatched) = tokio::sync::oneshot::channel();
        let on_dispatch: cells_driver::host::Callback<_> = Box::new(move |recovery| {
            let _ = sent.send(recovery);
        });
        let with_callback = FileMutationOptions { on_dispatch: Some(on_dispatch), ..options() };
        let recovery = {
            let write = target.writes().replace("a", Upload::bytes("x"), CREATE, with_callback);
            tokio::select! {
                biased;
                recovery = dispatched => recovery.unwrap(),
                result = write => panic!("{result:?}"),
            }
        };
        let receipt = loop {
            match target.storage.operation_status(&recovery.operation_id, OperationOptions::default()).await {
                Ok(FileReceipt::Running) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => tokio::task::yield_now().await,
                receipt => break receipt.unwrap(),
            }
        };
        assert!(matches!(receipt, FileReceipt::Committed { result: Some(_) }), "{receipt:?}");
        assert_eq!(target.on_disk("a").as_deref(), Some(&b"x"[..]));
    }
}

#[tokio::test]
async fn a_seq_file_changes_from_revision_to_revision() {
    for target in Target::both().await {
        let target = &target;
        let seq = target.storage.seq();
        let none = seq.snapshot("info.seq", OperationOptions::default()).await.unwrap();
        assert_eq!((none.revision, none.entries.len()), (None, 0));
        let set = |key: &str, value| SeqChange::Set { key: key.to_owned(), value };
        let changes = [set("b", json!([1, null])), set("a", json!("ü")), SeqChange::Delete { key: "none".into() }];
        let first = seq.transaction("info.seq", None, &changes, options()).await.unwrap();
        let again = seq.transaction("info.seq", None, &changes, options()).await.unwrap_err();
        assert_eq!((again.kind(), again.outcome()), (ErrorKind::Conflict, Some(Outcome::NotCommitted)), "{again}");
        let snapshot = seq.snapshot("info.seq", OperationOptions::default()).await.unwrap();
        assert_eq!(snapshot.revision, first.value.revision);
        let entries: Vec<_> = snapshot.entries.into_iter().map(|entry| (entry.key, entry.value)).collect();
        assert_eq!(entries, [("a".to_owned(), json!("ü")), ("b".to_owned(), json!([1, null]))]);
        let gone = [SeqChange::Delete { key: "a".into() }];
        seq.transaction("info.seq", snapshot.revision.as_deref(), &gone, options()).await.unwrap();
        assert_eq!(seq.snapshot("info.seq", OperationOptions::default()).await.unwrap().entries.len(), 1);
    }
}
