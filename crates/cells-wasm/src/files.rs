//! Files of one export.

use cells_driver::{Error, ErrorKind, FileContent, OperationOptions, ReadOptions, Result};
use js_sys::{Function, Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use crate::convert::{Argument, member, to_js};
use crate::promise::{done, promise, promise_with_signal};
use crate::read_stream::file_stream;
use crate::stat::{stat_many, stat_to_js};

/// Files of one export.
#[wasm_bindgen(skip_typescript)]
pub struct FileClient {
    client: cells_driver::FileClient,
    closed: std::cell::Cell<bool>,
}

impl FileClient {
    pub(crate) fn new(client: cells_driver::FileClient) -> Self {
        Self { client, closed: std::cell::Cell::new(false) }
    }

    fn check_open(&self, operation: &'static str) -> Result<()> {
        if self.closed.get() {
            return Err(Error::new(ErrorKind::AccessDenied, operation, "this client was closed"));
        }
        Ok(())
    }
}

#[wasm_bindgen]
impl FileClient {
    /// Attributes of a path, or `null`.
    pub fn stat(&self, path: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "stat";
        promise(OPERATION, options, |operation| {
            self.check_open(OPERATION)?;
            let path = Argument { operation: OPERATION, name: "path" }.string(path)?;
            let call = self.client.stat(&path, operation);
            Ok(async move { stat_to_js(call.await?) })
        })
    }

    /// Attributes of many paths, for `pkg/src/stat.js`.
    #[wasm_bindgen(js_name = statMany)]
    pub fn stat_many(&self, paths: &str, answered: &Function, failed: &Function) {
        stat_many(&self.client, paths, answered, failed);
    }

    /// Whether later calls are refused.
    #[wasm_bindgen(getter, js_name = isClosed)]
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// One page of a directory.
    pub fn list(&self, path: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "list";
        promise(OPERATION, options, |operation| {
            self.check_open(OPERATION)?;
            let path = Argument { operation: OPERATION, name: "path" }.string(path)?;
            let cursor =
                Argument { operation: OPERATION, name: "cursor" }.optional_string(&member(options, "cursor"))?;
            let client = self.client.clone();
            Ok(async move { to_js(&client.list(&path, cursor.as_deref(), operation).await?) })
        })
    }

    /// Content in one buffer.
    pub fn read(&self, path: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "read";
        promise(OPERATION, options, |operation| {
            self.check_open(OPERATION)?;
            let path = Argument { operation: OPERATION, name: "path" }.string(path)?;
            let (client, options) = (self.client.clone(), read_options(OPERATION, options, operation)?);
            Ok(async move { Ok(content_to_js(client.read(&path, options).await?)) })
        })
    }

    /// Content of any size.
    #[wasm_bindgen(js_name = readStream)]
    pub fn read_stream(&self, path: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "read_stream";
        promise_with_signal(OPERATION, options, |operation, signal| {
            self.check_open(OPERATION)?;
            let path = Argument { operation: OPERATION, name: "path" }.string(path)?;
            let (client, options) = (self.client.clone(), read_options(OPERATION, options, operation)?);
            Ok(async move { file_stream(client.read_stream(&path, options).await?, signal) })
        })
    }

    /// Refuses later calls.
    pub fn close(&self) -> Promise {
        self.closed.set(true);
        done()
    }
}

/// `{data, revision}`.
pub(crate) fn content_to_js(content: FileContent) -> JsValue {
    let result = Object::new();
    let _ = Reflect::set(&result, &"data".into(), &Uint8Array::from(content.data.as_ref()));
    if let Some(revision) = content.revision {
        let _ = Reflect::set(&result, &"revision".into(), &revision.into());
    }
    result.into()
}

/// Reads `{offset, length, ifRevision}`.
pub(crate) fn read_options(
    operation: &'static str,
    options: &JsValue,
    budget: OperationOptions,
) -> Result<ReadOptions> {
    let argument = |name| Argument { operation, name };
    Ok(ReadOptions {
        offset: argument("offset").optional_integer(&member(options, "offset"))?.unwrap_or(0),
        length: argument("length").optional_integer(&member(options, "length"))?,
        if_revision: argument("ifRevision").optional_string(&member(options, "ifRevision"))?,
        operation: budget,
    })
}
