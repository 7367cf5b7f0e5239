//! [`Object`]: how every reply type reads its members.

use std::borrow::Cow;

use serde_json::Value;

use super::dom::compact_object_bytes;
use super::{Json, Malformed};
use crate::time::unix_ms;

/// The members of a received object, each of which is taken out once.
///
/// Members that nobody asks for are ignored. One that is asked for and stands twice is refused, because the two ends could
/// disagree on which one holds. Errors name the member, and hold nothing that was received.
///
/// The functions are not generic, or only in a few lines: browsers download each copy of such code.
///
/// ```
/// use cells_protocol::json::Object;
/// let mut reply = Object::parse("the reply", br#"{"name": "notes", "size": 3, "newer": []}"#)?;
/// assert_eq!(reply.string("name")?, "notes");
/// assert_eq!(reply.optional_integer("size")?, Some(3));
/// assert_eq!(reply.flag("hidden")?, false);
/// assert_eq!(reply.string("kind").unwrap_err().to_string(), "the reply: has no member `kind`");
/// # Ok::<(), cells_protocol::json::Malformed>(())
/// ```
pub struct Object<'a> {
    what: &'static str,
    members: Vec<(Cow<'a, str>, Json<'a>)>,
}

impl<'a> Object<'a> {
    pub(super) fn new(what: &'static str, members: Vec<(Cow<'a, str>, Json<'a>)>) -> Self {
        Self { what, members }
    }

    /// Parses a JSON object; `what` names it, and everything in it, in errors.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are cut off, are not JSON or are not an object.
    pub fn parse(what: &'static str, bytes: &'a [u8]) -> Result<Self, Malformed> {
        Json::parse(what, bytes)?.object(what)
    }

    /// What errors call this object.
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// Length of the object as JSON without spaces, in bytes, as long as no member was taken out.
    pub fn compact_bytes(&self) -> usize {
        compact_object_bytes(&self.members)
    }

