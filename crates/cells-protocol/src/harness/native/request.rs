//! What an agent asks its user.

use serde::Serialize;
use serde_json::Value;

use super::{id, turn_of};
use crate::events::NativeMessage;
use crate::ids::NativeId;

/// A native request that waits for an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessRequest {
    /// Its identity, a string or an integer, to be sent back exactly as it is.
    pub id: Value,
    /// How it is answered.
    pub kind: RequestKind,
    /// What the agent calls it, for example `item/fileChange/requestApproval`.
    pub method: String,
    /// What it is about, for people: the whole command, the file, the questions, or the method where it says no more.
    pub detail: String,
    /// Why the agent wants it, in its own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The questions of an `input`, at least one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<HarnessQuestion>,
    /// The session that asks.
    pub session_id: Option<NativeId>,
    /// The turn that asks.
    pub turn_id: Option<NativeId>,
    /// The item that it is about.
    pub item_id: Option<NativeId>,
}

/// How a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestKind {
    /// With `{decision}`: `accept`, `decline`, `cancel`, and with some agents `acceptForSession`.
    Approval,
    /// With `{answers: {[question id]: {answers: [text]}}}`, for every question.
    Input,
    /// Not by this version. It ends only natively, for example when the turn is interrupted.
    Unsupported,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessQuestion {
    /// Its identity in the request.
    pub id: String,
    /// Its text.
    pub question: String,
    /// The answers that are offered; none = any text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<QuestionOption>,
    /// Another answer than those that are offered may be given.
    pub is_other: bool,
    /// The answer must not be shown.
    pub is_secret: bool,
}

/// An answer that is offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuestionOption {
    /// The answer, as it is sent.
    pub label: String,
    /// What it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl HarnessRequest {
    /// Reads a native request; `None` for a notification.
    pub fn of(message: &NativeMessage) -> Option<Self> {
        let params = &message.params;
        let mut questions = Vec::new();
        let (kind, detail) = match message.method.as_str() {
            "item/commandExecution/requestApproval" => {
                (RequestKind::Approval, command_of(params).or_else(|| text(params, "toolName")))
            }
            "item/fileChange/requestApproval" => (RequestKind::Approval, text(params, "path")),
            "item/tool/requestUserInput" => match questions_of(params) {
                Some(read) => {
                    questions = read;
                    let lines: Vec<&str> = questions.iter().map(|question| question.question.as_str()).collect();
                    (RequestKind::Input, Some(lines.join("\n")))
                }
                None => (RequestKind::Unsupported, None),
            },
            _ => (RequestKind::Unsupported, None),
        };
        let reason = text(params, "reason");
        Some(Self {
            id: message.id.as_ref().filter(|id| is_id(id))?.clone(),
            kind,
            detail: detail.or_else(|| reason.clone()).unwrap_or_else(|| message.method.clone()),
            method: message.method.clone(),
            reason,
            questions,
            session_id: id(params, "threadId"),
            turn_id: turn_of(params),
            item_id: id(params, "itemId"),
        })
    }
}

/// Whether a value can be the identity of a request.
pub(super) fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name)?.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned)
}

fn command_of(params: &Value) -> Option<String> {
    match params.get("command")? {
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            Some(words.join(" ")).filter(|command| !command.trim().is_empty())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            text(params, "command")
        }
    }
}

/// All questions, if every one of them can be shown and answered.
fn questions_of(params: &Value) -> Option<Vec<HarnessQuestion>> {
    let questions = params.get("questions")?.as_array()?;
    let questions: Option<Vec<HarnessQuestion>> = questions.iter().map(question_of).collect();
    questions.filter(|questions| !questions.is_empty())
}

fn question_of(question: &Value) -> Option<HarnessQuestion> {
    let flag = |name| question.get(name).and_then(Value::as_bool).unwrap_or(false);
    let options = question.get("options").and_then(Value::as_array).into_iter().flatten();
    let option = |option: &Value| {
        // Some agents give the words alone.
        let label = option.as_str().map(str::to_owned).or_else(|| text(option, "label"))?;
        Some(QuestionOption { label, description: text(option, "description") })
    };
    Some(HarnessQuestion {
        id: question.get("id")?.as_str()?.to_owned(),
        question: question.get("question")?.as_str()?.to_owned(),
        options: options.filter_map(option).collect(),
        is_other: flag("isOther"),
        is_secret: flag("isSecret"),
    })
}
