//! What is done to whole sessions.

use js_sys::Promise;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::{HarnessClient, committed, mutation_options, native, profile};
use crate::convert::Argument;
use crate::promise::mutation;

/// Sessions.
#[wasm_bindgen]
impl HarnessClient {
    /// Makes a session with the history of another one.
    pub fn fork(&self, profile_id: &JsValue, session_id: &JsValue, name: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_fork";
        mutation(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            let name = Argument { operation: OPERATION, name: "name" }.optional_string(name)?;
            let options = mutation_options(OPERATION, options, operation)?;
            Ok(async move { committed(&client.fork(&profile_id, &session_id, name.as_deref(), options).await?) })
        })
    }

    /// Names a session.
    pub fn rename(&self, profile_id: &JsValue, session_id: &JsValue, name: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_rename";
        mutation(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            let name = Argument { operation: OPERATION, name: "name" }.string(name)?;
            let options = mutation_options(OPERATION, options, operation)?;
            Ok(async move { committed(&client.rename(&profile_id, &session_id, &name, options).await?) })
        })
    }

    /// Puts a session into the archive or takes it out.
    pub fn archive(
        &self,
        profile_id: &JsValue,
        session_id: &JsValue,
        archived: &JsValue,
        options: &JsValue,
    ) -> Promise {
        const OPERATION: &str = "harness_archive";
        mutation(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            let archived = Argument { operation: OPERATION, name: "archived" }.boolean(archived)?;
            let options = mutation_options(OPERATION, options, operation)?;
            Ok(async move { committed(&client.archive(&profile_id, &session_id, archived, options).await?) })
        })
    }

    /// Deletes a session and what descends from it.
    #[wasm_bindgen(js_name = delete)]
    pub fn delete_session(&self, profile_id: &JsValue, session_id: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_delete";
        mutation(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            let options = mutation_options(OPERATION, options, operation)?;
            Ok(async move { committed(&client.delete(&profile_id, &session_id, options).await?) })
        })
    }
}
