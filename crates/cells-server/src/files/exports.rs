//! The served directories, opened and locked once at start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cells_protocol::capabilities::Access;
use cells_protocol::ids::Alias;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::confine::Root;
use crate::{ExportConfig, ServeError};

/// A served directory.
#[derive(Debug)]
pub(crate) struct Export {
    /// The directory with all links resolved, for agents that work in it. Never shown to a caller.
    pub(crate) path: PathBuf,
    pub(crate) access: Access,
    /// Whether everyone may read it.
    pub(crate) public: bool,
    pub(crate) root: Root,
    turn: Mutex<()>,
}

impl Export {
    /// The turn to change what everybody sees. It is held for the last check and the change itself, never while something
    /// is received or flushed.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether files have strong revisions.
    pub(crate) fn is_writable(&self) -> bool {
        self.access == Access::Rw
    }
}

/// All exports by alias.
pub(crate) type Exports = BTreeMap<Alias, Arc<Export>>;

/// Opens every export, and locks the writable ones for as long as the node lives. Creates nothing.
pub(crate) fn open_all(configs: &[ExportConfig]) -> Result<Exports, ServeError> {
    let mut exports = Exports::new();
    for config in configs {
        let alias = &config.alias;
        let export = open(config)
            .map_err(|problem| ServeError::Config(format!("export {alias}: {}: {problem}", config.path.display())))?;
        for (other, placed) in &exports {
            if let Some(problem) = overlap(&export.path, &placed.path) {
                return Err(ServeError::Config(format!(
                    "export {alias}: its directory {problem} that of export {other}"
                )));
            }
        }
        if exports.insert(alias.clone(), Arc::new(export)).is_some() {
            return Err(ServeError::Config(format!("export {alias}: the name is given twice; names must differ")));
        }
    }
    Ok(exports)
}

/// Refuses a state directory inside an export: it would be served.
pub(crate) fn check_state_outside(exports: &Exports, state: &Path) -> Result<(), ServeError> {
    let state = resolve_existing(state);
    match exports.iter().find(|(_, export)| state.starts_with(&export.path)) {
        None => Ok(()),
        Some((alias, _)) => Err(ServeError::Config(format!(
            "state directory {}: it lies in export {alias} and would be served; give another with --state",
            state.display()
        ))),
    }
}

fn open(config: &ExportConfig) -> Result<Export, String> {
    let explain = |errno: Errno| match errno {
        Errno::NOENT => "no such directory".to_owned(),
        Errno::NOTDIR => "not a directory".to_owned(),
        errno => std::io::Error::from(errno).to_string(),
    };
    let root = Root::open(&config.path).map_err(explain)?;
    let path = config.path.canonicalize().map_err(|error| error.to_string())?;
    if config.access == Access::Rw {
        match flock(root.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err("another node serves it for writing; stop that node first".into()),
            Err(errno) => return Err(explain(errno)),
        }
    }
    Ok(Export { path, access: config.access, public: config.public, root, turn: Mutex::new(()) })
}

fn overlap(one: &Path, other: &Path) -> Option<&'static str> {
    match (one.starts_with(other), other.starts_with(one)) {
        (true, true) => Some("is"),
        (true, false) => Some("lies in"),
        (false, true) => Some("contains"),
        (false, false) => None,
    }
}

/// `path` with the links of its existing part resolved.
fn resolve_existing(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for ancestor in path.ancestors() {
        if let (Ok(resolved), Ok(rest)) = (ancestor.canonicalize(), path.strip_prefix(ancestor)) {
            return resolved.join(rest);
        }
    }
    path
}
