//! [`Json`]: a message as a tree, parsed once by `serde_json`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use super::{Malformed, Object};

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

    /// The text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Array(_) | Self::Object(_) => None,
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
