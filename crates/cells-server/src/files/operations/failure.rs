//! Why a write did not say that it was done.

use rustix::io::Errno;

use crate::refusal::Refusal;

/// How a write failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It had no effect.
    Refused(Refusal),
    /// It may have had one, which is found out by looking. If it had none, this is why.
    Unsure(Refusal),
}

impl Failure {
    /// Of the one system call that everybody sees.
    pub(crate) fn of_effect(errno: Errno) -> Self {
        match errno {
            // File systems find these before they change anything.
            Errno::ACCESS
            | Errno::BUSY
            | Errno::DQUOT
            | Errno::EXIST
            | Errno::INVAL
            | Errno::ISDIR
            | Errno::LOOP
            | Errno::MLINK
            | Errno::NAMETOOLONG
            | Errno::NOENT
            | Errno::NOSPC
            | Errno::NOSYS
            | Errno::NOTDIR
            | Errno::NOTEMPTY
            | Errno::NOTSUP
            | Errno::PERM
            | Errno::ROFS
            | Errno::XDEV => Self::Refused(errno.into()),
            // A disk or a connection to one that fails, fails before or after the change.
            _ => Self::Unsure(errno.into()),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Refused(errno.into())
    }
}
