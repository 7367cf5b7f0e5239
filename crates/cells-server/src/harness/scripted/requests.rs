//! What the agent asks the user, and the answers it takes (`harness.md` §5.3).

use serde_json::{Value, json};

use crate::harness::plugin::ToolError;

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// May this command run?
    CommandApproval,
    /// May this file be written?
    FileApproval,
    /// A question with one answer.
    Question,
}

/// An answer that fits its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// To an approval.
    Decision(Decision),
    /// To a question.
    Text(String),
}

/// An answer to an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Do it.
    Accept,
    /// Do it, and do not ask again for this kind in this session.
    AcceptForSession,
    /// Do not do it and go on.
    Decline,
    /// Do not do it and end the turn.
    Cancel,
}

impl RequestKind {
    /// Its method.
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::CommandApproval => "item/commandExecution/requestApproval",
            Self::FileApproval => "item/fileChange/requestApproval",
            Self::Question => "item/tool/requestUserInput",
        }
    }

    /// The flag of the session status while it waits.
    pub(super) fn active_flag(self) -> &'static str {
        match self {
            Self::CommandApproval | Self::FileApproval => "waitingOnApproval",
            Self::Question => "waitingOnUserInput",
        }
    }

    /// Reads the answer to a request of this kind.
    ///
    /// # Errors
    /// `EINVAL` when it is none.
    pub(super) fn answer(self, response: &Value) -> Result<Answer, ToolError> {
        match self {
            Self::CommandApproval | Self::FileApproval => {
                let decision = match response.get("decision").and_then(Value::as_str) {
                    Some("accept") => Decision::Accept,
                    Some("acceptForSession") => Decision::AcceptForSession,
                    Some("decline") => Decision::Decline,
                    Some("cancel") => Decision::Cancel,
                    Some(_) | None => return Err(ToolError("EINVAL")),
                };
                Ok(Answer::Decision(decision))
            }
            Self::Question => {
                let answers = response.get("answers").and_then(|answers| answers.get(QUESTION_ID)?.get("answers"));
                let [Value::String(text)] = answers.and_then(Value::as_array).map_or(&[][..], Vec::as_slice) else {
                    return Err(ToolError("EINVAL"));
                };
                if text.len() > ANSWER_MAX_BYTES { Err(ToolError("EINVAL")) } else { Ok(Answer::Text(text.clone())) }
            }
        }
    }
}

/// The `questions` of a request.
pub(super) fn questions(question: &str, options: &[String]) -> Value {
    let labels: Vec<Value> = options.iter().map(|option| json!({"label": option, "description": ""})).collect();
    let options = if labels.is_empty() { Value::Null } else { Value::Array(labels) };
    json!([{
        "id": QUESTION_ID, "header": "Question", "question": question,
        "isOther": true, "isSecret": false, "options": options,
    }])
}

/// The only question of a request.
const QUESTION_ID: &str = "answer";
/// As long as a prompt may be.
const ANSWER_MAX_BYTES: usize = cells_protocol::limits::PROMPT_MAX_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_that_fit_the_request_are_taken() {
        use RequestKind::{CommandApproval, FileApproval, Question};
        let text = |text: &str| Ok(Answer::Text(text.to_owned()));
        let decision = |decision| Ok(Answer::Decision(decision));
        let invalid = || Err(ToolError("EINVAL"));
        let long = "x".repeat(ANSWER_MAX_BYTES + 1);
        for (kind, response, expected) in [
            (CommandApproval, json!({"decision": "accept"}), decision(Decision::Accept)),
            (CommandApproval, json!({"decision": "acceptForSession", "more": 1}), decision(Decision::AcceptForSession)),
            (FileApproval, json!({"decision": "decline"}), decision(Decision::Decline)),
            (FileApproval, json!({"decision": "cancel"}), decision(Decision::Cancel)),
            (FileApproval, json!({"decision": {"acceptWithExecpolicyAmendment": {}}}), invalid()),
            (FileApproval, json!({"answers": {}}), invalid()),
            (CommandApproval, json!("accept"), invalid()),
            (Question, json!({"answers": {"answer": {"answers": ["red"]}}}), text("red")),
            (Question, json!({"answers": {"answer": {"answers": [""]}}}), text("")),
            (Question, json!({"answers": {"answer": {"answers": ["a", "b"]}}}), invalid()),
            (Question, json!({"answers": {"answer": {"answers": [1]}}}), invalid()),
            (Question, json!({"answers": {"other": {"answers": ["a"]}}}), invalid()),
            (Question, json!({"answers": {"answer": {"answers": [long]}}}), invalid()),
            (Question, json!({"decision": "accept"}), invalid()),
        ] {
            assert_eq!(kind.answer(&response), expected, "{kind:?} {response:.80}");
        }
    }
}
