//! Turns, and what they carry.

use cells_driver::{HarnessAttachment, Result, TurnOptions};
use js_sys::Promise;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::models::selection;
use super::{HarnessClient, committed, mutation_options, native, profile};
use crate::convert::{Argument, is_absent, member};
use crate::promise::mutation;

/// Turns.
#[wasm_bindgen]
impl HarnessClient {
    /// Sends a message.
    pub fn turn(&self, profile_id: &JsValue, session_id: &JsValue, text: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_turn";
        mutation(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            let text = Argument { operation: OPERATION, name: "text" }.string(text)?;
            let attachments = attachments(OPERATION, &member(options, "attachments"))?;
            let selection = selection(OPERATION, options)?;
            let options = mutation_options(OPERATION, options, operation)?;
            let options = TurnOptions { attachments, selection, ..options.into() };
            Ok(async move { committed(&client.turn(&profile_id, &session_id, &text, options).await?) })
        })
    }
}

/// Reads a list of attachments; nothing is none.
pub(super) fn attachments(operation: &'static str, list: &JsValue) -> Result<Vec<HarnessAttachment>> {
    if is_absent(list) {
        return Ok(Vec::new());
    }
    let attachment = Argument { operation, name: "an attachment" };
    Argument { operation, name: "attachments" }.list(list, |one| {
        attachment.typed(one, "{kind: 'text' | 'image', name, content, mimeType?}", HarnessAttachment::read)
    })
}
