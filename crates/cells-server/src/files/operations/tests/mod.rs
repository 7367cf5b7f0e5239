//! Writes that go wrong at each of their steps: what is answered, what stands then, and what the next start says.

mod interrupted;
mod receipts;
mod settling;
mod steps;

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use cells_protocol::ids::{Alias, PrincipalId};
use reqwest::{Method, RequestBuilder};
use rustix::io::Errno;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::OperationKey;
use crate::Execution;
use crate::events::Streams;
use crate::files::confine::stat_open;
use crate::files::exports::Export;
use crate::files::revision::revision;
use crate::files::steps::{Step, Steps};
use crate::testing::{TestNode, reply};

/// Every kind of write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    PutCreate,
    PutReplace,
    Mkdir,
    Rename,
    Remove,
    RemoveFolder,
    SeqCreate,
    SeqReplace,
}

impl Write {
    const ALL: [Self; 8] = [
        Self::PutCreate,
        Self::PutReplace,
        Self::Mkdir,
        Self::Rename,
        Self::Remove,
        Self::RemoveFolder,
        Self::SeqCreate,
        Self::SeqReplace,
    ];

    /// The steps before its effect, and the effect.
    fn steps(self) -> &'static [Step] {
        match self {
            Self::PutCreate | Self::PutReplace | Self::SeqCreate | Self::SeqReplace => {
                &[Step::Create, Step::Write, Step::Sync, Step::Effect]
            }
            Self::Mkdir => &[Step::Create, Step::Sync, Step::Effect],
            Self::Rename | Self::Remove | Self::RemoveFolder => &[Step::Effect],
        }
    }

    /// The names that it changes.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::PutCreate | Self::Mkdir => &["new"],
            Self::PutReplace | Self::Remove => &["old"],
            Self::Rename => &["old", "new"],
            Self::RemoveFolder => &["folder"],
            Self::SeqCreate => &["new.seq"],
            Self::SeqReplace => &["table.seq"],
        }
    }

    /// Whether the receipt describes a file.
    fn makes_file(self) -> bool {
        matches!(self, Self::PutCreate | Self::PutReplace | Self::SeqCreate | Self::SeqReplace)
    }
}

/// What happens at the steps of the writes; can be changed while the node runs.
#[derive(Clone, Default)]
struct Plan(Arc<Mutex<Option<Action>>>);

type Action = Box<dyn FnMut(Step) -> Result<(), Errno> + Send>;

impl Plan {
    fn set(&self, action: impl FnMut(Step) -> Result<(), Errno> + Send + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(action));
    }

    fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn steps(&self) -> Steps {
        let plan = self.clone();
        Steps::new(move |step| {
            let mut action = plan.0.lock().unwrap_or_else(PoisonError::into_inner);
            action.as_mut().map_or(Ok(()), |action| action(step))
        })
    }
}

/// Name and content of all that is in a directory, staging files included. Directories have no content.
type Tree = BTreeMap<String, Option<Vec<u8>>>;

/// A node whose writable export `files` holds the files `old` and `table.seq` and the empty directory `folder`.
struct Stage {
    node: TestNode,
    plan: Plan,
    table: Vec<u8>,
    directory: TempDir,
}

