//! The process group of a command that was started.

use std::io;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::Child;
use tokio::signal::unix::SignalKind;

/// A group whose leader is a child of this program; killed when this is dropped.
///
/// The leader must not be reaped before the group is killed: until then its id belongs to no other process.
pub(crate) struct ProcessGroup {
    leader: Option<Pid>,
    child_ended: tokio::signal::unix::Signal,
}

impl ProcessGroup {
    /// The group of a child that was started with `process_group(0)`.
    ///
    /// # Errors
    /// When this program cannot listen for the end of its children. The group is killed then.
    pub(crate) fn of(child: &Child) -> io::Result<Self> {
        let leader = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        match tokio::signal::unix::signal(SignalKind::child()) {
            Ok(child_ended) => Ok(Self { leader, child_ended }),
            Err(error) => {
                kill(leader);
                Err(error)
            }
        }
    }

    /// Waits until the leader has ended, and does not reap it. May be dropped and called again.
    pub(crate) async fn leader_end(&mut self) {
        // The listener was there before the first look, so no end is missed.
        while !self.leader_has_ended() {
            if self.child_ended.recv().await.is_none() {
                return;
            }
        }
    }

    /// Kills every process of the group.
    pub(crate) fn kill(&mut self) {
        kill(self.leader.take());
    }

    fn leader_has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let Some(leader) = self.leader else { return true };
        !matches!(waitid(WaitId::Pid(leader), options), Ok(None))
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

fn kill(leader: Option<Pid>) {
    if let Some(leader) = leader {
        // Fails only when the group is gone, which is what is wanted.
        let _ = kill_process_group(leader, Signal::KILL);
    }
}
