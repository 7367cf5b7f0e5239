//! What must be true of a reply.

use serde_json::Value;

use super::http::Reply;

#[derive(Debug, Clone)]
pub(super) enum Check {
    /// One of these.
    Status(&'static [u16]),
    /// The value at this place of the JSON body.
    Json(&'static str, Value),
    /// One of these values at this place.
    OneOf(&'static str, &'static [&'static str]),
    /// The JSON value at this place differs from that one.
    Differs(&'static str, Value),
    /// Nothing stands at this place.
    Absent(&'static str),
    /// This header, with this value.
    Header(&'static str, String),
    /// No such header.
    NoHeader(&'static str),
    /// Exactly these bytes.
    Bytes(Vec<u8>),
    /// Anything else, with words for when it is not so.
    Holds(&'static str, fn(&Reply) -> bool),
}

impl Check {
    /// The reason when it is not so.
    pub(super) fn judge(&self, reply: &Reply) -> Result<(), String> {
        let place = |pointer: &str| reply.json.pointer(pointer).unwrap_or(&Value::Null);
        let (holds, wanted) = match self {
            Check::Status(statuses) => (statuses.contains(&reply.status.as_u16()), format!("status {statuses:?}")),
            Check::Json(pointer, value) => (place(pointer) == value, format!("{value} at {pointer}")),
            Check::OneOf(pointer, values) => (
                place(pointer).as_str().is_some_and(|value| values.contains(&value)),
                format!("{values:?} at {pointer}"),
            ),
            Check::Differs(pointer, value) => {
                (place(pointer) != value, format!("another value than {value} at {pointer}"))
            }
            Check::Absent(pointer) => (reply.json.pointer(pointer).is_none(), format!("nothing at {pointer}")),
            Check::Header(name, value) => {
                (reply.header(name) == Some(value), format!("header {name}: {value}, not {:?}", reply.header(name)))
            }
            Check::NoHeader(name) => (reply.header(name).is_none(), format!("no header {name}")),
            Check::Bytes(bytes) => (reply.body == bytes.as_slice(), format!("{} certain bytes", bytes.len())),
            Check::Holds(words, holds) => (holds(reply), (*words).to_owned()),
        };
        if holds { Ok(()) } else { Err(format!("expected {wanted}, got {}", reply.shown())) }
    }
}
