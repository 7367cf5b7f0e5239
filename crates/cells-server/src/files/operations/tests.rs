//! Writes that fail at each of their steps, and what a later start makes of those that did not end.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use axum::response::Response;
use cells_protocol::mutations::ReplaceCondition;
use rustix::io::Errno;
use serde_json::{Value, json};

use super::intent::{Identity, Intent, OpenPlace};
use super::*;
use crate::files::confine::{ExportPath, stat_open};
use crate::files::open_all;
use crate::files::staging::{make_directory, replace_from_bytes};

/// An export `rw` with the file `old`, and the writes of a node.
struct Stage {
    exports: Exports,
    operations: Arc<Operations>,
    directory: tempfile::TempDir,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    Create,
    Replace,
    Mkdir,
}

impl Stage {
    fn new(steps: Steps) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("rw")).unwrap();
        fs::write(directory.path().join("rw/old"), "old").unwrap();
        let exports = exports(directory.path());
        let operations = open(directory.path(), &exports, steps);
        Self { exports, operations, directory }
    }

    fn export(&self) -> Arc<Export> {
        Arc::clone(&self.exports[&Alias::new("rw").unwrap()])
    }

    /// Name and content of all that is in the export; directories have none.
    fn tree(&self) -> BTreeMap<String, Option<String>> {
        let entries = fs::read_dir(self.directory.path().join("rw")).unwrap();
        let entry =
            |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).ok());
        entries.map(|found| entry(found.unwrap())).collect()
    }

    async fn write(&self, id: &str, write: Write) -> (u16, Value) {
        let revision = crate::files::revision::revision(&stat_open(self.place("old").open_file().as_fd()).unwrap());
        let work = move |operation: Operation| async move {
            let job = move |operation: &Operation| {
                let path = |path: &str| ExportPath::parse(path).unwrap();
                match write {
                    Write::Create => {
                        replace_from_bytes(operation, &path("new"), &ReplaceCondition::CreateOnly, b"new").map(Some)
                    }
                    Write::Replace => {
                        let condition = ReplaceCondition::Match(revision);
                        replace_from_bytes(operation, &path("old"), &condition, b"new").map(Some)
                    }
                    Write::Mkdir => make_directory(operation, &path("new")).map(|()| None),
                }
            };
            operation.blocking(job).await
        };
        let deadline = Deadline::start(&HeaderMap::new()).unwrap();
        reply_of(self.operations.run(key(id), self.export(), deadline, work).await).await
    }

    fn place(&self, path: &str) -> At<'_> {
        At { stage: self, path: path.to_owned() }
    }
}

/// A name in the export.
struct At<'a> {
    stage: &'a Stage,
    path: String,
}

impl At<'_> {
    fn open(&self) -> OpenPlace {
        OpenPlace::open(&self.stage.export().root, &ExportPath::parse(self.path.as_str()).unwrap()).unwrap()
    }

    fn open_file(&self) -> fs::File {
        fs::File::open(self.stage.directory.path().join("rw").join(&self.path)).unwrap()
    }

    fn identity(&self) -> Identity {
        Identity::from(&stat_open(self.open_file().as_fd()).unwrap())
    }
}

fn exports(directory: &Path) -> Exports {
    open_all(&[format!("rw={}:rw", directory.join("rw").display()).parse().unwrap()]).unwrap()
}

fn open(directory: &Path, exports: &Exports, steps: Steps) -> Arc<Operations> {
    let server_id = ServerId::new("desk").unwrap();
    Operations::open(&directory.join("state"), &server_id, exports, Workers::new(), steps).unwrap()
}

fn key(id: &str) -> OperationKey {
    OperationKey::new(&PrincipalId::new("owner").unwrap(), &Alias::new("rw").unwrap(), id).unwrap()
}

