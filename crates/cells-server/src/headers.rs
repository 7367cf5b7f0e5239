//! Headers that decide something.

use axum::http::{HeaderMap, HeaderValue};

/// The values of a header that decides: of several, none can be trusted.
pub(crate) enum Only<'a> {
    None,
    One(&'a HeaderValue),
    Many,
}

impl<'a> Only<'a> {
    pub(crate) fn of(headers: &'a HeaderMap, name: &str) -> Self {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Self::None,
            (Some(value), None) => Self::One(value),
            (Some(_), Some(_)) => Self::Many,
        }
    }
}
