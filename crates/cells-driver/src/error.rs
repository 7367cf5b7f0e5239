//! The one error of the driver.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use cells_protocol::error::{ErrorKind, Outcome};
use cells_protocol::file_recovery::FileRecovery;
use cells_protocol::ids::{OperationId, RequestId};
use cells_protocol::receipts::Recovery;

/// What every fallible function of the driver returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed, and what is known of its effect (`cells-0.4.md` §0.3).
///
/// The text is one line that names the operation, the problem and the kind. It holds no secret, no body and no path of the
/// node's machine. Cloning is cheap: several callers of one shared request get the same error.
///
/// Three operations are fixed words that hosts test for, whatever was called: `connect` (the network failed; there is no
/// status), `protocol` (the reply is not what the protocol says) and `credential` (no secret for the reference). The
/// message then names the call.
///
/// ```
/// use cells_driver::{Error, ErrorKind};
/// let error = Error::new(ErrorKind::AccessDenied, "credential", "no secret is set for `office`");
/// assert_eq!(error.to_string(), "credential: no secret is set for `office` (EACCES)");
/// assert_eq!(error.outcome(), None);
/// ```
#[derive(Clone)]
pub struct Error(Arc<Data>);

#[derive(Debug, Clone)]
struct Data {
    kind: ErrorKind,
    operation: Cow<'static, str>,
    message: String,
    retry: Option<Retry>,
    outcome: Option<Outcome>,
    recovery: Option<Recovery>,
    operation_id: Option<OperationId>,
    file_recovery: Option<Box<FileRecovery>>,
    process_id: Option<RequestId>,
    remote_code: Option<String>,
    reason: Option<&'static str>,
    status: Option<u16>,
    source: Option<Source>,
}

type Source = Arc<dyn std::error::Error + Send + Sync>;

/// Whether the same call may be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// No: it would fail again, or it could happen twice.
    Never,
    /// Yes, but not before this many milliseconds.
    After(u64),
    /// Yes, at any time.
    Now,
}

impl Error {
    /// An error of your own, for example from a [`CredentialResolver`](crate::CredentialResolver). `operation` is a short
    /// stable word; `message` is one line.
    pub fn new(kind: ErrorKind, operation: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self(Arc::new(Data {
            kind,
            operation: operation.into(),
            message: message.into(),
            retry: None,
            outcome: None,
            recovery: None,
            operation_id: None,
            file_recovery: None,
            process_id: None,
            remote_code: None,
            reason: None,
            status: None,
            source: None,
        }))
    }

    /// What went wrong, in one word.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call may be made again. Always [`Retry::Never`] once a mutation may have happened: ask with
    /// [`recovery`](Self::recovery) first.
    pub fn retry(&self) -> Retry {
        match self.0.outcome {
            Some(Outcome::Committed | Outcome::Partial | Outcome::Unknown) => return Retry::Never,
            Some(Outcome::NotStarted | Outcome::NotCommitted) | None => {}
        }
        self.0.retry.unwrap_or(match self.0.kind {
            ErrorKind::Busy => Retry::After(BUSY_RETRY_MS),
            ErrorKind::Io if self.0.operation != PROTOCOL => Retry::After(BUSY_RETRY_MS),
            ErrorKind::TimedOut | ErrorKind::Cancelled => Retry::Now,
            _ => Retry::Never,
        })
    }

    /// The call that failed, for example `stat` or `harness_turn`; or `connect`, `protocol`, `credential`.
    pub fn operation(&self) -> &str {
        &self.0.operation
    }

    /// What is known of the effect. Present on every error of a mutation, and on errors of a question about one.
    pub fn outcome(&self) -> Option<Outcome> {
        self.0.outcome
    }

    /// The mutation of an agent that failed, once it has an id.
    pub fn request_id(&self) -> Option<&RequestId> {
        self.0.recovery.as_ref().map(|recovery| &recovery.request_id)
    }

    /// What another process needs to ask how a mutation of an agent ended; see
    /// [`HarnessClient::operation`](crate::HarnessClient::operation).
    pub fn recovery(&self) -> Option<&Recovery> {
        self.0.recovery.as_ref()
    }

    /// The write that failed, once it has an id.
    pub fn operation_id(&self) -> Option<&OperationId> {
        self.0.operation_id.as_ref()
    }

    /// What is needed to ask how a write ended whose outcome is unknown; see
    /// [`FileStorage::settle`](crate::FileStorage::settle).
    pub fn file_recovery(&self) -> Option<&FileRecovery> {
        self.0.file_recovery.as_deref()
    }

