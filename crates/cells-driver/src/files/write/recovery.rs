//! What is needed to ask how a write ended.

use cells_protocol::error::ErrorKind;
use cells_protocol::ids::{Alias, OperationId, ServerId, Sha256Hex};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Names one write, and holds what can prove how it ended. Holds no content and no secret.
///
/// It can be stored as JSON, so that another process can ask with [`FileStorage::settle`](crate::FileStorage::settle).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileRecovery {
    /// The write.
    pub operation_id: OperationId,
    /// The export.
    pub alias: Alias,
    /// When it was sent, in Unix milliseconds.
    pub sent_at_ms: u64,
    /// Whether the node said that its receipts survive a restart.
    pub durable: bool,
    /// The epoch of the node's process when the export was opened, if the node said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_epoch: Option<ServerId>,
    /// What was written.
    pub change: FileChange,
}

/// What a write changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum FileChange {
    /// The content of a file.
    Replace {
        /// The file.
        path: String,
        /// The revision that it had to have; `None` if it had to be new.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
        /// Size of the new content, if it was known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        /// SHA-256 of the new content, if it was known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<Sha256Hex>,
    },
    /// Entries of a SeqFile.
    Transaction {
        /// The SeqFile.
        path: String,
        /// The revision that it had to have; `None` if it had to be new.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
    },
    /// A new directory.
    Mkdir {
        /// The directory.
        path: String,
    },
    /// Another name.
    Rename {
        /// The old path.
        path: String,
        /// The new path.
        to: String,
    },
    /// A removal.
    Remove {
        /// The entry.
        path: String,
    },
    /// Something that this driver does not know; see [`HttpTransport::mutate`](crate::HttpTransport::mutate).
    Other {
        /// Where it was sent, below the export.
        route: String,
    },
}

impl FileRecovery {
    /// Checks that the write was one of the export `alias`.
    pub(super) fn check(&self, operation: &'static str, alias: &Alias) -> Result<()> {
        if self.alias == *alias {
            return Ok(());
        }
        let message = format!("the write was one of the export {}, not of {alias}", self.alias);
        Err(Error::new(ErrorKind::Invalid, operation, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_recovery_is_read_as_it_was_written() {
        let recovery = |change: FileChange| FileRecovery {
            operation_id: OperationId::new("op-1").unwrap(),
            alias: Alias::new("notes").unwrap(),
            sent_at_ms: 1_770_000_000_000,
            durable: true,
            process_epoch: None,
            change,
        };
        for (change, text) in [
            (
                FileChange::Replace {
                    path: "a.md".into(),
                    revision: Some("\"r:1\"".into()),
                    size: Some(3),
                    sha256: Some(Sha256Hex::from_bytes([0xab; 32])),
                },
                format!(
                    r#"{{"kind":"replace","path":"a.md","revision":"\"r:1\"","size":3,"sha256":"{}"}}"#,
                    "ab".repeat(32)
                ),
            ),
            (
                FileChange::Rename { path: "a".into(), to: "b".into() },
                r#"{"kind":"rename","path":"a","to":"b"}"#.to_owned(),
            ),
        ] {
            let recovery = recovery(change);
            let expected = format!(
                r#"{{"operationId":"op-1","alias":"notes","sentAtMs":1770000000000,"durable":true,"change":{text}}}"#
            );
            assert_eq!(serde_json::to_string(&recovery).unwrap(), expected);
            assert_eq!(serde_json::from_str::<FileRecovery>(&expected).unwrap(), recovery);
        }
    }
}
