//! Tokens that a session has used (`cells-0.4.md` §7.1).

use serde::Serialize;

use crate::ids::NativeId;
use crate::json::{self, Malformed, Object};
use crate::limits::{MODEL_ID_MAX_BYTES, SAFE_INTEGER_MAX, USAGE_ENTRIES_MAX};
use crate::text::is_label;

/// What the native transcript says of the tokens of a session. Sums hold; no prices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessUsage {
    /// Always 1.
    pub version: u64,
    /// The session.
    pub session_id: NativeId,
    /// One entry a model, at most 64.
    pub entries: Vec<HarnessUsageEntry>,
    /// The sums of all entries.
    pub totals: HarnessUsageTotals,
}

/// The tokens of one model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessUsageEntry {
    /// The model; `None` where the transcript does not name one.
    pub model_id: Option<String>,
    /// Its counts.
    #[serde(flatten)]
    pub counts: TokenCounts,
}

/// Numbers of tokens. Input, cache read, cache write and output are disjoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenCounts {
    /// Read afresh.
    pub input_tokens: u64,
    /// Read from a cache.
    pub cache_read_tokens: u64,
    /// Written to a cache.
    pub cache_write_tokens: u64,
    /// Produced, reasoning included.
    pub output_tokens: u64,
    /// The part of the output that was reasoning.
    pub reasoning_tokens: u64,
}

/// The sums of all entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessUsageTotals {
    /// Each count.
    #[serde(flatten)]
    pub counts: TokenCounts,
    /// Input, cache read, cache write and output together.
    pub total_tokens: u64,
}

impl TokenCounts {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            input_tokens: object.integer("inputTokens")?,
            cache_read_tokens: object.integer("cacheReadTokens")?,
            cache_write_tokens: object.integer("cacheWriteTokens")?,
            output_tokens: object.integer("outputTokens")?,
            reasoning_tokens: object.integer("reasoningTokens")?,
        })
    }

    /// Both together; `None` beyond 2^53 − 1.
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        let add = |one: u64, other: u64| one.checked_add(other).filter(|sum| *sum <= SAFE_INTEGER_MAX);
        Some(Self {
            input_tokens: add(self.input_tokens, other.input_tokens)?,
            cache_read_tokens: add(self.cache_read_tokens, other.cache_read_tokens)?,
            cache_write_tokens: add(self.cache_write_tokens, other.cache_write_tokens)?,
            output_tokens: add(self.output_tokens, other.output_tokens)?,
            reasoning_tokens: add(self.reasoning_tokens, other.reasoning_tokens)?,
        })
    }

    /// Input, cache read, cache write and output together; `None` beyond 2^53 − 1.
    pub fn total(&self) -> Option<u64> {
        let buckets = [self.input_tokens, self.cache_read_tokens, self.cache_write_tokens, self.output_tokens];
        let sum = buckets.into_iter().try_fold(0_u64, u64::checked_add);
        sum.filter(|sum| *sum <= SAFE_INTEGER_MAX)
    }
}

impl HarnessUsage {
    /// The usage of a session with these entries; `None` when a sum is beyond 2^53 − 1.
    pub fn of(session_id: NativeId, entries: Vec<HarnessUsageEntry>) -> Option<Self> {
        let sum = |sum: TokenCounts, entry: &HarnessUsageEntry| sum.checked_add(&entry.counts);
        let counts = entries.iter().try_fold(TokenCounts::default(), sum)?;
        let totals = HarnessUsageTotals { counts, total_tokens: counts.total()? };
        Some(Self { version: 1, session_id, entries, totals })
    }

    /// Reads and checks the usage of `session_id`.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong, it belongs to another session, a model stands twice, there are more
    /// than 64 entries, reasoning exceeds the output, or a sum is not what its parts give.
    pub fn read(object: &mut Object<'_>, session_id: &NativeId) -> Result<Self, Malformed> {
        let what = object.what();
        let wrong = |problem: &str| Err(Malformed::new(what, problem));
        let mut totals = object.object("totals")?;
        let totals = HarnessUsageTotals {
            counts: TokenCounts::read(&mut totals)?,
            total_tokens: totals.integer("totalTokens")?,
        };
        let usage = Self {
            version: object.integer("version")?,
            session_id: object.id("sessionId")?,
            entries: object.objects("entries", HarnessUsageEntry::read)?,
            totals,
        };
        if usage.version != 1 {
            return wrong("has another version than 1");
        }
        if usage.session_id != *session_id {
            return wrong("belongs to another session");
        }
        if usage.entries.len() > USAGE_ENTRIES_MAX {
            return wrong("has more than 64 entries");
        }
        let mut models: Vec<_> = usage.entries.iter().map(|entry| entry.model_id.as_deref()).collect();
        models.sort_unstable();
        if models.windows(2).any(|pair| pair.first() == pair.last()) {
            return wrong("names a model twice");
        }
        let counts = usage.entries.iter().map(|entry| &entry.counts).chain([&usage.totals.counts]);
        if counts.into_iter().any(|counts| counts.reasoning_tokens > counts.output_tokens) {
            return wrong("has more reasoning than output");
        }
        match Self::of(usage.session_id.clone(), usage.entries.clone()) {
            Some(expected) if expected.totals == usage.totals => Ok(usage),
            Some(_) | None => wrong("has totals that are not the sums of its entries"),
        }
    }
}

impl HarnessUsageEntry {
    /// Reads an entry.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        let model_id = object.nullable_string("modelId")?;
        if model_id.as_deref().is_some_and(|model| !is_label(model, MODEL_ID_MAX_BYTES)) {
            return Err(object.wrong("modelId"));
        }
        Ok(Self { model_id, counts: TokenCounts::read(object)? })
    }
}

json::deserialize_by_read!(HarnessUsageEntry);
