//! Stat calls without options: thousands of them in one turn are usual, so they come together, and their answers leave
//! together. `pkg/src/stat.js` is the other side.

use std::cell::RefCell;
use std::rc::Rc;

use cells_driver::{FileClient, FileKind, FileStat, OperationOptions, Result};
use js_sys::{Function, Object};
use wasm_bindgen::prelude::{JsCast, JsValue, wasm_bindgen};
use wasm_bindgen_futures::spawn_local;

use crate::convert::to_js;
use crate::error::thrown;

/// Asks for every path in `paths`, which stand behind each other with NUL between them.
///
/// `answered(numbers, revisions)` gets the answers of one reply: six numbers each (index of the path, kind, size, time of
/// modification, time of creation, length of the revision), and the revisions behind each other. Kind 0 is a path that
/// names nothing, the others count as in [`FileKind`]; NaN is a member that is absent. `failed` gets an index and an
/// error. Each index comes once.
pub(crate) fn stat_many(client: &FileClient, paths: &str, answered: &Function, failed: &Function) {
    let answers = Rc::new(Answers { columns: RefCell::default(), answered: answered.clone().unchecked_into() });
    for (index, path) in paths.split('\0').enumerate() {
        let (answers, failed) = (Rc::clone(&answers), failed.clone());
        let on_settled = Box::new(move |result: Result<Option<FileStat>>| match result {
            Ok(stat) => answers.add(index, stat),
            Err(error) => failed.unchecked_ref::<Failed>().call(&JsValue::UNDEFINED, index, &thrown(&error)),
        });
        client.stat_with(path, OperationOptions::default(), on_settled);
    }
}

/// Attributes as a frozen object, or `null`.
pub(crate) fn stat_to_js(stat: Option<FileStat>) -> Result<JsValue> {
    let Some(stat) = stat else { return Ok(JsValue::NULL) };
    let stat: Object = to_js(&stat)?.unchecked_into();
    Ok(Object::freeze(&stat).into())
}

/// What came in this turn. JavaScript makes the objects: one call for all of them costs less than one for each member.
struct Answers {
    columns: RefCell<Columns>,
    answered: Answered,
}

#[derive(Default)]
struct Columns {
    numbers: Vec<f64>,
    revisions: String,
}

impl Answers {
    fn add(self: &Rc<Self>, index: usize, stat: Option<FileStat>) {
        let mut columns = self.columns.borrow_mut();
        if columns.numbers.is_empty() {
            let this = Rc::clone(self);
            // The answers of one reply come one right after the other.
            spawn_local(async move { this.send() });
        }
        let mut row = [index as f64, 0.0, f64::NAN, f64::NAN, f64::NAN, f64::NAN];
        if let Some(stat) = stat {
            // Every number from the wire is at most 2^53 − 1.
            let number = |value: Option<u64>| value.map_or(f64::NAN, |value| value as f64);
            row[1] = match stat.kind {
                FileKind::File => 1.0,
                FileKind::Directory => 2.0,
                FileKind::Symlink => 3.0,
            };
            row[2] = number(stat.size);
            row[3] = number(stat.modified_at);
            row[4] = number(stat.created_at);
            if let Some(revision) = &stat.revision {
                row[5] = revision.encode_utf16().count() as f64;
                columns.revisions.push_str(revision);
            }
        }
        columns.numbers.extend_from_slice(&row);
    }

    fn send(&self) {
        let Columns { numbers, revisions } = self.columns.take();
        self.answered.call(&JsValue::UNDEFINED, &numbers, &revisions);
    }
}

#[wasm_bindgen]
extern "C" {
    /// Takes what [`Columns`] holds. Never throws.
    type Answered;
    #[wasm_bindgen(method)]
    fn call(this: &Answered, this_argument: &JsValue, numbers: &[f64], revisions: &str);

    /// Takes an index and an error. Never throws.
    type Failed;
    #[wasm_bindgen(method)]
    fn call(this: &Failed, this_argument: &JsValue, index: usize, error: &JsValue);
}
