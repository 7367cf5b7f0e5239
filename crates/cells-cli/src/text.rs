//! Text of others, made safe to show.

use std::borrow::Cow;

/// `text` without the characters that steer a terminal or reorder what it shows; those are escaped, such as `\u{1b}`.
/// Line breaks and tabs stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    escape(text, |character| is_steering(character) && !matches!(character, '\n' | '\t'))
}

/// As [`visible`], on one line.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    escape(text, is_steering)
}

fn escape(text: &str, must_escape: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&must_escape) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if must_escape(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Control characters, and those that change the direction of the text: with them, a command could look like another one.
fn is_steering(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        for (text, shown, on_one_line) in [
            ("plain – ü 😀", "plain – ü 😀", "plain – ü 😀"),
            ("a\tb\nc", "a\tb\nc", "a\\tb\\nc"),
            ("\u{1b}[2J\r", "\\u{1b}[2J\\r", "\\u{1b}[2J\\r"),
            ("\u{9b}1m", "\\u{9b}1m", "\\u{9b}1m"),
            ("rm \u{202e}txt", "rm \\u{202e}txt", "rm \\u{202e}txt"),
        ] {
            assert_eq!(visible(text), shown);
            assert_eq!(one_line(text), on_one_line);
        }
    }
}
