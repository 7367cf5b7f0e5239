//! Functions of the host that are told something.

use cells_driver::{Error, ErrorKind, Result};
use js_sys::{Array, Function, Reflect};
use wasm_bindgen::prelude::{JsCast, JsValue};
use web_sys::console;

use crate::convert::is_absent;

/// A function of the host. What it throws is printed and harms nobody.
#[derive(Clone)]
pub(crate) struct Listener(Function);

impl Listener {
    /// The function `value`, or nothing.
    pub(crate) fn optional(operation: &'static str, name: &str, value: &JsValue) -> Result<Option<Self>> {
        if is_absent(value) {
            return Ok(None);
        }
        let wrong = || Error::new(ErrorKind::Invalid, operation, format!("{name} must be a function"));
        value.dyn_ref::<Function>().cloned().map(Self).map(Some).ok_or_else(wrong)
    }

    /// Calls it.
    pub(crate) fn call(&self, arguments: &Array) {
        if let Err(thrown) = Reflect::apply(&self.0, &JsValue::UNDEFINED, arguments) {
            console::error_1(&thrown);
        }
    }
}
