//! What a reply says about a write (`files-http.md` §5.1, §9.3).

use cells_protocol::file_receipts::FileReceipt;
use cells_protocol::files::FileStat;

/// What is known of a write after its reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteVerdict {
    /// It happened.
    Committed {
        /// The new file, if the write made one and the node's description of it can be read.
        result: Option<FileStat>,
    },
    /// It had no effect.
    Rejected {
        /// The node's reason, if it gave one.
        code: Option<String>,
    },
    /// Nothing is known. Ask for the receipt; never send the write again.
    Unknown {
        /// The node's reason, if it gave one.
        code: Option<String>,
    },
}

/// Classifies the reply to a write: its status, the receipt in its body if it holds one, and the code of an error body
/// without a receipt.
///
/// A receipt counts whatever the status. Without one only a status 4xx says that nothing happened, because a node claims
/// the id after all its checks; except that the id may be used already, possibly by this very write.
///
/// ```
/// use cells_machines::file_writes::{WriteVerdict, classify_write};
/// let rejected = WriteVerdict::Rejected { code: Some("EROFS".to_owned()) };
/// assert_eq!(classify_write(403, None, Some("EROFS")), rejected);
/// assert_eq!(classify_write(502, None, None), WriteVerdict::Unknown { code: None });
/// ```
pub fn classify_write(status: u16, receipt: Option<FileReceipt>, code: Option<&str>) -> WriteVerdict {
    let code = code.map(str::to_owned);
    match receipt {
        Some(FileReceipt::Committed { result }) => WriteVerdict::Committed { result },
        Some(FileReceipt::NotCommitted { code }) => WriteVerdict::Rejected { code: Some(code) },
        Some(FileReceipt::Unknown { code }) => WriteVerdict::Unknown { code },
        Some(FileReceipt::Running) => WriteVerdict::Unknown { code: None },
        None if code.as_deref() == Some(ID_REUSED) => WriteVerdict::Unknown { code },
        None if is_rejection(status, code.is_some()) => WriteVerdict::Rejected { code },
        None => WriteVerdict::Unknown { code },
    }
}

/// Whether a status without a receipt says that nothing happened. A 408 comes from a proxy that lost the request; a 409
/// whose code is lost may be that of an id that is in use.
fn is_rejection(status: u16, has_code: bool) -> bool {
    match status {
        408 | 409 => has_code,
        400..=499 => true,
        _ => false,
    }
}

const ID_REUSED: &str = "OPERATION_ID_REUSED";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reply_has_one_verdict() {
        let committed = || Some(FileReceipt::Committed { result: None });
        let not_committed = |code: &str| Some(FileReceipt::NotCommitted { code: code.to_owned() });
        let rejected = |code: Option<&str>| WriteVerdict::Rejected { code: code.map(str::to_owned) };
        let unknown = |code: Option<&str>| WriteVerdict::Unknown { code: code.map(str::to_owned) };
        let timed_out = Some(FileReceipt::Unknown { code: Some("ETIMEDOUT".to_owned()) });
        for (case, status, receipt, code, expected) in [
            ("receipt", 200, committed(), None, WriteVerdict::Committed { result: None }),
            ("a receipt counts whatever the status", 503, committed(), None, WriteVerdict::Committed { result: None }),
            ("conflict", 412, not_committed("ECONFLICT"), None, rejected(Some("ECONFLICT"))),
            ("input or output error, but no effect", 500, not_committed("EIO"), None, rejected(Some("EIO"))),
            ("deadline", 504, timed_out, None, unknown(Some("ETIMEDOUT"))),
            ("running", 200, Some(FileReceipt::Running), None, unknown(None)),
            ("before the claim", 403, None, Some("EROFS"), rejected(Some("EROFS"))),
            ("busy", 409, None, Some("EBUSY"), rejected(Some("EBUSY"))),
            ("pinned", 409, None, Some("AUTHORIZATION_CHANGED"), rejected(Some("AUTHORIZATION_CHANGED"))),
            ("id in use", 409, None, Some("OPERATION_ID_REUSED"), unknown(Some("OPERATION_ID_REUSED"))),
            ("409 without a code", 409, None, None, unknown(None)),
            ("408 of a proxy", 408, None, None, unknown(None)),
            ("413 of a proxy", 413, None, None, rejected(None)),
            ("431 without a body", 431, None, None, rejected(None)),
            ("success without a receipt", 200, None, None, unknown(None)),
            ("success with an error body", 200, None, Some("EROFS"), unknown(Some("EROFS"))),
            ("poisoned", 503, None, Some("EIO"), unknown(Some("EIO"))),
            ("gateway", 502, None, None, unknown(None)),
            ("early hints", 103, None, None, unknown(None)),
        ] {
            assert_eq!(classify_write(status, receipt, code), expected, "{case}");
        }
    }
}
