//! One export with its writes, for `pkg/src/storage.js`.

use cells_driver::{
    Error, ErrorKind, FileMutations, FileReceipt, FileRecovery, OperationId, ReplaceCondition, Result, Sha256Hex,
    Upload,
};
use js_sys::{Object, Promise, Reflect};
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use crate::convert::{Argument, is_absent, member};
use crate::files::FileClient;
use crate::host::JsContent;
use crate::mutations::file_mutation_options;
use crate::promise::{mutation, promise};
use crate::seq::SeqClient;
use crate::stat::stat_to_js;

/// One export of a node, opened.
#[wasm_bindgen(skip_typescript)]
pub struct FileStorage {
    storage: cells_driver::FileStorage,
}

impl FileStorage {
    pub(crate) fn new(storage: cells_driver::FileStorage) -> Self {
        Self { storage }
    }

    fn mutations(&self, operation: &'static str) -> Result<FileMutations> {
        let read_only = || Error::new(ErrorKind::ReadOnly, operation, "the export is read-only for this credential");
        self.storage.mutations().cloned().ok_or_else(read_only)
    }
}

/// What it has, and receipts.
#[wasm_bindgen]
impl FileStorage {
    /// Attributes, listings and content.
    pub fn files(&self) -> FileClient {
        FileClient::new(self.storage.files().clone())
    }

    /// SeqFiles.
    pub fn seq(&self) -> SeqClient {
        SeqClient::new(self.storage.seq())
    }

    /// Whether there are writes.
    #[wasm_bindgen(js_name = isWritable)]
    pub fn is_writable(&self) -> bool {
        self.storage.mutations().is_some()
    }

    /// The receipt of a write.
    #[wasm_bindgen(js_name = operationStatus)]
    pub fn operation_status(&self, id: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "operation_status";
        promise(OPERATION, options, |operation| {
            let (storage, id) = (self.storage.clone(), operation_id(OPERATION, id)?);
            Ok(async move { receipt_to_js(storage.operation_status(&id, operation).await?) })
        })
    }

    /// Stops a write and gives its receipt.
    #[wasm_bindgen(js_name = cancelOperation)]
    pub fn cancel_operation(&self, id: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "cancel_operation";
        promise(OPERATION, options, |operation| {
            let (storage, id) = (self.storage.clone(), operation_id(OPERATION, id)?);
            Ok(async move { receipt_to_js(storage.cancel_operation(&id, operation).await?) })
        })
    }

    /// Finds out how a write ended.
    pub fn settle(&self, recovery: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "settle";
        promise(OPERATION, options, |operation| {
            let recovery = Argument { operation: OPERATION, name: "recovery" }.typed(
                recovery,
                "what an error of a write has as `recovery`, or what `onDispatch` was given",
                FileRecovery::read,
            )?;
            let storage = self.storage.clone();
            Ok(async move { receipt_to_js(storage.settle(&recovery, operation).await?) })
        })
    }

    /// Ends what was made of it.
    pub fn close(&self) {
        self.storage.close();
    }
}

/// Writes.
#[wasm_bindgen]
impl FileStorage {
    /// Puts content in place. `content` is what `fetch` sends; `size` says how many bytes it has, if that is known; without
    /// a `revision` the file must be new.
    pub fn replace(
        &self,
        path: &JsValue,
        content: JsValue,
        size: &JsValue,
        revision: &JsValue,
        options: &JsValue,
    ) -> Promise {
        const OPERATION: &str = "replace";
        mutation(OPERATION, options, |operation| {
            let argument = |name| Argument { operation: OPERATION, name };
            let (mutations, path) = (self.mutations(OPERATION)?, argument("path").string(path)?);
            let size = argument("size").optional_integer(size)?;
            let mut upload = Upload::platform(JsContent { object: content, size });
            let sha256 = member(options, "sha256");
            if !is_absent(&sha256) {
                upload = upload.with_sha256(argument("sha256").id(&sha256, Sha256Hex::new)?);
            }
            let revision = argument("condition.revision").optional_string(revision)?;
            let condition = revision.map_or(ReplaceCondition::CreateOnly, ReplaceCondition::Match);
            let options = file_mutation_options(OPERATION, options, operation)?;
            Ok(async move { stat_to_js(Some(mutations.replace(&path, upload, condition, options).await?.value)) })
        })
    }

    /// Makes a directory.
    pub fn mkdir(&self, path: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "mkdir";
        mutation(OPERATION, options, |operation| {
            let (mutations, path) = (self.mutations(OPERATION)?, path_of(OPERATION, path)?);
            let options = file_mutation_options(OPERATION, options, operation)?;
            Ok(async move { stat_to_js(Some(mutations.mkdir(&path, options).await?.value)) })
        })
    }

    /// Gives an entry another path.
    pub fn rename(&self, from: &JsValue, to: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "rename";
        mutation(OPERATION, options, |operation| {
            let (mutations, from) = (self.mutations(OPERATION)?, path_of(OPERATION, from)?);
            let to = Argument { operation: OPERATION, name: "to" }.string(to)?;
            let options = file_mutation_options(OPERATION, options, operation)?;
            Ok(async move { mutations.rename(&from, &to, options).await.map(|_| JsValue::UNDEFINED) })
        })
    }

    /// Removes an entry.
    pub fn remove(&self, path: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "remove";
        mutation(OPERATION, options, |operation| {
            let (mutations, path) = (self.mutations(OPERATION)?, path_of(OPERATION, path)?);
            let options = file_mutation_options(OPERATION, options, operation)?;
            Ok(async move { mutations.remove(&path, options).await.map(|_| JsValue::UNDEFINED) })
        })
    }
}

fn path_of(operation: &'static str, path: &JsValue) -> Result<String> {
    Argument { operation, name: "path" }.string(path)
}

fn operation_id(operation: &'static str, id: &JsValue) -> Result<OperationId> {
    Argument { operation, name: "id" }.id(id, OperationId::new)
}

fn receipt_to_js(receipt: FileReceipt) -> Result<JsValue> {
    let result = Object::new();
    let set = |name: &str, value: &JsValue| {
        let _ = Reflect::set(&result, &name.into(), value);
    };
    let (outcome, code) = match receipt {
        FileReceipt::Committed { result: stat } => {
            if stat.is_some() {
                set("result", &stat_to_js(stat)?);
            }
            ("committed", None)
        }
        FileReceipt::NotCommitted { code } => ("not-committed", Some(code)),
        FileReceipt::Unknown { code } => ("unknown", code),
        FileReceipt::Running => ("running", None),
    };
    set("outcome", &outcome.into());
    if let Some(code) = code {
        set("code", &code.into());
    }
    Ok(result.into())
}
