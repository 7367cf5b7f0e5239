//! The one way from a call of the driver to a promise.

use cells_driver::host::HostFuture;
use cells_driver::{OperationOptions, Outcome, Result};
use js_sys::Promise;
use wasm_bindgen::prelude::JsValue;
use wasm_bindgen_futures::future_to_promise;

use crate::error::error_to_js;
use crate::options::{Signal, operation_options};

/// A promise of what `start` starts. `start` runs now, so that it sees the arguments as they are and calls of one turn
/// share a batch; the signal of `options` is listened to until the call has ended.
pub(crate) fn promise<F>(
    operation: &'static str,
    options: &JsValue,
    start: impl FnOnce(OperationOptions) -> Result<F>,
) -> Promise
where
    F: Future<Output = Result<JsValue>> + 'static,
{
    run(operation, options, None, |options, _| start(options))
}

/// As [`promise`], for a mutation: one whose arguments are wrong was not started.
pub(crate) fn mutation<F>(
    operation: &'static str,
    options: &JsValue,
    start: impl FnOnce(OperationOptions) -> Result<F>,
) -> Promise
where
    F: Future<Output = Result<JsValue>> + 'static,
{
    run(operation, options, Some(Outcome::NotStarted), |options, _| start(options))
}

/// As [`promise`], for a call whose result goes on after it: `start` also gets the signal.
pub(crate) fn promise_with_signal<F>(
    operation: &'static str,
    options: &JsValue,
    start: impl FnOnce(OperationOptions, Option<Signal>) -> Result<F>,
) -> Promise
where
    F: Future<Output = Result<JsValue>> + 'static,
{
    run(operation, options, None, start)
}

/// A promise that is kept already.
pub(crate) fn done() -> Promise {
    Promise::resolve(&JsValue::UNDEFINED)
}

fn run<F>(
    operation: &'static str,
    options: &JsValue,
    outcome_of_bad_arguments: Option<Outcome>,
    start: impl FnOnce(OperationOptions, Option<Signal>) -> Result<F>,
) -> Promise
where
    F: Future<Output = Result<JsValue>> + 'static,
{
    let started = operation_options(operation, options).and_then(|(options, signal)| {
        // Boxed, so that what follows exists once and not for every call.
        let call: HostFuture<'static, Result<JsValue>> = Box::pin(start(options, signal.clone())?);
        Ok((call, signal))
    });
    settle(started, outcome_of_bad_arguments)
}

fn settle(
    started: Result<(HostFuture<'static, Result<JsValue>>, Option<Signal>)>,
    outcome: Option<Outcome>,
) -> Promise {
    future_to_promise(async move {
        let (call, signal) = started.map_err(|error| error_to_js(&error, outcome, None))?;
        call.await.map_err(|error| {
            let reason = signal.and_then(|signal| signal.reason_of(&error));
            error_to_js(&error, None, reason)
        })
    })
}
