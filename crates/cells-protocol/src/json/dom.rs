//! [`Json`]: a message as a tree, parsed once by `serde_json`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use super::{Malformed, Object};
use crate::limits::SAFE_INTEGER_MAX;

/// A parsed JSON value. Text without escapes is borrowed from the message.
///
/// Nothing is checked beyond the syntax of JSON and the depth of 128 that `serde_json` allows; types are read out of it
/// with [`Object`].
pub enum Json<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// Text.
    String(Cow<'a, str>),
    /// A list.
    Array(Vec<Json<'a>>),
    /// Members in the order of the message. A name may stand twice; see [`Object`].
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// Parses one JSON value; `what` names it in the error.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are cut off or are not JSON.
    pub fn parse(what: &'static str, bytes: &'a [u8]) -> Result<Self, Malformed> {
        serde_json::from_slice(bytes).map_err(|error| Malformed::syntax(what, &error))
    }

    /// The members, to be read as the value that `what` names.
    ///
    /// # Errors
    /// [`Malformed`] when it is not an object.
    pub fn object(self, what: &'static str) -> Result<Object<'a>, Malformed> {
        match self {
            Self::Object(members) => Ok(Object::new(what, members)),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Array(_) => {
                Err(Malformed::new(what, "is not an object"))
            }
        }
    }

    /// The tree of a value that was parsed before.
    pub fn of(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::String(Cow::Borrowed(text)),
            Value::Array(values) => {
                let mut elements = Vec::with_capacity(values.len());
                for value in values {
                    elements.push(Self::of(value));
                }
                Self::Array(elements)
            }
            Value::Object(values) => {
                let mut members = Vec::with_capacity(values.len());
                for (name, value) in values {
                    members.push((Cow::Borrowed(name.as_str()), Self::of(value)));
                }
                Self::Object(members)
            }
        }
    }

    /// Length of the value as JSON without spaces, in bytes.
    pub(super) fn compact_bytes(&self) -> usize {
        match self {
            Self::Null => 4,
            Self::Bool(value) => 5 - usize::from(*value),
            Self::Number(number) => number.to_string().len(),
            Self::String(text) => compact_text_bytes(text),
            Self::Array(elements) => {
                1 + elements.len().max(1) + elements.iter().map(Self::compact_bytes).sum::<usize>()
            }
            Self::Object(members) => compact_object_bytes(members),
        }
    }

    /// The text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Array(_) | Self::Object(_) => None,
        }
    }

    /// The number, if it is an integer of 0 to 2^53 − 1.
    pub fn safe_integer(&self) -> Option<u64> {
        match self {
            Self::Number(number) => number.as_u64().filter(|number| *number <= SAFE_INTEGER_MAX),
            Self::Null | Self::Bool(_) | Self::String(_) | Self::Array(_) | Self::Object(_) => None,
        }
    }

    /// The same value, detached from the message. Of members with equal names the last one stays.
    pub fn into_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Number(number) => Value::Number(number),
            Self::String(text) => Value::String(text.into_owned()),
            Self::Array(elements) => {
                let mut values = Vec::with_capacity(elements.len());
                for element in elements {
                    values.push(element.into_value());
                }
                Value::Array(values)
            }
            Self::Object(members) => {
                let mut values = serde_json::Map::new();
                for (name, value) in members {
                    values.insert(name.into_owned(), value.into_value());
                }
                Value::Object(values)
            }
        }
    }
}

/// Tells only what kind of value it is: messages may hold secrets.
impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "Json(null)",
            Self::Bool(_) => "Json(boolean)",
            Self::Number(_) => "Json(number)",
            Self::String(_) => "Json(string)",
            Self::Array(_) => "Json(array)",
            Self::Object(_) => "Json(object)",
        })
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Tree)
    }
}

/// Length of an object as JSON without spaces, in bytes.
pub(super) fn compact_object_bytes(members: &[(Cow<'_, str>, Json<'_>)]) -> usize {
    let member = |(name, value): &(Cow<'_, str>, Json<'_>)| compact_text_bytes(name) + 1 + value.compact_bytes();
    1 + members.len().max(1) + members.iter().map(member).sum::<usize>()
}

fn compact_text_bytes(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..32 => 6,
        _ => 1,
    };
    2 + text.bytes().map(escaped).sum::<usize>()
}

struct Tree;

impl<'de> Visitor<'de> for Tree {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_none<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json<'de>, D::Error> {
        Json::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json<'de>, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Owned(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Json<'de>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = sequence.next_element()? {
            elements.push(element);
        }
        Ok(Json::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json<'de>, A::Error> {
        let mut members = Vec::new();
        // A name is read as a value, because that can borrow it.
        while let Some((name, value)) = map.next_entry::<Json<'de>, Json<'de>>()? {
            if let Json::String(name) = name {
                members.push((name, value));
            }
        }
        Ok(Json::Object(members))
    }
}
