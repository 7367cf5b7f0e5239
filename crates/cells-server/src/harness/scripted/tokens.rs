//! What the agent counts as tokens: one for each four bytes of text that were begun, and 256 for an image.

use cells_protocol::harness::{
    ContextMetrics, CreditMetrics, HarnessMetrics, HarnessUsageEntry, QuotaMetrics, TokenCounts,
};
use cells_protocol::ids::NativeId;
use serde_json::Value;

use super::record::Item;
use crate::harness::clock::now_ms;

/// Tokens of a text.
fn of_text(text: &str) -> u64 {
    text.len().div_ceil(4) as u64
}

/// Tokens of a user message.
pub(super) fn of_message(item: &Item) -> u64 {
    let content = item.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let part = |part: &Value| part.get("text").and_then(Value::as_str).map_or(IMAGE, of_text);
    content.iter().map(part).sum()
}

/// What a finished item adds to the output of its turn.
pub(super) fn of_output(item: &Item) -> TokenCounts {
    let text = |text: Option<&Value>| text.and_then(Value::as_str).map_or(0, of_text);
    match item.get("type").and_then(Value::as_str) {
        Some("agentMessage" | "plan") => {
            TokenCounts { output_tokens: text(item.get("text")), ..TokenCounts::default() }
        }
        Some("reasoning") => {
            let tokens = text(item.get("summary").and_then(|summary| summary.get(0)));
            TokenCounts { output_tokens: tokens, reasoning_tokens: tokens, ..TokenCounts::default() }
        }
        Some(_) | None => TokenCounts::default(),
    }
}

/// Adds what a turn spent with `model` to the entries of its session.
pub(super) fn add(entries: &mut Vec<HarnessUsageEntry>, model: &str, spent: &TokenCounts) {
    let of_model = entries.iter().position(|entry| entry.model_id.as_deref() == Some(model));
    match of_model.and_then(|index| entries.get_mut(index)) {
        Some(entry) => entry.counts = entry.counts.checked_add(spent).unwrap_or(entry.counts),
        None => entries.push(HarnessUsageEntry { model_id: Some(model.to_owned()), counts: *spent }),
    }
}

/// Tokens in the context of a session: everything it was told and said.
pub(super) fn context(entries: &[HarnessUsageEntry]) -> u64 {
    entries.iter().map(|entry| entry.counts.input_tokens.saturating_add(entry.counts.output_tokens)).sum()
}

/// The metrics of a session.
pub(super) fn metrics(session_id: NativeId, entries: &[HarnessUsageEntry]) -> HarnessMetrics {
    let used = context(entries);
    #[expect(clippy::cast_precision_loss, reason = "both are below 2^53")]
    let (spent, all) = (used.min(QUOTA) as f64, QUOTA as f64);
    HarnessMetrics {
        version: 1,
        session_id,
        observed_at: now_ms(),
        context: Some(ContextMetrics { capacity_tokens: Some(CONTEXT), used_tokens: Some(used.min(CONTEXT)) }),
        quotas: vec![QuotaMetrics {
            id: "session".to_owned(),
            label: "this session".to_owned(),
            used_percent: Some(100.0 * spent / all),
            window_minutes: None,
            resets_at: None,
        }],
        credits: Some(CreditMetrics { unit: "tokens".to_owned(), used: Some(spent), remaining: Some(all - spent) }),
        cost: None,
    }
}

const IMAGE: u64 = 256;
/// Tokens that fit into a context.
const CONTEXT: u64 = 200_000;
/// Tokens that a session may use.
const QUOTA: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_are_counted_by_the_rule() {
        let item = |item: Value| if let Value::Object(item) = item { item } else { panic!("an item is an object") };
        for (text, tokens) in [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("äöü", 2)] {
            assert_eq!(of_text(text), tokens, "{text:?}");
        }
        let message = item(json!({"content": [{"type": "text", "text": "abcde"}, {"type": "image", "url": "data:"}]}));
        assert_eq!(of_message(&message), 258);
        let output = |output, reasoning| TokenCounts {
            output_tokens: output,
            reasoning_tokens: reasoning,
            ..TokenCounts::default()
        };
        for (value, expected) in [
            (json!({"type": "agentMessage", "text": "abcde"}), output(2, 0)),
            (json!({"type": "reasoning", "summary": ["abcde"]}), output(2, 2)),
            (json!({"type": "commandExecution", "aggregatedOutput": "abcde"}), output(0, 0)),
        ] {
            assert_eq!(of_output(&item(value.clone())), expected, "{value}");
        }
    }
}
