//! Profiles, sessions and history (`harness.md` §3–4, `cells-0.4.md` §3).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::events::EventCursor;
use crate::ids::{Epoch, NativeId, ProfileId, WorkspaceId};
use crate::json::{exactly_true, lenient, lenient_safe_integer};

/// Reply of `harness_profiles`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profiles {
    /// Process epoch of the harness service; guards every receipt.
    pub epoch: Epoch,
    /// The profiles, sorted by id.
    pub profiles: Vec<Profile>,
}

/// One configured agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// Its name.
    pub id: ProfileId,
    /// Kind of the agent, for example `scripted`, `codex` or `claude`.
    pub kind: String,
    /// Where sessions can be created.
    #[serde(default)]
    pub workspaces: Vec<Workspace>,
    /// Usable with a project scope.
    #[serde(default)]
    pub project_runtime: bool,
    /// What it can do.
    #[serde(default)]
    pub capabilities: HarnessCapabilities,
}

/// A place where sessions work. Its directory is never disclosed here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Its name.
    pub id: WorkspaceId,
}

macro_rules! capabilities {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a profile can do. Anything but the JSON value `true` counts as absent (`cells-0.4.md` §1.3).
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct HarnessCapabilities {
            $($(#[$doc])* #[serde(default, deserialize_with = "exactly_true")] pub $name: bool,)*
            /// Kinds of attachment a turn may carry.
            #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "attachment_kinds")]
            pub attachments: Vec<AttachmentKind>,
        }
    };
}

capabilities! {
    /// History can be read.
    history,
    /// Sessions can be created.
    create,
    /// Sessions can be resumed.
    resume,
    /// Turns can be interrupted.
    interrupt,
    /// Approvals and questions can be answered.
    interactions,
    /// Sessions can be forked.
    fork,
    /// Sessions can be searched.
    search,
    /// Sessions can be renamed.
    rename,
    /// Sessions can be archived.
    archive,
    /// Sessions can be unarchived.
    unarchive,
    /// Sessions can be deleted.
    delete,
    /// Models can be listed and selected.
    models,
    /// Slash commands can be listed and run.
    slash_commands,
    /// Command output can be kept behind a reference.
    command_outputs,
    /// A running turn can be steered.
    steer,
    /// Token usage can be read.
    usage,
    /// Metrics can be read.
    metrics,
    /// A digest of a session can be read.
    session_digest,
    /// Evidence about the original runtime is given.
    execution_recovery,
}

/// Kind of an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttachmentKind {
    /// Text.
    Text,
    /// A picture.
    Image,
}

fn attachment_kinds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<AttachmentKind>, D::Error> {
    let Value::Array(kinds) = Value::deserialize(deserializer)? else { return Ok(Vec::new()) };
    let known = |kind: &Value| match kind.as_str() {
        Some("text") => Some(AttachmentKind::Text),
        Some("image") => Some(AttachmentKind::Image),
        Some(_) | None => None,
    };
    Ok(kinds.iter().filter_map(known).collect())
}

/// One session of an agent. Times are Unix milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Native identity.
    pub id: NativeId,
    /// May be empty.
    #[serde(default)]
    pub title: String,
    /// Working directory as the agent names it.
    #[serde(default)]
    pub cwd: Option<String>,
    /// `notLoaded`, `idle`, `active`, `systemError` or a value of a newer agent.
    #[serde(default)]
    pub status: Option<String>,
    /// The native status object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_details: Option<Value>,
    /// Creation.
    #[serde(default, deserialize_with = "lenient_safe_integer")]
    pub created_at: Option<u64>,
    /// Last change.
    #[serde(default, deserialize_with = "lenient_safe_integer")]
    pub updated_at: Option<u64>,
    /// Can be resumed.
    #[serde(default)]
    pub resumable: bool,
    /// Controlled by this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owned: Option<bool>,
    /// Archived.
    #[serde(default)]
    pub archived: bool,
    /// The agent allows archiving now (`cells-0.4.md` §3.5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive_allowed: Option<bool>,
    /// The running turn.
    #[serde(default)]
    pub active_turn_id: Option<NativeId>,
    /// The last turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_turn_id: Option<NativeId>,
    /// How the last turn ended.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient")]
    pub last_turn_result: Option<TurnResult>,
    /// The session this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session_id: Option<NativeId>,
    /// Name of the branch, for forked sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_name: Option<String>,
    /// Version of the native history; compared for equality only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_revision: Option<String>,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnResult {
    /// By itself.
    Completed,
    /// With an error.
    Failed,
    /// Interrupted.
    #[serde(alias = "interrupted")]
    Cancelled,
}

/// Reply of `harness_sessions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPage {
    /// Most recently updated first. A page may be empty while there is a next one.
    pub sessions: Vec<Session>,
    /// Asks for the next page.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// Reply of `harness_session_info`, and result of create and resume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// The session.
    pub session: Session,
}

/// Reply of `harness_session_read`. The first page is the latest; `nextCursor` leads to older ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryPage {
    /// The session.
    pub session: Session,
    /// Turns in chronological order.
    #[serde(default)]
    pub turns: Vec<Turn>,
    /// Asks for the page before this one.
    #[serde(default)]
    pub next_cursor: Option<String>,
    /// Every event up to here is contained in this page and those before it (`cells-0.4.md` §3.2).
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient")]
    pub event_cursor: Option<EventCursor>,
}

/// One turn of a history page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Native identity, if the page knows it.
    #[serde(default)]
    pub id: Option<NativeId>,
    /// `inProgress`, `completed`, `failed`, `cancelled` or `interrupted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Native items. The set grows with the agent, so they stay JSON.
    #[serde(default)]
    pub items: Vec<Value>,
}

/// Result of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnStarted {
    /// The native turn.
    pub turn_id: NativeId,
}
