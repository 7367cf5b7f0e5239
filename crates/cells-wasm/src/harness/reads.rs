//! What only looks.

use cells_driver::{HistoryOptions, ListOptions, Recovery};
use js_sys::Promise;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::{HarnessClient, native, profile};
use crate::convert::{Argument, member, to_js};
use crate::promise::promise;

/// Reads.
#[wasm_bindgen]
impl HarnessClient {
    /// The configured agents, and the epoch of the node.
    pub fn profiles(&self, options: &JsValue) -> Promise {
        promise("harness_profiles", options, |operation| {
            let client = self.client.clone();
            Ok(async move { to_js(&client.profiles(operation).await?) })
        })
    }

    /// One page of sessions.
    pub fn list(&self, profile_id: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_sessions";
        promise(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let argument = |name| Argument { operation: OPERATION, name };
            let options = ListOptions {
                cursor: argument("cursor").optional_string(&member(options, "cursor"))?,
                archived: argument("archived").flag(&member(options, "archived"))?,
                limit: argument("limit").optional_integer(&member(options, "limit"))?,
                operation,
            };
            Ok(async move { to_js(&client.list(&profile_id, options).await?) })
        })
    }

    /// One page of history.
    pub fn read(&self, profile_id: &JsValue, session_id: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_session_read";
        promise(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            let cursor =
                Argument { operation: OPERATION, name: "cursor" }.optional_string(&member(options, "cursor"))?;
            let options = HistoryOptions { cursor, operation };
            Ok(async move { to_js(&client.read(&profile_id, &session_id, options).await?) })
        })
    }

    /// A session without its history.
    pub fn inspect(&self, profile_id: &JsValue, session_id: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_session_info";
        promise(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            Ok(async move { to_js(&client.inspect(&profile_id, &session_id, operation).await?) })
        })
    }

    /// The receipt of a mutation.
    pub fn operation(&self, recovery: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_operation";
        promise(OPERATION, options, |operation| {
            let client = self.client.clone();
            let recovery: Recovery = Argument { operation: OPERATION, name: "recovery" }.typed(
                recovery,
                "what an error or a result of a mutation has as `recovery`",
                Recovery::read,
            )?;
            Ok(async move { to_js(&client.operation(&recovery, operation).await?) })
        })
    }
}
