//! Receipts of harness mutations (`harness.md` §2.3, `cells-0.4.md` §11.2 and §12.4).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{Epoch, ProfileId, ProjectId, RequestId};
use crate::json::{self, Malformed, safe_integer};
use crate::text::is_code;

const WHAT: &str = "the receipt";

/// What the node says of one mutation.
#[derive(Debug, Clone, PartialEq)]
pub enum Receipt {
    /// It happened. The result may be undecodable for the operation; that does not change the outcome.
    Committed(Value),
    /// It had no effect.
    NotCommitted {
        /// The node's reason.
        code: String,
    },
    /// It runs, or waits to run. Ask again.
    Running,
    /// It ended, and the node itself does not know how.
    Undetermined {
        /// `EIO`, `ETIMEDOUT`, `HARNESS_RESTARTED`, or the reason of a newer node.
        code: String,
    },
}

impl Receipt {
    /// Parses the receipt of `request_id`.
    ///
    /// # Errors
    /// [`Malformed`] when it belongs to another request or its outcome and code do not fit together.
    pub fn parse(bytes: &[u8], request_id: &RequestId) -> Result<Self, Malformed> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Raw {
            outcome: String,
            request_id: String,
            #[serde(default)]
            result: Option<Value>,
            #[serde(default)]
            code: Option<String>,
        }
        let raw: Raw = json::parse(WHAT, bytes)?;
        if raw.request_id != request_id.as_str() {
            return Err(Malformed::new(WHAT, "belongs to another request"));
        }
        if raw.code.as_deref().is_some_and(|code| !is_code(code)) {
            return Err(Malformed::new(WHAT, "has a code that is not one"));
        }
        match (raw.outcome.as_str(), raw.code) {
            ("committed", _) => Ok(Self::Committed(raw.result.unwrap_or(Value::Null))),
            ("not-committed", Some(code)) => Ok(Self::NotCommitted { code }),
            ("unknown", None) => Ok(Self::Running),
            ("unknown", Some(code)) => Ok(Self::Undetermined { code }),
            ("not-committed", None) => Err(Malformed::new(WHAT, "is not committed without a code")),
            _ => Err(Malformed::new(WHAT, "has an outcome that does not exist")),
        }
    }
}

/// Everything another process needs to ask for the receipt of a mutation. Holds no content and no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    /// The profile.
    pub profile_id: ProfileId,
    /// The epoch in which the mutation was sent; it is never replaced by a newer one.
    pub epoch: Epoch,
    /// The mutation.
    pub request_id: RequestId,
    /// The project scope it was sent in, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

/// A project scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    /// The project.
    pub project_id: ProjectId,
    /// Its revision.
    #[serde(deserialize_with = "safe_integer")]
    pub revision: u64,
    /// Attenuated to read-only.
    #[serde(default)]
    pub read_only: bool,
}
