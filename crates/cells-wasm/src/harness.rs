//! Agent sessions.

use cells_driver::{
    CommandName, Committed, EventCursor, HistoryOptions, ListOptions, MutationOptions, NativeId, OperationOptions,
    OutputLoadOptions, OutputReadOptions, OutputRef, ProfileId, Recovery, Result, WorkspaceId,
};
use js_sys::{Array, Object, Promise, Reflect, Uint8Array};
use serde::Serialize;
use wasm_bindgen::prelude::{JsCast, JsValue, wasm_bindgen};

use crate::convert::{Argument, is_absent, member, number, to_js};
use crate::error::thrown;
use crate::events::{Subscription, snapshot_to_js};
use crate::listener::Listener;
use crate::mutations::on_dispatch;
use crate::promise::{done, mutation, promise};

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

    /// The slash commands of a session.
    pub fn commands(&self, profile_id: &JsValue, session_id: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_commands";
        promise(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            Ok(async move { to_js(&client.commands(&profile_id, &session_id, operation).await?) })
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

    /// Sends a message.
    pub fn turn(&self, profile_id: &JsValue, session_id: &JsValue, text: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_turn";
        mutation(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            let text = Argument { operation: OPERATION, name: "text" }.string(text)?;
            let options = mutation_options(OPERATION, options, operation)?;
            Ok(async move { committed(&client.turn(&profile_id, &session_id, &text, options).await?) })
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
            let options = mutation_options(OPERATION, options, operation)?;
            Ok(async move { settled(&client.interrupt(&profile_id, &session_id, &turn_id, options).await?) })
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
            let options = mutation_options(OPERATION, options, operation)?;
            Ok(async move { committed(&client.command(&profile_id, &session_id, &name, &args, options).await?) })
        })
    }
}

fn profile(operation: &'static str, value: &JsValue) -> Result<ProfileId> {
    Argument { operation, name: "profileId" }.id(value, ProfileId::new)
}

fn native(operation: &'static str, name: &'static str, value: &JsValue) -> Result<NativeId> {
    Argument { operation, name }.id(value, NativeId::new)
}

fn output_ref(operation: &'static str, value: &JsValue) -> Result<cells_driver::OutputRef> {
    Argument { operation, name: "reference" }.typed(value, "the `outputRef` of a command", OutputRef::read)
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
