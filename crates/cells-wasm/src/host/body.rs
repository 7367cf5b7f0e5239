//! The body of a response: read chunk by chunk, or as one buffer.

use bytes::Bytes;
use cells_driver::host::{HostError, HostFuture, HttpBody};
use js_sys::{ArrayBuffer, Function, Promise, Uint8Array};
use wasm_bindgen::prelude::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

use super::fetch::{AbortOnDrop, get, network_error};

/// The body of what `fetch` gave. Methods are called by name, because an injected `fetch` may come from a library with
/// response classes of its own.
pub(super) struct FetchBody {
    source: Source,
    abort: AbortOnDrop,
}

enum Source {
    /// Not touched yet.
    Response(JsValue),
    /// Being read in chunks.
    Reader(JsValue),
    Ended,
}

impl FetchBody {
    pub(super) fn new(response: &JsValue, abort: AbortOnDrop) -> Self {
        Self { source: Source::Response(response.clone()), abort }
    }

    fn end(&mut self) {
        self.source = Source::Ended;
        self.abort.disarm();
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, HostError> {
        loop {
            match &self.source {
                Source::Ended => return Ok(None),
                Source::Response(response) => match get(response, "body") {
                    None => self.end(), // a 204, for example
                    Some(body) if get(&body, "getReader").is_some() => {
                        let reader = call(&body, "getReader").map_err(|error| network_error(&error))?;
                        self.source = Source::Reader(reader);
                    }
                    Some(_) => {
                        let all = whole(response).await?;
                        self.end();
                        return Ok((!all.is_empty()).then_some(all));
                    }
                },
                Source::Reader(reader) => {
                    let step = settle(call(reader, "read")).await.map_err(|error| network_error(&error))?;
                    if get(&step, "done").is_some_and(|done| done.is_truthy()) {
                        self.end();
                        return Ok(None);
                    }
                    // Not `instanceof`: in test runners the class may be that of another realm.
                    let chunk = get(&step, "value").filter(ArrayBuffer::is_view);
                    let bytes: Uint8Array = chunk.ok_or_else(not_bytes)?.unchecked_into();
                    if bytes.length() > 0 {
                        return Ok(Some(Bytes::from(bytes.to_vec())));
                    }
                }
            }
        }
    }
}

impl HttpBody for FetchBody {
    fn next_chunk(&mut self) -> HostFuture<'_, Result<Option<Bytes>, HostError>> {
        Box::pin(self.chunk())
    }

    fn take_all(&mut self) -> Option<HostFuture<'_, Result<Bytes, HostError>>> {
        let Source::Response(response) = std::mem::replace(&mut self.source, Source::Ended) else { return None };
        Some(Box::pin(async move {
            let all = whole(&response).await?;
            self.abort.disarm();
            Ok(all)
        }))
    }
}

async fn whole(response: &JsValue) -> Result<Bytes, HostError> {
    let buffer = settle(call(response, "arrayBuffer")).await.map_err(|error| network_error(&error))?;
    if !buffer.is_object() {
        return Err(not_bytes());
    }
    Ok(Bytes::from(Uint8Array::new(&buffer).to_vec()))
}

fn not_bytes() -> HostError {
    HostError::Network("the response body is not made of bytes".into())
}

fn call(object: &JsValue, method: &str) -> Result<JsValue, JsValue> {
    let method = get(object, method).and_then(|method| method.dyn_into::<Function>().ok());
    method.ok_or(JsValue::UNDEFINED)?.call0(object)
}

async fn settle(answer: Result<JsValue, JsValue>) -> Result<JsValue, JsValue> {
    JsFuture::from(Promise::resolve(&answer?)).await
}
