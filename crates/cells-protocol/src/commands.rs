//! Slash commands and their output (`cells-0.4.md` §5).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;

use crate::ids::{CommandName, Epoch, NativeId, RequestId, Sha256Hex};
use crate::json::{self, Json, Malformed, Object};
use crate::limits::{
    COMMAND_DESCRIPTION_MAX_BYTES, COMMAND_HINT_MAX_BYTES, COMMAND_PREVIEW_MAX_BYTES, COMMANDS_MAX, COMMANDS_MAX_BYTES,
    OUTPUT_MAX_BYTES,
};
use crate::text::{has_twice, is_code, is_text};

/// The only type of output there is.
pub const OUTPUT_MIME_TYPE: &str = "text/plain";

/// Reply of `harness_commands`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CommandCatalog {
    /// At most 256 commands with unique names.
    pub commands: Vec<Command>,
}

/// One slash command of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// Its name, without the slash.
    pub name: CommandName,
    /// How it runs.
    pub kind: CommandKind,
    /// What it does, in at most 1,024 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What its arguments look like, in at most 256 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
}

impl Command {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            name: object.id("name")?,
            kind: object.word("kind", CommandKind::WORDS)?,
            description: object.optional_string("description")?,
            argument_hint: object.optional_string("argumentHint")?,
        })
    }
}

/// How a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandKind {
    /// As a turn of the model.
    Prompt,
    /// As a native action, without a turn.
    Action,
}

impl CommandKind {
    const WORDS: &'static [(&'static str, Self)] = &[("prompt", Self::Prompt), ("action", Self::Action)];
}

impl CommandCatalog {
    /// Reads and validates a catalog. One wrong entry rejects it whole.
    ///
    /// # Errors
    /// [`Malformed`] when an entry is wrong, a name stands twice or a bound is exceeded.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        let what = object.what();
        if object.compact_bytes() > COMMANDS_MAX_BYTES {
            return Err(Malformed::new(what, "is larger than 256 KiB"));
        }
        let catalog = Self { commands: object.objects("commands", Command::read)? };
        if catalog.commands.len() > COMMANDS_MAX {
            return Err(Malformed::new(what, "has more than 256 commands"));
        }
        let bounded = |text: &Option<String>, max| text.as_deref().is_none_or(|text| is_text(text, max));
        let fits = |command: &Command| {
            bounded(&command.description, COMMAND_DESCRIPTION_MAX_BYTES)
                && bounded(&command.argument_hint, COMMAND_HINT_MAX_BYTES)
        };
        if !catalog.commands.iter().all(fits) {
            return Err(Malformed::new(what, "has a description or hint that is too long"));
        }
        if has_twice(catalog.commands.iter().map(|command| command.name.as_str()).collect()) {
            return Err(Malformed::new(what, "names a command twice"));
        }
        Ok(catalog)
    }
}

/// Result of a command (`cells-0.4.md` §5.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandResult {
    /// Equals the request id of the mutation.
    pub command_id: RequestId,
    /// Equals the argument.
    pub name: CommandName,
    /// How far it is.
    pub state: CommandState,
    /// The turn of a prompt command; null for actions.
    pub turn_id: Option<NativeId>,
    /// The complete text, when no reference was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The beginning of the text, at most 64 KiB, when a reference was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// The preview is shorter than the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// Where the whole text is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_ref: Option<OutputRef>,
    /// Why the text is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_error: Option<String>,
    /// Why the command failed. It ran all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<CommandError>,
}

/// How far a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandState {
    /// Not ended.
    Running,
    /// Ended.
    Completed,
    /// Ended with an error.
    Failed,
}

impl CommandState {
    pub(crate) const WORDS: &'static [(&'static str, Self)] =
        &[("running", Self::Running), ("completed", Self::Completed), ("failed", Self::Failed)];
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandError {
    /// The node's code.
    pub code: String,
}

impl CommandResult {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            command_id: object.id("commandId")?,
            name: object.id("name")?,
            state: object.word("state", CommandState::WORDS)?,
            turn_id: object.optional_id("turnId")?,
            output: object.optional_string("output")?,
            preview: object.optional_string("preview")?,
            truncated: object.optional_boolean("truncated")?,
            output_ref: match object.optional_object("outputRef")? {
                Some(mut reference) => Some(OutputRef::read(&mut reference)?),
                None => None,
            },
            output_error: object.optional_string("outputError")?,
            error: match object.optional_object("error")? {
                Some(mut error) => Some(CommandError { code: error.string("code")? }),
                None => None,
            },
        })
    }

    /// Checks the result of the command `name` that was sent as `request_id` in `epoch` (`cells-0.4.md` §5.3).
    ///
    /// A failing check does not change the outcome: the command ran.
    ///
    /// # Errors
    /// [`Malformed`] when a member is wrong or belongs to another command.
    pub fn from_receipt(
        result: &Value,
        request_id: &RequestId,
        epoch: &Epoch,
        name: &CommandName,
    ) -> Result<Self, Malformed> {
        const WHAT: &str = "the command result";
        let result = Self::read(&mut Json::of(result).object(WHAT)?)?;
        let wrong = |problem: &str| Err(Malformed::new(WHAT, problem));
        if result.command_id != *request_id || result.name != *name {
            return wrong("belongs to another command");
        }
        if result.preview.as_deref().is_some_and(|preview| !is_text(preview, COMMAND_PREVIEW_MAX_BYTES)) {
            return wrong("has a preview of more than 64 KiB or with a NUL");
        }
        let codes = result.output_error.iter().chain(result.error.iter().map(|error| &error.code));
        if !codes.into_iter().all(|code| is_code(code)) {
            return wrong("has an error whose code is not one");
        }
        if let Some(reference) = &result.output_ref {
            reference.check()?;
            if reference.epoch != *epoch || reference.request_id != *request_id {
                return wrong("refers to the output of another command");
            }
        }
        Ok(result)
    }
}

