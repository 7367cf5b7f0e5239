//! Times as nodes and agents write them (`harness.md` §3.2).

use crate::json::Json;
use crate::limits::SAFE_INTEGER_MAX;

/// A time as Unix milliseconds. An integer below 1e11 is seconds, another one milliseconds; text is RFC 3339. What is not
/// after 1970, has a fraction as a number, or is anything else, is no time.
pub fn unix_ms(time: &Json<'_>) -> Option<u64> {
    match time {
        Json::Number(number) => {
            let number = number.as_u64()?;
            let ms = if number < SECONDS_BELOW { number * 1000 } else { number };
            (1..=SAFE_INTEGER_MAX).contains(&ms).then_some(ms)
        }
        Json::String(text) => rfc3339_ms(text),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    }
}

/// `2026-10-08T09:22:45.123Z` or with an offset as `+02:00`. A leap second counts as the second after it; what is finer than
/// milliseconds is cut off.
fn rfc3339_ms(text: &str) -> Option<u64> {
    let (date, time) = (text.get(..10)?, text.get(11..19)?);
    if !matches!(text.as_bytes().get(10), Some(b'T' | b't' | b' ')) {
        return None;
    }
    let [year, month, day] = numbers(date, [4, 2, 2], '-')?;
    let [hour, minute, second] = numbers(time, [2, 2, 2], ':')?;
    let (ms, offset_minutes) = fraction_and_offset(text.get(19..)?)?;
    let is_date = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + (minute - offset_minutes) * 60 + second;
    u64::try_from(seconds * 1000 + ms).ok().filter(|ms| *ms > 0)
}

/// Numbers of exactly these widths, between separators.
fn numbers(text: &str, widths: [usize; 3], separator: char) -> Option<[i64; 3]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; 3];
    for (number, width) in numbers.iter_mut().zip(widths) {
        *number = digits(parts.next()?).filter(|(_, n_digits)| *n_digits == width)?.0;
    }
    parts.next().is_none().then_some(numbers)
}

fn digits(text: &str) -> Option<(i64, usize)> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if all { text.parse().ok().map(|number| (number, text.len())) } else { None }
}

fn fraction_and_offset(rest: &str) -> Option<(i64, i64)> {
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|char: char| !char.is_ascii_digit())?),
        None => ("0", rest),
    };
    // Three digits are milliseconds, whatever comes after them.
    let ms: String = fraction.chars().chain("00".chars()).take(3).collect();
    let (ms, _) = digits(&ms).filter(|_| !fraction.is_empty())?;
    if matches!(zone, "Z" | "z") {
        return Some((ms, 0));
    }
    let sign = match zone.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let [hours, minutes, _] = numbers(&[zone.get(1..)?, ":00"].concat(), [2, 2, 2], ':')?;
    (hours < 24 && minutes < 60).then_some((ms, sign * (hours * 60 + minutes)))
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days of the Gregorian calendar, counted in years that begin in March, so that leap days come last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 719_469
}

/// Integers below this are seconds.
const SECONDS_BELOW: u64 = 100_000_000_000;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(cases: impl IntoIterator<Item = (Value, Option<u64>)>) {
        for (time, ms) in cases {
            assert_eq!(unix_ms(&Json::of(&time)), ms, "{time}");
        }
    }

    #[test]
    fn numbers_are_seconds_or_milliseconds() {
        check([
            (json!(1_791_458_565), Some(1_791_458_565_000)),
            (json!(1_791_458_565_123_u64), Some(1_791_458_565_123)),
            (json!(99_999_999_999_u64), Some(99_999_999_999_000)),
            (json!(100_000_000_000_u64), Some(100_000_000_000)),
            (json!(1), Some(1000)),
            (json!(SAFE_INTEGER_MAX), Some(SAFE_INTEGER_MAX)),
            (json!(SAFE_INTEGER_MAX + 1), None),
            (json!(u64::MAX), None),
            (json!(0), None),
            (json!(-1_791_458_565), None),
            (json!(1_791_458_565.5), None),
            (json!(null), None),
            (json!(true), None),
            (json!([1]), None),
        ]);
    }

    #[test]
    fn text_is_rfc_3339() {
        check([
            (json!("2026-10-08T09:22:45.123Z"), Some(1_791_451_365_123)),
            (json!("2026-10-08t11:22:45.1239+02:00"), Some(1_791_451_365_123)),
            (json!("2026-10-07 23:52:45-09:30"), Some(1_791_451_365_000)),
            (json!("2026-10-08T09:22:45.1z"), Some(1_791_451_365_100)),
            (json!("1970-01-01T00:00:00.001Z"), Some(1)),
            (json!("2024-02-29T00:00:00Z"), Some(1_709_164_800_000)),
            (json!("2000-02-29T00:00:00Z"), Some(951_782_400_000)),
            (json!("2016-12-31T23:59:60Z"), Some(1_483_228_800_000)),
            (json!("9999-12-31T23:59:59.999Z"), Some(253_402_300_799_999)),
        ]);
        let wrong = "1970-01-01T00:00:00Z 1969-12-31T23:59:59Z 2023-02-29T00:00:00Z 1900-02-29T00:00:00Z 2026-13-01T00:00:00Z \
            2026-00-01T00:00:00Z 2026-01-00T00:00:00Z 2026-01-01T24:00:00Z 2026-01-01T00:60:00Z 2026-01-01T00:00:61Z \
            2026-01-01T00:00:00 2026-01-01T00:00:00. 2026-01-01T00:00:00.Z 2026-01-01T00:00:00+2:00 2026-01-01T00:00:00+0200 \
            2026-01-01T00:00:00+24:00 2026-01-01T00:00:00ZZ 2026-1-01T00:00:00Z +026-01-01T00:00:00Z 2026-01-01 20260101T000000Z \
            2026-01-01T00:00:00é 2026-01-01T00:00:0éZ 1791458565";
        check(wrong.split_whitespace().map(|text| (json!(text), None)));
        check([(json!(""), None), (json!(" "), None)]);
    }
}