async fn reply_of(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn a_full_disk_leaves_everything_as_it_was() {
    for step in [Step::Create, Step::Write, Step::Sync, Step::Effect] {
        for write in [Write::Create, Write::Replace, Write::Mkdir] {
            if (write, step) == (Write::Mkdir, Step::Write) {
                continue; // a folder has no content
            }
            let full = move |at: Step| if at == step { Err(Errno::NOSPC) } else { Ok(()) };
            let stage = Stage::new(Steps::new(full));
            let before = stage.tree();
            let receipt = json!({ "outcome": "not-committed", "code": "ENOSPC" });
            assert_eq!(stage.write("id", write).await, (507, receipt), "{write:?} {step:?}");
            assert_eq!(stage.tree(), before, "{write:?} {step:?}");
            let kept = stage.operations.status(key("id")).await.unwrap();
            assert_eq!(kept, Some(FileReceipt::NotCommitted { code: "ENOSPC".to_owned() }), "{write:?} {step:?}");
            assert_eq!(stage.write("id", write).await.0, 409, "{write:?} {step:?}");
        }
    }
}

#[tokio::test]
async fn a_failure_after_the_effect_takes_nothing_back() {
    for (write, name, content) in
        [(Write::Create, "new", Some("new")), (Write::Replace, "old", Some("new")), (Write::Mkdir, "new", None)]
    {
        let failing = |at: Step| if at == Step::Done { Err(Errno::IO) } else { Ok(()) };
        let stage = Stage::new(Steps::new(failing));
        let (status, receipt) = stage.write("id", write).await;
        assert_eq!((status, &receipt["outcome"]), (200, &json!("committed")), "{write:?}");
        assert_eq!(stage.tree().get(name), Some(&content.map(str::to_owned)), "{write:?}");
    }
}

#[tokio::test]
async fn work_that_panics_is_settled_by_looking() {
    for (step, committed) in [(Step::Sync, false), (Step::Effect, false), (Step::Done, true)] {
        let panicking = move |at: Step| if at == step { panic!("a mistake of this program") } else { Ok(()) };
        let stage = Stage::new(Steps::new(panicking));
        let (status, receipt) = stage.write("id", Write::Create).await;
        let outcome = if committed { "committed" } else { "not-committed" };
        assert_eq!((status, &receipt["outcome"]), (500, &json!(outcome)), "{step:?}: {receipt}");
        assert_eq!(stage.tree().contains_key("new"), committed, "{step:?}");
        assert!(stage.tree().keys().all(|name| name == "old" || name == "new"), "{step:?}: nothing else is left");
    }
}

#[tokio::test]
async fn a_claim_without_receipt_is_settled_by_the_next_start() {
    let stage = Stage::new(Steps::default());
    let (directory, rw) = (stage.directory.path(), stage.directory.path().join("rw"));
    fs::write(rw.join("staged"), "new").unwrap();
    fs::write(rw.join("other"), "other").unwrap();
    fs::create_dir(rw.join("gone")).unwrap();
    let (old, staged, other) =
        (stage.place("old").identity(), stage.place("staged").identity(), stage.place("other").identity());
    let place = |path: &str| stage.place(path).open().place().clone();
    let put = |at: &str, staged_name: &str, object, old| Intent::Place {
        at: place(at),
        staged: staged_name.to_owned(),
        object,
        old,
    };
    let moved = |from: &str, to: &str, object| Intent::Move { from: place(from), to: place(to), object };
    let remove = |at: &str, aside: Option<&str>, object| Intent::Remove {
        at: place(at),
        aside: aside.map(str::to_owned),
        object,
    };
    let in_gone = put("gone/x", "free", staged, None);
    fs::remove_dir(rw.join("gone")).unwrap();
    let (done, undone, unknown) = ("committed", "not-committed", "unknown");
    for (what, intent, expected) in [
        ("the new file has the name", put("staged", "free", staged, Some(old)), done),
        ("the new file is still staged, the old one stands", put("old", "staged", staged, Some(old)), undone),
        ("the new file is still staged, nothing stands", put("free", "staged", staged, None), undone),
        ("the old file stands, the new one is gone", put("old", "free", staged, Some(old)), undone),
        ("another file stands, the new one is gone", put("other", "free", staged, Some(old)), unknown),
        ("nothing stands, the new one is gone", put("free", "free2", staged, None), unknown),
        ("the directory is gone", in_gone, unknown),
        ("it is still where it was", moved("old", "free", old), undone),
        ("it is where it should be", moved("free", "old", old), done),
        ("it is in neither place", moved("free", "other", old), unknown),
        ("it is put aside", remove("free", Some("old"), old), done),
        ("it still has its name", remove("old", Some("free"), old), undone),
        ("another file has its name", remove("other", Some("free"), old), unknown),
        ("nothing has its name", remove("free", None, other), unknown),
    ] {
        let receipt = intent.look(&stage.export());
        let outcome = match receipt {
            FileReceipt::Committed { .. } => done,
            FileReceipt::NotCommitted { .. } => undone,
            FileReceipt::Unknown { .. } | FileReceipt::Running => unknown,
        };
        assert_eq!(outcome, expected, "{what}");
    }
    assert!(directory.join("state").exists());
}

#[tokio::test]
async fn a_node_remembers_so_many_writes_and_no_more() {
    let stage = Stage::new(Steps::default());
    {
        let mut ledger = stage.operations.lock();
        for at in 0..cells_protocol::limits::OPERATIONS_MAX {
            ledger.store.claim(&key(&format!("id-{at}"))).unwrap();
        }
    }
    assert_eq!(stage.write("one-more", Write::Create).await, (429, json!({ "code": "OPERATION_LIMIT" })));
    assert_eq!(stage.operations.cancel(key("unseen")).await, Err(Refusal::OPERATION_UNKNOWN));
    assert_eq!(stage.tree().len(), 1);
}
