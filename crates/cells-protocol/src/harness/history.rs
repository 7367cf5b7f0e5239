//! Pages of history (`harness.md` §4, `cells-0.4.md` §3).

use serde::Serialize;
use serde_json::Value;

use super::sessions::Session;
use crate::events::EventCursor;
use crate::ids::NativeId;
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

json::deserialize_by_read!(HistoryPage);
