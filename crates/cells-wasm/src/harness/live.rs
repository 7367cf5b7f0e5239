//! Events and subscriptions.

use cells_driver::EventCursor;
use js_sys::Promise;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::{HarnessClient, profile};
use crate::convert::{Argument, is_absent};
use crate::error::thrown;
use crate::events::{Subscription, snapshot_to_js};
use crate::listener::Listener;
use crate::promise::done;

/// Events.
#[wasm_bindgen]
impl HarnessClient {
    /// Follows the events of a profile.
    pub fn subscribe(&self, profile_id: &JsValue, listener: &JsValue) -> Result<Subscription, JsValue> {
        const OPERATION: &str = "subscribe";
        let profile_id = profile(OPERATION, profile_id).map_err(|error| thrown(&error))?;
        let listener = Listener::optional(OPERATION, "listener", listener).map_err(|error| thrown(&error))?;
        Ok(Subscription::new(self.client.subscribe(&profile_id), listener))
    }

    /// What is held locally for a profile.
    #[wasm_bindgen(js_name = eventSnapshot)]
    pub fn event_snapshot(&self, profile_id: &JsValue, cursor: &JsValue) -> Result<JsValue, JsValue> {
        const OPERATION: &str = "event_snapshot";
        let snapshot = || {
            let profile_id = profile(OPERATION, profile_id)?;
            let cursor = if is_absent(cursor) {
                None
            } else {
                Some(Argument { operation: OPERATION, name: "cursor" }.typed(
                    cursor,
                    "a cursor that a snapshot gave",
                    EventCursor::read,
                )?)
            };
            snapshot_to_js(&self.client.event_snapshot(&profile_id, cursor.as_ref()))
        };
        snapshot().map_err(|error| thrown(&error))
    }

    /// Ends the subscriptions of this client.
    pub fn close(&self) -> Promise {
        self.client.close();
        done()
    }
}
