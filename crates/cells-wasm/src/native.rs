//! Native items, events and requests, read. Pure functions.

use cells_driver::{HarnessItem, HarnessRequest, NativeEvent, NativeMessage, Result, Turn};
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use crate::convert::{Argument, to_js};
use crate::error::thrown;

/// The items of turns.
#[wasm_bindgen(js_name = harnessItems, skip_typescript)]
pub fn harness_items(turns: &JsValue) -> Result<JsValue, JsValue> {
    let read = || {
        let argument = |name| Argument { operation: "harness_items", name };
        let turns = argument("turns")
            .list(turns, |turn| argument("a turn").typed(turn, "a turn of a history page", Turn::read))?;
        let items: Vec<HarnessItem> = turns.iter().flat_map(Turn::read_items).collect();
        to_js(&items)
    };
    read().map_err(|error| thrown(&error))
}

/// What a message tells.
#[wasm_bindgen(js_name = harnessEvent, skip_typescript)]
pub fn harness_event(message: &JsValue) -> Result<JsValue, JsValue> {
    let read = || to_js(&NativeEvent::of(&native_message("harness_event", message)?));
    read().map_err(|error| thrown(&error))
}

/// What a message asks.
#[wasm_bindgen(js_name = harnessRequest, skip_typescript)]
pub fn harness_request(message: &JsValue) -> Result<JsValue, JsValue> {
    let read = || match HarnessRequest::of(&native_message("harness_request", message)?) {
        Some(request) => to_js(&request),
        None => Ok(JsValue::NULL),
    };
    read().map_err(|error| thrown(&error))
}

fn native_message(operation: &'static str, message: &JsValue) -> Result<NativeMessage> {
    Argument { operation, name: "message" }.typed(
        message,
        "a message of an event or an open request",
        NativeMessage::read,
    )
}
