//! What a mutation finds, what it does, and what can be seen of it on the disk of the node.

use std::{
    fs,
    path::{Path, PathBuf},
};

use cells_native::cells_driver::{
    Client, Connection, ExecOptions, FileMutationOptions, FileStorage, OperationOptions, ProcessMount, ProcessSession,
    ProcessSpec, ReplaceCondition, Result, SeqChange, Upload,
};
use cells_testkit::fault_runs::{Draw, FileMutation, SHORT_BODY_BYTES};
use futures::stream;
use rusqlite::{Connection as Database, OpenFlags};
use serde_json::json;

use crate::Planned;

/// One run in a directory of its own.
pub(crate) struct Scene {
    pub(crate) mutation: FileMutation,
    /// On the disk of the node.
    directory: PathBuf,
    /// In the export.
    path: String,
    old: Vec<u8>,
    new: Vec<u8>,
    streams: bool,
    /// The revision that a replacement or a transaction expects.
    revision: Option<String>,
}

impl Scene {
    /// Makes what the mutation finds, past the node, below the root of its export. `attempt`: a run that is done again is
    /// done in another directory.
    pub(crate) fn prepare(planned: &Planned, attempt: u32, export: &Path) -> Scene {
        let mut draw = planned.run.draw();
        let (old, new) = (content(&mut draw), content(&mut draw));
        let path = format!("run-{}-{attempt}", planned.run.seed);
        let scene = Scene {
            mutation: planned.mutation,
            directory: export.join(&path),
            path,
            old,
            new,
            streams: draw.chance(2),
            revision: None,
        };
        fs::create_dir(&scene.directory).unwrap();
        match scene.mutation {
            FileMutation::PutMatch | FileMutation::Rename | FileMutation::Remove => {
                fs::write(scene.directory.join("a"), &scene.old).unwrap();
            }
            FileMutation::SeqTransaction => scene.create_seq_file(),
            FileMutation::PutCreate | FileMutation::Mkdir | FileMutation::ProcessStart => {}
        }
        scene
    }

    fn create_seq_file(&self) {
        let database = Database::open(self.directory.join("a.seq")).unwrap();
        database.execute_batch("CREATE TABLE entries (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID").unwrap();
        for (key, value) in OLD_ENTRIES {
            database.execute("INSERT INTO entries VALUES (?1, ?2)", [key, value]).unwrap();
        }
    }

    /// Reads the revision that the mutation expects, while nothing is wrong.
    pub(crate) async fn look(&mut self, storage: &FileStorage) -> Result<()> {
        let options = OperationOptions::default();
        match self.mutation {
            FileMutation::PutMatch => {
                let stat = storage.files().stat(&self.below("a"), options).await?;
                self.revision = stat.and_then(|stat| stat.revision);
            }
            FileMutation::SeqTransaction => {
                self.revision = storage.seq().snapshot(&self.below("a.seq"), options).await?.revision;
            }
            FileMutation::PutCreate
            | FileMutation::Mkdir
            | FileMutation::Rename
            | FileMutation::Remove
            | FileMutation::ProcessStart => {}
        }
        Ok(())
    }

    /// The mutation of a file; not of a process.
    pub(crate) async fn mutate(&self, storage: &FileStorage, options: FileMutationOptions) -> Result<()> {
        let writes = storage.mutations().expect("the export takes writes");
        let (a, revision) = (self.below("a"), self.revision.clone());
        match self.mutation {
            FileMutation::PutCreate => {
                writes.replace(&a, self.upload(), ReplaceCondition::CreateOnly, options).await.map(drop)
            }
            FileMutation::PutMatch => {
                let condition = ReplaceCondition::Match(revision.expect("the file has a revision"));
                writes.replace(&a, self.upload(), condition, options).await.map(drop)
            }
            FileMutation::Mkdir => writes.mkdir(&a, options).await.map(drop),
            FileMutation::Rename => writes.rename(&a, &self.below("b"), options).await.map(drop),
            FileMutation::Remove => writes.remove(&a, options).await.map(drop),
            FileMutation::SeqTransaction => {
                let changes = [
                    SeqChange::Set { key: "a".into(), value: json!(2) },
                    SeqChange::Delete { key: "b".into() },
                    SeqChange::Set { key: "c".into(), value: json!("new") },
                ];
                let path = self.below("a.seq");
                storage.seq().transaction(&path, revision.as_deref(), &changes, options).await.map(drop)
            }
            FileMutation::ProcessStart => panic!("a process is no write of a file"),
        }
    }

    /// Content in memory has a known size; a stream may have none.
    fn upload(&self) -> Upload {
        if !self.streams {
            return Upload::bytes(self.new.clone());
        }
        let pieces: Vec<_> = self.new.chunks(1_000).map(|piece| Ok(piece.to_vec().into())).collect();
        Upload::stream(Some(self.new.len() as u64), stream::iter(pieces))
    }

