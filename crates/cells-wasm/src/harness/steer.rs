//! Messages to a running turn, and interrupts.

use cells_driver::{InterruptOptions, RequestId, Result, SteerOptions};
use js_sys::Promise;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::turns::attachments;
use super::{HarnessClient, committed, mutation_options, native, profile, settled};
use crate::convert::{Argument, is_absent, member};
use crate::promise::mutation;

/// What is done to a running turn.
#[wasm_bindgen]
impl HarnessClient {
    /// Adds a message to a running turn.
    pub fn steer(
        &self,
        profile_id: &JsValue,
        session_id: &JsValue,
        turn_id: &JsValue,
        text: &JsValue,
        options: &JsValue,
    ) -> Promise {
        const OPERATION: &str = "harness_steer";
        mutation(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            let turn_id = native(OPERATION, "turnId", turn_id)?;
            let text = Argument { operation: OPERATION, name: "text" }.string(text)?;
            let attachments = attachments(OPERATION, &member(options, "attachments"))?;
            let submission_id = chosen_id(OPERATION, "submissionId", options)?;
            let options = mutation_options(OPERATION, options, operation)?;
            let options = SteerOptions { attachments, submission_id, ..options.into() };
            Ok(async move { committed(&client.steer(&profile_id, &session_id, &turn_id, &text, options).await?) })
        })
    }

    /// Asks a turn to stop.
    pub fn interrupt(
        &self,
        profile_id: &JsValue,
        session_id: &JsValue,
        turn_id: &JsValue,
        options: &JsValue,
    ) -> Promise {
        const OPERATION: &str = "harness_interrupt";
        mutation(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            let turn_id = native(OPERATION, "turnId", turn_id)?;
            let operation_id = chosen_id(OPERATION, "operationId", options)?;
            let options = mutation_options(OPERATION, options, operation)?;
            let options = InterruptOptions { operation_id, ..options.into() };
            Ok(async move { settled(&client.interrupt(&profile_id, &session_id, &turn_id, options).await?) })
        })
    }
}

/// A request id that the host chose.
fn chosen_id(operation: &'static str, name: &'static str, options: &JsValue) -> Result<Option<RequestId>> {
    let id = member(options, name);
    if is_absent(&id) { Ok(None) } else { Argument { operation, name }.id(&id, RequestId::new).map(Some) }
}
