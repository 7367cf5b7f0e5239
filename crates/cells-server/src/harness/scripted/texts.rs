//! What was said in an item, and by whom.

use serde_json::Value;

use super::record::{Item, Record};

/// What a message holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// The user typed it.
    Prompt(String),
    /// The user's message, but not as a prompt: a slash command, or context that an agent was given.
    Other(String),
    /// A message of the user whose origin cannot be told.
    Unclassified(String),
    /// The agent answered it.
    Answer(String),
}

impl Said {
    /// What `item` says; `None` for reasoning, tools and everything else that nobody said.
    pub(super) fn of(item: &Item) -> Option<Self> {
        if Record::is_user_message(item) {
            return Some(said_by_user(item));
        }
        let is_answer = item.get("type").and_then(Value::as_str) == Some("agentMessage");
        let text = item.get("text").and_then(Value::as_str).filter(|_| is_answer)?;
        Some(Self::Answer(text.to_owned()))
    }

    /// The text, whoever said it.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Prompt(text) | Self::Other(text) | Self::Unclassified(text) | Self::Answer(text) => text,
        }
    }
}

fn said_by_user(item: &Item) -> Said {
    let content = item.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let kinds = item.get("contentItemKinds").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let join = |parts: Vec<&str>| parts.join("\n");
    let text_of = |part: &'_ Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
    if kinds.len() != content.len() || content.is_empty() {
        let parts: Vec<String> = content.iter().filter_map(text_of).collect();
        return Said::Unclassified(join(parts.iter().map(String::as_str).collect()));
    }
    let of_kind = |wanted: &str| -> Vec<&str> {
        let parts = content.iter().zip(kinds).filter(|(_, kind)| *kind == wanted);
        parts.filter_map(|(part, _)| part.get("text")?.as_str()).collect()
    };
    match of_kind("prompt") {
        prompts if !prompts.is_empty() => Said::Prompt(join(prompts)),
        _ => Said::Other(join([of_kind("command"), of_kind("context")].concat())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_told_by_who_said_them_and_how() {
        let text = |text: &str| text.to_owned();
        let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        for (item, expected) in [
            (json!({"type": "agentMessage", "text": "hi"}), Some(Said::Answer(text("hi")))),
            (json!({"type": "agentMessage"}), None),
            (json!({"type": "reasoning", "text": "hm"}), None),
            (json!({"type": "commandExecution", "aggregatedOutput": "x"}), None),
            (
                json!({"type": "userMessage", "content": parts, "contentItemKinds": ["prompt", "prompt"]}),
                Some(Said::Prompt(text("a\nb"))),
            ),
            (
                json!({"type": "userMessage", "content": parts, "contentItemKinds": ["prompt", "attachment"]}),
                Some(Said::Prompt(text("a"))),
            ),
            (
                json!({"type": "userMessage", "content": parts, "contentItemKinds": ["command", "context"]}),
                Some(Said::Other(text("a\nb"))),
            ),
            (
                json!({"type": "userMessage", "content": parts, "contentItemKinds": ["prompt"]}),
                Some(Said::Unclassified(text("a\nb"))),
            ),
            (json!({"type": "userMessage", "content": parts}), Some(Said::Unclassified(text("a\nb")))),
            (json!({"type": "userMessage", "content": "x"}), Some(Said::Unclassified(String::new()))),
        ] {
            let Value::Object(item) = item else { panic!("an item is an object") };
            assert_eq!(Said::of(&item), expected, "{item:?}");
        }
    }
}
