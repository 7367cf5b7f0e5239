//! What a session costs and how full it is, as far as the agent says (`cells-0.4.md` §7.2).

use serde::Serialize;

use super::models::label;
use crate::ids::{NativeId, is_id};
use crate::json::{Malformed, Object};
use crate::limits::{METRICS_AMOUNT_MAX, METRICS_LABEL_MAX_BYTES, METRICS_QUOTAS_MAX, METRICS_UNIT_MAX_BYTES};
use crate::text::has_twice;

/// Metrics of a session. What is `None` is not known; it is never 0 for that.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessMetrics {
    /// Always 1.
    pub version: u64,
    /// The session.
    pub session_id: NativeId,
    /// When the node looked, in Unix milliseconds.
    pub observed_at: u64,
    /// How full the context is.
    pub context: Option<ContextMetrics>,
    /// What may be used in a time, at most 16 with unique ids.
    pub quotas: Vec<QuotaMetrics>,
    /// What was paid with.
    pub credits: Option<CreditMetrics>,
    /// What the agent itself reckons it cost.
    pub cost: Option<CostMetrics>,
}

/// How full the context is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextMetrics {
    /// Tokens that fit.
    pub capacity_tokens: Option<u64>,
    /// Tokens in it, when it was used last.
    pub used_tokens: Option<u64>,
}

/// A quota.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaMetrics {
    /// Its identity.
    pub id: String,
    /// Its name for people, at most 64 bytes.
    pub label: String,
    /// 0 to 100.
    pub used_percent: Option<f64>,
    /// Length of its window in minutes, at least 1.
    pub window_minutes: Option<u64>,
    /// When it starts anew, in Unix milliseconds.
    pub resets_at: Option<u64>,
}

/// What was paid with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CreditMetrics {
    /// The unit, at most 32 bytes.
    pub unit: String,
    /// Spent.
    pub used: Option<f64>,
    /// Left.
    pub remaining: Option<f64>,
}

/// An estimate of the agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostMetrics {
    /// Three capital letters.
    pub currency: String,
    /// The amount.
    pub amount: Option<f64>,
    /// Always true.
    pub estimated: bool,
}

impl HarnessMetrics {
    /// Reads and checks the metrics of `session_id`.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong, it belongs to another session, or a bound is exceeded.
    pub fn read(object: &mut Object<'_>, session_id: &NativeId) -> Result<Self, Malformed> {
        let what = object.what();
        let wrong = |problem: &str| Err(Malformed::new(what, problem));
        let metrics = Self {
            version: object.integer("version")?,
            session_id: object.id("sessionId")?,
            observed_at: object.integer("observedAt")?,
            context: match object.optional_object("context")? {
                Some(mut context) => Some(ContextMetrics {
                    capacity_tokens: context.optional_integer("capacityTokens")?,
                    used_tokens: context.optional_integer("usedTokens")?,
                }),
                None => None,
            },
            quotas: object.objects_or_empty("quotas", QuotaMetrics::read)?,
            credits: match object.optional_object("credits")? {
                Some(mut credits) => Some(CreditMetrics {
                    unit: label(&mut credits, "unit", METRICS_UNIT_MAX_BYTES)?,
                    used: credits.optional_number("used", METRICS_AMOUNT_MAX)?,
                    remaining: credits.optional_number("remaining", METRICS_AMOUNT_MAX)?,
                }),
                None => None,
            },
            cost: match object.optional_object("cost")? {
                Some(mut cost) => Some(CostMetrics::read(&mut cost)?),
                None => None,
            },
        };
        if metrics.version != 1 {
            return wrong("has another version than 1");
        }
        if metrics.session_id != *session_id {
            return wrong("belongs to another session");
        }
        if metrics.quotas.len() > METRICS_QUOTAS_MAX {
            return wrong("has more than 16 quotas");
        }
        if has_twice(metrics.quotas.iter().map(|quota| quota.id.as_str()).collect()) {
            return wrong("names a quota twice");
        }
        Ok(metrics)
    }
}

impl QuotaMetrics {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        let quota = Self {
            id: object.string("id")?,
            label: label(object, "label", METRICS_LABEL_MAX_BYTES)?,
            used_percent: object.optional_number("usedPercent", 100.0)?,
            window_minutes: object.optional_integer("windowMinutes")?,
            resets_at: object.optional_integer("resetsAt")?,
        };
        if !is_id(&quota.id) {
            return Err(object.wrong("id"));
        }
        if quota.window_minutes == Some(0) { Err(object.wrong("windowMinutes")) } else { Ok(quota) }
    }
}

impl CostMetrics {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        let cost = Self {
            currency: object.string("currency")?,
            amount: object.optional_number("amount", METRICS_AMOUNT_MAX)?,
            estimated: object.boolean("estimated")?,
        };
        if cost.currency.len() != 3 || !cost.currency.bytes().all(|letter| letter.is_ascii_uppercase()) {
            return Err(object.wrong("currency"));
        }
        if cost.estimated { Ok(cost) } else { Err(object.wrong("estimated")) }
    }
}
