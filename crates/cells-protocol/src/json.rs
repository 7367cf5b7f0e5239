//! JSON in and out, with errors that never quote what was received.
//!
//! What a client receives is parsed into [`Json`] once and read with [`Object`]. Nodes may read requests with `serde`.

mod dom;
mod object;

pub use dom::Json;
pub use object::Object;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::limits::SAFE_INTEGER_MAX;

/// Implements [`Deserialize`] by the type's `read`, so that there is one reader only. Nodes and native callers use it;
/// clients call `read`.
macro_rules! deserialize_by_read {
    ($($type:ident),* $(,)?) => {$(
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let json = <crate::json::Json<'de> as serde::Deserialize>::deserialize(deserializer)?;
                let read = json.object("the value").and_then(|mut object| Self::read(&mut object));
                read.map_err(serde::de::Error::custom)
            }
        }
    )*};
}
pub(crate) use deserialize_by_read;

/// A received value that is not what the protocol says.
///
/// `what` names the value, `problem` what is wrong with it. Neither holds any received text, so that the message can be
/// logged and shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {problem}")]
pub struct Malformed {
    what: &'static str,
    problem: String,
}

impl Malformed {
    /// Says that `what` is wrong in the way of `problem`.
    pub fn new(what: &'static str, problem: impl Into<String>) -> Self {
        Self { what, problem: problem.into() }
    }

    fn syntax(what: &'static str, error: &serde_json::Error) -> Self {
        if error.is_eof() {
            return Self::new(what, "ends too early");
        }
        Self::new(what, format!("is not JSON at line {} column {}", error.line(), error.column()))
    }
}

/// Parses one JSON value of type `T`; `what` names it in the error.
///
/// # Errors
/// [`Malformed`] when the bytes are cut off, are not JSON or do not have the shape of `T`.
pub fn parse<'a, T: Deserialize<'a>>(what: &'static str, bytes: &'a [u8]) -> Result<T, Malformed> {
    serde_json::from_slice(bytes).map_err(|error| explain(what, &error, Some((error.line(), error.column()))))
}

/// Converts a parsed JSON value into `T`; `what` names it in the error.
///
/// # Errors
/// [`Malformed`] when the value does not have the shape of `T`.
pub fn convert<T: de::DeserializeOwned>(what: &'static str, value: &serde_json::Value) -> Result<T, Malformed> {
    // Through text, so that a type is read by one deserializer only: each copy of that code is downloaded by browsers.
    serde_json::from_slice(&to_vec(value)).map_err(|error| explain(what, &error, None))
}

/// Compact JSON of `value`. Never fails for the types of this crate, whose map keys are strings.
pub fn to_vec(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn explain(what: &'static str, error: &serde_json::Error, place: Option<(usize, usize)>) -> Malformed {
    let at = place.map_or_else(String::new, |(line, column)| format!(" at line {line} column {column}"));
    let problem = match error.classify() {
        serde_json::error::Category::Eof => "ends too early".to_owned(),
        serde_json::error::Category::Data => {
            // serde quotes the received value in most messages; "missing field" quotes only a name of ours.
            let text = error.to_string();
            match text.strip_prefix("missing field `").and_then(|rest| rest.split_once('`')) {
                Some((field, _)) => format!("has no member `{field}`"),
                None => format!("has the wrong shape{at}"),
            }
        }
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => {
            format!("is not JSON{at}")
        }
    };
    Malformed::new(what, problem)
}

/// `#[serde(deserialize_with)]` for `int`: a non-negative integer of at most 2^53 − 1.
pub fn safe_integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let value = u64::deserialize(deserializer)?;
    if value <= SAFE_INTEGER_MAX { Ok(value) } else { Err(de::Error::custom("integer above 2^53-1")) }
}

/// `#[serde(deserialize_with)]` for an optional `int`: absent and null both give `None`.
pub fn optional_safe_integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    match Option::<u64>::deserialize(deserializer)? {
        Some(value) if value > SAFE_INTEGER_MAX => Err(de::Error::custom("integer above 2^53-1")),
        other => Ok(other),
    }
}

/// `#[serde(deserialize_with)]` for an optional `int` that is dropped when it is not one.
pub fn lenient_safe_integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(lenient(deserializer)?.filter(|value| *value <= SAFE_INTEGER_MAX))
}

/// `#[serde(deserialize_with)]` for an announcement: only the JSON value `true` counts (`cells-0.4.md` §0.2).
pub fn exactly_true<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(matches!(serde_json::Value::deserialize(deserializer)?, serde_json::Value::Bool(true)))
}

/// `#[serde(deserialize_with)]` for a member that is dropped when it is not valid.
pub fn lenient<'de, D: Deserializer<'de>, T: de::DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_slice(&to_vec(&value)).ok())
}

#[cfg(test)]
mod tests;
