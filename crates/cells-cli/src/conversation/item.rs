//! What native items say (`harness.md` §4.3–4.4). Their set grows with the agents, so unknown ones are tolerated.

use serde_json::Value;

use super::text;

/// Whether the text of the item is an answer to the user.
pub(super) fn is_message(item: &Value) -> bool {
    matches!(text(item, "type"), Some("agentMessage" | "plan"))
}

/// The text of a message: `text`, or `content` as a string or as parts, which may be nested.
pub(super) fn text_of(item: &Value) -> String {
    match text(item, "text") {
        Some(text) => text.to_owned(),
        None => item.get("content").map(joined).unwrap_or_default(),
    }
}

fn joined(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(joined).collect(),
        Value::Object(part) => part.get("text").or_else(|| part.get("content")).map(joined).unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// What the item does, in a few words; `None` for one that does nothing a person would want to know of.
pub(super) fn note(item: &Value) -> Option<String> {
    let kind = text(item, "type")?;
    let command = text(item, "commandPreview").or_else(|| text(item, "command")).unwrap_or_default();
    let paths = paths_of(item).join(", ");
    let name = text(item, "tool").or_else(|| text(item, "name")).unwrap_or(kind);
    match kind {
        "userMessage" | "agentMessage" | "plan" | "reasoning" | "commandResult" | "contextCompaction" => None,
        // The question itself is asked; a summary of the item does not have it.
        _ if name == "requestUserInput" => question_of(item).map(|question| format!("asks: {question}")),
        _ if !command.is_empty() => Some(format!("$ {command}")),
        "fileChange" => Some(format!("edit {paths}")),
        _ if !paths.is_empty() => Some(format!("{name} {paths}")),
        _ => Some(name.to_owned()),
    }
}

fn question_of(item: &Value) -> Option<String> {
    let questions = item.get("arguments")?.get("questions")?.as_array()?.iter();
    let questions: Vec<&str> = questions.filter_map(|question| text(question, "question")).collect();
    Some(questions.join(" ")).filter(|questions| !questions.is_empty())
}

fn paths_of(item: &Value) -> Vec<&str> {
    let summary = item.get("paths").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let changes = item.get("changes").and_then(Value::as_array).into_iter().flatten();
    summary.chain(changes.filter_map(|change| text(change, "path"))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_stands_in_text_or_in_content() {
        for (item, expected) in [
            (json!({"text": "a"}), "a"),
            (json!({"content": "a"}), "a"),
            (json!({"content": [{"type": "output_text", "text": "a"}, {"text": "b"}]}), "ab"),
            (json!({"content": [{"content": [{"text": "a"}, "b"]}, 7, null]}), "ab"),
            (json!({"text": 7}), ""),
        ] {
            assert_eq!(text_of(&item), expected, "{item}");
        }
    }

    #[test]
    fn notes_say_what_an_item_does() {
        for (item, expected) in [
            (json!({"type": "commandExecution", "commandPreview": "ls -l", "paths": ["/srv"]}), Some("$ ls -l")),
            (json!({"type": "commandExecution", "command": "ls"}), Some("$ ls")),
            (json!({"type": "fileChange", "commandPreview": "", "paths": ["a", "b"]}), Some("edit a, b")),
            (json!({"type": "fileChange", "changes": [{"path": "a"}]}), Some("edit a")),
            (json!({"type": "mcpToolCall", "name": "search", "paths": []}), Some("search")),
            (json!({"type": "functionCall", "name": "Read"}), Some("Read")),
            (
                json!({"type": "dynamicToolCall", "tool": "requestUserInput",
                    "arguments": {"questions": [{"question": "Which color?"}, {"question": "Why?"}]}}),
                Some("asks: Which color? Why?"),
            ),
            (json!({"type": "dynamicToolCall", "name": "requestUserInput", "commandPreview": "", "paths": []}), None),
            (json!({"type": "webSearch"}), Some("webSearch")),
            (json!({"type": "reasoning", "summary": ["x"]}), None),
            (json!({"type": "userMessage", "content": "x"}), None),
            (json!({}), None),
        ] {
            assert_eq!(note(&item).as_deref(), expected, "{item}");
        }
    }
}