    /// Any member; `None` when it is absent. It may be `null`.
    ///
    /// # Errors
    /// [`Malformed`] when it stands twice.
    pub fn member(&mut self, name: &'static str) -> Result<Option<Json<'a>>, Malformed> {
        let mut found = None;
        for (known, value) in &mut self.members {
            // Most names differ in their length, which is cheaper to see than their text.
            if known.len() == name.len() && *known == name {
                if found.is_some() {
                    return Err(self.problem("has twice the member", name));
                }
                found = Some(std::mem::replace(value, Json::Null));
            }
        }
        Ok(found)
    }

    /// As [`Self::member`], and `null` counts as absent.
    ///
    /// # Errors
    /// [`Malformed`] when it stands twice.
    pub fn optional(&mut self, name: &'static str) -> Result<Option<Json<'a>>, Malformed> {
        Ok(self.member(name)?.filter(|value| !matches!(value, Json::Null)))
    }

    /// A member that must be there. It may be `null`.
    ///
    /// # Errors
    /// [`Malformed`] when it is absent or stands twice.
    pub fn required(&mut self, name: &'static str) -> Result<Json<'a>, Malformed> {
        match self.member(name)? {
            Some(value) => Ok(value),
            None => Err(self.problem("has no member", name)),
        }
    }

    /// The error for a member of the wrong form.
    pub fn wrong(&self, name: &'static str) -> Malformed {
        self.problem("has a wrong member", name)
    }

    /// Text that may be borrowed from the message.
    ///
    /// # Errors
    /// [`Malformed`] when the member is absent or no string.
    pub fn text(&mut self, name: &'static str) -> Result<Cow<'a, str>, Malformed> {
        match self.required(name)? {
            Json::String(text) => Ok(text),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => Err(self.wrong(name)),
        }
    }

    /// A string.
    ///
    /// # Errors
    /// [`Malformed`] when the member is absent or no string.
    pub fn string(&mut self, name: &'static str) -> Result<String, Malformed> {
        self.text(name).map(Cow::into_owned)
    }

    /// A string; absent and `null` are `None`.
    ///
    /// # Errors
    /// [`Malformed`] when the member is something else.
    pub fn optional_string(&mut self, name: &'static str) -> Result<Option<String>, Malformed> {
        match self.optional(name)? {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text.into_owned())),
            Some(_) => Err(self.wrong(name)),
        }
    }

    /// A string or `null`, and the member must be there.
    ///
    /// # Errors
    /// [`Malformed`] when the member is absent or something else.
    pub fn nullable_string(&mut self, name: &'static str) -> Result<Option<String>, Malformed> {
        match self.required(name)? {
            Json::Null => Ok(None),
            Json::String(text) => Ok(Some(text.into_owned())),
            Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => Err(self.wrong(name)),
        }
    }

    /// A string; absent is empty.
    ///
    /// # Errors
    /// [`Malformed`] when the member is something else, `null` included.
    pub fn string_or_empty(&mut self, name: &'static str) -> Result<String, Malformed> {
        match self.member(name)? {
            None => Ok(String::new()),
            Some(Json::String(text)) => Ok(text.into_owned()),
            Some(_) => Err(self.wrong(name)),
        }
    }

    /// An identifier, or another type that is made from a string.
    ///
    /// # Errors
    /// [`Malformed`] when the member is absent, no string, or does not have the form of `T`.
    pub fn id<T: TryFrom<String>>(&mut self, name: &'static str) -> Result<T, Malformed> {
        let text = self.string(name)?;
        T::try_from(text).map_err(|_| self.wrong(name))
    }

    /// As [`Self::id`]; absent and `null` are `None`.
    ///
    /// # Errors
    /// [`Malformed`] when the member is something else.
    pub fn optional_id<T: TryFrom<String>>(&mut self, name: &'static str) -> Result<Option<T>, Malformed> {
        match self.optional_string(name)? {
            Some(text) => T::try_from(text).map(Some).map_err(|_| self.wrong(name)),
            None => Ok(None),
        }
    }

    /// One word of a closed list, given as pairs of word and value.
    ///
    /// # Errors
    /// [`Malformed`] when the member is absent, no string, or not in the list.
    pub fn word<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)]) -> Result<T, Malformed> {
        let word = self.required(name)?;
        self.as_word(name, &word, words)
    }

    /// As [`Self::word`]; absent is `default`.
    ///
    /// # Errors
    /// [`Malformed`] when the member is something else, `null` included.
    pub fn word_or<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)], default: T) -> Result<T, Malformed> {
        self.member(name)?.map_or(Ok(default), |word| self.as_word(name, &word, words))
    }

    /// As [`Self::word`]; dropped when it is not in the list.
    ///
    /// # Errors
    /// [`Malformed`] when the member stands twice.
    pub fn lenient_word<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)]) -> Result<Option<T>, Malformed> {
        Ok(self.member(name)?.and_then(|word| self.as_word(name, &word, words).ok()))
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// [`Malformed`] when the member is absent or something else.
    pub fn boolean(&mut self, name: &'static str) -> Result<bool, Malformed> {
        let value = self.required(name)?;
        self.as_boolean(name, &value)
    }

    /// `true` or `false`; absent is `false`.
    ///
    /// # Errors
    /// [`Malformed`] when the member is something else, `null` included.
    pub fn flag(&mut self, name: &'static str) -> Result<bool, Malformed> {
        self.member(name)?.map_or(Ok(false), |value| self.as_boolean(name, &value))
    }

    /// `true` or `false`; absent and `null` are `None`.
    ///
    /// # Errors
    /// [`Malformed`] when the member is something else.
    pub fn optional_boolean(&mut self, name: &'static str) -> Result<Option<bool>, Malformed> {
        self.optional(name)?.map(|value| self.as_boolean(name, &value)).transpose()
    }

    /// Whether the member is the JSON value `true`. Anything else counts as absent (`cells-0.4.md` §0.2).
    ///
    /// # Errors
    /// [`Malformed`] when the member stands twice.
    pub fn exactly_true(&mut self, name: &'static str) -> Result<bool, Malformed> {
        Ok(matches!(self.member(name)?, Some(Json::Bool(true))))
    }

    /// As [`Self::exactly_true`], for each of `names`.
    ///
    /// # Errors
    /// [`Malformed`] when a member stands twice.
    pub fn exactly_true_each<const N: usize>(&mut self, names: [&'static str; N]) -> Result<[bool; N], Malformed> {
        let mut values = [false; N];
        for (name, value) in names.into_iter().zip(&mut values) {
            *value = self.exactly_true(name)?;
        }
        Ok(values)
    }

    /// An `int`: 0 to 2^53 − 1.
    ///
    /// # Errors
    /// [`Malformed`] when the member is absent or something else.
    pub fn integer(&mut self, name: &'static str) -> Result<u64, Malformed> {
        let value = self.required(name)?;
        value.safe_integer().ok_or_else(|| self.wrong(name))
    }

    /// An `int`; absent and `null` are `None`.
    ///
    /// # Errors
    /// [`Malformed`] when the member is something else.
    pub fn optional_integer(&mut self, name: &'static str) -> Result<Option<u64>, Malformed> {
        match self.optional(name)? {
            Some(value) => value.safe_integer().map(Some).ok_or_else(|| self.wrong(name)),
            None => Ok(None),
        }
    }

    /// An `int` that is dropped when it is not one.
    ///
    /// # Errors
    /// [`Malformed`] when the member stands twice.
    pub fn lenient_integer(&mut self, name: &'static str) -> Result<Option<u64>, Malformed> {
        Ok(self.member(name)?.and_then(|value| value.safe_integer()))
    }

    /// A time in Unix milliseconds, as [`unix_ms`] reads it; dropped when it is none.
    ///
    /// # Errors
    /// [`Malformed`] when the member stands twice.
    pub fn time(&mut self, name: &'static str) -> Result<Option<u64>, Malformed> {
        Ok(self.member(name)?.and_then(|value| unix_ms(&value)))
    }

    /// A finite number of 0 to `max`, which may be absent or null.
    ///
    /// # Errors
    /// [`Malformed`] when the member is something else.
    pub fn optional_number(&mut self, name: &'static str, max: f64) -> Result<Option<f64>, Malformed> {
        match self.optional(name)? {
            None => Ok(None),
            Some(Json::Number(number)) => {
                let number = number.as_f64().filter(|number| (0.0..=max).contains(number));
                number.map(Some).ok_or_else(|| self.wrong(name))
            }
            Some(Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_)) => {
                Err(self.wrong(name))
            }
        }
    }

    /// An integer that may be negative.
    ///
    /// # Errors
    /// [`Malformed`] when the member is absent or something else.
    pub fn signed_integer(&mut self, name: &'static str) -> Result<i64, Malformed> {
        match self.required(name)? {
            Json::Number(number) => number.as_i64().ok_or_else(|| self.wrong(name)),
            Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => Err(self.wrong(name)),
        }
    }

    /// A nested object; its errors call it as this one.
    ///
    /// # Errors
    /// [`Malformed`] when the member is absent or no object.
    pub fn object(&mut self, name: &'static str) -> Result<Object<'a>, Malformed> {
        let value = self.required(name)?;
        self.as_object(name, value)
    }

    /// A nested object; absent and `null` are `None`.
    ///
    /// # Errors
    /// [`Malformed`] when the member is something else.
    pub fn optional_object(&mut self, name: &'static str) -> Result<Option<Object<'a>>, Malformed> {
        match self.optional(name)? {
            Some(value) => self.as_object(name, value).map(Some),
            None => Ok(None),
        }
    }

    /// A nested object; absent is `None`.
    ///
    /// # Errors
    /// [`Malformed`] when the member is something else, `null` included.
    pub fn object_if_present(&mut self, name: &'static str) -> Result<Option<Object<'a>>, Malformed> {
        match self.member(name)? {
            Some(value) => self.as_object(name, value).map(Some),
            None => Ok(None),
        }
    }

    /// A nested value that is dropped when `read` refuses it.
    ///
    /// # Errors
    /// [`Malformed`] when the member stands twice.
    pub fn lenient<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Object<'_>) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        let object = self.member(name)?.and_then(|value| self.as_object(name, value).ok());
        Ok(object.and_then(|mut object| read(&mut object).ok()))
    }

    /// A list of anything.
    ///
    /// # Errors
    /// [`Malformed`] when the member is absent or no array.
    pub fn array(&mut self, name: &'static str) -> Result<Vec<Json<'a>>, Malformed> {
        let value = self.required(name)?;
        self.as_array(name, value)
    }

    /// A list of anything; absent is empty.
    ///
    /// # Errors
    /// [`Malformed`] when the member is something else, `null` included.
    pub fn array_or_empty(&mut self, name: &'static str) -> Result<Vec<Json<'a>>, Malformed> {
        self.member(name)?.map_or(Ok(Vec::new()), |value| self.as_array(name, value))
    }

    /// A list of strings; absent is empty.
    ///
    /// # Errors
    /// [`Malformed`] when the member is something else, `null` included.
    pub fn strings_or_empty(&mut self, name: &'static str) -> Result<Vec<String>, Malformed> {
        let mut strings = Vec::new();
        for element in self.array_or_empty(name)? {
            let Json::String(text) = element else { return Err(self.wrong(name)) };
            strings.push(text.into_owned());
        }
        Ok(strings)
    }

    /// A list of objects, each of which `read` reads.
    ///
    /// # Errors
    /// [`Malformed`] when the member is absent or no array of objects, or when `read` refuses one.
    pub fn objects<T>(
        &mut self,
        name: &'static str,
        read: fn(&mut Object<'_>) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let elements = self.array(name)?;
        self.read_each(name, elements, read)
    }

    /// As [`Self::objects`]; absent is empty.
    ///
    /// # Errors
    /// [`Malformed`] when the member is something else, `null` included, or when `read` refuses an element.
    pub fn objects_or_empty<T>(
        &mut self,
        name: &'static str,
        read: fn(&mut Object<'_>) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let elements = self.array_or_empty(name)?;
        self.read_each(name, elements, read)
    }

    /// Any JSON, detached from the message; absent is `null`.
    ///
    /// # Errors
    /// [`Malformed`] when the member stands twice.
    pub fn value(&mut self, name: &'static str) -> Result<Value, Malformed> {
        Ok(self.member(name)?.map_or(Value::Null, Json::into_value))
    }

    /// Any JSON, detached from the message; absent and `null` are `None`.
    ///
    /// # Errors
    /// [`Malformed`] when the member stands twice.
    pub fn optional_value(&mut self, name: &'static str) -> Result<Option<Value>, Malformed> {
        Ok(self.optional(name)?.map(Json::into_value))
    }

    fn read_each<T>(
        &self,
        name: &'static str,
        elements: Vec<Json<'a>>,
        read: fn(&mut Object<'_>) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let mut values = Vec::with_capacity(elements.len());
        for element in elements {
            values.push(read(&mut self.as_object(name, element)?)?);
        }
        Ok(values)
    }

    fn as_word<T: Copy>(&self, name: &'static str, value: &Json<'_>, words: &[(&str, T)]) -> Result<T, Malformed> {
        let found = value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        found.map(|(_, value)| *value).ok_or_else(|| self.wrong(name))
    }

    fn as_boolean(&self, name: &'static str, value: &Json<'_>) -> Result<bool, Malformed> {
        if let Json::Bool(value) = value { Ok(*value) } else { Err(self.wrong(name)) }
    }

    fn as_object(&self, name: &'static str, value: Json<'a>) -> Result<Object<'a>, Malformed> {
        if let Json::Object(members) = value { Ok(Self::new(self.what, members)) } else { Err(self.wrong(name)) }
    }

    fn as_array(&self, name: &'static str, value: Json<'a>) -> Result<Vec<Json<'a>>, Malformed> {
        if let Json::Array(elements) = value { Ok(elements) } else { Err(self.wrong(name)) }
    }

    fn problem(&self, problem: &str, name: &'static str) -> Malformed {
        Malformed::new(self.what, [problem, " `", name, "`"].concat())
    }
}
