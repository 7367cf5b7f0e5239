//! The summary of what a tool does (`harness.md` §4.4).

use serde::Serialize;
use serde_json::Value;

/// What a tool does, without its input and output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSummary {
    /// Name of the tool, at most 256 characters.
    pub name: String,
    /// What it does.
    pub operation: ToolOperation,
    /// The first line of its command that is not blank, at most 240 characters and then `…`; empty without a command.
    pub command_preview: String,
    /// What it works on: at most 32 different paths of at most 1,024 characters, sorted.
    pub paths: Vec<String>,
}

/// What a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolOperation {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Searches.
    Search,
    /// Lists.
    List,
    /// Anything else.
    Execute,
}

impl ToolSummary {
    /// The summary of an item, which may be one already.
    pub(super) fn of(item: &Value, native_type: &str) -> Self {
        let name = ["tool", "name"].iter().find_map(|key| item.get(key)?.as_str()).unwrap_or(native_type);
        let name: String = name.chars().take(NAME_MAX_CHARS).collect();
        let (command_preview, mut paths) = match summary_of(item) {
            Some(summary) => summary,
            None => reduced(item),
        };
        paths.sort_unstable();
        paths.dedup();
        paths.truncate(PATHS_MAX);
        let operation = ToolOperation::named(item.get("operation").and_then(Value::as_str).unwrap_or_default())
            .unwrap_or_else(|| ToolOperation::guessed(&[native_type, &name, &command_preview].join(" ")));
        Self { name, operation, command_preview, paths }
    }
}

impl ToolOperation {
    fn named(word: &str) -> Option<Self> {
        Some(match word {
            "read" => Self::Read,
            "write" => Self::Write,
            "search" => Self::Search,
            "list" => Self::List,
            "execute" => Self::Execute,
            _ => return None,
        })
    }

    /// What words tell; the first that is found.
    fn guessed(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if has(&["change", "patch", "write", "edit"]) {
            Self::Write
        } else if has(&["search", "grep", "rg "]) {
            Self::Search
        } else if has(&["read", "cat ", "sed "]) {
            Self::Read
        } else if has(&["list", "ls "]) {
            Self::List
        } else {
            Self::Execute
        }
    }
}

/// Preview and paths of an item that a node has summarised.
fn summary_of(item: &Value) -> Option<(String, Vec<String>)> {
    let (preview, listed) = (item.get("commandPreview")?.as_str()?, item.get("paths")?.as_array()?);
    let mut paths = Vec::new();
    listed.iter().filter_map(Value::as_str).for_each(|path| add_path(path, &mut paths));
    Some((first_line(preview), paths))
}

/// Preview and paths of an item with all its detail.
fn reduced(item: &Value) -> (String, Vec<String>) {
    // Function calls carry their arguments as JSON text.
    let parsed = item.get("arguments").and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
    let arguments: &Value = parsed.as_ref().or(item.get("arguments")).unwrap_or(&Value::Null);
    let command = command_of(item).or_else(|| command_of(arguments)).unwrap_or_default();
    let mut paths = Vec::new();
    collect_paths(item, 0, &mut paths);
    collect_paths(arguments, 0, &mut paths);
    for key in ["input", "patch", "diff", "arguments"] {
        collect_patch_headers(item.get(key).and_then(Value::as_str).unwrap_or_default(), &mut paths);
    }
    collect_patch_headers(&command, &mut paths);
    collect_operands(&command, &mut paths);
    (first_line(&command), paths)
}

fn command_of(value: &Value) -> Option<String> {
    ["command", "cmd"].iter().find_map(|key| match value.get(key)? {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    })
}

fn first_line(command: &str) -> String {
    let line = command.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut preview: String = line.chars().take(PREVIEW_MAX_CHARS).collect();
    // A preview that was cut before has its mark as the character after the last.
    if preview.len() < line.len() {
        preview.push('…');
    }
    preview
}

fn collect_paths(value: &Value, depth: usize, paths: &mut Vec<String>) {
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
                    ) => add_path(path, paths),
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

fn collect_patch_headers(text: &str, paths: &mut Vec<String>) {
    for line in text.lines() {
        let path = ["*** Add File: ", "*** Update File: ", "*** Delete File: "]
            .iter()
            .find_map(|header| line.trim().strip_prefix(header));
        if let Some(path) = path {
            add_path(path, paths);
        }
    }
}

/// Operands of a simple command: no quotes, and nothing that a shell would interpret.
fn collect_operands(command: &str, paths: &mut Vec<String>) {
    if command.contains(|char: char| "|&;<>()$`\\\"'*?[]{}#~=%!\n\r".contains(char)) {
        return;
    }
    let mut words = command.split_whitespace();
    let n_patterns = match words.next() {
        Some("cat" | "head" | "tail" | "ls" | "find") => 0,
        Some("rg" | "grep" | "sed") => 1,
        Some(_) | None => return,
    };
    let operands = words.filter(|word| !word.starts_with('-'));
    operands.skip(n_patterns).for_each(|path| add_path(path, paths));
}

fn add_path(path: &str, paths: &mut Vec<String>) {
    let path = path.trim();
    if !path.is_empty() && path.chars().count() <= PATH_MAX_CHARS {
        paths.push(path.to_owned());
    }
}

const NAME_MAX_CHARS: usize = 256;
const PREVIEW_MAX_CHARS: usize = 240;
const PATHS_MAX: usize = 32;
const PATH_MAX_CHARS: usize = 1024;
const PATH_DEPTH_MAX: usize = 4;
const ARRAY_MAX: usize = 32;
