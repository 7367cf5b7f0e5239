//! Stat calls without options: thousands of them in one turn are usual, so they are kept cheap.

use std::cell::RefCell;
use std::collections::HashMap;

use cells_driver::{FileClient, FileStat, OperationOptions};
use js_sys::{Function, Object, Promise};
use wasm_bindgen::prelude::{JsCast, JsValue, wasm_bindgen};

use crate::convert::number;
use crate::error::thrown;
use crate::host::Turns;

/// The promises of this turn. A path that is asked for again before its batch leaves gets the same promise: its callers
/// have no signal and no deadline of their own that could tell them apart.
pub(crate) struct Stats {
    turns: Turns,
    promises: RefCell<(u64, HashMap<String, Promise>)>,
}

impl Stats {
    pub(crate) fn new(turns: Turns) -> Self {
        Self { turns, promises: RefCell::default() }
    }

    /// A promise of the attributes of `path`.
    pub(crate) fn shared(&self, client: &FileClient, path: String) -> Promise {
        let (turn, promises) = &mut *self.promises.borrow_mut();
        if *turn != self.turns.now() {
            promises.clear();
            *turn = self.turns.now();
        }
        if let Some(promise) = promises.get(&path) {
            return promise.clone();
        }
        let mut settle = None;
        let promise = Promise::new(&mut |resolve, reject| settle = Some((resolve, reject)));
        if let Some((resolve, reject)) = settle {
            start(client, &path, resolve, reject);
        }
        promises.insert(path, promise.clone());
        promise
    }
}

fn start(client: &FileClient, path: &str, resolve: Function, reject: Function) {
    let on_settled = Box::new(move |result: cells_driver::Result<Option<FileStat>>| {
        let _ = match result {
            Ok(stat) => resolve.call1(&JsValue::UNDEFINED, &stat_to_js(stat)),
            Err(error) => reject.call1(&JsValue::UNDEFINED, &thrown(&error)),
        };
    });
    client.stat_with(path, OperationOptions::default(), on_settled);
}

/// Attributes as a frozen object, which the callers of a path share.
pub(crate) fn stat_to_js(stat: Option<FileStat>) -> JsValue {
    let Some(stat) = stat else { return JsValue::NULL };
    let object: JsStat = Object::new().unchecked_into();
    object.set_kind(stat.kind.as_str());
    if let Some(size) = stat.size {
        object.set_size(&number(size));
    }
    if let Some(modified_at) = stat.modified_at {
        object.set_modified_at(&number(modified_at));
    }
    if let Some(created_at) = stat.created_at {
        object.set_created_at(&number(created_at));
    }
    if let Some(revision) = &stat.revision {
        object.set_revision(revision);
    }
    Object::freeze(&object).into()
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(extends = Object)]
    type JsStat;

    #[wasm_bindgen(method, setter)]
    fn set_kind(this: &JsStat, kind: &str);
    #[wasm_bindgen(method, setter)]
    fn set_size(this: &JsStat, size: &JsValue);
    #[wasm_bindgen(method, setter, js_name = modifiedAt)]
    fn set_modified_at(this: &JsStat, time_ms: &JsValue);
    #[wasm_bindgen(method, setter, js_name = createdAt)]
    fn set_created_at(this: &JsStat, time_ms: &JsValue);
    #[wasm_bindgen(method, setter)]
    fn set_revision(this: &JsStat, revision: &str);
}
