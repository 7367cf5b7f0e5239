//! A [`ReadStream`] as `{size, revision, stream}` with a `ReadableStream`.

use std::cell::RefCell;
use std::rc::Rc;

use cells_driver::{Error, ErrorKind, ReadStream, Result};
use js_sys::{Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::prelude::JsValue;
use wasm_bindgen_futures::future_to_promise;
use web_sys::{QueuingStrategy, ReadableStream, ReadableStreamDefaultController};

use crate::convert::number;
use crate::error::error_to_js;
use crate::options::Signal;

/// Wraps a stream that was opened. Nothing is read ahead of what the reader asks for; `signal` lasts as long as the stream.
pub(crate) fn file_stream(stream: ReadStream, signal: Option<Signal>) -> Result<JsValue> {
    let result = Object::new();
    let set = |name: &str, value: &JsValue| {
        let _ = Reflect::set(&result, &name.into(), value);
    };
    set("size", &number(stream.size));
    if let Some(revision) = &stream.revision {
        set("revision", &revision.into());
    }
    let readable = readable(Source { stream, signal })?;
    set("stream", &readable);
    Ok(result.into())
}

struct Source {
    stream: ReadStream,
    signal: Option<Signal>,
}

fn readable(source: Source) -> Result<ReadableStream> {
    // Empty while a read is under way, and after the end.
    let slot = Rc::new(RefCell::new(Some(source)));
    let cancelled = Rc::clone(&slot);
    let pull = Closure::<dyn FnMut(ReadableStreamDefaultController) -> Promise>::new(
        move |controller: ReadableStreamDefaultController| {
            let slot = Rc::clone(&slot);
            future_to_promise(async move {
                let Some(mut source) = slot.take() else { return Ok(JsValue::UNDEFINED) };
                match source.stream.next().await {
                    Ok(Some(bytes)) => {
                        slot.replace(Some(source));
                        controller.enqueue_with_chunk(&Uint8Array::from(bytes.as_ref()))?;
                    }
                    Ok(None) => controller.close()?,
                    Err(error) => {
                        let reason = source.signal.and_then(|signal| signal.reason_of(&error));
                        controller.error_with_e(&error_to_js(&error, None, reason));
                    }
                }
                Ok(JsValue::UNDEFINED)
            })
        },
    );
    let cancel = Closure::<dyn FnMut()>::new(move || drop(cancelled.take()));
    let underlying = Object::new();
    let _ = Reflect::set(&underlying, &"pull".into(), &pull.into_js_value());
    let _ = Reflect::set(&underlying, &"cancel".into(), &cancel.into_js_value());
    let strategy = QueuingStrategy::new();
    strategy.set_high_water_mark(0.0);
    ReadableStream::new_with_underlying_source_and_strategy(&underlying, &strategy)
        .map_err(|_| Error::new(ErrorKind::Unsupported, "readStream", "this platform has no ReadableStream"))
}
