//! Receipts of writes: content, folders, names and SeqFiles (`files-http.md` §5.1).

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::files::FileStat;
use crate::json::{Malformed, Object};
use crate::text::is_code;

/// What the node says of one write.
///
/// ```
/// use cells_protocol::file_receipts::FileReceipt;
/// let receipt = FileReceipt::parse(br#"{"outcome":"not-committed","code":"ECONFLICT"}"#)?;
/// assert_eq!(receipt, FileReceipt::NotCommitted { code: "ECONFLICT".to_owned() });
/// # Ok::<(), cells_protocol::json::Malformed>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileReceipt {
    /// It happened, and everybody sees it.
    Committed {
        /// The new file, if the write made one. `None` also when the node's description of it cannot be read, which does
        /// not change the outcome.
        result: Option<FileStat>,
    },
    /// It had no effect.
    NotCommitted {
        /// The node's reason.
        code: String,
    },
    /// The node does not know whether it happened, or does not know it yet.
    Unknown {
        /// `ETIMEDOUT` in the reply to a write that goes on; `EIO` when the node cannot find out; or the reason of a newer
        /// node. Nodes always give one; without it, nothing else is known either.
        code: Option<String>,
    },
    /// It runs, or waits to run. Ask again.
    Running,
}

impl FileReceipt {
    /// Parses a receipt.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are not a receipt, or its outcome and code do not fit together.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        const WHAT: &str = "the receipt";
        let mut receipt = Object::parse(WHAT, bytes)?;
        let outcome = receipt.text("outcome")?;
        let code = receipt.optional_string("code")?;
        if code.as_deref().is_some_and(|code| !is_code(code)) {
            return Err(Malformed::new(WHAT, "has a code that is not one"));
        }
        match (&*outcome, code) {
            ("committed", _) => Ok(Self::Committed { result: receipt.lenient("result", FileStat::read)? }),
            ("not-committed", Some(code)) => Ok(Self::NotCommitted { code }),
            ("not-committed", None) => Err(Malformed::new(WHAT, "is not committed without a code")),
            // A node that cannot know gives a code; without one the write has not ended.
            ("unknown", None) => Ok(Self::Running),
            ("unknown", Some(code)) => Ok(Self::Unknown { code: Some(code) }),
            _ => Err(Malformed::new(WHAT, "has an outcome that does not exist")),
        }
    }
}

impl Serialize for FileReceipt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Committed { result } => {
                map.serialize_entry("outcome", "committed")?;
                match result {
                    Some(stat) => map.serialize_entry("result", stat)?,
                    None => map.serialize_entry("result", &Value::Object(serde_json::Map::new()))?,
                }
            }
            Self::NotCommitted { code } => {
                map.serialize_entry("outcome", "not-committed")?;
                map.serialize_entry("code", code)?;
            }
            Self::Unknown { code } => {
                map.serialize_entry("outcome", "unknown")?;
                if let Some(code) = code {
                    map.serialize_entry("code", code)?;
                }
            }
            Self::Running => {
                map.serialize_entry("outcome", "unknown")?;
                map.serialize_entry("state", "running")?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::FileKind;
    use crate::json;

    #[test]
    fn receipts_are_read_and_written_alike() {
        let stat = FileStat {
            kind: FileKind::File,
            size: Some(9),
            modified_at: Some(1),
            created_at: Some(0),
            revision: Some("\"a:1\"".to_owned()),
        };
        let code = |code: &str| code.to_owned();
        for (text, receipt) in [
            (
                r#"{"outcome":"committed","result":{"kind":"file","size":9,"modifiedAt":1,"createdAt":0,"revision":"\"a:1\""}}"#,
                FileReceipt::Committed { result: Some(stat) },
            ),
            (r#"{"outcome":"committed","result":{}}"#, FileReceipt::Committed { result: None }),
            (
                r#"{"outcome":"not-committed","code":"ECONFLICT"}"#,
                FileReceipt::NotCommitted { code: code("ECONFLICT") },
            ),
            (r#"{"outcome":"unknown","code":"ETIMEDOUT"}"#, FileReceipt::Unknown { code: Some(code("ETIMEDOUT")) }),
            (r#"{"outcome":"unknown","state":"running"}"#, FileReceipt::Running),
        ] {
            assert_eq!(FileReceipt::parse(text.as_bytes()).as_ref(), Ok(&receipt), "{text}");
            assert_eq!(json::to_vec(&receipt), text.as_bytes(), "{text}");
        }
    }

    #[test]
    fn a_write_without_an_outcome_and_a_code_has_not_ended() {
        for text in [r#"{"outcome":"unknown"}"#, r#"{"outcome":"unknown","state":"queued","code":null}"#] {
            assert_eq!(FileReceipt::parse(text.as_bytes()), Ok(FileReceipt::Running), "{text}");
        }
    }

    #[test]
    fn a_result_that_cannot_be_read_does_not_change_the_outcome() {
        for result in ["7", r#"{"kind":"pipe"}"#, r#"{"kind":"file","size":-1}"#, "null"] {
            let text = format!(r#"{{"outcome":"committed","result":{result},"new":1}}"#);
            assert_eq!(FileReceipt::parse(text.as_bytes()), Ok(FileReceipt::Committed { result: None }), "{text}");
        }
    }

    #[test]
    fn what_is_no_receipt_is_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"code":"EROFS"}"#,
            r#"{"outcome":7}"#,
            r#"{"outcome":"perhaps"}"#,
            r#"{"outcome":"not-committed"}"#,
            r#"{"outcome":"not-committed","code":"not a code"}"#,
            r#"{"outcome":"unknown","code":7}"#,
            r#"{"outcome":"committed""#,
        ] {
            assert!(FileReceipt::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
