//! What all writes of files have in common.

use cells_driver::host::Callback;
use cells_driver::{FileMutationOptions, OperationId, OperationOptions, Result};
use js_sys::Array;
use serde::Serialize;
use wasm_bindgen::prelude::JsValue;

use crate::convert::{Argument, is_absent, member, to_js};
use crate::listener::Listener;

/// Reads `{operationId, onDispatch}`. Progress is counted in `pkg/src/upload.js`.
pub(crate) fn file_mutation_options(
    operation: &'static str,
    options: &JsValue,
    budget: OperationOptions,
) -> Result<FileMutationOptions> {
    let operation_id = member(options, "operationId");
    let operation_id = if is_absent(&operation_id) {
        None
    } else {
        Some(Argument { operation, name: "operationId" }.id(&operation_id, OperationId::new)?)
    };
    let on_dispatch = on_dispatch(operation, options)?;
    Ok(FileMutationOptions { operation: budget, operation_id, progress: None, on_dispatch })
}

/// Reads `{onDispatch}`, which is told of a mutation right before it is sent.
pub(crate) fn on_dispatch<T: Serialize + 'static>(
    operation: &'static str,
    options: &JsValue,
) -> Result<Option<Callback<T>>> {
    let listener = Listener::optional(operation, "onDispatch", &member(options, "onDispatch"))?;
    Ok(listener.map(|listener| -> Callback<T> {
        Box::new(move |recovery| {
            if let Ok(recovery) = to_js(&recovery) {
                listener.call(&Array::of1(&recovery));
            }
        })
    }))
}
