//! Arguments of tools: the general rules and the identity of a mutation (`harness.md` §2.4).

use cells_protocol::limits::ARGUMENT_MAX_BYTES;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::plugin::ToolError;

/// The arguments of a tool.
pub(crate) type Arguments = Map<String, Value>;

/// A mandatory string: not empty, at most 131,072 bytes.
///
/// # Errors
/// `EINVAL` when it is absent or anything else.
pub(crate) fn text<'a>(arguments: &'a Arguments, name: &str) -> Result<&'a str, ToolError> {
    let text = arguments.get(name).and_then(Value::as_str);
    text.filter(|text| !text.is_empty() && text.len() <= ARGUMENT_MAX_BYTES).ok_or(ToolError("EINVAL"))
}

/// A mandatory non-negative integer.
///
/// # Errors
/// `EINVAL` when it is absent or anything else.
pub(crate) fn integer(arguments: &Arguments, name: &str) -> Result<u64, ToolError> {
    arguments.get(name).and_then(Value::as_u64).ok_or(ToolError("EINVAL"))
}

/// SHA-256 of the JSON of `[tool, arguments]` with sorted keys: two calls with the same identity are the same mutation.
pub(crate) fn identity(tool: &str, arguments: &Arguments) -> [u8; 32] {
    let mut text = String::from("[");
    write_scalar(&Value::from(tool), &mut text);
    text.push(',');
    write_object(arguments, &mut text);
    text.push(']');
    Sha256::digest(text).into()
}

/// Sorts by itself, so that the identity does not depend on how the map keeps its keys.
fn write_object(members: &Map<String, Value>, text: &mut String) {
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_by_key(|(key, _)| *key);
    text.push('{');
    for (number, (key, member)) in sorted.into_iter().enumerate() {
        if number > 0 {
            text.push(',');
        }
        write_scalar(&Value::from(key.as_str()), text);
        text.push(':');
        write(member, text);
    }
    text.push('}');
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => write_object(members, text),
        Value::Array(elements) => {
            text.push('[');
            for (number, element) in elements.iter().enumerate() {
                if number > 0 {
                    text.push(',');
                }
                write(element, text);
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => write_scalar(value, text),
    }
}

fn write_scalar(value: &Value, text: &mut String) {
    text.push_str(&value.to_string());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(arguments: &str) -> [u8; 32] {
        identity("harness_turn", &serde_json::from_str(arguments).unwrap())
    }

    #[test]
    fn the_identity_is_the_hash_of_sorted_compact_json() {
        let expected: [u8; 32] = Sha256::digest(r#"["harness_turn",{"a":[1,{"x":null,"y":"ü\n"}],"b":true}]"#).into();
        assert_eq!(of(r#"{ "b": true, "a": [1, {"y": "ü\n", "x": null}] }"#), expected);
    }

    #[test]
    fn every_argument_and_the_tool_count() {
        assert_ne!(of(r#"{"a":1}"#), of(r#"{"a":1,"unknown":null}"#));
        assert_ne!(of("{}"), identity("harness_create", &Map::new()));
    }

    #[test]
    fn mandatory_arguments_are_checked() {
        let arguments: Arguments =
            serde_json::from_value(json!({"a": "x", "empty": "", "n": 1, "neg": -1, "f": 1.5})).unwrap();
        assert_eq!(text(&arguments, "a"), Ok("x"));
        for name in ["empty", "n", "absent"] {
            assert_eq!(text(&arguments, name), Err(ToolError("EINVAL")), "{name}");
        }
        let long = serde_json::from_value(json!({"a": "x".repeat(ARGUMENT_MAX_BYTES + 1)})).unwrap();
        assert_eq!(text(&long, "a"), Err(ToolError("EINVAL")));
        assert_eq!(integer(&arguments, "n"), Ok(1));
        for name in ["neg", "f", "a", "absent"] {
            assert_eq!(integer(&arguments, name), Err(ToolError("EINVAL")), "{name}");
        }
    }
}
