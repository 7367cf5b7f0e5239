//! Requests to any route of a node, for `pkg/src/transport.js`.

use bytes::Bytes;
use cells_driver::Result;
use js_sys::{Object, Promise, Reflect};
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use crate::convert::{Argument, json_to_js, member};
use crate::error::thrown;
use crate::files::{content_to_js, read_options};
use crate::mutations::file_mutation_options;
use crate::promise::{mutation, promise};
use crate::seq::SeqClient;
use crate::stat::stat_to_js;

/// Requests to any route of one node.
#[wasm_bindgen(skip_typescript)]
pub struct Transport {
    transport: cells_driver::HttpTransport,
}

impl Transport {
    pub(crate) fn new(transport: cells_driver::HttpTransport) -> Self {
        Self { transport }
    }
}

#[wasm_bindgen]
impl Transport {
    /// The JSON that a route answers.
    pub fn json(&self, route: &JsValue, options: &JsValue) -> Promise {
        promise(REQUEST, options, |operation| {
            let (transport, route, body) = (self.transport.clone(), text_of(route)?, optional_body(options)?);
            Ok(async move { json_to_js(&transport.json(&route, body, operation).await?) })
        })
    }

    /// What a route answers, whatever its status.
    #[wasm_bindgen(js_name = jsonReply)]
    pub fn json_reply(&self, route: &JsValue, options: &JsValue) -> Promise {
        promise(REQUEST, options, |operation| {
            let (transport, route, body) = (self.transport.clone(), text_of(route)?, optional_body(options)?);
            Ok(async move {
                let reply = transport.json_reply(&route, body, operation).await?;
                let json = reply.json.map_or(Ok(JsValue::NULL), |json| json_to_js(&json))?;
                let result = Object::new();
                let _ = Reflect::set(&result, &"status".into(), &reply.status.into());
                let _ = Reflect::set(&result, &"json".into(), &json);
                Ok(result.into())
            })
        })
    }

    /// The bytes that a route answers.
    pub fn content(&self, route: &JsValue, options: &JsValue) -> Promise {
        promise(REQUEST, options, |operation| {
            let (transport, route) = (self.transport.clone(), text_of(route)?);
            let options = read_options(REQUEST, options, operation)?;
            Ok(async move { Ok(content_to_js(transport.content(&route, options).await?)) })
        })
    }

    /// A write that claims an operation id.
    pub fn mutate(&self, route: &JsValue, body: &JsValue, options: &JsValue) -> Promise {
        mutation("mutate", options, |operation| {
            let (transport, route, body) = (self.transport.clone(), text_of(route)?, body_of(body)?);
            let options = file_mutation_options("mutate", options, operation)?;
            Ok(async move {
                let committed = transport.mutate(&route, body, options).await?;
                let result = Object::new();
                let _ = Reflect::set(&result, &"operationId".into(), &committed.operation_id.as_str().into());
                let _ = Reflect::set(&result, &"result".into(), &stat_to_js(committed.value)?);
                Ok(result.into())
            })
        })
    }

    /// SeqFiles of an export.
    pub fn seq(&self, alias: &JsValue) -> Result<SeqClient, JsValue> {
        let alias = Argument { operation: REQUEST, name: "alias" }.string(alias);
        let seq = alias.and_then(|alias| self.transport.seq(&alias));
        Ok(SeqClient::new(seq.map_err(|error| thrown(&error))?))
    }
}

fn text_of(route: &JsValue) -> Result<String> {
    Argument { operation: REQUEST, name: "route" }.string(route)
}

fn optional_body(options: &JsValue) -> Result<Option<Bytes>> {
    let body = member(options, "body");
    if body.is_undefined() { Ok(None) } else { body_of(&body).map(Some) }
}

fn body_of(body: &JsValue) -> Result<Bytes> {
    Argument { operation: REQUEST, name: "body" }.json_text(body).map(Bytes::from)
}

const REQUEST: &str = "request";
