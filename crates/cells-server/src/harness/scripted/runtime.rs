//! The process that runs a turn, in a form that survives it, and the write lock of a session (`cells-0.4.md` §3.6).

use std::fs::{self, File};
use std::io;
use std::sync::OnceLock;

use cells_protocol::harness::LockState;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::harness::clock::now_ms;

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Runtime {
    /// Its number, which another one may have after it.
    pub(super) pid: u64,
    /// Boot, number and start of the process: no other one has the same.
    pub(super) runtime_id: String,
    /// When the agent started, in Unix milliseconds.
    pub(super) started_at: u64,
}

impl Runtime {
    /// This process; `None` where the system does not tell what it is.
    pub(super) fn current() -> Option<Self> {
        static CURRENT: OnceLock<Option<Runtime>> = OnceLock::new();
        let find = || {
            let pid = u64::from(std::process::id());
            Some(Self { pid, runtime_id: runtime_id(pid)?, started_at: now_ms() })
        };
        CURRENT.get_or_init(find).clone()
    }

    /// Whether the process still runs.
    pub(super) fn is_alive(&self) -> bool {
        runtime_id(self.pid).as_deref() == Some(&self.runtime_id)
    }
}

fn runtime_id(pid: u64) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in brackets and may hold anything; the start is the 20th field after it.
    let start = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?;
    Some(format!("{}-{pid}-{start}", boot.trim()))
}

/// The write lock of a session, until it is dropped.
#[derive(Debug)]
pub(super) struct WriteLock(File);

impl Drop for WriteLock {
    /// Not left to the end of the file: a command that is being started may have it open for another moment.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Takes the write lock of a session; `None` when another process has it.
pub(super) fn lock_for_writing(file: File) -> io::Result<Option<WriteLock>> {
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(WriteLock(file))),
        Err(error) if error == rustix::io::Errno::WOULDBLOCK => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether anybody has the write lock of a session.
pub(super) fn lock_state(file: io::Result<File>) -> LockState {
    match file.map(lock_for_writing) {
        Ok(Ok(Some(_))) => LockState::NotHeld,
        Ok(Ok(None)) => LockState::Held,
        Ok(Err(_)) | Err(_) => LockState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_more_than_its_number() {
        let current = Runtime::current().unwrap();
        assert!(current.is_alive() && current.runtime_id.len() <= 128);
        let other = Runtime { runtime_id: format!("{}0", current.runtime_id), ..current };
        assert!(!other.is_alive());
    }

    #[test]
    fn a_lock_is_held_once_and_until_it_is_dropped() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || File::open(file.path());
        assert_eq!(lock_state(open()), LockState::NotHeld);
        let lock = lock_for_writing(open().unwrap()).unwrap();
        assert!(lock.is_some());
        assert_eq!(lock_state(open()), LockState::Held);
        assert!(lock_for_writing(open().unwrap()).unwrap().is_none());
        drop(lock);
        assert_eq!(lock_state(open()), LockState::NotHeld);
        assert_eq!(lock_state(Err(io::ErrorKind::NotFound.into())), LockState::Unknown);
    }
}
