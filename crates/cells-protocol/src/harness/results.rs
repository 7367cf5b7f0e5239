//! What receipts of mutations hold (`harness.md` §6).

use serde::Serialize;

use crate::ids::NativeId;
use crate::json::{Malformed, Object};

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
