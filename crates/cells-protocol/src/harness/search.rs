//! Search in sessions (`harness.md` §6, `cells-0.4.md` §8.2–8.3).

use serde::Serialize;

use crate::ids::NativeId;
use crate::json::{self, Malformed, Object};
use crate::limits::{SEARCH_KEYWORDS_MAX, SEARCH_MATCHES_MAX, SEARCH_QUERY_MAX_BYTES};

/// What is searched for, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HarnessSearchQuery {
    /// 1 to 1,024 bytes, not blank, without NUL; letters count in either case. Words between spaces and tabs must all be in
    /// a title or message, in any order, and are at most 16 different ones; a query of several lines is found as it stands.
    pub query: String,
    /// Where.
    pub mode: HarnessSearchMode,
    /// In the archived sessions; default: in the others.
    pub archived: bool,
}

/// Where a query is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HarnessSearchMode {
    /// In titles.
    Title,
    /// In what users and agents said. Output of tools is never searched.
    Content,
    /// In what users typed, leaving out what was added to it. Only on nodes that announce `searchPrompts`.
    Prompt,
}

impl HarnessSearchMode {
    /// Pairs of word and value, for readers of JSON.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("title", Self::Title), ("content", Self::Content), ("prompt", Self::Prompt)];

    /// The string form, for example `title`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Content => "content",
            Self::Prompt => "prompt",
        }
    }
}

impl HarnessSearchQuery {
    /// Reads a query; [`Self::check`] checks it.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            query: object.string("query")?,
            mode: object.word("mode", HarnessSearchMode::WORDS)?,
            archived: object.flag("archived")?,
        })
    }

    /// Checks length and content of the query.
    ///
    /// # Errors
    /// [`Malformed`] for one that a node refuses.
    pub fn check(&self) -> Result<(), Malformed> {
        let problem = if self.query.trim().is_empty() {
            "is blank"
        } else if self.query.len() > SEARCH_QUERY_MAX_BYTES {
            "is longer than 1024 bytes"
        } else if self.query.contains('\0') {
            "holds a NUL"
        } else {
            return Ok(());
        };
        Err(Malformed::new("the query", problem))
    }

    /// Whether a node that knows keywords finds other things than one that does not: there are several words on one line.
    pub fn has_separators(&self) -> bool {
        self.query.contains([' ', '\t'])
    }

    /// Checks the number of keywords, for a node that knows them (`searchKeywords`).
    ///
    /// # Errors
    /// [`Malformed`] when there are more than 16 different ones.
    pub fn check_keywords(&self) -> Result<(), Malformed> {
        if self.query.contains(['\n', '\r']) {
            return Ok(());
        }
        let mut keywords: Vec<String> = self.query.split([' ', '\t']).map(str::to_ascii_lowercase).collect();
        keywords.sort_unstable();
        keywords.dedup();
        keywords.retain(|keyword| !keyword.is_empty());
        if keywords.len() > SEARCH_KEYWORDS_MAX {
            return Err(Malformed::new("the query", "has more than 16 different keywords"));
        }
        Ok(())
    }
}

/// Reply of `harness_session_search`. There is no next page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessSearchResult {
    /// At most 100.
    pub matches: Vec<HarnessSearchMatch>,
    /// There may be more than was found.
    pub truncated: bool,
    /// Always `None`: ask for something narrower.
    pub next_cursor: Option<String>,
    /// The node does not know keywords: it looked for the query as it stands, spaces and tabs included.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub literal: bool,
}

/// One title or message that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessSearchMatch {
    /// The session.
    pub session_id: NativeId,
    /// Its title; may be empty.
    pub title: String,
    /// What stands around the hit; for titles the title.
    pub summary: String,
    /// Last change of the session, in Unix milliseconds.
    pub updated_at: Option<u64>,
    /// The turn of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<NativeId>,
    /// The message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_id: Option<NativeId>,
}

impl HarnessSearchResult {
    /// Reads the reply. `literal` is what the driver says of it; a node does not.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong, there are more than 100 matches, or there is a next page.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        let matches = object.objects("matches", HarnessSearchMatch::read)?;
        if matches.len() > SEARCH_MATCHES_MAX {
            return Err(Malformed::new(object.what(), "has more than 100 matches"));
        }
        if object.optional("nextCursor")?.is_some() {
            return Err(object.wrong("nextCursor"));
        }
        Ok(Self { matches, truncated: object.boolean("truncated")?, next_cursor: None, literal: false })
    }
}

impl HarnessSearchMatch {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            session_id: object.id("sessionId")?,
            title: object.optional_string("title")?.unwrap_or_default(),
            summary: object.string("summary")?,
            updated_at: object.time("updatedAt")?,
            turn_id: object.optional_id("turnId")?,
            item_id: object.optional_id("itemId")?,
        })
    }
}

json::deserialize_by_read!(HarnessSearchResult);
