//! The summary form of tool items (`harness.md` §4.4), shared by history pages and event streams.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// What summary mode makes of an item or of a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Summary {
    /// It stays as it is.
    Same,
    /// This takes its place.
    Replaced(Value),
    /// It is left out.
    Dropped,
}

/// The summary of one history item. Applying it twice gives the same result.
pub(crate) fn summarise_item(item: &Value) -> Summary {
    let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
    match kind {
        "toolOutput" | "customToolCallOutput" => Summary::Dropped,
        _ if is_tool(kind) && !is_summary(item) => Summary::Replaced(summary_of(item, kind)),
        _ => Summary::Same,
    }
}

/// The summary of the parameters of a native message.
pub(crate) fn summarise_message(method: &str, params: &Value) -> Summary {
    match method {
        "item/commandExecution/outputDelta" => Summary::Dropped,
        "item/started" | "item/completed" => match params.get("item").map(summarise_item) {
            Some(Summary::Replaced(item)) => {
                let mut params = params.clone();
                params["item"] = item;
                Summary::Replaced(params)
            }
            Some(Summary::Dropped) => Summary::Dropped,
            Some(Summary::Same) | None => Summary::Same,
        },
        _ => Summary::Same,
    }
}

/// Applies the summary to every item of a history page.
pub(crate) fn summarise_page(page: &mut Value) {
    let Some(turns) = page.get_mut("turns").and_then(Value::as_array_mut) else { return };
    for items in turns.iter_mut().filter_map(|turn| turn.get_mut("items").and_then(Value::as_array_mut)) {
        items.retain_mut(|item| match summarise_item(item) {
            Summary::Same => true,
            Summary::Dropped => false,
            Summary::Replaced(summary) => {
                *item = summary;
                true
            }
        });
    }
}

fn is_tool(kind: &str) -> bool {
    ["Execution", "Change", "ToolCall"].iter().any(|part| kind.contains(part))
        || matches!(kind, "toolCall" | "webSearch" | "imageGeneration")
}

fn is_summary(item: &Value) -> bool {
    item["commandPreview"].is_string() && item["paths"].is_array()
}

fn summary_of(item: &Value, kind: &str) -> Value {
    // Function calls carry their input as JSON text.
    let arguments = item.get("arguments").and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
    let arguments: &Value = arguments.as_ref().or(item.get("arguments")).unwrap_or(&Value::Null);
    let name = ["tool", "name"].iter().find_map(|key| item.get(key).and_then(Value::as_str)).unwrap_or(kind);
    let name: String = name.chars().take(NAME_MAX_CHARS).collect();
    let command = command_of(item).or_else(|| command_of(arguments)).unwrap_or_default();
    let preview = preview_of(&command);

    let mut paths = BTreeSet::new();
    collect_paths(item, 0, &mut paths);
    collect_paths(arguments, 0, &mut paths);
    for key in ["input", "patch", "diff", "arguments"] {
        collect_patch_headers(item.get(key).and_then(Value::as_str).unwrap_or_default(), &mut paths);
    }
    collect_patch_headers(&command, &mut paths);
    collect_operands(&command, &mut paths);

    let operation = item.get("operation").and_then(Value::as_str).filter(|word| OPERATIONS.contains(word));
    let operation = operation.unwrap_or_else(|| operation_of(kind, &name, &preview));
    let copy = |key: &str| item.get(key).cloned().unwrap_or_default();
    json!({
        "id": copy("id"), "type": kind, "name": name, "paths": paths.iter().take(PATHS_MAX).collect::<Vec<_>>(),
        "operation": operation, "commandPreview": preview,
        "timestamp": copy("timestamp"), "turnId": copy("turnId"), "status": copy("status"),
    })
}

fn command_of(value: &Value) -> Option<String> {
    ["command", "cmd"].iter().find_map(|key| match value.get(key)? {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    })
}

