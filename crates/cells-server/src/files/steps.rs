//! The steps of a write at which a test can make the disk fail, hold the node, or end it.

use std::fmt;
use std::sync::Arc;

use rustix::io::Errno;

/// What is about to happen, or has just happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A staging file or folder is about to be made.
    Create,
    /// Content is about to be written.
    Write,
    /// Content is about to be flushed to the disk.
    Sync,
    /// The intent is recorded; the one system call that everybody sees is about to be made.
    Effect,
    /// That call took something that it was not meant to take, which is about to be given back.
    GiveBack,
    /// The call that everybody sees was made; the receipt is not written.
    Done,
    /// The receipt is written; nobody was told.
    Recorded,
}

/// Where a node that is told so ends itself with SIGKILL, so that a test finds out what its successor says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultPoint {
    /// A write is claimed and staged, and nothing of it can be seen.
    Before,
    /// The write can be seen, and its receipt is not written.
    During,
    /// The receipt is written, and nobody was told.
    After,
}

/// What happens at each step besides the step itself: nothing, unless a test wants something.
#[derive(Clone, Default)]
pub(crate) struct Steps(Option<Arc<Hook>>);

/// An error stands for the failure of the system call that was about to be made. After the effect it is ignored.
type Hook = dyn Fn(Step) -> Result<(), Errno> + Send + Sync;

impl Steps {
    #[cfg(test)]
    pub(crate) fn new(hook: impl Fn(Step) -> Result<(), Errno> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }

    /// Ends the node at the first write that comes so far.
    pub(crate) fn kill_at(point: FaultPoint) -> Self {
        let fatal = match point {
            FaultPoint::Before => Step::Effect,
            FaultPoint::During => Step::Done,
            FaultPoint::After => Step::Recorded,
        };
        Self(Some(Arc::new(move |step| {
            if step == fatal {
                use rustix::process::{Signal, getpid, kill_process};
                kill_process(getpid(), Signal::KILL)?;
            }
            Ok(())
        })))
    }

    pub(crate) fn at(&self, step: Step) -> Result<(), Errno> {
        self.0.as_ref().map_or(Ok(()), |hook| hook(step))
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Steps")
    }
}
