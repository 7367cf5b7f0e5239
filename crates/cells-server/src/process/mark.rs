//! How everything that a command started is found again: by a variable of the environment, which it hands on to all that
//! it starts.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sha2::{Digest, Sha256};
use tokio::process::Command;
use tokio::task::spawn_blocking;

use crate::random;

/// The marks of one start of a node.
#[derive(Debug)]
pub(super) struct Marks {
    /// Begins the mark of everything of this node, whenever it was started.
    node: String,
    /// Begins the mark of everything of this start of the node.
    start: String,
    next: AtomicU64,
}

/// What marks one command.
#[derive(Debug, Clone)]
pub(super) struct Mark(String);

impl Marks {
    /// For the node with this state directory, which no other node uses at the same time.
    pub(super) fn new(state: &Path, epoch: &str) -> Self {
        let node = random::hex(&Sha256::digest(state.as_os_str().as_bytes())[..16]);
        Self { start: format!("{node}.{epoch}"), node, next: AtomicU64::new(0) }
    }

    pub(super) fn next(&self) -> Mark {
        Mark(format!("{}.{}", self.start, self.next.fetch_add(1, Ordering::Relaxed)))
    }

    /// Kills what an earlier start of the node left behind when it was killed itself.
    pub(super) async fn sweep(&self) {
        let (all, ours) = (format!("{VARIABLE}={}.", self.node), format!("{VARIABLE}={}.", self.start));
        let is_left_over = move |entry: &[u8]| entry.starts_with(all.as_bytes()) && !entry.starts_with(ours.as_bytes());
        if !kill_until_gone(is_left_over).await {
            tracing::warn!("a command of an earlier start of this node cannot be ended");
        }
    }
}

impl Mark {
    /// Marks a command whose environment is otherwise complete.
    pub(super) fn put_on(&self, command: &mut Command) {
        command.env(VARIABLE, &self.0);
    }

    /// Kills everything that is marked; false = some of it is still there after 5 s.
    pub(super) async fn end(self) -> bool {
        let entry = format!("{VARIABLE}={}", self.0);
        kill_until_gone(move |found| found == entry.as_bytes()).await
    }
}

/// Kills all processes with such an entry in their environment, and those that they start meanwhile.
async fn kill_until_gone(is_marked: impl Fn(&[u8]) -> bool + Send + Clone + 'static) -> bool {
    let end = async {
        loop {
            let is_marked = is_marked.clone();
            match spawn_blocking(move || kill_all(&is_marked)).await {
                Ok(0) => return true,
                Ok(_) => tokio::time::sleep(PAUSE).await,
                Err(_) => return false,
            }
        }
    };
    tokio::time::timeout(super::REAP_LIMIT, end).await.unwrap_or(false)
}

/// How many there were.
fn kill_all(is_marked: &impl Fn(&[u8]) -> bool) -> usize {
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    let mut killed = 0;
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if pid == std::process::id().cast_signed() {
            continue;
        }
        // Opened before the look, so that it cannot be another process of the same number that is killed.
        let Some(Ok(process)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { continue };
        // Fails for processes of other users; a process that has ended has no environment.
        let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(is_marked) {
            killed += 1;
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    }
    killed
}

/// Names the command in the environment of everything that it starts.
const VARIABLE: &str = "CELLS_PROCESS";
/// Between a look and the next.
const PAUSE: Duration = Duration::from_millis(5);
