//! Arguments that only this agent reads.

use cells_protocol::harness::{HarnessAttachment, check_attachments};
use cells_protocol::limits::PROMPT_MAX_BYTES;
use cells_protocol::text::is_text;
use serde_json::Value;

use crate::harness::arguments::Arguments;
use crate::harness::plugin::ToolError;

/// The `args` of a slash command: at most 131,072 bytes without NUL, may be empty.
///
/// # Errors
/// `EINVAL`.
pub(super) fn command_args(arguments: &Arguments) -> Result<&str, ToolError> {
    let args = arguments.get("args").and_then(Value::as_str);
    args.filter(|args| is_text(args, PROMPT_MAX_BYTES)).ok_or(ToolError("EINVAL"))
}

/// The attachments of a turn (`harness.md` §6); none where there are none.
///
/// # Errors
/// `EINVAL` when one of them breaks a rule.
pub(super) fn attachments(arguments: &Arguments) -> Result<Vec<HarnessAttachment>, ToolError> {
    let Some(attachments) = arguments.get("attachments").filter(|attachments| !attachments.is_null()) else {
        return Ok(Vec::new());
    };
    let read: Result<Vec<HarnessAttachment>, _> = serde::Deserialize::deserialize(attachments);
    let attachments = read.map_err(|_| ToolError("EINVAL"))?;
    check_attachments(&attachments).map_err(|_| ToolError("EINVAL"))?;
    Ok(attachments)
}

/// An optional decimal position.
///
/// # Errors
/// `EINVAL` when it is there and is none.
pub(super) fn offset(arguments: &Arguments, name: &str) -> Result<Option<u64>, ToolError> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().map(Some).map_err(|_| ToolError("EINVAL"))
        }
        Some(_) => Err(ToolError("EINVAL")),
    }
}

/// Refuses an argument that this agent does not take. Null and an empty list say nothing.
///
/// # Errors
/// `code`.
pub(super) fn refuse(arguments: &Arguments, name: &str, code: &'static str) -> Result<(), ToolError> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Array(entries)) if entries.is_empty() => Ok(()),
        Some(_) => Err(ToolError(code)),
    }
}
