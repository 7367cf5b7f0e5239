//! Sessions, alone and in pages (`harness.md` §3.2–3.3).

use serde::Serialize;
use serde_json::Value;

use super::recovery::{HarnessExecutionRecovery, LockState, RuntimeState};
use super::usage::HarnessUsage;
use crate::ids::NativeId;
use crate::json::{self, Json, Malformed, Object};
use crate::time::unix_ms;

/// One session of an agent. Times are Unix milliseconds, whatever a node sends; see [`unix_ms`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Native identity.
    pub id: NativeId,
    /// The title, else the native name, else how the first message begins; may be empty.
    pub title: String,
    /// Working directory as the agent names it.
    pub cwd: Option<String>,
    /// `notLoaded`, `idle`, `active`, `systemError` or a value of a newer agent.
    pub status: Option<String>,
    /// The native status object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_details: Option<Value>,
    /// Creation, by the node or else by the agent.
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
    /// Can be forked, as far as the place it works in tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forkable: Option<bool>,
    /// Version of the native history; compared for equality only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_revision: Option<String>,
    /// Tokens it has used; left out when the node's numbers do not fit together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<HarnessUsage>,
    /// Evidence about the process that ran it (`cells-0.4.md` §3.6).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_recovery: Option<HarnessExecutionRecovery>,
    /// What the agent itself says of the session, as it says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native: Option<Value>,
}

impl Session {
    /// Reads one session, also as older nodes give it: without a title of its own, with times in seconds or as text.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        let native = object.optional_value("native")?.filter(Value::is_object);
        let of_native = |name| native.as_ref().and_then(|native| native.get(name));
        let native_time = |name| of_native(name).and_then(|time| unix_ms(&Json::of(time)));
        let title = object.optional_string("title")?.unwrap_or_default();
        let titles = [
            Some(title.as_str()),
            of_native("name").and_then(Value::as_str),
            of_native("preview").and_then(Value::as_str),
        ];
        let title = titles.into_iter().flatten().map(str::trim).find(|title| !title.is_empty()).unwrap_or_default();
        let id = object.id("id")?;
        let usage = object.lenient("usage", |usage| HarnessUsage::read(usage, &id))?;
        let execution_recovery = object.lenient("executionRecovery", HarnessExecutionRecovery::read)?;
        let mut session = Self {
            id,
            title: title.to_owned(),
            cwd: object.optional_string("cwd")?,
            status: object.optional_string("status")?,
            status_details: object.optional_value("statusDetails")?,
            created_at: object.time("createdAt")?.or_else(|| native_time("createdAt")),
            updated_at: object.time("updatedAt")?.or_else(|| native_time("updatedAt")),
            resumable: object.flag("resumable")?,
            owned: object.optional_boolean("owned")?,
            archived: object.flag("archived")?,
            archive_allowed: object.optional_boolean("archiveAllowed")?,
            active_turn_id: object.optional_id("activeTurnId")?,
            last_turn_id: object.optional_id("lastTurnId")?,
            last_turn_result: object.lenient_word("lastTurnResult", TurnResult::WORDS)?,
            parent_session_id: object.optional_id("parentSessionId")?,
            branch_name: object.optional_string("branchName")?,
            forkable: object.optional_boolean("forkable")?,
            history_revision: object.optional_string("historyRevision")?,
            usage,
            execution_recovery,
            native,
        };
        session.check_detached();
        Ok(session)
    }

    /// Believes in a runtime that is over only if everything else of the session says so as well.
    fn check_detached(&mut self) {
        let is_over =
            self.status.as_deref() == Some("notLoaded") && self.owned == Some(false) && self.active_turn_id.is_none();
        if let Some(recovery) = &mut self.execution_recovery
            && recovery.state == RuntimeState::Detached
            && !(is_over && recovery.lock == LockState::NotHeld)
        {
            recovery.state = RuntimeState::Unknown;
        }
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

    /// How a turn with the native `status` ended; `None` for one that runs, and for a word of a newer agent.
    pub fn of_status(status: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(word, _)| *word == status).map(|(_, result)| *result)
    }
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
