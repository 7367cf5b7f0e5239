//! How long to wait before trying again: event streams (`cells-0.4.md` §2.6) and GET requests (`files-http.md` §9.1).
//!
//! Randomness is a parameter: any `u32`, uniformly distributed.

use cells_protocol::limits::{
    GET_RETRIES_MAX, GET_RETRY_FIRST_MS, GET_RETRY_JITTER_MS, PRODUCTIVE_AFTER_MS, RECONNECT_FIRST_MS,
    RECONNECT_MAX_MS, RETRY_AFTER_MAX_MS,
};

/// Delays between connections of an event stream: 500 ms, doubling with each unproductive connection up to 30 s, each
/// ± 20 %. A connection that was ready for 10 s is productive and starts the row anew.
///
/// ```
/// use cells_machines::backoff::Backoff;
///
/// let mut backoff = Backoff::new();
/// let no_jitter = u32::MAX / 2 + 1;
/// assert_eq!(backoff.handle_end(0, None, no_jitter), 500);
/// assert_eq!(backoff.handle_end(600, None, no_jitter), 1_000);
/// assert_eq!(backoff.handle_end(1_700, Some(5_000), no_jitter), 5_000);
///
/// backoff.handle_ready(7_000);
/// assert_eq!(backoff.handle_end(17_000, None, no_jitter), 500);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Backoff {
    n_unproductive: u32,
    ready_since_ms: Option<u64>,
}

impl Backoff {
    /// No failure yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The stream sent its first frame.
    pub fn handle_ready(&mut self, now_ms: u64) {
        self.ready_since_ms = Some(now_ms);
    }

    /// The stream ended, or could not be opened. Gives the time to wait before the next attempt, in milliseconds.
    /// `retry_after_ms`, if the node gave one, raises it; more than 30 s counts as 30 s.
    pub fn handle_end(&mut self, now_ms: u64, retry_after_ms: Option<u64>, random: u32) -> u64 {
        let ready_for_ms = self.ready_since_ms.take().map_or(0, |since_ms| now_ms.saturating_sub(since_ms));
        if ready_for_ms >= PRODUCTIVE_AFTER_MS {
            self.n_unproductive = 0;
        }
        let delay_ms = RECONNECT_FIRST_MS.saturating_mul(1 << self.n_unproductive.min(16)).min(RECONNECT_MAX_MS);
        self.n_unproductive = self.n_unproductive.saturating_add(1);
        let jittered_ms = delay_ms * 4 / 5 + scale(random, delay_ms * 2 / 5);
        jittered_ms.max(retry_after_ms.unwrap_or(0).min(RETRY_AFTER_MAX_MS))
    }
}

/// Whether a GET that was answered with `status` is sent again, and after how many milliseconds.
///
/// Only 429, 502, 503 and 504 are, at most twice, and only if the wait ends within the remaining budget. `n_retries` is
/// the number of extra attempts made so far. The wait is that of `Retry-After`, else 100 ms · 2ⁿ plus 0 to 100 ms. A
/// request that failed without a status, and anything but GET, is never sent again.
///
/// ```
/// use cells_machines::backoff::get_retry_delay_ms;
/// assert_eq!(get_retry_delay_ms(503, 0, None, 30_000, 0), Some(100));
/// assert_eq!(get_retry_delay_ms(503, 1, Some(2_000), 30_000, 0), Some(2_000));
/// assert_eq!(get_retry_delay_ms(503, 1, Some(2_000), 1_500, 0), None);
/// assert_eq!(get_retry_delay_ms(404, 0, None, 30_000, 0), None);
/// ```
pub fn get_retry_delay_ms(
    status: u16,
    n_retries: u32,
    retry_after_ms: Option<u64>,
    remaining_ms: u64,
    random: u32,
) -> Option<u64> {
    if !matches!(status, 429 | 502 | 503 | 504) || n_retries >= GET_RETRIES_MAX {
        return None;
    }
    let delay_ms = match retry_after_ms {
        Some(delay_ms) => delay_ms.min(RETRY_AFTER_MAX_MS),
        None => (GET_RETRY_FIRST_MS << n_retries) + scale(random, GET_RETRY_JITTER_MS),
    };
    (delay_ms < remaining_ms).then_some(delay_ms)
}