    /// The process that a command may have begun; see [`ProcessSession`](crate::ProcessSession).
    pub fn process_id(&self) -> Option<&RequestId> {
        self.0.process_id.as_ref()
    }

    /// The node's own reason, for example `HARNESS_SESSION_NOT_OWNED`.
    pub fn remote_code(&self) -> Option<&str> {
        self.0.remote_code.as_deref()
    }

    /// A detail made by the driver, for example `NODE_UPGRADE_REQUIRED` (`cells-0.4.md` appendix B). Never from the wire.
    pub fn reason(&self) -> Option<&'static str> {
        self.0.reason
    }

    /// The HTTP status, if the node answered with a failing one.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// What happened, in one line, without the operation and the kind.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    fn edit(mut self, change: impl FnOnce(&mut Data)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    pub(crate) fn with_retry(self, retry: Retry) -> Self {
        self.edit(|data| data.retry = Some(retry))
    }

    pub(crate) fn with_outcome(self, outcome: Outcome) -> Self {
        self.edit(|data| data.outcome = Some(outcome))
    }

    pub(crate) fn with_recovery(self, recovery: Recovery) -> Self {
        self.edit(|data| data.recovery = Some(recovery))
    }

    pub(crate) fn with_operation_id(self, operation_id: OperationId) -> Self {
        self.edit(|data| data.operation_id = Some(operation_id))
    }

    pub(crate) fn with_file_recovery(self, recovery: FileRecovery) -> Self {
        self.edit(|data| {
            data.operation_id = Some(recovery.operation_id.clone());
            data.file_recovery = Some(Box::new(recovery));
        })
    }

    pub(crate) fn with_process_id(self, process_id: RequestId) -> Self {
        self.edit(|data| data.process_id = Some(process_id))
    }

    pub(crate) fn with_remote_code(self, code: impl Into<String>) -> Self {
        self.edit(|data| data.remote_code = Some(code.into()))
    }

    /// The error of a call that `operation` made: it has the name of what the caller called. A name that says what failed
    /// stays.
    pub(crate) fn called(self, operation: &'static str) -> Self {
        if [PROTOCOL, CONNECT, CREDENTIAL].contains(&self.operation()) {
            return self;
        }
        self.edit(|data| data.operation = operation.into())
    }

    pub(crate) fn with_reason(self, reason: &'static str) -> Self {
        self.edit(|data| data.reason = Some(reason))
    }

    pub(crate) fn with_status(self, status: u16) -> Self {
        self.edit(|data| data.status = Some(status))
    }

    pub(crate) fn with_source(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.edit(|data| data.source = Some(Arc::new(source)))
    }

    /// An argument of `operation` is not valid; nothing was sent.
    pub(crate) fn invalid(operation: &'static str, message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Invalid, operation, message.to_string())
    }

    /// The reply to `operation` is not what the protocol says.
    pub(crate) fn protocol(operation: &str, problem: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Io, PROTOCOL, format!("the reply to {operation} cannot be used: {problem}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.0.operation, self.0.message, self.0.kind)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

/// Operation of an error about a reply that is not what the protocol says.
pub(crate) const PROTOCOL: &str = "protocol";
/// Operation of an error of the network.
pub(crate) const CONNECT: &str = "connect";
/// Operation of an error about a missing secret.
pub(crate) const CREDENTIAL: &str = "credential";

/// How long to wait before a busy or unreachable node is asked again, when it does not say.
const BUSY_RETRY_MS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_follows_the_kind_until_a_mutation_may_have_happened() {
        for (kind, operation, outcome, expected) in [
            (ErrorKind::Busy, "stat", None, Retry::After(1_000)),
            (ErrorKind::Io, CONNECT, None, Retry::After(1_000)),
            (ErrorKind::Io, PROTOCOL, None, Retry::Never),
            (ErrorKind::TimedOut, "list", None, Retry::Now),
            (ErrorKind::Cancelled, "list", None, Retry::Now),
            (ErrorKind::AccessDenied, "list", None, Retry::Never),
            (ErrorKind::TimedOut, "harness_turn", Some(Outcome::Unknown), Retry::Never),
            (ErrorKind::Busy, "harness_turn", Some(Outcome::NotCommitted), Retry::After(1_000)),
            (ErrorKind::Cancelled, "harness_turn", Some(Outcome::NotStarted), Retry::Now),
        ] {
            let mut error = Error::new(kind, operation, "x");
            if let Some(outcome) = outcome {
                error = error.with_outcome(outcome);
            }
            assert_eq!(error.retry(), expected, "{kind} {operation} {outcome:?}");
        }
        assert_eq!(Error::new(ErrorKind::Busy, "x", "").with_retry(Retry::After(7)).retry(), Retry::After(7));
    }
}
