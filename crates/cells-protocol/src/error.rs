//! The closed list of error kinds and outcomes, and how node codes and HTTP statuses map to them
//! (`files-http.md` §9.2, `cells-0.4.md` §0.3 and appendix B).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::json::Object;
use crate::text::is_code;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// What went wrong, in one word. The string form is the same on the wire, in Rust and in JavaScript.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum ErrorKind { $($(#[$doc])* #[serde(rename = $code)] $name,)* }

        impl ErrorKind {
            /// Every kind, in the order of the list.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The string form, for example `EACCES`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// The kind with this string form.
            pub fn from_code(code: &str) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }
        }
    };
}

kinds! {
    /// The caller cancelled, or what was asked for was cancelled on the node.
    Cancelled = "ECANCELLED",
    /// The time budget is used up.
    TimedOut = "ETIMEDOUT",
    /// What was named does not exist.
    NotFound = "ENOENT",
    /// What was to be created exists.
    AlreadyExists = "EEXIST",
    /// A directory stands where a file is needed.
    IsADirectory = "EISDIR",
    /// A file stands where a directory is needed.
    NotADirectory = "ENOTDIR",
    /// The directory is not empty.
    NotEmpty = "ENOTEMPTY",
    /// Not allowed: credentials, grants, links, permissions.
    AccessDenied = "EACCES",
    /// The target is read-only.
    ReadOnly = "EROFS",
    /// The node's disk is full.
    NoSpace = "ENOSPC",
    /// An argument is not valid; nothing was sent, or the node refused it.
    Invalid = "EINVAL",
    /// More bytes than the budget allows.
    TooLarge = "EFBIG",
    /// The network failed, or a reply is not what the protocol says.
    Io = "EIO",
    /// The node, profile or host does not offer this.
    Unsupported = "ECAPABILITY",
    /// Somebody else changed it first.
    Conflict = "ECONFLICT",
    /// In use, or a limit is reached; may work later.
    Busy = "EBUSY",
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is known about the effect of a mutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Nothing was sent.
    NotStarted,
    /// The node proved that it had no effect.
    NotCommitted,
    /// It happened.
    Committed,
    /// Part of it happened.
    Partial,
    /// Not known. Ask for the receipt; never send it again.
    Unknown,
}

impl Outcome {
    /// The string form, for example `not-committed`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotStarted => "not-started",
            Self::NotCommitted => "not-committed",
            Self::Committed => "committed",
            Self::Partial => "partial",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The kind of a failed HTTP reply: a code of the closed list wins (except `EIO`), then what the node's own codes mean,
/// then the status.
pub fn kind_of_reply(code: Option<&str>, status: u16) -> ErrorKind {
    code.and_then(kind_of_code).filter(|kind| *kind != ErrorKind::Io).unwrap_or_else(|| kind_of_status(status))
}

/// The code in the body of a failing HTTP reply. Proxies answer with anything, so a body without one is no error.
pub fn code_of_body(body: &[u8]) -> Option<String> {
    let code = Object::parse("the error body", body).ok()?.string("code").ok()?;
    is_code(&code).then_some(code)
}

/// The kind that a status alone gives.
pub fn kind_of_status(status: u16) -> ErrorKind {
    match status {
        400 | 413 | 416 | 428 => ErrorKind::Invalid,
        401 | 403 => ErrorKind::AccessDenied,
        404 => ErrorKind::NotFound,
        408 | 504 => ErrorKind::TimedOut,
        409 => ErrorKind::AlreadyExists,
        412 => ErrorKind::Conflict,
        422 | 501 => ErrorKind::Unsupported,
        429 | 503 => ErrorKind::Busy,
        507 => ErrorKind::NoSpace,
        _ => ErrorKind::Io,
    }
}

/// The kind of a code that came without a status: a tool error or the code of a receipt.
pub fn kind_of_tool_code(code: &str) -> ErrorKind {
    kind_of_code(code).unwrap_or(ErrorKind::Io)
}

/// The node does not answer for this epoch: the mutation was sent to another start of it (`cells-0.4.md` §12).
pub const EPOCH_CHANGED: &str = "HARNESS_EPOCH_CHANGED";

/// The model or reasoning effort is not one of the session.
pub const INVALID_SELECTION: &str = "HARNESS_SELECTION_INVALID";

fn kind_of_code(code: &str) -> Option<ErrorKind> {
    if let Some(kind) = ErrorKind::from_code(code) {
        return Some(kind);
    }
    let kind = match code {
        "AUTHORIZATION_CHANGED" => ErrorKind::AccessDenied,
        "HARNESS_RESTARTED" | "HARNESS_RECEIPT_STORE" => ErrorKind::Io,
        "HARNESS_COMMAND_OUTPUT_TOO_LARGE"
        | "HARNESS_HISTORY_ITEM_TOO_LARGE"
        | "HARNESS_HISTORY_RECORD_TOO_LARGE"
        | "DIRECTORY_LIMIT"
        | "UPLOAD_LIMIT" => ErrorKind::TooLarge,
        EPOCH_CHANGED
        | "HARNESS_REQUEST_REUSED"
        | "HARNESS_TURN_NOT_ACTIVE"
        | "HARNESS_DIGEST_CHANGED"
        | "OPERATION_ID_REUSED"
        | "STALE_SERVER_EPOCH"
        | "SERVER_ID_CHANGED"
        | "REVISION_REQUIRED"
        | "PROJECT_REVISION_CHANGED"
        | "PROJECT_DIRECTORY_CHANGED" => ErrorKind::Conflict,
        "HARNESS_NOT_ADMITTED" | "HARNESS_NOT_STARTED" => ErrorKind::Cancelled,
        "HARNESS_SELECTION_INVALID" => ErrorKind::Invalid,
        code if code.ends_with("_UNKNOWN") => ErrorKind::NotFound,
        code if code.ends_with("_LIMIT") || code.ends_with("_BUSY") => ErrorKind::Busy,
        code if code.ends_with("_NOT_OWNED") => ErrorKind::AccessDenied,
        _ => return None,
    };
    Some(kind)
}

/// Whether a final receipt with this code leaves the effect undetermined (`cells-0.4.md` appendix B).
pub fn is_undetermined_code(code: &str) -> bool {
    matches!(code, "EIO" | "ETIMEDOUT" | "HARNESS_RESTARTED")
}
