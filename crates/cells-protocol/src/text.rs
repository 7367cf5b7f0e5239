//! Predicates for the text notations of `cells-0.4.md` §0.1.

/// `text<N>`: at most `max_bytes` UTF-8 bytes and no NUL.
pub fn is_text(value: &str, max_bytes: usize) -> bool {
    value.len() <= max_bytes && !value.contains('\0')
}

/// `label<N>`: `text<N>` without control characters that is not blank.
pub fn is_label(value: &str, max_bytes: usize) -> bool {
    value.len() <= max_bytes && !value.trim().is_empty() && !value.chars().any(char::is_control)
}

/// `code`: `^[A-Z][A-Z0-9_]{0,63}$`, the form of every node reason.
pub fn is_code(value: &str) -> bool {
    value.len() <= 64
        && value.starts_with(|first: char| first.is_ascii_uppercase())
        && value.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The longest prefix of `value` of at most `max_bytes` bytes that ends at a character border.
pub fn prefix(value: &str, max_bytes: usize) -> &str {
    &value[..value.floor_char_boundary(max_bytes)]
}

/// Whether two of `names` are equal.
pub(crate) fn has_twice(mut names: Vec<&str>) -> bool {
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}
