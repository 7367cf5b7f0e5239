//! Stat calls without options: thousands of them in one turn are usual, so few of them cross into this program.

use std::cell::Cell;

use cells_driver::{FileClient, FileKind, FileStat, OperationOptions};
use js_sys::{Function, JsString, Map, Object, Promise};
use wasm_bindgen::prelude::{JsCast, JsValue, wasm_bindgen};

use crate::error::thrown;
use crate::host::Turns;

/// The promises of this turn. A path that is asked for again before its batch leaves gets the same promise: its callers
/// have no signal and no deadline of their own that could tell them apart.
pub(crate) struct Stats {
    turns: Turns,
    turn: Cell<u64>,
    /// Keyed by the JavaScript strings: looking one up copies nothing.
    promises: Map,
}

impl Stats {
    pub(crate) fn new(turns: Turns) -> Self {
        Self { turn: Cell::new(turns.now()), turns, promises: Map::new() }
    }

    /// The promise that somebody else got in this turn.
    pub(crate) fn shared(&self, path: &JsValue) -> Option<Promise> {
        if self.turn.replace(self.turns.now()) != self.turns.now() {
            self.promises.clear();
            return None;
        }
        let promise = self.promises.get(path);
        if promise.is_undefined() { None } else { Some(promise.unchecked_into()) }
    }

    /// A new promise for `path`, which is `text`.
    pub(crate) fn ask(&self, client: &FileClient, path: &JsValue, text: &str) -> Promise {
        let mut settle = None;
        let promise = Promise::new(&mut |resolve, reject| settle = Some((resolve, reject)));
        if let Some((resolve, reject)) = settle {
            let on_settled = Box::new(move |result: cells_driver::Result<Option<FileStat>>| match result {
                Ok(stat) => call(&resolve, &stat_to_js(stat)),
                Err(error) => call(&reject, &thrown(&error)),
            });
            client.stat_with(text, OperationOptions::default(), on_settled);
        }
        self.promises.set(path, &promise);
        promise
    }
}

/// Attributes as a frozen object, which the callers of a path share.
pub(crate) fn stat_to_js(stat: Option<FileStat>) -> JsValue {
    let Some(stat) = stat else { return JsValue::NULL };
    let object: JsStat = Object::new().unchecked_into();
    KINDS.with(|[file, directory, symlink]| {
        object.set_kind(match stat.kind {
            FileKind::File => file,
            FileKind::Directory => directory,
            FileKind::Symlink => symlink,
        });
    });
    // Every number from the wire is at most 2^53 − 1.
    if let Some(size) = stat.size {
        object.set_size(size as f64);
    }
    if let Some(modified_at) = stat.modified_at {
        object.set_modified_at(modified_at as f64);
    }
    if let Some(created_at) = stat.created_at {
        object.set_created_at(created_at as f64);
    }
    if let Some(revision) = &stat.revision {
        object.set_revision(revision);
    }
    Object::freeze(&object).into()
}

fn call(settle: &Function, value: &JsValue) {
    settle.unchecked_ref::<Settle>().call(&JsValue::UNDEFINED, value);
}

thread_local! {
    static KINDS: [JsString; 3] =
        [FileKind::File, FileKind::Directory, FileKind::Symlink].map(|kind| JsString::from(kind.as_str()));
}

#[wasm_bindgen]
extern "C" {
    /// One of the two functions of a promise, which never throw.
    type Settle;

    #[wasm_bindgen(method)]
    fn call(this: &Settle, this_argument: &JsValue, value: &JsValue);

    #[wasm_bindgen(extends = Object)]
    type JsStat;

    #[wasm_bindgen(method, setter)]
    fn set_kind(this: &JsStat, kind: &JsString);
    #[wasm_bindgen(method, setter)]
    fn set_size(this: &JsStat, size: f64);
    #[wasm_bindgen(method, setter, js_name = modifiedAt)]
    fn set_modified_at(this: &JsStat, time_ms: f64);
    #[wasm_bindgen(method, setter, js_name = createdAt)]
    fn set_created_at(this: &JsStat, time_ms: f64);
    #[wasm_bindgen(method, setter)]
    fn set_revision(this: &JsStat, revision: &str);
}
