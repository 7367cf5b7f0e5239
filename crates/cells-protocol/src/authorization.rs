//! Authorization snapshots and the headers that pin a request to one (`cells-0.4.md` §1.4).

use serde::{Serialize, Serializer};

use crate::ids::{PrincipalId, is_id};
use crate::json::{self, Json, Malformed, Object};
use crate::limits::SAFE_INTEGER_MAX;

/// Header that names the principal a request is meant for.
pub const PRINCIPAL_HEADER: &str = "x-fsagent-principal";
/// Header that names the revision of the grants a request is meant for.
pub const PRINCIPAL_REVISION_HEADER: &str = "x-fsagent-principal-revision";

/// Who the node says the caller is, and which version of the grants holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
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
    /// Reads a snapshot.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            principal_id: object.id("principalId")?,
            anonymous: object.boolean("anonymous")?,
            revision: match object.required("revision")? {
                Json::String(text) if is_id(&text) => GrantRevision::Text(text.into()),
                Json::Number(number) => match number.as_u64() {
                    Some(number) if number <= SAFE_INTEGER_MAX => GrantRevision::Number(number),
                    Some(_) | None => return Err(object.wrong("revision")),
                },
                Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => {
                    return Err(object.wrong("revision"));
                }
            },
        })
    }

    /// The two headers that pin a request to this snapshot.
    pub fn headers(&self) -> [(&'static str, String); 2] {
        [
            (PRINCIPAL_HEADER, self.principal_id.as_str().to_owned()),
            (PRINCIPAL_REVISION_HEADER, self.revision.to_string()),
        ]
    }
}

/// Version of a principal's grants: a string from today's nodes, an integer from older ones. Compared by type and value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

impl Serialize for GrantRevision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(number) => serializer.serialize_u64(*number),
        }
    }
}

json::deserialize_by_read!(AuthorizationSnapshot);
