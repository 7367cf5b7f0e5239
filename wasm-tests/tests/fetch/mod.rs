//! A `fetch` of our own, and the responses it gives.

use std::cell::RefCell;
use std::rc::Rc;

use js_sys::{Array, Function, Promise, Reflect, Uint8Array};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{AbortSignal, Headers, Response, ResponseInit};

/// Keeps what it was called with.
pub(crate) struct Fetch {
    function: Function,
    calls: Rc<RefCell<Vec<(String, JsValue)>>>,
}

impl Fetch {
    /// `answer` gives what is returned or thrown; it gets the address and the options.
    pub(crate) fn answering(answer: impl Fn(&str, &JsValue) -> Result<JsValue, JsValue> + 'static) -> Self {
        let calls = Rc::<RefCell<Vec<(String, JsValue)>>>::default();
        let kept = Rc::clone(&calls);
        let function =
            Closure::<dyn FnMut(String, JsValue) -> Result<JsValue, JsValue>>::new(move |url: String, init| {
                let result = answer(&url, &init);
                kept.borrow_mut().push((url, init));
                result
            });
        Self { function: function.into_js_value().unchecked_into(), calls }
    }

    pub(crate) fn function(&self) -> Function {
        self.function.clone()
    }

    pub(crate) fn n_calls(&self) -> usize {
        self.calls.borrow().len()
    }

    /// The address of the last call.
    pub(crate) fn url(&self) -> String {
        self.calls.borrow().last().unwrap().0.clone()
    }

    /// The options of the last call.
    pub(crate) fn init(&self) -> JsValue {
        self.calls.borrow().last().unwrap().1.clone()
    }

    /// The signal of the last call.
    pub(crate) fn signal(&self) -> AbortSignal {
        Reflect::get(&self.init(), &"signal".into()).unwrap().unchecked_into()
    }
}

/// A `Response`; `body` is whatever its constructor takes.
pub(crate) fn response(status: u16, headers: &[(&str, &str)], body: &JsValue) -> JsValue {
    let named = Headers::new().unwrap();
    for (name, value) in headers {
        named.append(name, value).unwrap();
    }
    let init = ResponseInit::new();
    init.set_status(status);
    init.set_headers(&named);
    let class = Reflect::get(&js_sys::global(), &"Response".into()).unwrap().unchecked_into::<Function>();
    let made = Reflect::construct(&class, &Array::of2(body, &init)).unwrap();
    made.unchecked_into::<Response>().into()
}

/// Something with the methods of a `ReadableStream` that gives these pieces.
pub(crate) fn stream_of(pieces: &'static [&'static str]) -> JsValue {
    let stream = Closure::<dyn FnMut(JsValue)>::once(move |controller: JsValue| {
        let call = |name: &str, arguments: &Array| {
            let method = Reflect::get(&controller, &name.into()).unwrap().unchecked_into::<Function>();
            method.apply(&controller, arguments).unwrap();
        };
        for piece in pieces {
            call("enqueue", &Array::of1(&Uint8Array::from(piece.as_bytes())));
        }
        call("close", &Array::new());
    });
    let source = js_sys::Object::new();
    Reflect::set(&source, &"start".into(), &stream.into_js_value()).unwrap();
    let class = Reflect::get(&js_sys::global(), &"ReadableStream".into()).unwrap().unchecked_into::<Function>();
    Reflect::construct(&class, &Array::of1(&source)).unwrap()
}

/// A stream whose second read fails.
pub(crate) fn broken_stream() -> JsValue {
    let n_reads = RefCell::new(0);
    let read = method(move || {
        *n_reads.borrow_mut() += 1;
        if *n_reads.borrow() > 1 {
            return Promise::reject(&js_sys::TypeError::new("terminated")).into();
        }
        let step = js_sys::Object::new();
        Reflect::set(&step, &"value".into(), &Uint8Array::from(b"abc".as_slice())).unwrap();
        Promise::resolve(&step).into()
    });
    let reader = js_sys::Object::new();
    Reflect::set(&reader, &"read".into(), &read).unwrap();
    let stream = js_sys::Object::new();
    Reflect::set(&stream, &"getReader".into(), &method(move || reader.clone().into())).unwrap();
    stream.into()
}

/// A method without arguments.
pub(crate) fn method(body: impl Fn() -> JsValue + 'static) -> JsValue {
    Closure::<dyn FnMut() -> JsValue>::new(body).into_js_value()
}
