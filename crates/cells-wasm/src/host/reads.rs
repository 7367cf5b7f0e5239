//! The reads of one stream. A file has thousands of them, so the two callbacks of their promises are made once.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Poll, Waker};

use cells_driver::host::HostError;
use js_sys::{Function, Promise};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::prelude::{JsCast, JsValue, wasm_bindgen};

use super::fetch::get;

/// Reads of a `ReadableStreamDefaultReader`, one after the other.
pub(super) struct Reads {
    reader: JsValue,
    read: Function,
    /// A read was started whose outcome nobody took.
    under_way: bool,
    answer: Rc<RefCell<Answer>>,
    callbacks: Option<Callbacks>,
}

#[derive(Default)]
struct Answer {
    outcome: Option<Result<JsValue, JsValue>>,
    waker: Option<Waker>,
    /// Kept for a read that is under way when its [`Reads`] is dropped: it still calls one of them.
    last: Option<Callbacks>,
}

struct Callbacks {
    on_done: Closure<dyn FnMut(JsValue)>,
    on_error: Closure<dyn FnMut(JsValue)>,
}

impl Reads {
    pub(super) fn new(reader: JsValue) -> Result<Self, HostError> {
        let read = get(&reader, "read").and_then(|read| read.dyn_into::<Function>().ok());
        let read = read.ok_or_else(|| HostError::Network("the response body cannot be read".into()))?;
        let answer = Rc::<RefCell<Answer>>::default();
        let callbacks = Some(Callbacks { on_done: callback(&answer, Ok), on_error: callback(&answer, Err) });
        Ok(Self { reader, read, under_way: false, answer, callbacks })
    }

    /// The next value; `None` at the end of the stream. When the future is dropped, the next call takes up its read.
    pub(super) async fn next(&mut self) -> Result<Option<JsValue>, JsValue> {
        if let Some(callbacks) = self.callbacks.as_ref().filter(|_| !self.under_way) {
            let promise = Promise::resolve(&self.read.call0(&self.reader)?);
            self.under_way = true;
            let _ = promise.then2(&callbacks.on_done, &callbacks.on_error);
        }
        let outcome = std::future::poll_fn(|context| {
            let mut answer = self.answer.borrow_mut();
            match answer.outcome.take() {
                Some(outcome) => Poll::Ready(outcome),
                None => {
                    answer.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
        self.under_way = false;
        let step: ReadResult = outcome?.unchecked_into();
        Ok(if step.done()?.is_truthy() { None } else { Some(step.value()?) })
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        let mut answer = self.answer.borrow_mut();
        if self.under_way && answer.outcome.is_none() {
            answer.last = self.callbacks.take();
        }
    }
}

fn callback(
    answer: &Rc<RefCell<Answer>>,
    outcome: fn(JsValue) -> Result<JsValue, JsValue>,
) -> Closure<dyn FnMut(JsValue)> {
    let answer = Rc::clone(answer);
    Closure::new(move |value| {
        let (waker, _last) = {
            let mut answer = answer.borrow_mut();
            answer.outcome = Some(outcome(value));
            (answer.waker.take(), answer.last.take())
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    })
}

#[wasm_bindgen]
extern "C" {
    type ReadResult;

    #[wasm_bindgen(method, getter, catch)]
    fn done(this: &ReadResult) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, getter, catch)]
    fn value(this: &ReadResult) -> Result<JsValue, JsValue>;
}
