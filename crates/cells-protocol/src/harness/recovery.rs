//! What is known of the process that ran a session (`cells-0.4.md` §3.6).

use serde::Serialize;

use super::models::optional_label;
use crate::ids::NativeId;
use crate::json::{Malformed, Object};
use crate::limits::RUNTIME_ID_MAX_BYTES;

/// Evidence about the original runtime of a session. A missing process or lock alone proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessExecutionRecovery {
    /// What the evidence says.
    pub state: RuntimeState,
    /// The turn it is about: the last that is known to have started.
    pub turn_id: Option<NativeId>,
    /// The process that ran it.
    pub pid: Option<u64>,
    /// Identity of that process, which no other process has after it; at most 128 bytes.
    pub runtime_id: Option<String>,
    /// When it started, in Unix milliseconds.
    pub started_at: Option<u64>,
    /// The write lock of the session.
    pub lock: LockState,
    /// When the node looked, in Unix milliseconds.
    pub observed_at: u64,
}

/// What is known of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RuntimeState {
    /// It runs, or something holds the lock.
    Running,
    /// It is over, and nobody has taken its place.
    Detached,
    /// Nothing is proven.
    Unknown,
}

/// State of a native write lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockState {
    /// Somebody has it.
    Held,
    /// Nobody has it.
    NotHeld,
    /// It cannot be told.
    Unknown,
}

impl HarnessExecutionRecovery {
    /// Reads the evidence.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        const STATES: &[(&str, RuntimeState)] = &[
            ("running", RuntimeState::Running),
            ("detached", RuntimeState::Detached),
            ("unknown", RuntimeState::Unknown),
        ];
        const LOCKS: &[(&str, LockState)] =
            &[("held", LockState::Held), ("not-held", LockState::NotHeld), ("unknown", LockState::Unknown)];
        Ok(Self {
            state: object.word("state", STATES)?,
            turn_id: object.optional_id("turnId")?,
            pid: object.optional_integer("pid")?,
            runtime_id: optional_label(object, "runtimeId", RUNTIME_ID_MAX_BYTES)?,
            started_at: object.optional_integer("startedAt")?,
            lock: object.word("lock", LOCKS)?,
            observed_at: object.integer("observedAt")?,
        })
    }
}