    /// A session whose commands see only the directory of the run.
    pub(crate) async fn session(&self, client: &Client, connection: &Connection) -> Result<ProcessSession> {
        let capabilities = client.capabilities(connection, OperationOptions::default()).await?;
        let mount = ProcessMount {
            alias: "work".into(),
            path: self.path.clone(),
            at: "/workspace".into(),
            access: "rw".into(),
        };
        client.process(connection, ProcessSpec::on(&capabilities, "/workspace", vec![mount])?)
    }

    /// Whether the command has begun; and whether it is over, unless it waits.
    pub(crate) fn trace(&self) -> (bool, bool) {
        (self.directory.join("ran").exists(), self.directory.join("over").exists())
    }

    /// Runs the command, which leaves a trace each time it runs. `waits`: it stays until [`Scene::let_go`].
    pub(crate) async fn execute(&self, session: &ProcessSession, waits: bool, timeout_ms: u64) -> Result<()> {
        let script = if waits { WAITING_SCRIPT } else { SCRIPT };
        let options = ExecOptions { timeout_ms: Some(timeout_ms), ..ExecOptions::default() };
        session.exec("/bin/sh", &["-c".to_owned(), script.to_owned()], options).await.map(drop)
    }

    /// Ends a command that waits.
    pub(crate) fn let_go(&self) {
        fs::write(self.directory.join("go"), "").unwrap();
    }

    /// How often the mutation took effect: 0 or 1. Anything else is an error.
    pub(crate) fn effects(&self) -> std::result::Result<u8, String> {
        let read = |name: &str| fs::read(self.directory.join(name)).ok();
        let (a, b) = (read("a"), read("b"));
        match self.mutation {
            FileMutation::PutCreate => match a {
                None => Ok(0),
                Some(bytes) if bytes == self.new => Ok(1),
                Some(bytes) => Err(format!("a new file has {} other bytes", bytes.len())),
            },
            FileMutation::PutMatch => match a {
                Some(bytes) if bytes == self.old => Ok(0),
                Some(bytes) if bytes == self.new => Ok(1),
                Some(bytes) => Err(format!("a file has {} bytes that are neither old nor new", bytes.len())),
                None => Err("a replaced file is gone".into()),
            },
            FileMutation::Mkdir => Ok(u8::from(self.directory.join("a").is_dir())),
            FileMutation::Rename => match (a, b) {
                (Some(bytes), None) if bytes == self.old => Ok(0),
                (None, Some(bytes)) if bytes == self.old => Ok(1),
                (a, b) => Err(format!("after a rename: {} and {}", size(a.as_deref()), size(b.as_deref()))),
            },
            FileMutation::Remove => match a {
                Some(bytes) if bytes == self.old => Ok(0),
                None => Ok(1),
                Some(bytes) => Err(format!("a file that was not removed has {} other bytes", bytes.len())),
            },
            FileMutation::SeqTransaction => match self.seq_entries()?.as_slice() {
                entries if entries == owned(OLD_ENTRIES) => Ok(0),
                entries if entries == owned(NEW_ENTRIES) => Ok(1),
                entries => Err(format!("entries that are neither old nor new: {entries:?}")),
            },
            FileMutation::ProcessStart => match read("ran").unwrap_or_default().len() {
                0 => Ok(0),
                1 => Ok(1),
                times => Err(format!("the command ran {times} times")),
            },
        }
    }

    fn seq_entries(&self) -> std::result::Result<Vec<(String, String)>, String> {
        let open = Database::open_with_flags(self.directory.join("a.seq"), OpenFlags::SQLITE_OPEN_READ_ONLY);
        let read = open.and_then(|database| {
            let mut rows = database.prepare("SELECT key, value FROM entries ORDER BY key")?;
            rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        });
        read.map_err(|error| format!("the SeqFile is damaged: {error}"))
    }

    /// No staging file is left beside the file.
    pub(crate) fn left_over(&self) -> Option<String> {
        let names = fs::read_dir(&self.directory).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter_map(|name| name.into_string().ok()).find(|name| name.starts_with(".itookit-upload-"))
    }

    fn below(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }
}

/// Longer than what a fault needs, and mostly small.
fn content(draw: &mut Draw) -> Vec<u8> {
    let bound = if draw.chance(8) { 200_000 } else { 4_000 };
    let size = SHORT_BODY_BYTES + 1 + draw.below(bound);
    draw.bytes(usize::try_from(size).unwrap())
}

fn size(bytes: Option<&[u8]>) -> String {
    bytes.map_or("nothing".to_owned(), |bytes| format!("{} bytes", bytes.len()))
}

fn owned(entries: &[(&str, &str)]) -> Vec<(String, String)> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

const OLD_ENTRIES: &[(&str, &str)] = &[("a", "1"), ("b", "\"old\"")];
const NEW_ENTRIES: &[(&str, &str)] = &[("a", "2"), ("c", "\"new\"")];
const SCRIPT: &str = "printf x >> ran; : > over";
/// Ends by itself in the end, should nobody let it go.
const WAITING_SCRIPT: &str =
    "printf x >> ran; n=0; while [ ! -e go ] && [ $n -lt 400 ]; do n=$((n + 1)); sleep 0.05; done";