impl Stage {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let plan = Plan::default();
        let node = start_node(&directory, &plan).await;
        let stage = Self { node, plan, table: Vec::new(), directory };
        assert_eq!(reply(stage.seq("table.seq", None, "made").header("x-operation-id", "made")).await.0, 200);
        let stage = Self { table: fs::read(stage.path("table.seq")).unwrap(), ..stage };
        stage.reset();
        stage
    }

    /// The next start of the node. Nothing goes wrong in it.
    async fn restart(self) -> Self {
        self.node.stop().await;
        self.plan.clear();
        let node = start_node(&self.directory, &self.plan).await;
        Self { node, ..self }
    }

    /// Everything as it was at the start. The directory of the export itself stays: the node has it open.
    fn reset(&self) {
        self.plan.clear();
        for name in self.tree().into_keys() {
            let path = self.path(&name);
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
        fs::write(self.path("old"), "old").unwrap();
        fs::write(self.path("table.seq"), &self.table).unwrap();
        fs::create_dir(self.path("folder")).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("files").join(name)
    }

    fn export(&self) -> Arc<Export> {
        Arc::clone(self.node.app().files.exports.values().next().unwrap())
    }

    fn tree(&self) -> Tree {
        let entries = fs::read_dir(self.path("")).unwrap();
        let entry = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).ok());
        entries.map(|found| entry(found.unwrap())).collect()
    }

    /// Names of staging files and folders.
    fn hidden(&self) -> Vec<String> {
        self.tree().into_keys().filter(|name| name.starts_with('.')).collect()
    }

    fn revision(&self, name: &str) -> String {
        revision(&stat_open(fs::File::open(self.path(name)).unwrap().as_fd()).unwrap())
    }

    /// What is answered to this write of the owner.
    async fn write(&self, id: &str, write: Write) -> (u16, Value) {
        reply(self.request(id, write)).await
    }

    fn request(&self, id: &str, write: Write) -> RequestBuilder {
        let put = |path: &str, condition: (&str, &str)| {
            let route = format!("/v1/fs/files/content?path={path}");
            self.node.request(Method::PUT, &route).header(condition.0, condition.1).body("new")
        };
        let mutate = |body: Value| self.node.json("/v1/fs/files/mutate", &body);
        let request = match write {
            Write::PutCreate => put("new", ("if-none-match", "*")),
            Write::PutReplace => put("old", ("if-match", &self.revision("old"))),
            Write::Mkdir => mutate(json!({ "action": "mkdir", "path": "new" })),
            Write::Rename => mutate(json!({ "action": "rename", "path": "old", "to": "new" })),
            Write::Remove => mutate(json!({ "action": "remove", "path": "old" })),
            Write::RemoveFolder => mutate(json!({ "action": "remove", "path": "folder" })),
            Write::SeqCreate => self.seq("new.seq", None, "new"),
            Write::SeqReplace => self.seq("table.seq", Some(&self.revision("table.seq")), "new"),
        };
        request.header("x-operation-id", id)
    }

    fn seq(&self, path: &str, revision: Option<&str>, value: &str) -> RequestBuilder {
        let changes = json!([{ "action": "set", "key": "k", "value": value }]);
        let body = json!({ "path": path, "expectedRevision": revision, "changes": changes });
        self.node.json("/v1/fs/files/seq/transaction", &body)
    }

    async fn status(&self, id: &str) -> (u16, Value) {
        reply(self.node.request(Method::GET, &format!("/v1/fs/files/operations/{id}"))).await
    }

    async fn cancel(&self, id: &str) -> (u16, Value) {
        reply(self.node.request(Method::POST, &format!("/v1/fs/files/operations/{id}/cancel"))).await
    }

    /// Executes SQL on the table of writes.
    fn sql(&self, sql: &str) {
        self.node.app().files.operations.lock().store.connection().execute_batch(sql).unwrap();
    }

    /// Whether the effect of the write stands, whole; nothing else may have changed.
    fn is_done(&self, write: Write, before: &Tree) -> bool {
        let now = self.tree();
        if now == *before {
            return false;
        }
        let expected: Tree = match write {
            Write::PutCreate | Write::PutReplace => [(write.names()[0].to_owned(), Some(b"new".to_vec()))].into(),
            Write::Mkdir => [("new".to_owned(), None)].into(),
            Write::Rename => [("new".to_owned(), before["old"].clone())].into(),
            Write::Remove | Write::RemoveFolder => Tree::new(),
            Write::SeqCreate | Write::SeqReplace => {
                let name = write.names()[0];
                assert!(now[name].as_ref().unwrap().starts_with(b"SQLite format 3"), "{write:?}");
                [(name.to_owned(), now[name].clone())].into()
            }
        };
        let mut whole = before.clone();
        whole.retain(|name, _| !write.names().contains(&name.as_str()));
        whole.extend(expected);
        assert_eq!(now, whole, "{write:?}");
        true
    }
}

async fn start_node(directory: &TempDir, plan: &Plan) -> TestNode {
    let change = |config: &mut crate::ServeConfig| config.execution = Execution::Off;
    TestNode::start_in(directory.path(), Streams::default(), plan.steps(), change).await
}

/// The key of a write of the owner.
fn key(id: &str) -> OperationKey {
    OperationKey::new(&PrincipalId::new("owner").unwrap(), &Alias::new("files").unwrap(), id).unwrap()
}

fn committed(write: Write, receipt: &Value) -> bool {
    receipt["outcome"] == "committed" && (receipt["result"]["kind"] == "file") == write.makes_file()
}

fn not_committed(code: &str) -> Value {
    json!({ "outcome": "not-committed", "code": code })
}

fn unknown() -> Value {
    json!({ "outcome": "unknown", "code": "EIO" })
}
