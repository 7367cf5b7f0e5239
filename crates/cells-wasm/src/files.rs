//! Files of one export.

use cells_driver::{Error, ErrorKind, OperationOptions, ReadOptions, Result};
use js_sys::{Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use crate::convert::{Argument, is_absent, member, to_js};
use crate::host::Turns;
use crate::promise::{done, promise, promise_with_signal};
use crate::read_stream::file_stream;
use crate::stat::{Stats, stat_to_js};

/// Files of one export.
#[wasm_bindgen(skip_typescript)]
pub struct FileClient {
    client: cells_driver::FileClient,
    stats: Stats,
    closed: std::cell::Cell<bool>,
}

impl FileClient {
    pub(crate) fn new(client: cells_driver::FileClient, turns: Turns) -> Self {
        Self { client, stats: Stats::new(turns), closed: std::cell::Cell::new(false) }
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
        let alone = is_absent(options);
        if alone
            && !self.closed.get()
            && let Some(promise) = self.stats.shared(path)
        {
            return promise;
        }
        let checked = || {
            self.check_open(OPERATION)?;
            Argument { operation: OPERATION, name: "path" }.string(path)
        };
        match checked() {
            Ok(text) if alone => self.stats.ask(&self.client, path, &text),
            checked => promise(OPERATION, options, |operation| {
                let call = self.client.stat(&checked?, operation);
                Ok(async move { Ok(stat_to_js(call.await?)) })
            }),
        }
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
            Ok(async move {
                let content = client.read(&path, options).await?;
                let result = Object::new();
                let _ = Reflect::set(&result, &"data".into(), &Uint8Array::from(content.data.as_ref()));
                if let Some(revision) = content.revision {
                    let _ = Reflect::set(&result, &"revision".into(), &revision.into());
                }
                Ok(result.into())
            })
        })
    }

    /// Content of any size.
    #[wasm_bindgen(js_name = readStream)]
    pub fn read_stream(&self, path: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "readStream";
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

fn read_options(operation: &'static str, options: &JsValue, budget: OperationOptions) -> Result<ReadOptions> {
    let argument = |name| Argument { operation, name };
    Ok(ReadOptions {
        offset: argument("offset").optional_integer(&member(options, "offset"))?.unwrap_or(0),
        length: argument("length").optional_integer(&member(options, "length"))?,
        if_revision: argument("ifRevision").optional_string(&member(options, "ifRevision"))?,
        operation: budget,
    })
}
