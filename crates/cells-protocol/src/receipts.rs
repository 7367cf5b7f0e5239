//! Receipts of harness mutations (`harness.md` §2.3, `cells-0.4.md` §11.2 and §12.4).

use serde::Serialize;
use serde_json::Value;

use crate::ids::{Epoch, ProfileId, ProjectId, RequestId};
use crate::json::{self, Malformed, Object};
use crate::text::is_code;

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
    /// Reads the receipt of `request_id`.
    ///
    /// # Errors
    /// [`Malformed`] when it belongs to another request or its outcome and code do not fit together.
    pub fn read(object: &mut Object<'_>, request_id: &RequestId) -> Result<Self, Malformed> {
        let what = object.what();
        let outcome = object.text("outcome")?;
        if object.text("requestId")? != request_id.as_str() {
            return Err(Malformed::new(what, "belongs to another request"));
        }
        let code = object.optional_string("code")?;
        if code.as_deref().is_some_and(|code| !is_code(code)) {
            return Err(Malformed::new(what, "has a code that is not one"));
        }
        match (&*outcome, code) {
            ("committed", _) => Ok(Self::Committed(object.value("result")?)),
            ("not-committed", Some(code)) => Ok(Self::NotCommitted { code }),
            ("unknown", None) => Ok(Self::Running),
            ("unknown", Some(code)) => Ok(Self::Undetermined { code }),
            ("not-committed", None) => Err(Malformed::new(what, "is not committed without a code")),
            _ => Err(Malformed::new(what, "has an outcome that does not exist")),
        }
    }
}

/// Everything another process needs to ask for the receipt of a mutation. Holds no content and no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    /// The profile.
    pub profile_id: ProfileId,
    /// The epoch in which the mutation was sent; it is never replaced by a newer one.
    pub epoch: Epoch,
    /// The mutation.
    pub request_id: RequestId,
    /// The project scope it was sent in, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

impl Recovery {
    /// Reads what [`Recovery`] says of a mutation.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            profile_id: object.id("profileId")?,
            epoch: object.id("epoch")?,
            request_id: object.id("requestId")?,
            scope: match object.optional_object("scope")? {
                Some(mut scope) => Some(Scope::read(&mut scope)?),
                None => None,
            },
        })
    }
}

/// The project in which a mutation was sent, at one of its revisions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    /// The project.
    pub project_id: ProjectId,
    /// Its revision.
    pub revision: u64,
    /// Attenuated to read-only.
    pub read_only: bool,
}

impl Scope {
    /// Reads a scope.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            project_id: object.id("projectId")?,
            revision: object.integer("revision")?,
            read_only: object.flag("readOnly")?,
        })
    }
}

json::deserialize_by_read!(Recovery, Scope);
