//! A [`ReadStream`] as `{size, revision, stream}` with a `ReadableStream`.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Poll, Waker};

use cells_driver::host::Chunk;
use cells_driver::{Error, ErrorKind, ReadStream, Result};
use futures::FutureExt;
use futures::future::{AbortHandle, abortable};
use js_sys::{Object, Reflect, Uint8Array};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::prelude::JsValue;
use wasm_bindgen_futures::spawn_local;
use web_sys::{QueuingStrategy, ReadableStream, ReadableStreamDefaultController as Controller};

use crate::convert::number;
use crate::error::error_to_js;
use crate::host::JsBytes;
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
    let readable = readable(stream, signal)?;
    set("stream", &readable);
    Ok(result.into())
}

/// One task serves all reads of a stream: a file has thousands of them.
fn readable(stream: ReadStream, signal: Option<Signal>) -> Result<ReadableStream> {
    let demand = Rc::new(Demand::default());
    let (task, handle) = abortable(pump(stream, signal, Rc::clone(&demand)));
    spawn_local(task.map(drop));
    // The two functions belong to the JavaScript stream. When it is cancelled, or forgotten and collected, the task ends
    // and the transfer with it.
    let ended = Rc::new(EndOnDrop(handle));
    let cancelled = Rc::clone(&ended);
    let pull = Closure::<dyn FnMut(Controller)>::new(move |controller| {
        let _alive = &ended;
        demand.ask(controller);
    });
    let cancel = Closure::<dyn FnMut()>::new(move || cancelled.0.abort());
    let source = Object::new();
    let _ = Reflect::set(&source, &"pull".into(), &pull.into_js_value());
    let _ = Reflect::set(&source, &"cancel".into(), &cancel.into_js_value());
    let strategy = QueuingStrategy::new();
    strategy.set_high_water_mark(0.0);
    ReadableStream::new_with_underlying_source_and_strategy(&source, &strategy)
        .map_err(|_| Error::new(ErrorKind::Unsupported, "readStream", "this platform has no ReadableStream"))
}

async fn pump(mut stream: ReadStream, signal: Option<Signal>, demand: Rc<Demand>) {
    loop {
        // Held only while somebody reads, so that a stream that is forgotten can be collected.
        let controller = demand.next().await;
        let enqueued = match stream.next_unread().await {
            Ok(Some(chunk)) => controller.enqueue_with_chunk(&bytes_of(&chunk)),
            Ok(None) => controller.close().and(Err(JsValue::UNDEFINED)),
            Err(error) => {
                let reason = signal.as_ref().and_then(|signal| signal.reason_of(&error));
                controller.error_with_e(&error_to_js(&error, None, reason));
                Err(JsValue::UNDEFINED)
            }
        };
        if enqueued.is_err() {
            return;
        }
    }
}

/// The bytes as they are if they came from JavaScript.
fn bytes_of(chunk: &Chunk) -> Uint8Array {
    match chunk {
        Chunk::Bytes(bytes) => Uint8Array::from(bytes.as_ref()),
        Chunk::Platform(bytes) => match bytes.as_any().downcast_ref::<JsBytes>() {
            Some(bytes) => bytes.0.clone(),
            None => Uint8Array::from(bytes.to_bytes().as_ref()),
        },
    }
}

/// What the JavaScript stream wants to have filled.
#[derive(Default)]
struct Demand(RefCell<(Option<Controller>, Option<Waker>)>);

impl Demand {
    fn ask(&self, controller: Controller) {
        let waker = {
            let mut inner = self.0.borrow_mut();
            inner.0 = Some(controller);
            inner.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn next(&self) -> Controller {
        std::future::poll_fn(|context| {
            let mut inner = self.0.borrow_mut();
            match inner.0.take() {
                Some(controller) => Poll::Ready(controller),
                None => {
                    inner.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

struct EndOnDrop(AbortHandle);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
