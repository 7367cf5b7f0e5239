//! SeqFiles: small tables of keys and JSON values, each in one file (`files-http.md` §7).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::{Malformed, Object};
use crate::limits::{SEQ_CHANGES_MAX, SEQ_KEY_MAX_BYTES};
use crate::mutations::is_revision;

/// End of the name of every SeqFile.
pub const SEQ_SUFFIX: &str = ".seq";

/// Body of `POST /v1/fs/{alias}/seq/snapshot`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeqSnapshotRequest {
    /// The SeqFile.
    pub path: String,
}

/// All entries of a SeqFile.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeqSnapshot {
    /// The revision that the next transaction must name. `None` when the file does not exist, and on read-only exports.
    pub revision: Option<String>,
    /// Ordered by the bytes of their keys.
    pub entries: Vec<SeqEntry>,
}

/// One entry of a SeqFile.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeqEntry {
    /// Its key: 1 to 1,024 bytes without NUL.
    pub key: String,
    /// Its value.
    pub value: Value,
}

/// Body of `POST /v1/fs/{alias}/seq/transaction`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SeqTransactionRequest {
    /// The SeqFile.
    pub path: String,
    /// The revision that the file must have; `None` = it must not exist.
    #[serde(default)]
    pub expected_revision: Option<String>,
    /// At most 256, done in order, all or none.
    pub changes: Vec<SeqChange>,
}

/// One change of a SeqFile.
///
/// ```
/// use cells_protocol::seq::{InvalidSeq, SeqChange, check_changes};
/// let set = SeqChange::Set { key: "title".into(), value: "Plan".into() };
/// assert_eq!(check_changes(&[set, SeqChange::Delete { key: String::new() }]), Err(InvalidSeq::Key));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SeqChange {
    /// Adds an entry or replaces its value.
    Set {
        /// Its key.
        key: String,
        /// Its value, null included.
        value: Value,
    },
    /// Removes an entry, if there is one.
    Delete {
        /// Its key.
        key: String,
    },
}

impl SeqChange {
    /// The entry that is changed.
    pub fn key(&self) -> &str {
        match self {
            Self::Set { key, .. } | Self::Delete { key } => key,
        }
    }
}

/// Why something cannot be asked of a SeqFile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSeq {
    /// The name does not end in `.seq`.
    #[error("the path does not end in `.seq`")]
    Name,
    /// More than 256 changes.
    #[error("there are more than 256 changes; use several transactions")]
    TooMany,
    /// An empty or long key, or one with a NUL.
    #[error("a key must have 1 to 1024 bytes and no NUL")]
    Key,
}

/// Checks the name of a SeqFile. The rules of paths hold besides.
///
/// # Errors
/// [`InvalidSeq::Name`].
pub fn check_seq_name(path: &str) -> Result<(), InvalidSeq> {
    let name = path.rsplit('/').next().unwrap_or_default();
    if name.ends_with(SEQ_SUFFIX) { Ok(()) } else { Err(InvalidSeq::Name) }
}

/// Checks the changes of one transaction.
///
/// # Errors
/// The first rule that they break.
pub fn check_changes(changes: &[SeqChange]) -> Result<(), InvalidSeq> {
    if changes.len() > SEQ_CHANGES_MAX {
        return Err(InvalidSeq::TooMany);
    }
    if changes.iter().all(|change| is_key(change.key())) { Ok(()) } else { Err(InvalidSeq::Key) }
}

impl SeqSnapshot {
    /// Parses and validates a snapshot.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong, or when the keys are not in order.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        const WHAT: &str = "the snapshot of the SeqFile";
        let wrong = |problem: &str| Malformed::new(WHAT, problem);
        let mut snapshot = Object::parse(WHAT, bytes)?;
        let revision = snapshot.nullable_string("revision")?;
        if revision.as_deref().is_some_and(|revision| !is_revision(revision)) {
            return Err(wrong("has a revision that is not one"));
        }
        let entries = snapshot.objects("entries", SeqEntry::read)?;
        if !entries.iter().all(|entry| is_key(&entry.key)) || !entries.windows(2).all(|pair| pair[0].key < pair[1].key)
        {
            return Err(wrong("has a key that is not valid or not in order"));
        }
        Ok(Self { revision, entries })
    }
}

