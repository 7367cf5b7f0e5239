//! Authorization snapshots and the headers that pin a request to one (`cells-0.4.md` §1.4).

use serde::{Deserialize, Serialize};

use crate::ids::{PrincipalId, is_id};
use crate::limits::SAFE_INTEGER_MAX;

/// Header that names the principal a request is meant for.
pub const PRINCIPAL_HEADER: &str = "x-fsagent-principal";
/// Header that names the revision of the grants a request is meant for.
pub const PRINCIPAL_REVISION_HEADER: &str = "x-fsagent-principal-revision";

/// Who the node says the caller is, and which version of the grants holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationSnapshot {
    /// Stable name of the principal.
    pub principal_id: PrincipalId,
    /// True exactly for the public principal.
    pub anonymous: bool,
    /// Opaque version of everything granted to this principal.
    pub revision: GrantRevision,
}

impl AuthorizationSnapshot {
    /// The two headers that pin a request to this snapshot.
    pub fn headers(&self) -> [(&'static str, String); 2] {
        [
            (PRINCIPAL_HEADER, self.principal_id.as_str().to_owned()),
            (PRINCIPAL_REVISION_HEADER, self.revision.to_string()),
        ]
    }
}

/// Version of a principal's grants: a string from today's nodes, an integer from older ones. Compared by type and value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawRevision", into = "RawRevision")]
pub enum GrantRevision {
    /// An identifier.
    Text(Box<str>),
    /// A non-negative integer of at most 2^53 − 1.
    Number(u64),
}

impl std::fmt::Display for GrantRevision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum RawRevision {
    Text(String),
    Number(u64),
}

impl TryFrom<RawRevision> for GrantRevision {
    type Error = &'static str;
    fn try_from(raw: RawRevision) -> Result<Self, Self::Error> {
        match raw {
            RawRevision::Text(text) if is_id(&text) => Ok(Self::Text(text.into())),
            RawRevision::Number(number) if number <= SAFE_INTEGER_MAX => Ok(Self::Number(number)),
            RawRevision::Text(_) | RawRevision::Number(_) => {
                Err("revision is neither an identifier nor a safe integer")
            }
        }
    }
}

impl From<GrantRevision> for RawRevision {
    fn from(revision: GrantRevision) -> Self {
        match revision {
            GrantRevision::Text(text) => Self::Text(text.into()),
            GrantRevision::Number(number) => Self::Number(number),
        }
    }
}
