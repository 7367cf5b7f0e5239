//! Values across the border: arguments are checked here, results become plain objects.

use cells_driver::json::{Json, Malformed, Object, to_exact_vec};
use cells_driver::{AuthorizationSnapshot, Connection, Error, ErrorKind, FileConnection, Result};
use js_sys::{Array, JSON, JsString, Reflect};
use serde::Serialize;
use serde_json::Value;
use wasm_bindgen::prelude::{JsCast, JsValue};

/// What an argument must be, for messages such as `path must be a string`.
pub(crate) struct Argument {
    /// The call, as errors name it.
    pub(crate) operation: &'static str,
    /// The argument or member.
    pub(crate) name: &'static str,
}

impl Argument {
    /// A string; one with a lone surrogate is refused, because bytes cannot hold it.
    pub(crate) fn string(&self, value: &JsValue) -> Result<String> {
        let text = value.as_string().ok_or_else(|| self.must_be("a string"))?;
        // The replacement character stands for every lone surrogate, and for itself.
        if text.contains('\u{fffd}') && !value.unchecked_ref::<JsString>().is_valid_utf16() {
            return Err(self.must_be("well-formed text, without lone surrogates"));
        }
        Ok(text)
    }

    /// A string, or nothing.
    pub(crate) fn optional_string(&self, value: &JsValue) -> Result<Option<String>> {
        if is_absent(value) { Ok(None) } else { self.string(value).map(Some) }
    }

    /// `true` or `false`; nothing is `false`.
    pub(crate) fn flag(&self, value: &JsValue) -> Result<bool> {
        if is_absent(value) { Ok(false) } else { self.boolean(value) }
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&self, value: &JsValue) -> Result<bool> {
        value.as_bool().ok_or_else(|| self.must_be("true or false"))
    }

    /// An integer from 0 to 2^53 − 1, or nothing.
    pub(crate) fn optional_integer(&self, value: &JsValue) -> Result<Option<u64>> {
        if is_absent(value) {
            return Ok(None);
        }
        let number = value.as_f64().filter(|number| (0.0..=SAFE_INTEGER_MAX).contains(number) && number.fract() == 0.0);
        match number {
            Some(number) => Ok(Some(number as u64)),
            None => Err(self.must_be("an integer from 0 to 9007199254740991")),
        }
    }

    /// An array, with each element read by `read`.
    pub(crate) fn list<T>(&self, value: &JsValue, read: impl Fn(&JsValue) -> Result<T>) -> Result<Vec<T>> {
        let array: &Array = value.dyn_ref().ok_or_else(|| self.must_be("an array"))?;
        array.iter().map(|element| read(&element)).collect()
    }

    /// An object of the package's types. What is wrong with it is not quoted: it may be a secret in the wrong place.
    pub(crate) fn typed<T>(
        &self,
        value: &JsValue,
        form: &str,
        read: fn(&mut Object<'_>) -> Result<T, Malformed>,
    ) -> Result<T> {
        let text = json_text(value).ok_or_else(|| self.must_be(form))?;
        let read = Object::parse(self.name, text.as_bytes()).and_then(|mut object| read(&mut object));
        read.map_err(|_| self.must_be(form))
    }

    /// An identifier; its type says what form it has.
    pub(crate) fn id<T, E: std::fmt::Display>(
        &self,
        value: &JsValue,
        new: impl FnOnce(String) -> Result<T, E>,
    ) -> Result<T> {
        let text = self.string(value)?;
        new(text).map_err(|error| Error::new(ErrorKind::Invalid, self.operation, error.to_string()))
    }

    /// Anything that JSON can hold.
    pub(crate) fn json(&self, value: &JsValue) -> Result<Value> {
        let text = self.json_text(value)?;
        let value = Json::parse(self.name, text.as_bytes()).map_err(|_| self.must_be("a JSON value"))?.into_value();
        // A number beyond 2^53 − 1 may be another one than was meant.
        if to_exact_vec(&value).is_some() {
            Ok(value)
        } else {
            Err(self.must_be("a JSON value with integers of at most 2^53 − 1"))
        }
    }

    /// The JSON text of a value.
    pub(crate) fn json_text(&self, value: &JsValue) -> Result<String> {
        json_text(value).ok_or_else(|| self.must_be("a JSON value"))
    }

    fn must_be(&self, form: &str) -> Error {
        Error::new(ErrorKind::Invalid, self.operation, format!("{} must be {form}", self.name))
    }
}

/// A value as plain JavaScript: maps are objects, nothing is `null`, numbers are at most 2^53 − 1.
pub(crate) fn to_js<T: Serialize + ?Sized>(value: &T) -> Result<JsValue> {
    parsed(to_exact_vec(value))
}

/// The value of a JSON text that was parsed before.
pub(crate) fn json_to_js(text: &[u8]) -> Result<JsValue> {
    let value = std::str::from_utf8(text).ok().and_then(|text| JSON::parse(text).ok());
    value.ok_or_else(|| Error::new(ErrorKind::Io, "protocol", "the reply holds JSON that JavaScript cannot hold"))
}

fn parsed(text: Option<Vec<u8>>) -> Result<JsValue> {
    let value = text.and_then(|text| JSON::parse(std::str::from_utf8(&text).ok()?).ok());
    value.ok_or_else(|| {
        Error::new(ErrorKind::Io, "protocol", "the reply holds a number that JavaScript cannot hold exactly")
    })
}

fn json_text(value: &JsValue) -> Option<String> {
    JSON::stringify(value).ok()?.as_string()
}

/// A member of an argument object; `undefined` when the object is absent, or reading it throws.
pub(crate) fn member(object: &JsValue, name: &str) -> JsValue {
    if is_absent(object) {
        return JsValue::UNDEFINED;
    }
    Reflect::get(object, &JsValue::from_str(name)).unwrap_or(JsValue::UNDEFINED)
}

/// `undefined` or `null`.
pub(crate) fn is_absent(value: &JsValue) -> bool {
    value.is_undefined() || value.is_null()
}

/// A number of bytes or milliseconds. Every one the driver gives is at most 2^53 − 1.
pub(crate) fn number(value: u64) -> JsValue {
    JsValue::from_f64(value as f64)
}

/// Reads `{endpoint, credentialRef, username, anonymous, authorization}`.
pub(crate) fn connection(operation: &'static str, value: &JsValue) -> Result<Connection> {
    let argument = |name| Argument { operation, name };
    let authorization = member(value, "authorization");
    Ok(Connection {
        endpoint: argument("connection.endpoint").string(&member(value, "endpoint"))?,
        credential_ref: argument("connection.credentialRef")
            .optional_string(&member(value, "credentialRef"))?
            .unwrap_or_default(),
        username: argument("connection.username").optional_string(&member(value, "username"))?,
        anonymous: argument("connection.anonymous").flag(&member(value, "anonymous"))?,
        authorization: if is_absent(&authorization) {
            None
        } else {
            Some(argument("connection.authorization").typed(
                &authorization,
                "an authorization snapshot",
                AuthorizationSnapshot::read,
            )?)
        },
    })
}

/// Reads a connection and its `alias`.
pub(crate) fn file_connection(operation: &'static str, value: &JsValue) -> Result<FileConnection> {
    let alias = Argument { operation, name: "connection.alias" }.string(&member(value, "alias"))?;
    Ok(FileConnection { connection: connection(operation, value)?, alias })
}

const SAFE_INTEGER_MAX: f64 = 9_007_199_254_740_991.0;
