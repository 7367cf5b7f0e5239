//! [`Error`] as the package's `CellsError`.

use std::cell::RefCell;

use cells_driver::{Error, Outcome, Retry};
use js_sys::{Array, Function, Object, Reflect};
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use crate::convert::{number, to_js};

/// Tells the class `CellsError(code, message, details)` of the package, once, right after loading. It is plain JavaScript,
/// because entries that load no wasm throw it as well.
#[wasm_bindgen(js_name = setErrorClass)]
pub fn set_error_class(class: Function) {
    ERROR_CLASS.with(|slot| slot.replace(Some(class)));
}

/// The error as JavaScript sees it. `outcome` holds when the error has none of its own; `cause` is what ended the call,
/// such as the reason of a signal.
pub(crate) fn error_to_js(error: &Error, outcome: Option<Outcome>, cause: Option<JsValue>) -> JsValue {
    let details = Object::new();
    let set = |name: &str, value: JsValue| {
        let _ = Reflect::set(&details, &JsValue::from_str(name), &value);
    };
    set("operation", error.operation().into());
    if let Some(outcome) = error.outcome().or(outcome) {
        set("outcome", outcome.as_str().into());
    }
    if let Some(request_id) = error.request_id() {
        set("requestId", request_id.as_str().into());
    }
    if let Some(operation_id) = error.operation_id() {
        set("operationId", operation_id.as_str().into());
    }
    if let Some(process_id) = error.process_id() {
        set("processId", process_id.as_str().into());
    }
    let of_write = || error.file_recovery().map(to_js);
    if let Some(Ok(recovery)) = error.recovery().map(to_js).or_else(of_write) {
        set("recovery", recovery);
    }
    if let Some(code) = error.remote_code() {
        set("remoteCode", code.into());
    }
    if let Some(reason) = error.reason() {
        set("reason", reason.into());
    }
    if let Some(status) = error.status() {
        set("status", number(status.into()));
    }
    match error.retry() {
        Retry::Never => {}
        Retry::Now => set("retryAfterMs", number(0)),
        Retry::After(wait_ms) => set("retryAfterMs", number(wait_ms)),
    }
    let source = std::error::Error::source(error).map(|source| js_sys::Error::new(&source.to_string()).into());
    if let Some(cause) = cause.or(source) {
        set("cause", cause);
    }
    construct(error.kind().as_str(), &error.to_string(), &details)
}

/// The error of a call that has no outcome and no signal.
pub(crate) fn thrown(error: &Error) -> JsValue {
    error_to_js(error, None, None)
}

fn construct(code: &str, message: &str, details: &Object) -> JsValue {
    let arguments = Array::of3(&code.into(), &message.into(), details);
    let class = ERROR_CLASS.with_borrow(Clone::clone);
    class.and_then(|class| Reflect::construct(&class, &arguments).ok()).unwrap_or_else(|| {
        let _ = Reflect::set(details, &"code".into(), &code.into());
        Object::assign(&js_sys::Error::new(message), details).into()
    })
}

thread_local! {
    static ERROR_CLASS: RefCell<Option<Function>> = const { RefCell::new(None) };
}
