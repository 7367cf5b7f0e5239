//! The message that starts a turn, as it stands in the history.

use cells_protocol::harness::{AttachmentKind, HarnessAttachment};
use serde_json::{Value, json};

/// What the user sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// What was typed.
    pub(super) text: String,
    /// `prompt` or `command`.
    kind: &'static str,
    /// What was sent with it.
    pub(super) attachments: Vec<HarnessAttachment>,
}

impl Message {
    /// A prompt.
    pub(super) fn prompt(text: &str, attachments: Vec<HarnessAttachment>) -> Self {
        Self { text: text.to_owned(), kind: "prompt", attachments }
    }

    /// A slash command that starts a turn.
    pub(super) fn command(text: String) -> Self {
        Self { text, kind: "command", attachments: Vec::new() }
    }

    /// The members of its item: first what was typed, then each attachment (`harness.md` §6).
    pub(super) fn content(&self) -> Value {
        let text = |text: String| json!({"type": "text", "text": text});
        let mut content = vec![text(self.text.clone())];
        for attachment in &self.attachments {
            let name = &attachment.name;
            match attachment.kind {
                AttachmentKind::Text => content.push(text(format!("Attachment: {name}\n{}", attachment.content))),
                AttachmentKind::Image => {
                    content.push(text(format!("Image attachment: {name}")));
                    content.push(json!({"type": "image", "url": attachment.content}));
                }
            }
        }
        let mut kinds = vec![self.kind];
        kinds.resize(content.len(), "attachment");
        json!({"content": content, "contentItemKinds": kinds})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_kind() {
        let image = HarnessAttachment::image("b.png", "image/png", b"\x89PNG\r\n\x1a\n");
        let attachments = vec![HarnessAttachment::text("a.txt", "one\ntwo"), image.clone()];
        let expected = json!({
            "content": [
                {"type": "text", "text": "look"},
                {"type": "text", "text": "Attachment: a.txt\none\ntwo"},
                {"type": "text", "text": "Image attachment: b.png"},
                {"type": "image", "url": image.content},
            ],
            "contentItemKinds": ["prompt", "attachment", "attachment", "attachment"],
        });
        assert_eq!(Message::prompt("look", attachments).content(), expected);
        let command = json!({"content": [{"type": "text", "text": "/do x"}], "contentItemKinds": ["command"]});
        assert_eq!(Message::command("/do x".to_owned()).content(), command);
    }
}
