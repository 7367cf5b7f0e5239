//! One line of a session file.

use cells_protocol::harness::{HarnessUsageEntry, TurnResult};
use cells_protocol::ids::{NativeId, WorkspaceId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::runtime::Runtime;
use crate::random;

/// A native item: `id`, `type`, `turnId`, `timestamp` and what its type says (`harness.md` §4.3).
pub(super) type Item = Map<String, Value>;

/// A record of the native history, in the order in which things happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Record {
    /// The first line: what the session is.
    Session(Header),
    /// A finished item. The user message of a turn is its first and starts it.
    Item {
        /// The item.
        item: Item,
        /// The process that runs the turn, with the message that starts one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        runtime: Option<Runtime>,
    },
    /// The end of a turn.
    TurnEnd(TurnEnd),
    /// A record of a newer version.
    #[serde(other)]
    Unknown,
}

/// What a session is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Header {
    /// The session.
    pub(super) id: NativeId,
    /// Where it works.
    pub(super) workspace_id: WorkspaceId,
    /// The directory of that workspace when the session was made.
    pub(super) cwd: String,
    /// When it was made, in Unix milliseconds.
    pub(super) created_at: u64,
    /// The session it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) forked_from: Option<NativeId>,
    /// The session that spawned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) spawned_by: Option<NativeId>,
    /// How many records, this one included, a fork has from its source.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) inherited_records: u64,
}

/// Where a turn starts in the order of records, and with what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnStart {
    /// Position of the user message, counted from 1.
    pub(super) sequence: u64,
    /// SHA-256 of the prompt, where the message is nothing but a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) prompt_sha256: Option<String>,
}

/// How and when a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnEnd {
    /// The turn.
    pub(super) turn_id: NativeId,
    /// How it ended.
    pub(super) status: TurnStatus,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// When it ended, in Unix milliseconds.
    pub(super) timestamp: u64,
    /// Where it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) start: Option<TurnStart>,
    /// Position of this record, counted from 1; 0 in files of before there were positions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) sequence: u64,
    /// What the session has used until then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) usage: Vec<HarnessUsageEntry>,
}

impl TurnEnd {
    /// What the turn proves of the mutation that started it (`cells-0.4.md` §3.4): nothing where the message was more than a
    /// prompt, or where the turn is one of the source of a fork.
    pub(super) fn evidence(&self, header: &Header) -> Option<Value> {
        let start = self.start.as_ref()?;
        let prompt_sha256 = start.prompt_sha256.as_ref()?;
        let is_own = start.sequence > header.inherited_records && start.sequence > 0 && self.sequence > start.sequence;
        is_own.then(|| {
            json!({
                "version": 1, "requestId": self.turn_id, "promptSha256": prompt_sha256,
                "startSequence": start.sequence, "endSequence": self.sequence,
            })
        })
    }
}

/// How a turn ended, in the words of `turn/completed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum TurnStatus {
    /// By itself.
    Completed,
    /// With an error.
    Failed,
    /// By an interrupt, or with the process that ran it.
    Interrupted,
}

impl TurnStatus {
    /// The word on the wire.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }

    /// The word of `lastTurnResult`.
    pub(super) fn result(self) -> TurnResult {
        match self {
            Self::Completed => TurnResult::Completed,
            Self::Failed => TurnResult::Failed,
            Self::Interrupted => TurnResult::Cancelled,
        }
    }
}

impl Record {
    /// An item that starts no turn.
    pub(super) fn item(item: Item) -> Self {
        Self::Item { item, runtime: None }
    }

    /// The record as one line, with its newline.
    pub(super) fn to_line(&self) -> Vec<u8> {
        let mut line = cells_protocol::json::to_vec(self);
        line.push(b'\n');
        line
    }

    /// The record of a line; [`Record::Unknown`] for a line that is none, because one bad line must not hide the others.
    pub(super) fn from_line(line: &[u8]) -> Self {
        serde_json::from_slice(line).unwrap_or(Self::Unknown)
    }

    /// The turn that an item belongs to.
    pub(super) fn turn_of(item: &Item) -> Option<&str> {
        item.get("turnId").and_then(Value::as_str)
    }

    /// Whether an item is the message with which the user started a turn.
    pub(super) fn is_user_message(item: &Item) -> bool {
        item.get("type").and_then(Value::as_str) == Some("userMessage")
    }

    /// The prompt of a user message that is nothing else: no command, no attachments.
    pub(super) fn only_prompt(item: &Item) -> Option<&str> {
        let content = item.get("content")?.as_array().filter(|content| content.len() == 1)?;
        let is_prompt = item.get("contentItemKinds")?.get(0)? == "prompt";
        content.first().filter(|_| is_prompt)?.get("text")?.as_str()
    }

    /// SHA-256 of [`Self::only_prompt`].
    pub(super) fn prompt_sha256(item: &Item) -> Option<String> {
        Self::only_prompt(item).map(|prompt| random::hex(&Sha256::digest(prompt)))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
