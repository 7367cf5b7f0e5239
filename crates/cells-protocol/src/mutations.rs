//! Writes of files and names (`files-http.md` §5.2–5.3).

use serde::{Deserialize, Serialize};

use crate::limits::REVISION_MAX_BYTES;

/// Header that names a write. It stands on every PUT of content, every mutation and every transaction.
pub const OPERATION_ID_HEADER: &str = "x-operation-id";
/// Header that limits how long the node may take, in milliseconds.
pub const TIMEOUT_HEADER: &str = "x-timeout-ms";

/// When content may be put in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplaceCondition {
    /// Nothing has that name yet.
    CreateOnly,
    /// The file has this revision, quotes included, as `stat` and `read` give it.
    Match(String),
}

impl ReplaceCondition {
    /// The header that carries the condition.
    pub fn header(&self) -> (&'static str, &str) {
        match self {
            Self::CreateOnly => ("if-none-match", "*"),
            Self::Match(revision) => ("if-match", revision),
        }
    }

    /// Whether the condition can be sent.
    pub fn is_valid(&self) -> bool {
        match self {
            Self::CreateOnly => true,
            Self::Match(revision) => is_revision(revision),
        }
    }
}

/// Whether a text can be a revision: 1 to 1,024 visible ASCII characters.
pub fn is_revision(text: &str) -> bool {
    (1..=REVISION_MAX_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Body of `POST /v1/fs/{alias}/mutate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MutateRequest {
    /// What is done. A node answers `EINVAL` to an action it does not know, so this is a text here; see
    /// [`MutateAction::from_name`].
    pub action: String,
    /// The entry that is made, moved or removed.
    pub path: String,
    /// The new path, for [`MutateAction::Rename`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Removal of what a directory holds, which no node offers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
}

/// What [`MutateRequest`] asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MutateAction {
    /// Makes one directory.
    Mkdir,
    /// Moves an entry to a name that nothing has.
    Rename,
    /// Removes a file, a link or an empty directory.
    Remove,
}

impl MutateAction {
    /// The action as it stands on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mkdir => "mkdir",
            Self::Rename => "rename",
            Self::Remove => "remove",
        }
    }

    /// The action with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Mkdir, Self::Rename, Self::Remove].into_iter().find(|action| action.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn bodies_of_mutations() {
        let request = |action: MutateAction, to: Option<&str>| MutateRequest {
            action: action.as_str().to_owned(),
            path: "a".to_owned(),
            to: to.map(str::to_owned),
            recursive: false,
        };
        for (text, expected) in [
            (r#"{"action":"mkdir","path":"a"}"#, request(MutateAction::Mkdir, None)),
            (r#"{"action":"rename","path":"a","to":"b"}"#, request(MutateAction::Rename, Some("b"))),
            (r#"{"action":"remove","path":"a"}"#, request(MutateAction::Remove, None)),
        ] {
            assert_eq!(json::to_vec(&expected), text.as_bytes());
            assert_eq!(json::parse("the body", text.as_bytes()), Ok(expected.clone()), "{text}");
            assert!(MutateAction::from_name(&expected.action).is_some());
        }
        assert!(json::parse::<MutateRequest>("the body", br#"{"action":"mkdir","path":"a","x":1}"#).is_err());
        assert_eq!(MutateAction::from_name("chmod"), None);
    }

    #[test]
    fn which_revisions_can_be_sent() {
        for (text, expected) in [
            ("\"5f0c:41\"", true),
            ("", false),
            ("a b", false),
            ("a\r\nx: y", false),
            ("\u{fc}", false),
            (&"x".repeat(1025), false),
        ] {
            assert_eq!(ReplaceCondition::Match(text.to_owned()).is_valid(), expected, "{text:.20}");
        }
        assert!(ReplaceCondition::CreateOnly.is_valid());
    }
}
