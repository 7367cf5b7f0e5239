//! Native events and requests, read (`harness.md` §5.2–5.3).

mod request;

use serde::Serialize;
use serde_json::Value;

pub use self::request::{HarnessQuestion, HarnessRequest, QuestionOption, RequestKind};
use super::items::HarnessItem;
use super::sessions::TurnResult;
use crate::events::NativeMessage;
use crate::ids::NativeId;

/// What a native message tells. Messages of all sessions of a profile come in one stream; `session_id` tells them apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum NativeEvent {
    /// A turn began.
    TurnStarted {
        /// The session.
        session_id: NativeId,
        /// The turn.
        turn_id: NativeId,
    },
    /// A turn ended.
    TurnCompleted {
        /// The session.
        session_id: NativeId,
        /// The turn.
        turn_id: NativeId,
        /// How; `None` for a word of a newer agent.
        result: Option<TurnResult>,
        /// Why it failed, in the words of the agent.
        error: Option<String>,
    },
    /// An item began.
    ItemStarted {
        /// The session.
        session_id: NativeId,
        /// The turn.
        turn_id: Option<NativeId>,
        /// The item so far.
        item: HarnessItem,
    },
    /// An item is what it will stay; it takes the place of everything that was told of it before.
    ItemCompleted {
        /// The session.
        session_id: NativeId,
        /// The turn.
        turn_id: Option<NativeId>,
        /// The item.
        item: HarnessItem,
    },
    /// More text of what the agent says, or plans.
    TextDelta {
        /// The session.
        session_id: NativeId,
        /// The turn.
        turn_id: Option<NativeId>,
        /// The item, if the agent names it.
        item_id: Option<NativeId>,
        /// What comes next.
        delta: String,
    },
    /// More of what the agent thinks; the text may be empty.
    ReasoningDelta {
        /// The session.
        session_id: NativeId,
        /// The turn.
        turn_id: Option<NativeId>,
        /// The item, if the agent names it.
        item_id: Option<NativeId>,
        /// What comes next.
        delta: String,
    },
    /// A tool gave output, which is left out.
    ToolOutput {
        /// The session.
        session_id: NativeId,
        /// The turn.
        turn_id: Option<NativeId>,
        /// The item, if the agent names it.
        item_id: Option<NativeId>,
    },
    /// The agent asks.
    Requested {
        /// What.
        request: HarnessRequest,
    },
    /// What the agent asked is answered, or nobody has to answer it any more.
    RequestResolved {
        /// The session, if the agent names it.
        session_id: Option<NativeId>,
        /// Identity of the request, exactly as it came: a string and a number are different.
        request_id: Value,
    },
    /// The native process is gone.
    Disconnected {
        /// The session it served; `None` = all of the profile.
        session_id: Option<NativeId>,
    },
    /// The session has another status.
    StatusChanged {
        /// The session.
        session_id: NativeId,
        /// As [`Session::status`](super::Session::status).
        status: String,
        /// For example `waitingOnApproval`.
        active_flags: Vec<String>,
    },
    /// The session has another title.
    TitleChanged {
        /// The session.
        session_id: NativeId,
        /// The title; may be empty.
        title: String,
    },
    /// The session was archived, or taken out of the archive.
    ArchivedChanged {
        /// The session.
        session_id: NativeId,
        /// It is in the archive now.
        archived: bool,
    },
    /// The session was deleted.
    Deleted {
        /// The session.
        session_id: NativeId,
    },
    /// Anything else. Newer agents tell more, and that can be left alone.
    Other {
        /// What the agent calls it.
        method: String,
        /// The session, if it names one.
        session_id: Option<NativeId>,
        /// The turn, if it names one.
        turn_id: Option<NativeId>,
    },
}