/// The value of a `Retry-After` header in milliseconds, at most 30 s. Only the form in seconds is understood.
///
/// ```
/// use cells_machines::backoff::parse_retry_after;
/// assert_eq!(parse_retry_after("2"), Some(2_000));
/// assert_eq!(parse_retry_after("86400"), Some(30_000));
/// assert_eq!(parse_retry_after("Fri, 31 Dec 1999 23:59:59 GMT"), None);
/// ```
pub fn parse_retry_after(header: &str) -> Option<u64> {
    let header = header.trim();
    let is_number = !header.is_empty() && header.bytes().all(|byte| byte.is_ascii_digit());
    // A number that does not fit is larger than the cap.
    is_number.then(|| header.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(1000).min(RETRY_AFTER_MAX_MS))
}

/// `random` as a number from 0 to `max`.
fn scale(random: u32, max: u64) -> u64 {
    (u64::from(random) * (max + 1)) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_the_cap_and_jitter_stays_within_a_fifth() {
        for (random, expected) in [
            (0, [400, 800, 1_600, 3_200, 6_400, 12_800, 24_000, 24_000]),
            (u32::MAX, [600, 1_200, 2_400, 4_800, 9_600, 19_200, 36_000, 36_000]),
        ] {
            let mut backoff = Backoff::new();
            let delays: Vec<u64> = (0..8).map(|n| backoff.handle_end(n, None, random)).collect();
            assert_eq!(delays, expected, "{random}");
        }
    }

    #[test]
    fn a_stream_that_flaps_keeps_its_long_delay() {
        let mut backoff = Backoff::new();
        let mut delays = Vec::new();
        for n in 0..4 {
            backoff.handle_ready(n * 100_000);
            delays.push(backoff.handle_end(n * 100_000 + 9_999, None, 0));
        }
        assert_eq!(delays, [400, 800, 1_600, 3_200]);
    }

    #[test]
    fn retry_after_raises_and_never_lowers_and_is_bounded() {
        for (retry_after_ms, expected) in [(0, 400), (399, 400), (401, 401), (u64::MAX, 30_000)] {
            assert_eq!(Backoff::new().handle_end(0, Some(retry_after_ms), 0), expected, "{retry_after_ms}");
        }
    }

    #[test]
    fn many_failures_and_times_that_go_back_are_harmless() {
        let mut backoff = Backoff { n_unproductive: u32::MAX, ready_since_ms: Some(u64::MAX) };
        assert_eq!(backoff.handle_end(0, None, 0), 24_000);
    }

    #[test]
    fn which_replies_to_a_get_are_tried_again() {
        for (status, n_retries, retry_after_ms, remaining_ms, random, expected) in [
            (429, 0, None, 30_000, u32::MAX, Some(200)),
            (502, 1, None, 30_000, 0, Some(200)),
            (502, 1, None, 30_000, u32::MAX, Some(300)),
            (504, 2, None, 30_000, 0, None),
            (504, u32::MAX, None, 30_000, 0, None),
            (503, 0, Some(0), 30_000, 0, Some(0)),
            (503, 0, Some(0), 0, 0, None),
            (503, 0, Some(60_000), 30_001, 0, Some(30_000)),
            (503, 0, Some(60_000), 30_000, 0, None),
            (503, 0, None, 100, 0, None),
            (500, 0, None, 30_000, 0, None),
            (408, 0, Some(1), 30_000, 0, None),
            (200, 0, None, 30_000, 0, None),
        ] {
            let delay = get_retry_delay_ms(status, n_retries, retry_after_ms, remaining_ms, random);
            assert_eq!(delay, expected, "{status} {n_retries} {retry_after_ms:?} {remaining_ms} {random}");
        }
    }

    #[test]
    fn retry_after_headers() {
        for (header, expected) in [
            ("0", Some(0)),
            (" 7 ", Some(7_000)),
            ("99999999999999999999999", Some(30_000)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
        ] {
            assert_eq!(parse_retry_after(header), expected, "{header}");
        }
    }
}
