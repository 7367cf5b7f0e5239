//! What is needed to ask how a write ended.

use serde::Serialize;

use crate::ids::{Alias, OperationId, ServerId, Sha256Hex};
use crate::json::{Malformed, Object, deserialize_by_read};

/// Names one write, and holds what can prove how it ended. Holds no content and no secret.
///
/// It can be stored as JSON, so that another process can ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_epoch: Option<ServerId>,
    /// What was written.
    pub change: FileChange,
}

/// What a write changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum FileChange {
    /// The content of a file.
    Replace {
        /// The file.
        path: String,
        /// The revision that it had to have; `None` if it had to be new.
        #[serde(skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
        /// Size of the new content, if it was known.
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        /// SHA-256 of the new content, if it was known.
        #[serde(skip_serializing_if = "Option::is_none")]
        sha256: Option<Sha256Hex>,
    },
    /// Entries of a SeqFile.
    Transaction {
        /// The SeqFile.
        path: String,
        /// The revision that it had to have; `None` if it had to be new.
        #[serde(skip_serializing_if = "Option::is_none")]
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
    /// Something that the driver does not know.
    Other {
        /// Where it was sent, below the export.
        route: String,
    },
}

impl FileRecovery {
    /// Reads a stored recovery.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            operation_id: object.id("operationId")?,
            alias: object.id("alias")?,
            sent_at_ms: object.integer("sentAtMs")?,
            durable: object.boolean("durable")?,
            process_epoch: object.optional_id("processEpoch")?,
            change: FileChange::read(&mut object.object("change")?)?,
        })
    }
}

impl FileChange {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        let kind = object.string("kind")?;
        if kind == "other" {
            return Ok(Self::Other { route: object.string("route")? });
        }
        let path = object.string("path")?;
        Ok(match kind.as_str() {
            "replace" => Self::Replace {
                path,
                revision: object.optional_string("revision")?,
                size: object.optional_integer("size")?,
                sha256: object.optional_id("sha256")?,
            },
            "transaction" => Self::Transaction { path, revision: object.optional_string("revision")? },
            "mkdir" => Self::Mkdir { path },
            "rename" => Self::Rename { path, to: object.string("to")? },
            "remove" => Self::Remove { path },
            _ => return Err(object.wrong("kind")),
        })
    }
}

deserialize_by_read!(FileRecovery);

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
            (
                FileChange::Transaction { path: "a.seq".into(), revision: None },
                r#"{"kind":"transaction","path":"a.seq"}"#.to_owned(),
            ),
            (FileChange::Mkdir { path: "a".into() }, r#"{"kind":"mkdir","path":"a"}"#.to_owned()),
            (FileChange::Remove { path: "a".into() }, r#"{"kind":"remove","path":"a"}"#.to_owned()),
            (FileChange::Other { route: "x/y".into() }, r#"{"kind":"other","route":"x/y"}"#.to_owned()),
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
