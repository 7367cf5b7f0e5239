//! The time budget of one request (`files-http.md` §1.4).

use std::time::Duration;

use axum::http::HeaderMap;
use cells_protocol::limits::{DEFAULT_TIMEOUT_MS, SERVER_DEADLINE_MAX_MS};
use tokio::time::{Instant, timeout_at};

use crate::headers::Only;
use crate::refusal::Refusal;

/// The instant at which a request is given up. Waiting for a worker, for locks and for the client all count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// Starts the budget of `X-Timeout-Ms` now: a positive decimal integer, 30 s at most and when absent.
    pub(crate) fn start(headers: &HeaderMap) -> Result<Self, Refusal> {
        let budget_ms = match Only::of(headers, "x-timeout-ms") {
            Only::None => DEFAULT_TIMEOUT_MS,
            Only::One(value) => parse_ms(value.as_bytes()).ok_or(Refusal::INVALID)?,
            Only::Many => return Err(Refusal::INVALID),
        };
        Ok(Self::after_ms(budget_ms))
    }

    /// The deadline of a request whose header is wrong, until it is refused for that.
    pub(crate) fn longest() -> Self {
        Self::after_ms(SERVER_DEADLINE_MAX_MS)
    }

    fn after_ms(budget_ms: u64) -> Self {
        Self(Instant::now() + Duration::from_millis(budget_ms))
    }

    /// What `work` gives, or 504 when the deadline comes first.
    pub(crate) async fn bound<T>(self, work: impl Future<Output = T>) -> Result<T, Refusal> {
        timeout_at(self.0, work).await.map_err(|_| Refusal::TIMED_OUT)
    }

    /// The deadline put off by `time`.
    pub(crate) fn later(self, time: Duration) -> Self {
        Self(self.0 + time)
    }

    /// For blocking work, which asks between its steps.
    pub(crate) fn check(self) -> Result<(), Refusal> {
        if Instant::now() < self.0 { Ok(()) } else { Err(Refusal::TIMED_OUT) }
    }
}

fn parse_ms(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = digits.then(|| std::str::from_utf8(value).ok())??;
    // More digits than a u64 holds is still a number above the largest deadline.
    let ms = text.parse::<u64>().unwrap_or(u64::MAX);
    (ms > 0).then_some(ms.min(SERVER_DEADLINE_MAX_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_positive_decimal_integers_of_at_most_thirty_seconds() {
        for (value, expected) in [
            ("1", Some(1)),
            ("0250", Some(250)),
            ("30000", Some(30_000)),
            ("30001", Some(30_000)),
            ("99999999999999999999999", Some(30_000)),
            ("0", None),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("1s", None),
        ] {
            assert_eq!(parse_ms(value.as_bytes()), expected, "{value:?}");
        }
    }
}
