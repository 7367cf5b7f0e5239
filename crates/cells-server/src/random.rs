//! Randomness of the operating system.

use crate::ServeError;

/// `N` random bytes.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], ServeError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|_| ServeError::Failed("the system gives no random bytes; the node cannot make keys".into()))?;
    Ok(bytes)
}

/// `bytes` as lowercase hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}"); // writing to a string does not fail
    }
    text
}
