//! JSON in and out, with errors that never quote what was received.
//!
//! What a client receives is parsed into [`Json`] once and read with [`Object`]. Nodes may read requests with `serde`.

mod dom;
mod object;
mod write;

pub use dom::Json;
pub use object::Object;

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
/// It names the value and says what is wrong with it, and holds no received text, so that the message can be logged and
/// shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", .0.what, .0.problem)]
pub struct Malformed(Box<Problem>);

/// Boxed, so that the many results with this error are small.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Problem {
    what: &'static str,
    problem: String,
}

impl Malformed {
    /// Says that `what` is wrong in the way of `problem`.
    pub fn new(what: &'static str, problem: impl Into<String>) -> Self {
        Self(Box::new(Problem { what, problem: problem.into() }))
    }

    fn syntax(what: &'static str, error: &serde_json::Error) -> Self {
        if error.is_eof() {
            return Self::new(what, "ends too early");
        }
        Self::new(what, format!("is not JSON at line {} column {}", error.line(), error.column()))
    }
}

/// Parses one JSON value of type `T`, for nodes; `what` names it in the error.
///
/// # Errors
/// [`Malformed`] when the bytes are cut off, are not JSON or do not have the shape of `T`.
pub fn parse<'a, T: Deserialize<'a>>(what: &'static str, bytes: &'a [u8]) -> Result<T, Malformed> {
    serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Malformed::new(what, "has the wrong shape"),
        _ => Malformed::syntax(what, &error),
    })
}

/// A JSON object of `members`.
///
/// For requests; the `json!` macro makes more code for each, which browsers download.
pub fn object(members: Vec<(&str, Value)>) -> Value {
    let mut object = serde_json::Map::new();
    for (name, value) in members {
        object.insert(name.to_owned(), value);
    }
    Value::Object(object)
}

/// Compact JSON of `value`. Never fails for the types of this crate, whose map keys are strings.
pub fn to_vec(value: &impl Serialize) -> Vec<u8> {
    write::to_vec(value, false).unwrap_or_default()
}

/// Compact JSON of `value` for a reader whose numbers are floating point, such as JavaScript; `None` when it holds an
/// integer beyond 2^53 − 1, which such a reader would change.
pub fn to_exact_vec<T: Serialize + ?Sized>(value: &T) -> Option<Vec<u8>> {
    write::to_vec(value, true)
}

#[cfg(test)]
mod tests;