/// The first line that is not blank, at most 240 characters of it.
fn preview_of(command: &str) -> String {
    let line = command.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(PREVIEW_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn operation_of(kind: &str, name: &str, preview: &str) -> &'static str {
    let text = format!("{kind} {name} {preview}").to_lowercase();
    let found = OPERATION_WORDS.iter().find(|(words, _)| words.iter().any(|word| text.contains(word)));
    found.map_or("execute", |(_, operation)| operation)
}

fn collect_paths(value: &Value, depth: usize, paths: &mut BTreeSet<String>) {
    if depth > PATH_DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                match (key.as_str(), member) {
                    (
                        "path" | "file_path" | "filePath" | "filename" | "target" | "cwd" | "workdir",
                        Value::String(path),
                    ) => {
                        add_path(path, paths);
                    }
                    ("paths" | "files", Value::Array(list)) => {
                        list.iter().take(ARRAY_MAX).filter_map(Value::as_str).for_each(|path| add_path(path, paths));
                        collect_paths(member, depth + 1, paths);
                    }
                    _ => collect_paths(member, depth + 1, paths),
                }
            }
        }
        Value::Array(list) => list.iter().take(ARRAY_MAX).for_each(|element| collect_paths(element, depth + 1, paths)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn collect_patch_headers(text: &str, paths: &mut BTreeSet<String>) {
    const HEADERS: [&str; 3] = ["*** Add File: ", "*** Update File: ", "*** Delete File: "];
    for line in text.lines() {
        if let Some(path) = HEADERS.iter().find_map(|header| line.trim().strip_prefix(header)) {
            add_path(path, paths);
        }
    }
}

/// Operands of a simple command: no quoting and nothing a shell would interpret.
fn collect_operands(command: &str, paths: &mut BTreeSet<String>) {
    if command.contains(|character: char| "|&;<>()$`\\\"'*?[]{}#~=%!\n\r".contains(character)) {
        return;
    }
    let mut words = command.split_whitespace();
    let skipped = match words.next() {
        Some("cat" | "head" | "tail" | "ls" | "find") => 0,
        Some("rg" | "grep" | "sed") => 1,
        Some(_) | None => return,
    };
    words.filter(|word| !word.starts_with('-')).skip(skipped).for_each(|operand| add_path(operand, paths));
}

fn add_path(path: &str, paths: &mut BTreeSet<String>) {
    let path = path.trim();
    if !path.is_empty() && path.chars().count() <= PATH_MAX_CHARS {
        paths.insert(path.to_owned());
    }
}

const NAME_MAX_CHARS: usize = 256;
const PREVIEW_MAX_CHARS: usize = 240;
const PATHS_MAX: usize = 32;
const PATH_MAX_CHARS: usize = 1024;
const PATH_DEPTH_MAX: usize = 4;
const ARRAY_MAX: usize = 32;

const OPERATIONS: [&str; 5] = ["read", "write", "search", "list", "execute"];
/// Words that tell an operation, the first hit wins.
const OPERATION_WORDS: [(&[&str], &str); 4] = [
    (&["change", "patch", "write", "edit"], "write"),
    (&["search", "grep", "rg "], "search"),
    (&["read", "cat ", "sed "], "read"),
    (&["list", "ls "], "list"),
];

#[cfg(test)]
mod tests {
    use cells_protocol::harness::HarnessItem;

    use super::*;

    fn summary(item: &Value) -> Value {
        let Summary::Replaced(summary) = summarise_item(item) else { panic!("{item} is not replaced") };
        assert_eq!(summarise_item(&summary), Summary::Same, "applying it twice changes {summary}");
        summary
    }

    #[test]
    fn a_command_keeps_its_first_line_and_loses_its_output() {
        let item = json!({"id": "it-4", "type": "commandExecution", "command": "\n cat src/a.rs \necho x", "turnId": "t-2",
            "status": "completed", "aggregatedOutput": "secret", "exitCode": 0, "cwd": "/w"});
        let expected = json!({"id": "it-4", "type": "commandExecution", "name": "commandExecution", "paths": ["/w"],
            "operation": "read", "commandPreview": "cat src/a.rs", "timestamp": null, "turnId": "t-2",
            "status": "completed"});
        assert_eq!(summary(&item), expected);
    }

    #[test]
    fn operands_of_simple_commands_are_paths() {
        for (command, paths, operation) in [
            ("cat -n a.rs b.rs", json!(["a.rs", "b.rs"]), "read"),
            ("rg -i needle src tests", json!(["src", "tests"]), "search"),
            ("sed -n 1,5p a.rs", json!(["a.rs"]), "read"),
            ("ls -la docs", json!(["docs"]), "list"),
            ("cat a.rs | wc", json!([]), "read"),
            ("cat 'a b.rs'", json!([]), "read"),
            ("make test", json!([]), "execute"),
        ] {
            let summary = summary(&json!({"type": "commandExecution", "command": command}));
            assert_eq!((&summary["paths"], &summary["operation"]), (&paths, &json!(operation)), "{command}");
        }
    }

    #[test]
    fn paths_come_from_changes_arguments_and_patches() {
        let change = json!({"type": "fileChange", "changes": [{"path": "b", "diff": "secret"}, {"path": "a"}]});
        assert_eq!((&summary(&change)["paths"], &summary(&change)["operation"]), (&json!(["a", "b"]), &json!("write")));
        let call = json!({"type": "toolCall", "name": "read_file", "arguments": r#"{"file_path":"x"}"#});
        assert_eq!((&summary(&call)["paths"], &summary(&call)["name"]), (&json!(["x"]), &json!("read_file")));
        let patch = json!({"type": "toolCall", "name": "apply", "input": "*** Add File: n\n*** Update File: u\n+x"});
        assert_eq!(summary(&patch)["paths"], json!(["n", "u"]));
    }

    #[test]
    fn everything_is_bounded() {
        let many: Vec<Value> = (0..50).map(|n| json!({"path": format!("{n:02}")})).collect();
        assert_eq!(summary(&json!({"type": "fileChange", "changes": many}))["paths"].as_array().unwrap().len(), 32);
        let long = summary(&json!({"type": "toolCall", "name": "n".repeat(300), "command": "é".repeat(300)}));
        assert_eq!(long["name"].as_str().unwrap().chars().count(), 256);
        assert_eq!(long["commandPreview"].as_str().unwrap().chars().count(), 241);
    }

    #[test]
    fn messages_and_pages_lose_tool_output_only() {
        let text = json!({"item": {"type": "agentMessage", "text": "x"}});
        assert_eq!(summarise_message("item/completed", &text), Summary::Same);
        assert_eq!(summarise_message("item/completed", &json!({"item": {"type": "toolOutput"}})), Summary::Dropped);
        assert_eq!(summarise_message("item/commandExecution/outputDelta", &json!({"delta": "x"})), Summary::Dropped);
        let started = json!({"threadId": "s", "item": {"type": "webSearch", "id": 1}});
        let Summary::Replaced(started) = summarise_message("item/started", &started) else { panic!("not replaced") };
        assert_eq!((&started["threadId"], &started["item"]["operation"]), (&json!("s"), &json!("search")));

        let mut page = json!({"turns": [{"id": "t", "items": [
            {"type": "userMessage", "content": []}, {"type": "toolOutput", "text": "x"}, {"type": "commandExecution", "command": "ls d"}]}]});
        summarise_page(&mut page);
        let kinds: Vec<&str> =
            page["turns"][0]["items"].as_array().unwrap().iter().map(|i| i["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["userMessage", "commandExecution"]);
        assert_eq!(page["turns"][0]["items"][1]["commandPreview"], json!("ls d"));
    }

    #[test]
    fn a_client_makes_the_same_of_the_detail_and_of_its_summary() {
        const FILES: [&str; 3] = [
            include_str!("../../../cells-protocol/fixtures/harness/items-old-detail.json"),
            include_str!("../../../cells-protocol/fixtures/harness/items-codex-native.json"),
            include_str!("../../../cells-protocol/fixtures/harness/items-codex-log.json"),
        ];
        let turns = FILES.iter().flat_map(|file| serde_json::from_str::<Vec<Value>>(file).unwrap());
        let items: Vec<Value> = turns.flat_map(|turn| turn["items"].as_array().unwrap().clone()).collect();
        let mut n_replaced = 0;
        for item in &items {
            if let Summary::Replaced(summary) = summarise_item(item) {
                n_replaced += 1;
                assert_eq!(HarnessItem::of(&summary), HarnessItem::of(item), "{item}");
            }
        }
        assert!(n_replaced > 15, "{n_replaced} of {}", items.len());
    }
}
