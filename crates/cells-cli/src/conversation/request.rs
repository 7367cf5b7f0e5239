//! What an agent asks its user (`harness.md` §5.3).

use cells_native::cells_driver::NativeMessage;
use serde_json::Value;

use super::text;

/// Something that waits for an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    /// Its identity, as it is sent back.
    pub(super) id: Value,
    /// What is asked.
    pub(super) kind: Kind,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// May this be done?
    Approval {
        /// What, such as `run a command`.
        action: &'static str,
        /// On what, as the agent says: the whole command, or the paths. Several lines at most.
        subject: String,
        /// Why, as the agent says.
        reason: Option<String>,
    },
    /// Questions, at least one.
    Questions(Vec<Question>),
    /// Something that only another client can answer.
    Other {
        /// Its method.
        method: String,
    },
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    /// Its identity in the request.
    pub(super) id: String,
    /// Its text.
    pub(super) question: String,
    /// The answers that are offered; none = free text.
    pub(super) options: Vec<String>,
    /// Another answer than an offered one may be given.
    pub(super) is_open: bool,
    /// The answer must not be shown.
    pub(super) is_secret: bool,
}

impl Request {
    /// Reads a native request. `note` says what an item does that was started before.
    pub(super) fn of(message: &NativeMessage, note: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let params = &message.params;
        let item_note = || text(params, "itemId").and_then(&note);
        let approval = |action, subject: Option<String>| Kind::Approval {
            action,
            subject: subject.unwrap_or_else(|| "(the agent does not say what)".to_owned()),
            reason: text(params, "reason").map(str::to_owned),
        };
        let kind = match message.method.as_str() {
            "item/commandExecution/requestApproval" => {
                let tool = text(params, "toolName").map(str::to_owned);
                approval("run", command_of(params).or_else(item_note).or(tool))
            }
            "item/fileChange/requestApproval" => {
                let path = text(params, "path").map(str::to_owned);
                approval("change", path.or_else(item_note))
            }
            "item/tool/requestUserInput" => match questions_of(params) {
                Some(questions) => Kind::Questions(questions),
                None => Kind::Other { method: message.method.clone() },
            },
            _ => Kind::Other { method: message.method.clone() },
        };
        Some(Self { id: message.id.clone()?, kind })
    }

    /// The question in one line.
    pub(super) fn title(&self) -> String {
        match &self.kind {
            Kind::Approval { action, subject, .. } => format!("the agent asks to {action}: {subject}"),
            Kind::Questions(questions) => {
                let questions: Vec<&str> = questions.iter().map(|question| question.question.as_str()).collect();
                format!("the agent asks: {}", questions.join(" "))
            }
            Kind::Other { method } => format!("the agent asks `{method}`, which this program cannot answer"),
        }
    }
}

fn command_of(params: &Value) -> Option<String> {
    match params.get("command")? {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// All questions, if every one of them can be shown.
fn questions_of(params: &Value) -> Option<Vec<Question>> {
    let questions = params.get("questions")?.as_array()?;
    let flag = |question: &Value, name| question.get(name).and_then(Value::as_bool).unwrap_or(false);
    let read = |question: &Value| {
        let options = question.get("options").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let options: Vec<String> =
            options.iter().filter_map(|option| Some(text(option, "label")?.to_owned())).collect();
        Some(Question {
            id: text(question, "id")?.to_owned(),
            question: text(question, "question")?.to_owned(),
            is_open: options.is_empty() || flag(question, "isOther"),
            options,
            is_secret: flag(question, "isSecret"),
        })
    };
    let questions: Option<Vec<Question>> = questions.iter().map(read).collect();
    questions.filter(|questions| !questions.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(method: &str, params: Value) -> Request {
        let message = NativeMessage { id: Some(json!(7)), method: method.to_owned(), params };
        Request::of(&message, |item| (item == "known").then(|| "edit a.rs".to_owned())).unwrap()
    }

    #[test]
    fn a_request_says_what_it_is_about() {
        const COMMAND: &str = "item/commandExecution/requestApproval";
        const FILE: &str = "item/fileChange/requestApproval";
        const INPUT: &str = "item/tool/requestUserInput";
        for (method, params, expected) in [
            (COMMAND, json!({"command": "rm -r x"}), "the agent asks to run: rm -r x"),
            (COMMAND, json!({"command": ["rm", "x"]}), "the agent asks to run: rm x"),
            (COMMAND, json!({"command": null, "toolName": "WebFetch"}), "the agent asks to run: WebFetch"),
            (COMMAND, json!({}), "the agent asks to run: (the agent does not say what)"),
            (FILE, json!({"path": "a.rs", "itemId": "known"}), "the agent asks to change: a.rs"),
            (FILE, json!({"path": null, "itemId": "known"}), "the agent asks to change: edit a.rs"),
            (INPUT, json!({"questions": [{"id": "q", "question": "Why?"}]}), "the agent asks: Why?"),
            (
                INPUT,
                json!({"questions": []}),
                "the agent asks `item/tool/requestUserInput`, which this program cannot answer",
            ),
            (
                INPUT,
                json!({"questions": [{"question": "Why?"}]}),
                "the agent asks `item/tool/requestUserInput`, which this program cannot answer",
            ),
            ("other/ask", json!({}), "the agent asks `other/ask`, which this program cannot answer"),
        ] {
            assert_eq!(request(method, params.clone()).title(), expected, "{params}");
        }
    }

    #[test]
    fn questions_keep_their_options() {
        let questions = json!({"questions": [
            {"id": "a", "question": "Color?", "options": [{"label": "red", "description": ""}], "isOther": false},
            {"id": "b", "question": "Password?", "options": null, "isSecret": true},
        ]});
        let Kind::Questions(questions) = request("item/tool/requestUserInput", questions).kind else { panic!() };
        let seen: Vec<_> = questions.iter().map(|one| (one.options.as_slice(), one.is_open, one.is_secret)).collect();
        assert_eq!(seen, [(["red".to_owned()].as_slice(), false, false), ([].as_slice(), true, true)]);
    }
}
