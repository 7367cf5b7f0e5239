//! Digests: what a session is about, without reasoning and tools (`cells-0.4.md` §7.3).

use serde::Serialize;

use crate::ids::{DigestRevision, NativeId};
use crate::json::{Malformed, Object};
use crate::limits::{DIGEST_PAGE_MAX_BYTES, DIGEST_PAGE_MAX_ENTRIES, DIGEST_TEXT_MAX_BYTES};
use crate::text::has_twice;

/// Reply of `harness_session_digest`: a page of prompts and answers, oldest first. Made without a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DigestPage {
    /// Always 1.
    pub version: u64,
    /// The session.
    pub session_id: NativeId,
    /// Version of what the digest was made from. All pages of one digest have the same.
    pub revision: DigestRevision,
    /// Title of the session; may be empty.
    pub title: String,
    /// Creation of the session, in Unix milliseconds.
    pub created_at: Option<u64>,
    /// Last change of the session, in Unix milliseconds.
    pub updated_at: Option<u64>,
    /// At most 200, of 1 MiB.
    pub entries: Vec<DigestEntry>,
    /// Prompts on this page whose origin cannot be told, and which are left out; `None` when only metadata was asked for.
    pub omitted_unclassified: Option<u64>,
    /// Asks for the next page.
    pub next_cursor: Option<String>,
}

/// One prompt or answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DigestEntry {
    /// Native identity of the item.
    pub id: NativeId,
    /// Who said it.
    pub role: DigestRole,
    /// The turn.
    pub turn_id: Option<NativeId>,
    /// When, in Unix milliseconds.
    pub timestamp: Option<u64>,
    /// What was said; at most 256 KiB.
    pub text: String,
    /// It was longer.
    pub truncated: bool,
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DigestRole {
    /// The user.
    User,
    /// The agent.
    Assistant,
}

/// What a page of a digest was asked with, to check it against.
#[derive(Debug, Clone, Copy)]
pub struct DigestRequest<'a> {
    /// The session.
    pub session_id: &'a NativeId,
    /// The version that the page must have, if one was named.
    pub expected_revision: Option<&'a DigestRevision>,
    /// Without entries.
    pub metadata_only: bool,
}

impl DigestPage {
    /// Whether everything that user and agent said is in it: it is not only metadata, no prompt was left out, no text was cut, and
    /// there is no further page.
    pub fn is_complete(&self) -> bool {
        self.omitted_unclassified == Some(0)
            && self.next_cursor.is_none()
            && !self.entries.iter().any(|entry| entry.truncated)
    }

    /// Reads the page that was asked for with `request`.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong, when it is the page of another session, version or kind, when an
    /// entry stands twice, or when a bound is exceeded.
    pub fn read(object: &mut Object<'_>, request: DigestRequest<'_>) -> Result<Self, Malformed> {
        let what = object.what();
        let wrong = |problem: &str| Err(Malformed::new(what, problem));
        if object.compact_bytes() > DIGEST_PAGE_MAX_BYTES + ENVELOPE_MAX_BYTES {
            return wrong("is larger than 1 MiB");
        }
        let page = Self {
            version: object.integer("version")?,
            session_id: object.id("sessionId")?,
            revision: object.id("revision")?,
            title: object.optional_string("title")?.unwrap_or_default(),
            created_at: object.time("createdAt")?,
            updated_at: object.time("updatedAt")?,
            entries: object.objects("entries", DigestEntry::read)?,
            omitted_unclassified: object.optional_integer("omittedUnclassified")?,
            next_cursor: object.optional_string("nextCursor")?,
        };
        if page.version != 1 {
            return wrong("has another version than 1");
        }
        if page.session_id != *request.session_id {
            return wrong("belongs to another session");
        }
        if request.expected_revision.is_some_and(|expected| *expected != page.revision) {
            return wrong("has another revision than was asked for");
        }
        if page.entries.len() > DIGEST_PAGE_MAX_ENTRIES {
            return wrong("has more than 200 entries");
        }
        if has_twice(page.entries.iter().map(|entry| entry.id.as_str()).collect()) {
            return wrong("has an entry twice");
        }
        let has_entries = !page.entries.is_empty() || page.omitted_unclassified.is_some() || page.next_cursor.is_some();
        if request.metadata_only && has_entries {
            return wrong("has entries where only metadata was asked for");
        }
        if !request.metadata_only && page.omitted_unclassified.is_none() {
            return wrong("has no number of omitted prompts");
        }
        Ok(page)
    }
}

impl DigestEntry {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        let text = object.string("text")?;
        if text.len() > DIGEST_TEXT_MAX_BYTES {
            return Err(Malformed::new(object.what(), "has a text of more than 256 KiB"));
        }
        Ok(Self {
            id: object.id("id")?,
            role: object.word("role", DigestRole::WORDS)?,
            turn_id: object.optional_id("turnId")?,
            timestamp: object.time("timestamp")?,
            text,
            truncated: object.boolean("truncated")?,
        })
    }
}

/// What stands around the entries of a page.
const ENVELOPE_MAX_BYTES: usize = 64 * 1024;

impl DigestRole {
    const WORDS: &'static [(&'static str, Self)] = &[("user", Self::User), ("assistant", Self::Assistant)];
}
