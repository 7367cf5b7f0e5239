//! `{signal, timeoutMs}`, the last argument of every call.

use std::rc::Rc;

use cells_driver::{Cancellation, Error, ErrorKind, OperationOptions, Result};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::prelude::{JsCast, JsValue};
use web_sys::AbortSignal;

use crate::convert::{Argument, is_absent, member};

/// Reads the options of a call; the signal, if there is one, lasts as long as the second value.
pub(crate) fn operation_options(
    operation: &'static str,
    options: &JsValue,
) -> Result<(OperationOptions, Option<Signal>)> {
    if is_absent(options) {
        return Ok((OperationOptions::default(), None));
    }
    if !options.is_object() {
        return Err(Error::new(ErrorKind::Invalid, operation, "options must be an object"));
    }
    let timeout_ms = Argument { operation, name: "timeoutMs" }.optional_integer(&member(options, "timeoutMs"))?;
    let signal = member(options, "signal");
    if is_absent(&signal) {
        return Ok((OperationOptions { timeout_ms, cancel: None }, None));
    }
    let (signal, cancel) = Signal::listen(operation, signal)?;
    Ok((OperationOptions { timeout_ms, cancel: Some(cancel) }, Some(signal)))
}

/// One listener on an `AbortSignal`, removed when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Signal(Rc<Listening>);

struct Listening {
    signal: AbortSignal,
    listener: Closure<dyn FnMut()>,
}

impl Signal {
    fn listen(operation: &'static str, signal: JsValue) -> Result<(Self, Cancellation)> {
        // Not `instanceof`: the signal may come from a polyfill or another realm.
        if member(&signal, "aborted").as_bool().is_none() {
            return Err(Error::new(ErrorKind::Invalid, operation, "signal must be an AbortSignal"));
        }
        let signal: AbortSignal = signal.unchecked_into();
        let (handle, cancellation) = Cancellation::new();
        if signal.aborted() {
            handle.cancel();
        }
        let listener = Closure::new(move || handle.cancel());
        signal
            .add_event_listener_with_callback("abort", listener.as_ref().unchecked_ref())
            .map_err(|_| Error::new(ErrorKind::Invalid, operation, "signal must be an AbortSignal"))?;
        Ok((Self(Rc::new(Listening { signal, listener })), cancellation))
    }

    /// Why the signal was aborted, if that is what `error` says.
    pub(crate) fn reason_of(&self, error: &Error) -> Option<JsValue> {
        (error.kind() == ErrorKind::Cancelled && self.0.signal.aborted()).then(|| self.0.signal.reason())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.signal.remove_event_listener_with_callback("abort", self.listener.as_ref().unchecked_ref());
    }
}
