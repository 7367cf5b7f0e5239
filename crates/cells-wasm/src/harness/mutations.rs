//! What changes something at an agent.

use cells_driver::WorkspaceId;
use js_sys::Promise;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::{HarnessClient, committed, mutation_options, native, profile, settled};
use crate::convert::Argument;
use crate::promise::mutation;

/// Mutations.
#[wasm_bindgen]
impl HarnessClient {
    /// Creates a session.
    pub fn create(&self, profile_id: &JsValue, workspace_id: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_create";
        mutation(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let argument = Argument { operation: OPERATION, name: "workspaceId" };
            let workspace_id = argument.id(workspace_id, WorkspaceId::new)?;
            let options = mutation_options(OPERATION, options, operation)?;
            Ok(async move { committed(&client.create(&profile_id, &workspace_id, options).await?) })
        })
    }

    /// Takes control of a session.
    pub fn resume(&self, profile_id: &JsValue, session_id: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_resume";
        mutation(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            let options = mutation_options(OPERATION, options, operation)?;
            Ok(async move { committed(&client.resume(&profile_id, &session_id, options).await?) })
        })
    }

    /// Answers an approval or a question.
    pub fn respond(
        &self,
        profile_id: &JsValue,
        native_request_id: &JsValue,
        response: &JsValue,
        options: &JsValue,
    ) -> Promise {
        const OPERATION: &str = "harness_respond";
        mutation(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let argument = |name| Argument { operation: OPERATION, name };
            let native_request_id = argument("nativeRequestId").json(native_request_id)?;
            let response = argument("response").json(response)?;
            let options = mutation_options(OPERATION, options, operation)?;
            Ok(async move { settled(&client.respond(&profile_id, native_request_id, response, options).await?) })
        })
    }
}
