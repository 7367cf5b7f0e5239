//! The body of a response: read chunk by chunk, or as one buffer.

use std::any::Any;
use std::ops::Range;

use bytes::Bytes;
use cells_driver::host::{Chunk, HostError, HostFuture, HttpBody, PlatformBytes};
use js_sys::{ArrayBuffer, Function, Promise, Uint8Array};
use wasm_bindgen::prelude::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

use super::fetch::{AbortOnDrop, get, network_error};
use super::reads::Reads;

/// Bytes in the memory of JavaScript.
pub(crate) struct JsBytes(pub(crate) Uint8Array);

impl PlatformBytes for JsBytes {
    fn len(&self) -> usize {
        self.0.length() as usize
    }

    fn slice(&self, range: Range<usize>) -> Box<dyn PlatformBytes> {
        let index = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Box::new(Self(self.0.subarray(index(range.start), index(range.end))))
    }

    fn to_bytes(&self) -> Bytes {
        Bytes::from(self.0.to_vec())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

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
    Reader(Reads),
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

    async fn chunk(&mut self) -> Result<Option<Uint8Array>, HostError> {
        loop {
            match &mut self.source {
                Source::Ended => return Ok(None),
                Source::Response(response) => match get(response, "body") {
                    None => self.end(), // a 204, for example
                    Some(body) if get(&body, "getReader").is_some() => {
                        let reader = call(&body, "getReader").map_err(|error| network_error(&error))?;
                        self.source = Source::Reader(Reads::new(reader)?);
                    }
                    Some(_) => {
                        let all = whole(response).await?;
                        self.end();
                        return Ok((all.length() > 0).then_some(all));
                    }
                },
                Source::Reader(reads) => {
                    let Some(chunk) = reads.next().await.map_err(|error| network_error(&error))? else {
                        self.end();
                        return Ok(None);
                    };
                    // Not `instanceof`: in test runners the class may be that of another realm.
                    if !ArrayBuffer::is_view(&chunk) {
                        return Err(not_bytes());
                    }
                    let chunk: Uint8Array = chunk.unchecked_into();
                    if chunk.length() > 0 {
                        return Ok(Some(chunk));
                    }
                }
            }
        }
    }
}

impl HttpBody for FetchBody {
    fn next_chunk(&mut self) -> HostFuture<'_, Result<Option<Bytes>, HostError>> {
        Box::pin(async { Ok(self.chunk().await?.map(|chunk| Bytes::from(chunk.to_vec()))) })
    }

    fn next_unread(&mut self) -> HostFuture<'_, Result<Option<Chunk>, HostError>> {
        Box::pin(async { Ok(self.chunk().await?.map(|chunk| Chunk::Platform(Box::new(JsBytes(chunk))))) })
    }

    fn take_all(&mut self) -> Option<HostFuture<'_, Result<Bytes, HostError>>> {
        let Source::Response(response) = std::mem::replace(&mut self.source, Source::Ended) else { return None };
        Some(Box::pin(async move {
            let all = whole(&response).await?;
            self.abort.disarm();
            Ok(Bytes::from(all.to_vec()))
        }))
    }
}

async fn whole(response: &JsValue) -> Result<Uint8Array, HostError> {
    let buffer = match call(response, "arrayBuffer") {
        Ok(promise) => JsFuture::from(Promise::resolve(&promise)).await,
        Err(error) => Err(error),
    };
    let buffer = buffer.map_err(|error| network_error(&error))?;
    if buffer.is_object() { Ok(Uint8Array::new(&buffer)) } else { Err(not_bytes()) }
}

fn call(object: &JsValue, method: &str) -> Result<JsValue, JsValue> {
    let method = get(object, method).and_then(|method| method.dyn_into::<Function>().ok());
    method.ok_or(JsValue::UNDEFINED)?.call0(object)
}

fn not_bytes() -> HostError {
    HostError::Network("the response body is not made of bytes".into())
}
