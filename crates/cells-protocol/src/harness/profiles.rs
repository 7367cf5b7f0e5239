//! The configured agents and what they can do (`harness.md` §3.1, `cells-0.4.md` §1.3).

use serde::Serialize;

use crate::ids::{Epoch, ProfileId, WorkspaceId};
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

impl AttachmentKind {
    pub(super) const WORDS: &'static [(&'static str, Self)] = &[("text", Self::Text), ("image", Self::Image)];

    /// The string form: `text` or `image`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Image => "image",
        }
    }
}

fn attachment_kinds(kinds: Option<Json<'_>>) -> Vec<AttachmentKind> {
    let Some(Json::Array(kinds)) = kinds else { return Vec::new() };
    let known = |kind: &Json<'_>| AttachmentKind::WORDS.iter().find(|(word, _)| kind.as_str() == Some(word));
    kinds.iter().filter_map(known).map(|(_, kind)| *kind).collect()
}

json::deserialize_by_read!(Profiles);
