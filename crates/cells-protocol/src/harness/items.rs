//! Native items, read (`harness.md` §4.3–4.4, `cells-0.4.md` §3.3 and §5.2).
//!
//! Each agent writes items in its own words, Codex even in two ways: as the items of its own history and events, and as the
//! lines of its log. [`HarnessItem`] is one form for all of them. Detail of tools that older nodes give is cut down to what
//! others give: what was done, to which paths, and the first line of a command.

mod content;
mod tool;

use serde::Serialize;
use serde_json::Value;

use self::content::Content;
pub use self::tool::{ToolOperation, ToolSummary};
use super::history::Turn;
use crate::commands::{CommandState, OutputRef};
use crate::ids::{CommandName, NativeId, RequestId};
use crate::json::{Json, Object};
use crate::limits::COMMAND_PREVIEW_MAX_BYTES;
use crate::text::prefix;
use crate::time::unix_ms;

/// One item of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessItem {
    /// Native identity, if it has one.
    pub id: Option<NativeId>,
    /// The turn, if the item or what holds it says so.
    pub turn_id: Option<NativeId>,
    /// When, in Unix milliseconds.
    pub timestamp: Option<u64>,
    /// `inProgress`, `completed`, `failed`, `declined`, or a word of a newer agent.
    pub status: Option<String>,
    /// The type as the agent calls it, for example `agentMessage`.
    pub native_type: String,
    /// What it is.
    #[serde(flatten)]
    pub content: ItemContent,
}

/// What an item is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ItemContent {
    /// What the user sent, and what was sent with it.
    User {
        /// The parts, with a line end between them.
        text: String,
        /// The parts in their order.
        content_parts: Vec<String>,
        /// What each part is, as many as there are parts: `prompt`, `context`, `attachment`, `command`, `unknown`, or a word
        /// of a newer node. `None` = the node does not say.
        #[serde(skip_serializing_if = "Option::is_none")]
        content_part_kinds: Option<Vec<String>>,
    },
    /// What the agent says, or plans.
    Agent {
        /// Its text.
        text: String,
    },
    /// What the agent thinks, or a summary of that; may be empty.
    Reasoning {
        /// Its text.
        text: String,
    },
    /// A command that runs or ran.
    CommandExecution(ToolSummary),
    /// Files that are or were changed.
    FileChange(ToolSummary),
    /// A call of a tool of an MCP server.
    McpToolCall(ToolSummary),
    /// A call of any other tool.
    Tool(ToolSummary),
    /// The result of a slash command.
    CommandResult(CommandItem),
    /// Something that this version does not know.
    Unknown,
}

/// The result of a slash command, as histories and events have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandItem {
    /// Identity of the command.
    pub command_id: RequestId,
    /// Its name.
    pub name: CommandName,
    /// How far it is.
    pub state: CommandState,
    /// The beginning of its output, at most 64 KiB.
    pub preview: String,
    /// The preview is shorter than the output.
    pub truncated: bool,
    /// Where the whole output is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_ref: Option<OutputRef>,
}

impl HarnessItem {
    /// Reads a native item. `None` for output of a tool, which summaries leave out, and for what is no item.
    pub fn of(item: &Value) -> Option<Self> {
        let native_type = item.get("type")?.as_str()?;
        let content = match native_type {
            "toolOutput" | "customToolCallOutput" => return None,
            "userMessage" => user(item),
            "agentMessage" | "plan" => ItemContent::Agent { text: Content::of(item).joined("") },
            "reasoning" => ItemContent::Reasoning { text: reasoning(item) },
            "commandExecution" => ItemContent::CommandExecution(ToolSummary::of(item, native_type)),
            "fileChange" => ItemContent::FileChange(ToolSummary::of(item, native_type)),
            "mcpToolCall" => ItemContent::McpToolCall(ToolSummary::of(item, native_type)),
            "commandResult" => command_result(item).map_or(ItemContent::Unknown, ItemContent::CommandResult),
            _ if is_tool(native_type) => ItemContent::Tool(ToolSummary::of(item, native_type)),
            _ => ItemContent::Unknown,
        };
        let id = |name| NativeId::new(item.get(name)?.as_str()?).ok();
        Some(Self {
            id: id("id"),
            turn_id: id("turnId"),
            timestamp: item.get("timestamp").and_then(|time| unix_ms(&Json::of(time))),
            status: item.get("status").and_then(Value::as_str).map(str::to_owned),
            native_type: native_type.to_owned(),
            content,
        })
    }
}

impl Turn {
    /// The items of the turn, read. Those that do not name their turn are given its identity.
    pub fn read_items(&self) -> Vec<HarnessItem> {
        let mut items: Vec<HarnessItem> = self.items.iter().filter_map(HarnessItem::of).collect();
        for item in &mut items {
            item.turn_id = item.turn_id.take().or_else(|| self.id.clone());
        }
        items
    }
}

fn user(item: &Value) -> ItemContent {
    let content = Content::of(item);
    ItemContent::User {
        text: content.joined("\n"),
        content_part_kinds: content.part_kinds(item.get("contentItemKinds")),
        content_parts: content.into_parts(),
    }
}

fn reasoning(item: &Value) -> String {
    // The summary is what agents show; the whole thought stands beside it, or instead of it.
    let parts =
        ["text", "summary", "content"].map(|name| item.get(name).map(|value| Content::of_value(value).joined("\n")));
    parts.into_iter().flatten().find(|text| !text.is_empty()).unwrap_or_default()
}

fn is_tool(native_type: &str) -> bool {
    ["Execution", "Change", "ToolCall"].iter().any(|part| native_type.contains(part))
        || matches!(native_type, "toolCall" | "functionCall" | "webSearch" | "imageGeneration")
}

fn command_result(item: &Value) -> Option<CommandItem> {
    let mut object = Json::of(item).object("the item").ok()?;
    let read = |object: &mut Object<'_>| {
        // Inline output of nodes that keep none: its beginning is the preview.
        let output = object.optional_string("output")?;
        let preview = object.optional_string("preview")?.or(output).unwrap_or_default();
        let cut = prefix(&preview, COMMAND_PREVIEW_MAX_BYTES);
        Ok::<_, crate::json::Malformed>(CommandItem {
            command_id: object.id("commandId")?,
            name: object.id("name")?,
            state: object.word("state", CommandState::WORDS)?,
            truncated: object.optional_boolean("truncated")?.unwrap_or(false) || cut.len() < preview.len(),
            preview: cut.to_owned(),
            output_ref: object.lenient("outputRef", OutputRef::read)?.filter(|reference| reference.check().is_ok()),
        })
    };
    read(&mut object).ok()
}
