//! What a turn carries beside its text (`harness.md` §6, `driver-api.md` §6.6).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::profiles::AttachmentKind;
use crate::json::{self, Malformed, Object};
use crate::limits::{
    ATTACHMENT_IMAGE_MAX_BYTES, ATTACHMENT_NAME_MAX_BYTES, ATTACHMENT_TEXT_MAX_BYTES, ATTACHMENTS_MAX,
    ATTACHMENTS_MAX_BYTES,
};
use crate::text::is_label;

/// Text or a picture that is sent with a turn. [`check_attachments`] says what the rules are.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessAttachment {
    /// What it is.
    pub kind: AttachmentKind,
    /// What the agent calls it: 1 to 256 bytes without control characters, `/` and `\\`.
    pub name: String,
    /// Text of at most 64 KiB without control characters but tab and line ends, or the `data:` URL of an image.
    pub content: String,
    /// Type of an image: `image/png`, `image/jpeg` or `image/webp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

impl HarnessAttachment {
    /// A text called `name`.
    pub fn text(name: impl Into<String>, content: impl Into<String>) -> Self {
        Self { kind: AttachmentKind::Text, name: name.into(), content: content.into(), mime_type: None }
    }

    /// A picture called `name` of `mime_type` (`image/png`, `image/jpeg` or `image/webp`), at most 256 KiB.
    pub fn image(name: impl Into<String>, mime_type: &str, image: &[u8]) -> Self {
        let content = ["data:", mime_type, ";base64,", &STANDARD.encode(image)].concat();
        Self { kind: AttachmentKind::Image, name: name.into(), content, mime_type: Some(mime_type.to_owned()) }
    }

    /// Reads an attachment; [`check_attachments`] checks it.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or of the wrong type.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            kind: object.word("kind", AttachmentKind::WORDS)?,
            name: object.string("name")?,
            content: object.string("content")?,
            mime_type: object.optional_string("mimeType")?,
        })
    }

    fn check(&self) -> Result<(), &'static str> {
        if !is_label(&self.name, ATTACHMENT_NAME_MAX_BYTES) || self.name.contains(['/', '\\']) {
            return Err("needs a name of 1 to 256 bytes without control characters, `/` and `\\`");
        }
        match self.kind {
            AttachmentKind::Text => check_text(&self.content),
            AttachmentKind::Image => self.check_image(),
        }
    }

    fn check_image(&self) -> Result<(), &'static str> {
        let mime_type = self.mime_type.as_deref().unwrap_or_default();
        if !MIME_TYPES.contains(&mime_type) {
            return Err("is an image of another type than image/png, image/jpeg and image/webp");
        }
        let encoded = self.content.strip_prefix("data:").and_then(|rest| rest.strip_prefix(mime_type));
        let encoded = encoded.and_then(|rest| rest.strip_prefix(";base64,"));
        let image = encoded.and_then(|encoded| STANDARD.decode(encoded).ok());
        let image = image.ok_or("is an image whose content is not a `data:` URL of its type in padded base64")?;
        if image.len() > ATTACHMENT_IMAGE_MAX_BYTES {
            return Err("is an image of more than 256 KiB");
        }
        if has_magic(mime_type, &image) { Ok(()) } else { Err("is an image whose bytes are not of its type") }
    }
}

/// Tells kind and size: name and content are the user's.
impl std::fmt::Debug for HarnessAttachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HarnessAttachment({:?}, {} bytes)", self.kind, self.content.len())
    }
}

/// Checks what a node would refuse: at most 5 attachments with 512 KiB of content in all, each of them
///
/// - named with 1 to 256 bytes, without control characters, `/` and `\\`,
/// - and either text of at most 64 KiB without control characters but tab, line feed and carriage return,
/// - or an image of at most 256 KiB, whose content is `data:<its type>;base64,<padded base64>` and whose bytes begin as a
///   PNG, JPEG or WebP does.
///
/// # Errors
/// [`Malformed`] with the number of the attachment and its rule, and nothing of its content.
pub fn check_attachments(attachments: &[HarnessAttachment]) -> Result<(), Malformed> {
    if attachments.len() > ATTACHMENTS_MAX {
        return Err(Malformed::new("the attachments", "are more than 5"));
    }
    for (idx, attachment) in attachments.iter().enumerate() {
        let numbered = |problem: &str| Malformed::new("the attachments", format!("number {} {problem}", idx + 1));
        attachment.check().map_err(numbered)?;
    }
    if attachments.iter().map(|attachment| attachment.content.len()).sum::<usize>() > ATTACHMENTS_MAX_BYTES {
        return Err(Malformed::new("the attachments", "have more than 512 KiB of content"));
    }
    Ok(())
}

fn check_text(content: &str) -> Result<(), &'static str> {
    if content.len() > ATTACHMENT_TEXT_MAX_BYTES {
        return Err("is a text of more than 64 KiB");
    }
    if content.chars().any(|char| char.is_control() && !matches!(char, '\t' | '\n' | '\r')) {
        return Err("is a text with a control character");
    }
    Ok(())
}

fn has_magic(mime_type: &str, image: &[u8]) -> bool {
    match mime_type {
        "image/png" => image.starts_with(b"\x89PNG\r\n\x1a\n"),
        "image/jpeg" => image.starts_with(b"\xff\xd8\xff"),
        _ => image.starts_with(b"RIFF") && image.get(8..12) == Some(b"WEBP"),
    }
}

const MIME_TYPES: [&str; 3] = ["image/png", "image/jpeg", "image/webp"];

json::deserialize_by_read!(HarnessAttachment);
