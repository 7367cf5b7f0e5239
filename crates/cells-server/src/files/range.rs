//! The `Range` header of a download (`files-http.md` §4.5).

use std::ops::Range;

/// What a `Range` header asks of a file of a known size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RangeRequest {
    /// The whole file, with status 200: no header, several ranges, or a unit that is not bytes.
    Whole,
    /// These bytes, with status 206. Never empty.
    Part(Range<u64>),
    /// Status 416.
    Unsatisfiable,
    /// Status 400.
    Unreadable,
}

impl RangeRequest {
    pub(crate) fn parse(header: Option<&[u8]>, size: u64) -> Self {
        let Some(header) = header else { return Self::Whole };
        let Some(range) = header.strip_prefix(b"bytes=").filter(|range| !range.contains(&b',')) else {
            return Self::Whole;
        };
        let Some((first, last)) = std::str::from_utf8(range).ok().and_then(|range| range.split_once('-')) else {
            return Self::Unreadable;
        };
        let range = match (number(first), number(last)) {
            (Some(first), Some(last)) => first..last.saturating_add(1).min(size),
            (Some(first), None) if last.is_empty() => first..size,
            (None, Some(length)) if first.is_empty() => size.saturating_sub(length)..size,
            _ => return Self::Unreadable,
        };
        if range.is_empty() { Self::Unsatisfiable } else { Self::Part(range) }
    }
}

/// Digits only; numbers too large for any file count as the largest.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_file_of_ten_bytes_and_of_an_empty_one() {
        use RangeRequest::{Part, Unreadable, Unsatisfiable, Whole};
        for (header, of_ten, of_empty) in [
            ("bytes=0-0", Part(0..1), Unsatisfiable),
            ("bytes=2-4", Part(2..5), Unsatisfiable),
            ("bytes=2-", Part(2..10), Unsatisfiable),
            ("bytes=9-9", Part(9..10), Unsatisfiable),
            ("bytes=5-99", Part(5..10), Unsatisfiable),
            ("bytes=5-99999999999999999999", Part(5..10), Unsatisfiable),
            ("bytes=0-18446744073709551615", Part(0..10), Unsatisfiable),
            ("bytes=-3", Part(7..10), Unsatisfiable),
            ("bytes=-99", Part(0..10), Unsatisfiable),
            ("bytes=-0", Unsatisfiable, Unsatisfiable),
            ("bytes=10-", Unsatisfiable, Unsatisfiable),
            ("bytes=10-12", Unsatisfiable, Unsatisfiable),
            ("bytes=99999999999999999999-", Unsatisfiable, Unsatisfiable),
            ("bytes=4-2", Unsatisfiable, Unsatisfiable),
            ("bytes=4-3", Unsatisfiable, Unsatisfiable),
            ("bytes=", Unreadable, Unreadable),
            ("bytes=-", Unreadable, Unreadable),
            ("bytes=x-y", Unreadable, Unreadable),
            ("bytes=1-x", Unreadable, Unreadable),
            ("bytes=x-1", Unreadable, Unreadable),
            ("bytes=1", Unreadable, Unreadable),
            ("bytes= 1-2", Unreadable, Unreadable),
            ("bytes=1-2-3", Unreadable, Unreadable),
            ("bytes=+1-2", Unreadable, Unreadable),
            ("bytes=--1", Unreadable, Unreadable),
            ("bytes=0-1,3-4", Whole, Whole),
            ("bytes=x,y", Whole, Whole),
            ("items=0-1", Whole, Whole),
            ("bytes", Whole, Whole),
            ("", Whole, Whole),
        ] {
            assert_eq!(RangeRequest::parse(Some(header.as_bytes()), 10), of_ten, "{header} of 10");
            assert_eq!(RangeRequest::parse(Some(header.as_bytes()), 0), of_empty, "{header} of 0");
        }
        assert_eq!(RangeRequest::parse(None, 10), Whole);
    }
}
