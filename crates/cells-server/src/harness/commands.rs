//! What the service makes of the result of `harness_command` (`cells-0.4.md` §5.2).

use cells_protocol::limits::{COMMAND_PREVIEW_MAX_BYTES, RECEIPT_RESULT_MAX_BYTES};
use serde_json::{Map, Value};

use super::arguments::Arguments;
use super::outputs::OutputStore;
use super::plugin::ToolError;
use super::receipts::ReceiptKey;
use cells_protocol::ids::ProfileId;

/// Where the caller wants the text of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputMode {
    /// In the result.
    Inline,
    /// Behind a reference.
    Reference,
}

impl OutputMode {
    /// Reads the argument `outputMode`.
    ///
    /// # Errors
    /// `EINVAL` when it is not `reference`, `ECAPABILITY` when the profile keeps no output.
    pub(crate) fn of(arguments: &Arguments, profile_keeps_output: bool) -> Result<Self, ToolError> {
        match arguments.get("outputMode") {
            None => Ok(Self::Inline),
            Some(Value::String(mode)) if mode == "reference" && profile_keeps_output => Ok(Self::Reference),
            Some(Value::String(mode)) if mode == "reference" => Err(ToolError("ECAPABILITY")),
            Some(_) => Err(ToolError("EINVAL")),
        }
    }
}

/// Replaces the whole text in `output` by a preview and a reference, or by a preview and the reason why the text is not
/// kept. In inline mode the text stays, unless a reply cannot carry it.
pub(crate) fn place_output(
    mut result: Value,
    mode: OutputMode,
    outputs: &OutputStore,
    key: &ReceiptKey,
    profile: &ProfileId,
) -> Value {
    let Some(members) = result.as_object_mut() else { return result };
    let inline = mode == OutputMode::Inline;
    if inline && members.get("output").and_then(Value::as_str).is_none_or(|text| text.len() <= INLINE_MAX_BYTES) {
        return result;
    }
    let Some(Value::String(text)) = members.remove("output") else { return result };
    let kept = match mode {
        OutputMode::Inline => Err(ToolError("HARNESS_COMMAND_OUTPUT_TOO_LARGE")),
        OutputMode::Reference => outputs.keep(key, profile, &text),
    };
    match kept {
        Ok(reference) => {
            members.insert("outputRef".to_owned(), serde_json::to_value(reference).unwrap_or_default());
        }
        Err(_) if text.is_empty() => {}
        Err(error) => {
            members.insert("outputError".to_owned(), error.0.into());
        }
    }
    let preview = preview_of(&text, room(members));
    members.insert("truncated".to_owned(), (preview.len() < text.len()).into());
    members.insert("preview".to_owned(), preview.into());
    result
}

/// JSON bytes that a preview may take, so that the whole result fits into a receipt. A larger result would be lost when
/// its reply is.
fn room(members: &Map<String, Value>) -> usize {
    const REST: usize = r#","preview":"","truncated":false"#.len();
    let used = serde_json::to_vec(members).map_or(RECEIPT_RESULT_MAX_BYTES, |json| json.len());
    RECEIPT_RESULT_MAX_BYTES.saturating_sub(used + REST)
}

/// The beginning of `text`: at most 64 KiB, at most `room` bytes of JSON, no NUL, cut at a character border.
fn preview_of(text: &str, mut room: usize) -> &str {
    for (start, character) in text.char_indices() {
        let json_bytes = match character {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            _ => character.len_utf8(),
        };
        let end = start + character.len_utf8();
        if json_bytes > room || end > COMMAND_PREVIEW_MAX_BYTES || character == '\0' {
            return &text[..start];
        }
        room -= json_bytes;
    }
    text
}

/// Longest text in a result. A reply holds it twice, once as JSON and once as JSON in JSON: at most 13 bytes for each of
/// its own. A driver reads at most 32 MiB.
const INLINE_MAX_BYTES: usize = 2 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use cells_protocol::ids::{Epoch, PrincipalId, RequestId};
    use serde_json::json;

    use super::*;

    fn placed(output: &str, mode: OutputMode) -> Value {
        let state = tempfile::tempdir().unwrap();
        let outputs = OutputStore::open(state.path(), Epoch::from_bytes([0; 32]), 1 << 30).unwrap();
        let key =
            ReceiptKey { principal: PrincipalId::new("owner").unwrap(), request_id: RequestId::new("r").unwrap() };
        let result = json!({"commandId": "r", "name": "dump", "state": "completed", "turnId": null, "output": output});
        place_output(result, mode, &outputs, &key, &ProfileId::new("main").unwrap())
    }

    #[test]
    fn inline_text_stays_unless_a_reply_cannot_carry_it() {
        assert_eq!(placed("ok", OutputMode::Inline)["output"], json!("ok"));
        let large = placed(&"x".repeat(INLINE_MAX_BYTES + 1), OutputMode::Inline);
        assert_eq!(large["outputError"], json!("HARNESS_COMMAND_OUTPUT_TOO_LARGE"));
        assert_eq!((&large["truncated"], large.get("output")), (&json!(true), None));
    }

    #[test]
    fn a_reference_comes_with_a_preview_that_fits_into_a_receipt() {
        for (name, text) in [
            ("short", "ok".to_owned()),
            ("ascii", "x".repeat(200_000)),
            ("lines", "\n\"".repeat(100_000)),
            ("control", "\u{1}".repeat(100_000)),
            ("wide", "é€😀".repeat(30_000)),
            ("NUL", format!("ab\0{}", "c".repeat(70_000))),
        ] {
            let result = placed(&text, OutputMode::Reference);
            let preview = result["preview"].as_str().unwrap();
            assert!(text.starts_with(preview) && !preview.contains('\0') && preview.len() <= 65_536, "{name}");
            assert_eq!(result["truncated"], json!(preview.len() < text.len()), "{name}");
            assert_eq!(result["outputRef"]["bytes"], json!(text.len()), "{name}");
            assert!(result.get("output").is_none() && result.get("outputError").is_none(), "{name}");
            let size = serde_json::to_vec(&result).unwrap().len();
            assert!(size <= RECEIPT_RESULT_MAX_BYTES, "{name}: {size}");
            assert!(name == "short" || name == "NUL" || size > RECEIPT_RESULT_MAX_BYTES - 16, "{name}: {size}");
        }
    }

    #[test]
    fn an_empty_text_has_no_reference_and_a_too_large_one_says_so() {
        let empty = placed("", OutputMode::Reference);
        assert_eq!((&empty["preview"], &empty["truncated"], empty.get("outputRef")), (&json!(""), &json!(false), None));
        assert_eq!(empty.get("outputError"), None);
        let large = placed(&"x".repeat(32 * 1024 * 1024 + 1), OutputMode::Reference);
        assert_eq!(large["outputError"], json!("HARNESS_COMMAND_OUTPUT_TOO_LARGE"));
        assert_eq!((&large["truncated"], large.get("outputRef")), (&json!(true), None));
    }

    #[test]
    fn the_output_mode_is_an_exact_word() {
        let mode = |value: Value, keeps| OutputMode::of(json!({"outputMode": value}).as_object().unwrap(), keeps);
        assert_eq!(OutputMode::of(&Map::new(), true), Ok(OutputMode::Inline));
        assert_eq!(mode(json!("reference"), true), Ok(OutputMode::Reference));
        assert_eq!(mode(json!("reference"), false), Err(ToolError("ECAPABILITY")));
        assert_eq!(mode(json!("inline"), true), Err(ToolError("EINVAL")));
        assert_eq!(mode(json!(null), true), Err(ToolError("EINVAL")));
    }
}
