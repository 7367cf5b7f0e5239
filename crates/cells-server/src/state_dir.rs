//! The state directory: identity, key hash, receipts and agent history of one node. One node at a time uses it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cells_protocol::ids::ServerId;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::ServeError;
use crate::credential::KeyHash;
use crate::harness::{self, StartError};

/// An open, locked state directory.
#[derive(Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
    /// The lock lasts as long as this file is open.
    _lock: File,
}

/// What the directory knows of the node itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Record {
    version: u32,
    pub(crate) server_id: ServerId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) api_key: Option<KeyHash>,
}

impl Record {
    pub(crate) fn new(server_id: ServerId) -> Self {
        Self { version: RECORD_VERSION, server_id, api_key: None }
    }
}

impl StateDir {
    /// `cells` in the user's state directory.
    pub(crate) fn default_path() -> Result<PathBuf, ServeError> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
        base.map(|base| base.join("cells")).ok_or_else(|| {
            ServeError::Config("neither XDG_STATE_HOME nor HOME is set; give the state directory with --state".into())
        })
    }

    /// Creates the directory where it is missing, and locks it.
    pub(crate) fn open(path: &Path) -> Result<Self, ServeError> {
        let failed = |error: io::Error| {
            ServeError::Config(format!("state directory {}: {error}; give another with --state", path.display()))
        };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let is_ours = path.join(LOCK_FILE).exists();
        if !is_ours && fs::read_dir(&path).map_err(failed)?.next().is_some() {
            return Err(ServeError::Config(format!(
                "state directory {}: it is not empty and not a node's; give another with --state",
                path.display()
            )));
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        let mut options = OpenOptions::new();
        let lock = options.write(true).create(true).truncate(false).mode(0o600).open(path.join(LOCK_FILE));
        let lock = lock.map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(Errno::WOULDBLOCK) => Err(ServeError::Config(format!(
                "state directory {}: another node uses it; stop that node or give another with --state",
                path.display()
            ))),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The record of an earlier start.
    pub(crate) fn load(&self) -> Result<Option<Record>, ServeError> {
        let path = self.path.join(RECORD_FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ServeError::Failed(format!("{}: {error}", path.display()))),
        };
        match serde_json::from_slice::<Record>(&bytes) {
            Ok(record) if record.version == RECORD_VERSION => Ok(Some(record)),
            _ => Err(ServeError::Config(format!(
                "{}: damaged, or written by another version of cells; restore it or give another --state",
                path.display()
            ))),
        }
    }

    /// Keeps `record`: after this returned, a crash cannot lose or damage it.
    pub(crate) fn save(&self, record: &Record) -> Result<(), ServeError> {
        if self.load()?.as_ref() == Some(record) {
            return Ok(());
        }
        let write = || -> io::Result<()> {
            let staged = self.path.join(STAGED_RECORD_FILE);
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&staged)?;
            file.write_all(&serde_json::to_vec_pretty(record)?)?;
            file.sync_all()?;
            fs::rename(&staged, self.path.join(RECORD_FILE))?;
            File::open(&self.path)?.sync_all()
        };
        write().map_err(|error| ServeError::Failed(format!("state directory {}: {error}", self.path.display())))
    }
}

/// Forgets the receipts of old starts of a node that is stopped, and gives how many starts were forgotten: all whose
/// last change is before `before_ms`, Unix milliseconds, each with all its receipts (`cells-0.4.md` §12.3). The state
/// directory is `state`, by default `cells` in the user's state directory.
///
/// ```
/// # fn example() -> Result<(), cells_server::ServeError> {
/// let forgotten = cells_server::purge_receipts(None, 1_767_225_600_000)?; // 2026-01-01T00:00:00Z
/// println!("{forgotten}");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ServeError::Config`] when the directory is in use, is no node's, or has receipts that cannot be trusted;
/// [`ServeError::Failed`] when the machine failed. Nothing was changed then.
pub fn purge_receipts(state: Option<&Path>, before_ms: u64) -> Result<u64, ServeError> {
    let path = state.map_or_else(StateDir::default_path, |path| Ok(path.to_owned()))?;
    if !path.join(LOCK_FILE).exists() {
        let path = path.display();
        return Err(ServeError::Config(format!(
            "state directory {path}: no node has used it; give another with --state"
        )));
    }
    let state = StateDir::open(&path)?;
    harness::purge_before(state.path(), before_ms).map_err(|error| StartError::from(error).into())
}

const RECORD_VERSION: u32 = 1;
const RECORD_FILE: &str = "node.json";
const STAGED_RECORD_FILE: &str = "node.json.new";
const LOCK_FILE: &str = "lock";

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_directory_is_private_and_keeps_its_record() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        let state = StateDir::open(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        assert_eq!(state.load().unwrap(), None);
        let record = Record::new(ServerId::new("desk").unwrap());
        state.save(&record).unwrap();
        assert_eq!(mode(&path.join(RECORD_FILE)), 0o600);
        drop(state);
        assert_eq!(StateDir::open(&path).unwrap().load().unwrap(), Some(record));
    }

    #[test]
    fn a_directory_in_use_is_refused_until_it_is_free() {
        let directory = tempfile::tempdir().unwrap();
        let first = StateDir::open(directory.path()).unwrap();
        let error = StateDir::open(directory.path()).unwrap_err();
        assert!(error.to_string().contains("another node uses it"), "{error}");
        assert_eq!(error.exit_code(), 2);
        drop(first);
        assert!(StateDir::open(directory.path()).is_ok());
    }

    #[test]
    fn a_directory_with_foreign_files_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("thesis.txt"), "x").unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let error = StateDir::open(directory.path()).unwrap_err();
        assert!(error.to_string().contains("not a node's"), "{error}");
        assert_eq!(mode(directory.path()), 0o755);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn receipts_are_purged_only_while_no_node_runs() {
        let parent = tempfile::tempdir().unwrap();
        let refused = |path: &Path| {
            let error = purge_receipts(Some(path), 0).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
            error.to_string()
        };
        assert!(refused(&parent.path().join("gone")).contains("no node has used it"));
        assert!(refused(parent.path()).contains("no node has used it"));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        let path = parent.path().join("state");
        let state = StateDir::open(&path).unwrap();
        assert!(refused(&path).contains("another node uses it"));
        drop(state);
        assert_eq!(purge_receipts(Some(&path), u64::MAX).unwrap(), 0);
        fs::write(path.join("receipts.sqlite"), "not a database").unwrap();
        assert!(refused(&path).contains("damaged"));
    }

    #[test]
    fn a_damaged_record_stops_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDir::open(directory.path()).unwrap();
        for bytes in ["", "{}", "{\"version\":2,\"serverId\":\"desk\"}", "{\"version\":1,\"serverId\":\"a b\"}"] {
            fs::write(directory.path().join(RECORD_FILE), bytes).unwrap();
            assert!(state.load().unwrap_err().to_string().contains("damaged"), "{bytes}");
        }
    }
}
