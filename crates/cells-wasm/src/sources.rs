//! What is asked of a node before its files are opened.

use cells_driver::Secret;
use js_sys::{Object, Promise, Reflect};
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use crate::convert::{Argument, connection, member, to_js};
use crate::driver::CellsDriver;
use crate::promise::promise;

#[wasm_bindgen]
impl CellsDriver {
    /// Whether the node answers and accepts the credential.
    pub fn check(&self, target: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "check";
        promise(OPERATION, options, |operation| {
            let (client, connection) = (self.client.clone(), connection(OPERATION, target)?);
            Ok(async move { client.check(&connection, operation).await.map(|()| JsValue::UNDEFINED) })
        })
    }

    /// As `check`, with a secret that is not stored.
    #[wasm_bindgen(js_name = checkDraft)]
    pub fn check_draft(&self, target: &JsValue, secret: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "checkDraft";
        promise(OPERATION, options, |operation| {
            let (client, connection) = (self.client.clone(), connection(OPERATION, target)?);
            let secret = Argument { operation: OPERATION, name: "secret" }.optional_string(secret)?.map(Secret::new);
            Ok(async move { client.check_draft(&connection, secret, operation).await.map(|()| JsValue::UNDEFINED) })
        })
    }

    /// Directories of a node.
    pub fn browse(&self, target: &JsValue, path: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "browse";
        promise(OPERATION, options, |operation| {
            let (client, connection) = (self.client.clone(), connection(OPERATION, target)?);
            let path = Argument { operation: OPERATION, name: "path" }.string(path)?;
            let cursor =
                Argument { operation: OPERATION, name: "cursor" }.optional_string(&member(options, "cursor"))?;
            Ok(async move {
                let page = client.browse(&connection, &path, cursor.as_deref(), operation).await?;
                let result = Object::new();
                let _ = Reflect::set(&result, &"paths".into(), &to_js(&page.paths)?);
                let _ = Reflect::set(&result, &"nextCursor".into(), &page.next_cursor.into());
                Ok(result.into())
            })
        })
    }
}
