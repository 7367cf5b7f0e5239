//! Models, tokens and metrics.

use cells_driver::{HarnessModelSelection, NativeId, Result};
use js_sys::Promise;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::{HarnessClient, native, profile};
use crate::convert::{Argument, is_absent, member, to_js};
use crate::promise::promise;

/// What is told of models and their use.
#[wasm_bindgen]
impl HarnessClient {
    /// The models of a profile or session.
    pub fn models(&self, profile_id: &JsValue, session_id: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_models";
        promise(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id: Option<NativeId> = match is_absent(session_id) {
                true => None,
                false => Some(native(OPERATION, "sessionId", session_id)?),
            };
            Ok(async move { to_js(&client.models(&profile_id, session_id.as_ref(), operation).await?) })
        })
    }

    /// The tokens that a session has used.
    pub fn usage(&self, profile_id: &JsValue, session_id: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_usage";
        promise(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            Ok(async move { to_js(&client.usage(&profile_id, &session_id, operation).await?) })
        })
    }

    /// Context, quotas and cost of a session.
    pub fn metrics(&self, profile_id: &JsValue, session_id: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_metrics";
        promise(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            Ok(async move { to_js(&client.metrics(&profile_id, &session_id, operation).await?) })
        })
    }
}

/// The member `selection` of the options of a turn or command.
pub(super) fn selection(operation: &'static str, options: &JsValue) -> Result<Option<HarnessModelSelection>> {
    let selection = member(options, "selection");
    if is_absent(&selection) {
        return Ok(None);
    }
    let argument = Argument { operation, name: "selection" };
    argument.typed(&selection, "{modelId, reasoningEffort?}", HarnessModelSelection::read).map(Some)
}
