//! SeqFiles of one export.

use cells_driver::json::{Malformed, Object};
use cells_driver::{Result, SeqChange};
use js_sys::{Object as JsObject, Promise, Reflect};
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use crate::convert::{Argument, to_js};
use crate::mutations::file_mutation_options;
use crate::promise::{mutation, promise};
use crate::stat::stat_to_js;

/// SeqFiles of one export.
#[wasm_bindgen(skip_typescript)]
pub struct SeqClient {
    seq: cells_driver::SeqClient,
}

impl SeqClient {
    pub(crate) fn new(seq: cells_driver::SeqClient) -> Self {
        Self { seq }
    }
}

#[wasm_bindgen]
impl SeqClient {
    /// All entries of a SeqFile.
    pub fn snapshot(&self, path: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "seq_snapshot";
        promise(OPERATION, options, |operation| {
            let (seq, path) = (self.seq.clone(), Argument { operation: OPERATION, name: "path" }.string(path)?);
            Ok(async move { to_js(&seq.snapshot(&path, operation).await?) })
        })
    }

    /// Changes entries, all or none.
    pub fn transaction(
        &self,
        path: &JsValue,
        expected_revision: &JsValue,
        changes: &JsValue,
        options: &JsValue,
    ) -> Promise {
        const OPERATION: &str = "seq_transaction";
        mutation(OPERATION, options, |operation| {
            let argument = |name| Argument { operation: OPERATION, name };
            let (seq, path) = (self.seq.clone(), argument("path").string(path)?);
            let expected_revision = argument("expectedRevision").optional_string(expected_revision)?;
            let changes = changes_of(OPERATION, changes)?;
            let options = file_mutation_options(OPERATION, options, operation)?;
            Ok(async move {
                let committed = seq.transaction(&path, expected_revision.as_deref(), &changes, options).await?;
                stat_to_js(Some(committed.value))
            })
        })
    }
}

fn changes_of(operation: &'static str, changes: &JsValue) -> Result<Vec<SeqChange>> {
    let whole = JsObject::new();
    let _ = Reflect::set(&whole, &"changes".into(), changes);
    let form = "an array of {action: 'set', key, value} and {action: 'delete', key}";
    Argument { operation, name: "changes" }.typed(&whole, form, |whole| whole.objects("changes", change))
}

fn change(object: &mut Object<'_>) -> Result<SeqChange, Malformed> {
    let key = object.string("key")?;
    match object.string("action")?.as_str() {
        "set" => Ok(SeqChange::Set { key, value: object.required("value")?.into_value() }),
        "delete" => Ok(SeqChange::Delete { key }),
        _ => Err(object.wrong("action")),
    }
}
