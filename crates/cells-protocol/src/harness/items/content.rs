//! Text of messages: `text`, or `content` as text, as parts, or as parts in parts.

use serde_json::Value;

use crate::text::is_label;

/// The text parts of a message, by the element of its content that they come from.
pub(super) struct Content {
    /// For an array: how many parts each of its elements gave.
    n_parts: Option<Vec<usize>>,
    parts: Vec<String>,
}

impl Content {
    /// The content of an item.
    pub(super) fn of(item: &Value) -> Self {
        match item.get("text") {
            Some(text @ Value::String(_)) => Self::of_value(text),
            Some(_) | None => Self::of_value(item.get("content").unwrap_or(&Value::Null)),
        }
    }

    /// The parts in `value`.
    pub(super) fn of_value(value: &Value) -> Self {
        let mut parts = Vec::new();
        let n_parts = value.as_array().map(|elements| {
            let add = |element| {
                let before = parts.len();
                flatten(element, 0, &mut parts);
                parts.len() - before
            };
            elements.iter().map(add).collect()
        });
        if n_parts.is_none() {
            flatten(value, 0, &mut parts);
        }
        Self { n_parts, parts }
    }

    pub(super) fn joined(&self, separator: &str) -> String {
        self.parts.join(separator)
    }

    pub(super) fn into_parts(self) -> Vec<String> {
        self.parts
    }

    /// The kind of each part, from one kind for each element of the content. Kinds that do not fit are no kinds.
    pub(super) fn part_kinds(&self, kinds: Option<&Value>) -> Option<Vec<String>> {
        let (kinds, n_parts) = (kinds?.as_array()?, self.n_parts.as_ref()?);
        if kinds.len() != n_parts.len() {
            return None;
        }
        let mut part_kinds = Vec::with_capacity(self.parts.len());
        for (kind, n_parts) in kinds.iter().zip(n_parts) {
            let kind = kind.as_str().filter(|kind| is_label(kind, KIND_MAX_BYTES))?;
            part_kinds.extend(std::iter::repeat_n(kind.to_owned(), *n_parts));
        }
        Some(part_kinds)
    }
}

fn flatten(value: &Value, depth: usize, parts: &mut Vec<String>) {
    match value {
        Value::String(text) => parts.push(text.clone()),
        Value::Array(elements) if depth < DEPTH_MAX => {
            elements.iter().for_each(|element| flatten(element, depth + 1, parts));
        }
        Value::Object(part) if depth < DEPTH_MAX => {
            if let Some(inner) = part.get("text").or_else(|| part.get("content")) {
                flatten(inner, depth + 1, parts);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {}
    }
}

/// Longest kind of a part.
const KIND_MAX_BYTES: usize = 32;
/// Deepest nesting that is looked at.
const DEPTH_MAX: usize = 16;
