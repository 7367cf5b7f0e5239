//! Events of a profile: subscriptions, and what is held locally.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;

use cells_driver::{Error, ErrorKind, EventSnapshot, Result, TopicChange};
use futures::FutureExt;
use futures::future::{AbortHandle, abortable};
use js_sys::{Array, Function, Object, Promise, Reflect};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};
use wasm_bindgen_futures::spawn_local;

use crate::convert::to_js;
use crate::error::thrown;
use crate::listener::Listener;

/// One subscription.
#[wasm_bindgen(skip_typescript)]
pub struct Subscription {
    ready: Promise,
    pending: Rc<Pending>,
    follow: AbortHandle,
}

impl Subscription {
    pub(crate) fn new(subscription: cells_driver::Subscription, listener: Option<Listener>) -> Self {
        let (ready, pending) = Pending::new();
        let (task, follow) = abortable(follow(subscription, listener, Rc::clone(&pending)));
        spawn_local(task.map(drop));
        Self { ready, pending, follow }
    }
}

#[wasm_bindgen]
impl Subscription {
    /// Resolves when the node accepted the topic.
    #[wasm_bindgen(getter)]
    pub fn ready(&self) -> Promise {
        self.ready.clone()
    }

    /// Ends this subscription.
    pub fn close(&self) {
        self.follow.abort();
        let closed = Error::new(ErrorKind::Cancelled, "subscribe", "the subscription was closed before it was ready");
        self.pending.settle(Err(closed));
    }
}

/// What is held locally, as JavaScript sees it.
pub(crate) fn snapshot_to_js(snapshot: &EventSnapshot) -> Result<JsValue> {
    let object = Object::new();
    let set = |name: &str, value: &JsValue| {
        let _ = Reflect::set(&object, &name.into(), value);
    };
    set("epoch", &to_js(&snapshot.epoch)?);
    set("cursor", &to_js(&snapshot.cursor)?);
    set("gap", &snapshot.gap.into());
    set("events", &to_js(&snapshot.events)?);
    set("requests", &to_js(&snapshot.requests)?);
    set("state", &to_js(&snapshot.state)?);
    if let Some(error) = &snapshot.error {
        set("error", &thrown(error));
    }
    Ok(object.into())
}

/// Tells the listener of each change, and the promise of the first acceptance, until the driver ends the subscription.
async fn follow(mut subscription: cells_driver::Subscription, listener: Option<Listener>, pending: Rc<Pending>) {
    loop {
        let change = std::future::poll_fn(|context| {
            if pending.is_pending()
                && let Poll::Ready(result) = std::pin::pin!(subscription.ready()).poll(context)
            {
                pending.settle(result);
            }
            std::pin::pin!(subscription.changed()).poll(context)
        })
        .await;
        match (change, &listener) {
            (Some(change), Some(listener)) => tell(listener, &change),
            (Some(_), None) => {}
            (None, _) => return,
        }
    }
}

fn tell(listener: &Listener, change: &TopicChange) {
    if let Ok(notification) = to_js(change) {
        listener.call(&Array::of1(&notification));
    }
}

/// The two functions of a promise that is not settled yet.
struct Pending(RefCell<Option<(Function, Function)>>);

impl Pending {
    fn new() -> (Promise, Rc<Self>) {
        let mut functions = None;
        let promise = Promise::new(&mut |resolve, reject| functions = Some((resolve, reject)));
        // Whoever only listens leaves the promise alone; its rejection must then not end the process.
        IGNORE.with(|ignore| drop(promise.catch(ignore)));
        (promise, Rc::new(Self(RefCell::new(functions))))
    }

    fn is_pending(&self) -> bool {
        self.0.borrow().is_some()
    }

    fn settle(&self, result: Result<()>) {
        let Some((resolve, reject)) = self.0.take() else { return };
        let _ = match result {
            Ok(()) => resolve.call0(&JsValue::UNDEFINED),
            Err(error) => reject.call1(&JsValue::UNDEFINED, &thrown(&error)),
        };
    }
}

thread_local! {
    static IGNORE: Closure<dyn FnMut(JsValue)> = Closure::new(|_| {});
}
