//! Sessions, alone and in pages (`harness.md` §3.2–3.3).

use serde::Serialize;
use serde_json::Value;

use crate::ids::NativeId;
use crate::json::{self, Malformed, Object};

/// One session of an agent. Times are Unix milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Native identity.
    pub id: NativeId,
    /// May be empty.
    pub title: String,
    /// Working directory as the agent names it.
    pub cwd: Option<String>,
    /// `notLoaded`, `idle`, `active`, `systemError` or a value of a newer agent.
    pub status: Option<String>,
    /// The native status object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_details: Option<Value>,
    /// Creation.
    pub created_at: Option<u64>,
    /// Last change.
    pub updated_at: Option<u64>,
    /// Can be resumed.
    pub resumable: bool,
    /// Controlled by this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owned: Option<bool>,
    /// Archived.
    pub archived: bool,
    /// The agent allows archiving now (`cells-0.4.md` §3.5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_allowed: Option<bool>,
    /// The running turn.
    pub active_turn_id: Option<NativeId>,
    /// The last turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_turn_id: Option<NativeId>,
    /// How the last turn ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_turn_result: Option<TurnResult>,
    /// The session this one was forked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_session_id: Option<NativeId>,
    /// Name of the branch, for forked sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_name: Option<String>,
    /// Version of the native history; compared for equality only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_revision: Option<String>,
}

impl Session {
    /// Reads one session.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            id: object.id("id")?,
            title: object.string_or_empty("title")?,
            cwd: object.optional_string("cwd")?,
            status: object.optional_string("status")?,
            status_details: object.optional_value("statusDetails")?,
            created_at: object.lenient_integer("createdAt")?,
            updated_at: object.lenient_integer("updatedAt")?,
            resumable: object.flag("resumable")?,
            owned: object.optional_boolean("owned")?,
            archived: object.flag("archived")?,
            archive_allowed: object.optional_boolean("archiveAllowed")?,
            active_turn_id: object.optional_id("activeTurnId")?,
            last_turn_id: object.optional_id("lastTurnId")?,
            last_turn_result: object.lenient_word("lastTurnResult", TurnResult::WORDS)?,
            parent_session_id: object.optional_id("parentSessionId")?,
            branch_name: object.optional_string("branchName")?,
            history_revision: object.optional_string("historyRevision")?,
        })
    }
}

/// Whether a session can be archived now, as far as it tells itself (`cells-0.4.md` §3.5). The program adds: a writable view,
/// the profile's capability, a live connection. The node checks again.
pub fn harness_archive_allowed(session: &Session) -> bool {
    let not_loaded = session.status.as_deref() == Some("notLoaded");
    if session.archived
        || session.active_turn_id.is_some()
        || !(not_loaded || session.status.as_deref() == Some("idle"))
    {
        return false;
    }
    session.archive_allowed.unwrap_or(not_loaded || session.owned == Some(true))
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnResult {
    /// By itself.
    Completed,
    /// With an error.
    Failed,
    /// Interrupted.
    Cancelled,
}

impl TurnResult {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("completed", Self::Completed),
        ("failed", Self::Failed),
        ("cancelled", Self::Cancelled),
        ("interrupted", Self::Cancelled),
    ];
}

/// Reply of `harness_sessions`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPage {
    /// Most recently updated first. A page may be empty while there is a next one.
    pub sessions: Vec<Session>,
    /// Asks for the next page.
    pub next_cursor: Option<String>,
}

impl SessionPage {
    /// Reads the reply.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            sessions: object.objects("sessions", Session::read)?,
            next_cursor: object.optional_string("nextCursor")?,
        })
    }
}

/// Reply of `harness_session_info`, and result of create and resume.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionInfo {
    /// The session.
    pub session: Session,
}

impl SessionInfo {
    /// Reads the reply.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self { session: Session::read(&mut object.object("session")?)? })
    }
}

json::deserialize_by_read!(SessionInfo, SessionPage);
