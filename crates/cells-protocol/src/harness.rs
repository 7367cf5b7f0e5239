//! Profiles, sessions and history (`harness.md` §3–4, `cells-0.4.md` §3).

use serde::Serialize;
use serde_json::Value;

use crate::events::EventCursor;
use crate::ids::{Epoch, NativeId, ProfileId, WorkspaceId};
use crate::json::{self, Json, Malformed, Object};

/// Reply of `harness_profiles`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Profiles {
    /// Process epoch of the harness service; guards every receipt.
    pub epoch: Epoch,
    /// The profiles, sorted by id.
    pub profiles: Vec<Profile>,
}

impl Profiles {
    /// Reads the reply.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self { epoch: object.id("epoch")?, profiles: object.objects("profiles", Profile::read)? })
    }
}

/// One configured agent (`harness.md` §3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// Its name.
    pub id: ProfileId,
    /// Kind of the agent, for example `scripted`, `codex` or `claude`.
    pub kind: String,
    /// Where sessions can be created.
    pub workspaces: Vec<Workspace>,
    /// Usable with a project scope.
    pub project_runtime: bool,
    /// What it can do.
    pub capabilities: HarnessCapabilities,
}

impl Profile {
    /// Reads one profile.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            id: object.id("id")?,
            kind: object.string("kind")?,
            workspaces: object.objects_or_empty("workspaces", |workspace| Ok(Workspace { id: workspace.id("id")? }))?,
            project_runtime: object.flag("projectRuntime")?,
            capabilities: match object.object_if_present("capabilities")? {
                Some(mut capabilities) => HarnessCapabilities::read(&mut capabilities)?,
                None => HarnessCapabilities::default(),
            },
        })
    }
}

/// A place where sessions work. Its directory is never disclosed here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Workspace {
    /// Its name.
    pub id: WorkspaceId,
}

macro_rules! capabilities {
    ($($(#[$doc:meta])* $name:ident = $member:literal,)*) => {
        /// What a profile can do. Anything but the JSON value `true` counts as absent (`cells-0.4.md` §1.3).
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
        #[serde(rename_all = "camelCase")]
        pub struct HarnessCapabilities {
            $($(#[$doc])* pub $name: bool,)*
            /// Kinds of attachment a turn may carry.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            pub attachments: Vec<AttachmentKind>,
        }

        impl HarnessCapabilities {
            fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
                let [$($name),*] = object.exactly_true_each([$($member),*])?;
                Ok(Self { $($name,)* attachments: attachment_kinds(object.member("attachments")?) })
            }
        }
    };
}

capabilities! {
    /// History can be read.
    history = "history",
    /// Sessions can be created.
    create = "create",
    /// Sessions can be resumed.
    resume = "resume",
    /// Turns can be interrupted.
    interrupt = "interrupt",
    /// Approvals and questions can be answered.
    interactions = "interactions",
    /// Sessions can be forked.
    fork = "fork",
    /// Sessions can be searched.
    search = "search",
    /// Sessions can be renamed.
    rename = "rename",
    /// Sessions can be archived.
    archive = "archive",
    /// Sessions can be unarchived.
    unarchive = "unarchive",
    /// Sessions can be deleted.
    delete = "delete",
    /// Models can be listed and selected.
    models = "models",
    /// Slash commands can be listed and run.
    slash_commands = "slashCommands",
    /// Command output can be kept behind a reference.
    command_outputs = "commandOutputs",
    /// A running turn can be steered.
    steer = "steer",
    /// Token usage can be read.
    usage = "usage",
    /// Metrics can be read.
    metrics = "metrics",
    /// A digest of a session can be read.
    session_digest = "sessionDigest",
    /// Evidence about the original runtime is given.
    execution_recovery = "executionRecovery",
}

/// Kind of an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AttachmentKind {
    /// Text.
    Text,
    /// A picture.
    Image,
}

fn attachment_kinds(kinds: Option<Json<'_>>) -> Vec<AttachmentKind> {
    let Some(Json::Array(kinds)) = kinds else { return Vec::new() };
    let known = |kind: &Json<'_>| match kind.as_str() {
        Some("text") => Some(AttachmentKind::Text),
        Some("image") => Some(AttachmentKind::Image),
        Some(_) | None => None,
    };
    kinds.iter().filter_map(known).collect()
}

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

/// Reply of `harness_session_read`. The first page is the latest; `nextCursor` leads to older ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryPage {
    /// The session.
    pub session: Session,
    /// Turns in chronological order, with at most 100 items, or 2 MiB of them.
    pub turns: Vec<Turn>,
    /// Asks for the page before this one.
    pub next_cursor: Option<String>,
    /// Every event up to here is contained in this page and those before it (`cells-0.4.md` §3.2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_cursor: Option<EventCursor>,
}

impl HistoryPage {
    /// Reads the reply.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            session: Session::read(&mut object.object("session")?)?,
            turns: object.objects_or_empty("turns", Turn::read)?,
            next_cursor: object.optional_string("nextCursor")?,
            event_cursor: object.lenient("eventCursor", EventCursor::read)?,
        })
    }
}

/// One turn of a history page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Turn {
    /// Native identity, if the page knows it.
    pub id: Option<NativeId>,
    /// `inProgress`, `completed`, `failed`, `cancelled` or `interrupted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Native items. The set grows with the agent, so they stay JSON.
    pub items: Vec<Value>,
}

impl Turn {
    /// Reads one turn.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            id: object.optional_id("id")?,
            status: object.optional_string("status")?,
            items: object.array_or_empty("items")?.into_iter().map(Json::into_value).collect(),
        })
    }
}

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

json::deserialize_by_read!(HistoryPage, Profiles, SessionInfo, SessionPage);