/// Where the output of a command is kept. Immutable: epoch and request id name the body, size and hash prove it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputRef {
    /// Always 1.
    pub version: u64,
    /// The epoch of the command.
    pub epoch: Epoch,
    /// The command.
    pub request_id: RequestId,
    /// Size in bytes, 1 to 33,554,432.
    pub bytes: u64,
    /// SHA-256 of the body.
    pub sha256: Sha256Hex,
    /// Always `text/plain`.
    pub mime_type: String,
}

impl OutputRef {
    /// Reads a reference; [`Self::check`] checks it.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            version: object.integer("version")?,
            epoch: object.id("epoch")?,
            request_id: object.id("requestId")?,
            bytes: object.integer("bytes")?,
            sha256: object.id("sha256")?,
            mime_type: object.string("mimeType")?,
        })
    }

    /// Checks version, size and type.
    ///
    /// # Errors
    /// [`Malformed`] when one is out of its bounds.
    pub fn check(&self) -> Result<(), Malformed> {
        const WHAT: &str = "the output reference";
        if self.version != 1 {
            return Err(Malformed::new(WHAT, "has another version than 1"));
        }
        if self.bytes == 0 || self.bytes > OUTPUT_MAX_BYTES {
            return Err(Malformed::new(WHAT, "has a size outside 1 to 33554432 bytes"));
        }
        if self.mime_type != OUTPUT_MIME_TYPE {
            return Err(Malformed::new(WHAT, "has another type than text/plain"));
        }
        Ok(())
    }
}

/// One page of output, checked against its reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPage {
    /// Where the page starts.
    pub offset: u64,
    /// Its bytes, at least one.
    pub data: Vec<u8>,
    /// Where the next page starts; `None` at the end.
    pub next_offset: Option<u64>,
}

impl OutputPage {
    /// Reads the page of `reference` that was asked for at `offset` with `limit`, and makes every check of
    /// `cells-0.4.md` §5.4: identical metadata, exact offset, canonical base64, a length of 1 to `limit`, and a next
    /// offset that fits.
    ///
    /// # Errors
    /// [`Malformed`] on any violation; nothing of the page is handed out.
    pub fn read(object: &mut Object<'_>, reference: &OutputRef, offset: u64, limit: u64) -> Result<Self, Malformed> {
        let what = object.what();
        let wrong = |problem: &str| Err(Malformed::new(what, problem));
        let same = object.integer("version")? == reference.version
            && object.text("epoch")? == reference.epoch.as_str()
            && object.text("requestId")? == reference.request_id.as_str()
            && object.integer("bytes")? == reference.bytes
            && object.text("sha256")? == reference.sha256.as_str()
            && object.text("mimeType")? == reference.mime_type;
        if !same {
            return wrong("does not belong to the reference it was asked for");
        }
        if object.integer("offset")? != offset {
            return wrong("starts at another offset than asked");
        }
        // Borrowed from the message unless a serializer escaped the slashes of base64, which it may.
        let Ok(data) = STANDARD.decode(object.text("data")?.as_bytes()) else {
            return wrong("is not canonical base64");
        };
        let length = data.len() as u64;
        let end = offset.saturating_add(length);
        if length == 0 || length > limit || end > reference.bytes {
            return wrong("has a length outside what was asked");
        }
        let expected_next = (end < reference.bytes).then_some(end);
        let next = match object.required("nextOffset")? {
            Json::Null => None,
            next => Some(next.safe_integer().ok_or_else(|| object.wrong("nextOffset"))?),
        };
        if next != expected_next {
            return wrong("names a next offset that does not follow");
        }
        Ok(Self { offset, data, next_offset: expected_next })
    }
}

/// The wire form of a page, for nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputPageBody {
    /// The reference the page belongs to.
    #[serde(flatten)]
    pub reference: OutputRef,
    /// Where the page starts.
    pub offset: u64,
    /// Standard base64, padded.
    pub data: String,
    /// Where the next page starts; null at the end.
    pub next_offset: Option<u64>,
}

json::deserialize_by_read!(CommandResult, OutputRef);
