//! Slash commands and their output.

use cells_driver::{CommandName, CommandOptions, OutputLoadOptions, OutputReadOptions, OutputRef, Result};
use js_sys::{Array, Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::models::selection;
use super::{HarnessClient, committed, mutation_options, native, profile};
use crate::convert::{Argument, member, number, to_js};
use crate::listener::Listener;
use crate::promise::{mutation, promise};

/// Slash commands.
#[wasm_bindgen]
impl HarnessClient {
    /// The slash commands of a session.
    pub fn commands(&self, profile_id: &JsValue, session_id: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_commands";
        promise(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            Ok(async move { to_js(&client.commands(&profile_id, &session_id, operation).await?) })
        })
    }

    /// Runs a slash command.
    pub fn command(
        &self,
        profile_id: &JsValue,
        session_id: &JsValue,
        name: &JsValue,
        args: &JsValue,
        options: &JsValue,
    ) -> Promise {
        const OPERATION: &str = "harness_command";
        mutation(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            let name = Argument { operation: OPERATION, name: "name" }.id(name, CommandName::new)?;
            let args = Argument { operation: OPERATION, name: "args" }.string(args)?;
            let selection = selection(OPERATION, options)?;
            let options = mutation_options(OPERATION, options, operation)?;
            let options = CommandOptions { selection, ..options.into() };
            Ok(async move { committed(&client.command(&profile_id, &session_id, &name, &args, options).await?) })
        })
    }

    /// One page of a command's output.
    #[wasm_bindgen(js_name = readCommandOutput)]
    pub fn read_command_output(&self, profile_id: &JsValue, reference: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_command_output";
        promise(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let reference = output_ref(OPERATION, reference)?;
            let mut wanted = OutputReadOptions { operation, ..OutputReadOptions::default() };
            let argument = |name| Argument { operation: OPERATION, name };
            if let Some(offset) = argument("offset").optional_integer(&member(options, "offset"))? {
                wanted.offset = offset;
            }
            if let Some(limit) = argument("limit").optional_integer(&member(options, "limit"))? {
                wanted.limit = limit;
            }
            Ok(async move {
                let page = client.read_command_output(&profile_id, &reference, wanted).await?;
                let result = Object::new();
                let set = |name: &str, value: &JsValue| {
                    let _ = Reflect::set(&result, &name.into(), value);
                };
                set("offset", &number(page.offset));
                set("data", &Uint8Array::from(page.data.as_slice()));
                set("nextOffset", &page.next_offset.map_or(JsValue::NULL, number));
                Ok(result.into())
            })
        })
    }

    /// The whole output of a command.
    #[wasm_bindgen(js_name = loadCommandOutput)]
    pub fn load_command_output(&self, profile_id: &JsValue, reference: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_command_output";
        promise(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let reference = output_ref(OPERATION, reference)?;
            let mut wanted = OutputLoadOptions { operation, ..OutputLoadOptions::default() };
            let max_bytes = Argument { operation: OPERATION, name: "maxBytes" };
            if let Some(max_bytes) = max_bytes.optional_integer(&member(options, "maxBytes"))? {
                wanted.max_bytes = max_bytes;
            }
            if let Some(listener) = Listener::optional(OPERATION, "onProgress", &member(options, "onProgress"))? {
                let tell = move |loaded, total| listener.call(&Array::of2(&number(loaded), &number(total)));
                wanted.on_progress = Some(Box::new(tell));
            }
            Ok(async move {
                let body = client.load_command_output(&profile_id, &reference, wanted).await?;
                Ok(Uint8Array::from(body.as_slice()).buffer().into())
            })
        })
    }
}

fn output_ref(operation: &'static str, value: &JsValue) -> Result<OutputRef> {
    Argument { operation, name: "reference" }.typed(value, "the `outputRef` of a command", OutputRef::read)
}
