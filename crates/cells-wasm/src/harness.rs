//! Agent sessions, one file a concept.

mod commands;
mod live;
mod models;
mod mutations;
mod reads;
mod search;
mod sessions;
mod steer;
mod turns;

use cells_driver::{Committed, MutationOptions, NativeId, OperationOptions, ProfileId, Result};
use js_sys::{Object, Reflect};
use serde::Serialize;
use wasm_bindgen::prelude::{JsCast, JsValue, wasm_bindgen};

use crate::convert::{Argument, to_js};
use crate::mutations::on_dispatch;

/// Agent sessions of a node.
#[wasm_bindgen(skip_typescript)]
pub struct HarnessClient {
    client: cells_driver::HarnessClient,
}

impl HarnessClient {
    pub(crate) fn new(client: cells_driver::HarnessClient) -> Self {
        Self { client }
    }
}

fn profile(operation: &'static str, value: &JsValue) -> Result<ProfileId> {
    Argument { operation, name: "profileId" }.id(value, ProfileId::new)
}

fn native(operation: &'static str, name: &'static str, value: &JsValue) -> Result<NativeId> {
    Argument { operation, name }.id(value, NativeId::new)
}

fn mutation_options(operation: &'static str, options: &JsValue, budget: OperationOptions) -> Result<MutationOptions> {
    Ok(MutationOptions { operation: budget, on_dispatch: on_dispatch(operation, options)? })
}

/// The result with its `recovery`.
fn committed<T: Serialize>(result: &Committed<T>) -> Result<JsValue> {
    let value = to_js(&result.value)?;
    let _ = Reflect::set(&value, &"recovery".into(), &to_js(&result.recovery)?);
    Ok(value)
}

/// Only the `recovery`, of a mutation that has no result.
fn settled(result: &Committed<()>) -> Result<JsValue> {
    let value: JsValue = Object::new().unchecked_into();
    let _ = Reflect::set(&value, &"recovery".into(), &to_js(&result.recovery)?);
    Ok(value)
}