impl SeqEntry {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self { key: object.string("key")?, value: object.required("value")?.into_value() })
    }
}

/// Whether this can be a key: 1 to 1,024 bytes without NUL.
pub fn is_key(key: &str) -> bool {
    (1..=SEQ_KEY_MAX_BYTES).contains(&key.len()) && !key.contains('\0')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json;

    #[test]
    fn snapshots_are_read_and_written_alike() {
        let entries = vec![
            SeqEntry { key: "title".into(), value: json!("Plan") },
            SeqEntry { key: "z".into(), value: json!({"n": null}) },
        ];
        for (text, snapshot) in [
            (
                r#"{"revision":"\"a:44\"","entries":[{"key":"title","value":"Plan"},{"key":"z","value":{"n":null}}]}"#,
                SeqSnapshot { revision: Some("\"a:44\"".into()), entries },
            ),
            (r#"{"revision":null,"entries":[]}"#, SeqSnapshot { revision: None, entries: vec![] }),
        ] {
            assert_eq!(SeqSnapshot::parse(text.as_bytes()).as_ref(), Ok(&snapshot), "{text}");
            assert_eq!(json::to_vec(&snapshot), text.as_bytes());
        }
    }

    #[test]
    fn what_is_no_snapshot_is_refused() {
        for text in [
            "[]",
            r#"{"entries":[]}"#,
            r#"{"revision":null}"#,
            r#"{"revision":7,"entries":[]}"#,
            r#"{"revision":"a b","entries":[]}"#,
            r#"{"revision":null,"entries":{}}"#,
            r#"{"revision":null,"entries":[7]}"#,
            r#"{"revision":null,"entries":[{"key":"a"}]}"#,
            r#"{"revision":null,"entries":[{"key":"","value":1}]}"#,
            r#"{"revision":null,"entries":[{"key":"b","value":1},{"key":"a","value":1}]}"#,
            r#"{"revision":null,"entries":[{"key":"a","value":1},{"key":"a","value":1}]}"#,
        ] {
            assert!(SeqSnapshot::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn transactions_on_the_wire_and_their_limits() {
        let set = |key: &str| SeqChange::Set { key: key.into(), value: Value::Null };
        let delete = |key: &str| SeqChange::Delete { key: key.into() };
        let request = SeqTransactionRequest {
            path: "a.seq".into(),
            expected_revision: None,
            changes: vec![set("title"), delete("old")],
        };
        let text = r#"{"path":"a.seq","expectedRevision":null,"changes":[{"action":"set","key":"title","value":null},{"action":"delete","key":"old"}]}"#;
        assert_eq!(json::to_vec(&request), text.as_bytes());
        assert_eq!(json::parse("the body", text.as_bytes()), Ok(request));
        let unknown = br#"{"path":"a.seq","changes":[{"action":"delete","key":"a","value":1}]}"#;
        assert!(json::parse::<SeqTransactionRequest>("the body", unknown).is_err());

        let long = "k".repeat(1025);
        for (changes, expected) in [
            (vec![], Ok(())),
            (vec![set("a"); 256], Ok(())),
            (vec![delete("a"); 257], Err(InvalidSeq::TooMany)),
            (vec![set("")], Err(InvalidSeq::Key)),
            (vec![set("a\0b")], Err(InvalidSeq::Key)),
            (vec![delete(&long)], Err(InvalidSeq::Key)),
            (vec![delete(&long[1..])], Ok(())),
        ] {
            assert_eq!(check_changes(&changes), expected);
        }
        for (path, expected) in
            [("a.seq", Ok(())), ("a/b.seq", Ok(())), ("a.seq/b", Err(InvalidSeq::Name)), ("", Err(InvalidSeq::Name))]
        {
            assert_eq!(check_seq_name(path), expected, "{path}");
        }
    }
}
