//! What receipts of mutations hold (`harness.md` §6).

use serde::Serialize;

use crate::ids::NativeId;
use crate::json::{self, Malformed, Object};
use crate::limits::DELETED_SESSIONS_MAX;
use crate::text::has_twice;

/// Result of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnStarted {
    /// The native turn.
    pub turn_id: NativeId,
}

impl TurnStarted {
    /// Reads the result.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self { turn_id: object.id("turnId")? })
    }
}

/// Result of a message to a running turn (`cells-0.4.md` §6.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnSteered {
    /// The turn that took the message. Another one where the target had just ended and the agent opened a new turn for it.
    pub turn_id: NativeId,
    /// The turn that was asked for.
    pub target_turn_id: NativeId,
}

impl TurnSteered {
    /// Reads the result of a message to `turn_id`.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong, or the target is another turn.
    pub fn read(object: &mut Object<'_>, turn_id: &NativeId) -> Result<Self, Malformed> {
        let steered = Self { turn_id: object.id("turnId")?, target_turn_id: object.id("targetTurnId")? };
        if steered.target_turn_id == *turn_id { Ok(steered) } else { Err(object.wrong("targetTurnId")) }
    }
}

/// Result of a deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionsDeleted {
    /// The session that was to be deleted, and those that descend from it: 1 to 16,401, each once, in any order.
    pub deleted_session_ids: Vec<NativeId>,
}

impl SessionsDeleted {
    /// Reads the result of deleting `session_id`.
    ///
    /// # Errors
    /// [`Malformed`] when an id is wrong or stands twice, there are too many, or `session_id` is not among them.
    pub fn read(object: &mut Object<'_>, session_id: &NativeId) -> Result<Self, Malformed> {
        let what = object.what();
        let wrong = || Malformed::new(what, "has a wrong member `deletedSessionIds`");
        let ids = object.array("deletedSessionIds")?;
        if ids.len() > DELETED_SESSIONS_MAX {
            return Err(Malformed::new(what, "names more than 16401 sessions"));
        }
        let mut deleted_session_ids = Vec::with_capacity(ids.len());
        for id in &ids {
            deleted_session_ids.push(NativeId::new(id.as_str().ok_or_else(wrong)?).map_err(|_| wrong())?);
        }
        if !deleted_session_ids.contains(session_id) {
            return Err(Malformed::new(what, "does not name the session that was to be deleted"));
        }
        if has_twice(deleted_session_ids.iter().map(NativeId::as_str).collect()) {
            return Err(Malformed::new(what, "names a session twice"));
        }
        Ok(Self { deleted_session_ids })
    }
}

json::deserialize_by_read!(TurnStarted);
