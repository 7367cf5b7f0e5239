//! Pages of history (`harness.md` §4, `cells-0.4.md` §3).

use serde::Serialize;
use serde_json::Value;

use super::sessions::Session;
use crate::events::EventCursor;
use crate::ids::{NativeId, RequestId, Sha256Hex};
use crate::json::{self, Json, Malformed, Object};

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
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Native identity, if the page knows it.
    pub id: Option<NativeId>,
    /// `inProgress`, `completed`, `failed`, `cancelled` or `interrupted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What proves that this turn came from one message of a client (`cells-0.4.md` §3.4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submission_evidence: Option<SubmissionEvidence>,
    /// Native items. The set grows with the agent, so they stay JSON; [`Turn::read_items`] reads them.
    pub items: Vec<Value>,
}

/// Proof that a turn came from one `harness_turn` mutation and ended natively (`cells-0.4.md` §3.4). What it says of the turn
/// it stands on is not checked here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubmissionEvidence {
    /// Always 1.
    pub version: u64,
    /// The mutation.
    pub request_id: RequestId,
    /// SHA-256 of the bytes of its prompt.
    pub prompt_sha256: Sha256Hex,
    /// Position of the record that holds the prompt, in all native records of the session; the first is 1.
    pub start_sequence: u64,
    /// Position of the record that ends the turn, after `start_sequence`.
    pub end_sequence: u64,
}

impl SubmissionEvidence {
    /// Reads evidence.
    ///
    /// # Errors
    /// [`Malformed`] when a member is wrong, the version is another than 1, or the positions do not ascend.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        let evidence = Self {
            version: object.integer("version")?,
            request_id: object.id("requestId")?,
            prompt_sha256: object.id("promptSha256")?,
            start_sequence: object.integer("startSequence")?,
            end_sequence: object.integer("endSequence")?,
        };
        let is_sound =
            evidence.version == 1 && 1 <= evidence.start_sequence && evidence.start_sequence < evidence.end_sequence;
        if is_sound { Ok(evidence) } else { Err(Malformed::new(object.what(), "has evidence that proves nothing")) }
    }
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
            submission_evidence: object.lenient("submissionEvidence", SubmissionEvidence::read)?,
            items: object.array_or_empty("items")?.into_iter().map(Json::into_value).collect(),
        })
    }
}

json::deserialize_by_read!(HistoryPage);
