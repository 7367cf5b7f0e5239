//! Exports that are opened as file systems, for `pkg/src/file-system.js`, and what is asked of a node before.

use cells_driver::Secret;
use js_sys::{Object, Promise, Reflect};
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use crate::convert::{Argument, connection, file_connection, to_js};
use crate::driver::CellsDriver;
use crate::error::thrown;
use crate::promise::promise;
use crate::storage::FileStorage;

#[wasm_bindgen]
impl CellsDriver {
    /// Whether the node answers and accepts the credential.
    pub fn check(&self, target: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "exports";
        promise(OPERATION, options, |operation| {
            let (client, connection) = (self.client.clone(), connection(OPERATION, target)?);
            Ok(async move { client.check(&connection, operation).await.map(|()| JsValue::UNDEFINED) })
        })
    }

    /// As `check`, with a secret that is not stored.
    #[wasm_bindgen(js_name = checkDraft)]
    pub fn check_draft(&self, target: &JsValue, secret: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "exports";
        promise(OPERATION, options, |operation| {
            let (client, connection) = (self.client.clone(), connection(OPERATION, target)?);
            let secret = Argument { operation: OPERATION, name: "secret" }.optional_string(secret)?.map(Secret::new);
            Ok(async move { client.check_draft(&connection, secret, operation).await.map(|()| JsValue::UNDEFINED) })
        })
    }

    /// Directories of a node.
    pub fn browse(&self, target: &JsValue, path: &JsValue, cursor: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "browse";
        promise(OPERATION, options, |operation| {
            let (client, connection) = (self.client.clone(), connection(OPERATION, target)?);
            let path = Argument { operation: OPERATION, name: "path" }.string(path)?;
            let cursor = Argument { operation: OPERATION, name: "cursor" }.optional_string(cursor)?;
            Ok(async move {
                let page = client.browse(&connection, &path, cursor.as_deref(), operation).await?;
                let result = Object::new();
                let _ = Reflect::set(&result, &"paths".into(), &to_js(&page.paths)?);
                let next = page.next_cursor.map_or(JsValue::NULL, JsValue::from);
                let _ = Reflect::set(&result, &"nextCursor".into(), &next);
                Ok(result.into())
            })
        })
    }

    /// Opens a source that others share.
    #[wasm_bindgen(js_name = openShared)]
    pub fn open_shared(&self, target: &JsValue, options: &JsValue) -> Promise {
        promise(OPEN, options, |operation| {
            let (client, connection) = (self.client.clone(), file_connection(OPEN, target)?);
            Ok(async move { Ok(FileSource(client.open(&connection, operation).await?).into()) })
        })
    }

    /// Opens a source of its own.
    #[wasm_bindgen(js_name = openUnshared)]
    pub fn open_unshared(&self, target: &JsValue, view_id: &JsValue) -> Promise {
        promise(OPEN, &JsValue::UNDEFINED, |operation| {
            let (client, connection) = (self.client.clone(), file_connection(OPEN, target)?);
            let view_id = Argument { operation: OPEN, name: "viewId" }.optional_string(view_id)?;
            Ok(
                async move { Ok(FileSource(client.open_http_file_source(&connection, view_id, operation).await?).into()) },
            )
        })
    }
}

/// A handle to an opened export. Forgetting it disposes of it as well.
#[wasm_bindgen(skip_typescript)]
pub struct FileSource(cells_driver::FileSource);

#[wasm_bindgen]
impl FileSource {
    /// Names the view.
    #[wasm_bindgen(js_name = viewId)]
    pub fn view_id(&self) -> String {
        self.0.fs().view_id().to_owned()
    }

    /// The export.
    pub fn storage(&self) -> Result<FileStorage, JsValue> {
        self.0.fs().storage().cloned().map(FileStorage::new).map_err(|error| thrown(&error))
    }

    /// Lets go of it.
    pub fn dispose(&self) {
        self.0.dispose();
    }
}

const OPEN: &str = "open";