impl NativeEvent {
    /// Reads a message. One that lacks what its method promises is [`Other`](Self::Other).
    pub fn of(message: &NativeMessage) -> Self {
        if let Some(request) = HarnessRequest::of(message) {
            return Self::Requested { request };
        }
        let params = &message.params;
        Self::notified(&message.method, params).unwrap_or_else(|| Self::Other {
            method: message.method.clone(),
            session_id: id(params, "threadId"),
            turn_id: turn_of(params),
        })
    }

    fn notified(method: &str, params: &Value) -> Option<Self> {
        let session_id = id(params, "threadId");
        let delta = || params.get("delta").and_then(Value::as_str).map(str::to_owned);
        Some(match method {
            "turn/started" => Self::TurnStarted { session_id: session_id?, turn_id: turn_of(params)? },
            "turn/completed" => {
                let turn = params.get("turn")?;
                let error = turn.get("error").and_then(|error| error.get("message").unwrap_or(error).as_str());
                Self::TurnCompleted {
                    session_id: session_id?,
                    turn_id: turn_of(params)?,
                    result: turn.get("status").and_then(Value::as_str).and_then(TurnResult::of_status),
                    error: error.map(str::to_owned),
                }
            }
            "item/started" | "item/completed" => {
                let (session_id, turn_id) = (session_id?, turn_of(params));
                let Some(mut item) = HarnessItem::of(params.get("item")?) else {
                    return Some(Self::ToolOutput { session_id, turn_id, item_id: id(params.get("item")?, "id") });
                };
                item.turn_id = item.turn_id.or_else(|| turn_id.clone());
                let turn_id = item.turn_id.clone();
                if method == "item/started" {
                    Self::ItemStarted { session_id, turn_id, item }
                } else {
                    Self::ItemCompleted { session_id, turn_id, item }
                }
            }
            "item/agentMessage/delta" | "item/plan/delta" => Self::TextDelta {
                session_id: session_id?,
                turn_id: turn_of(params),
                item_id: id(params, "itemId"),
                delta: delta()?,
            },
            "item/commandExecution/outputDelta" | "item/fileChange/outputDelta" => {
                Self::ToolOutput { session_id: session_id?, turn_id: turn_of(params), item_id: id(params, "itemId") }
            }
            "serverRequest/resolved" => {
                let request_id = params.get("requestId").filter(|id| request::is_id(id))?.clone();
                Self::RequestResolved { session_id, request_id }
            }
            "harness/disconnected" => Self::Disconnected { session_id },
            "thread/status/changed" => {
                let status = params.get("status")?;
                let flags = status.get("activeFlags").and_then(Value::as_array);
                Self::StatusChanged {
                    session_id: session_id?,
                    status: status.get("type").unwrap_or(status).as_str()?.to_owned(),
                    active_flags: flags
                        .into_iter()
                        .flatten()
                        .filter_map(|flag| Some(flag.as_str()?.to_owned()))
                        .collect(),
                }
            }
            "thread/name/updated" => {
                let title = params.get("threadName").and_then(Value::as_str).unwrap_or_default();
                Self::TitleChanged { session_id: session_id?, title: title.trim().to_owned() }
            }
            "thread/archived" => Self::ArchivedChanged { session_id: session_id?, archived: true },
            "thread/unarchived" => Self::ArchivedChanged { session_id: session_id?, archived: false },
            "thread/deleted" => Self::Deleted { session_id: session_id? },
            _ if method.starts_with("item/reasoning/") => Self::ReasoningDelta {
                session_id: session_id?,
                turn_id: turn_of(params),
                item_id: id(params, "itemId"),
                delta: delta().unwrap_or_default(),
            },
            _ => return None,
        })
    }
}

/// The turn that parameters are about.
fn turn_of(params: &Value) -> Option<NativeId> {
    id(params, "turnId").or_else(|| id(params.get("turn")?, "id"))
}

fn id(value: &Value, name: &str) -> Option<NativeId> {
    NativeId::new(value.get(name)?.as_str()?).ok()
}
