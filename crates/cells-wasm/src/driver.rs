//! `createCellsDriver` and what it makes.

use std::cell::RefCell;

use cells_driver::{Client, ClientConfig, CredentialResolver, DiscoverOptions, Error, ErrorKind, Result, Secret};
use js_sys::{Function, Promise};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::prelude::{JsCast, JsValue, wasm_bindgen};
use wasm_bindgen_futures::spawn_local;

use crate::convert::{Argument, connection, file_connection, is_absent, member, to_js};
use crate::credentials::JsResolver;
use crate::error::thrown;
use crate::files::FileClient;
use crate::harness::HarnessClient;
use crate::host::WebHost;
use crate::promise::{done, promise};
use crate::storage::FileStorage;
use crate::transport::Transport;

/// Makes a driver whose work runs on the microtask queue of the page or of Node. The last two arguments are those of the
/// connections that carry their own credential; see `pkg/src/driver.js`.
#[wasm_bindgen(js_name = createCellsDriver, skip_typescript)]
pub fn create_cells_driver(
    resolve_credential: &JsValue,
    fetch: &JsValue,
    timeout_ms: &JsValue,
    max_read_bytes: &JsValue,
) -> Result<CellsDriver, JsValue> {
    let create = || {
        let argument = |name| Argument { operation: CREATE, name };
        let timeout_ms = argument("timeoutMs").optional_integer(timeout_ms)?;
        let read_max_bytes = argument("maxReadBytes").optional_integer(max_read_bytes)?;
        let resolver = function("resolveCredential", resolve_credential)?;
        let host = WebHost::new(function("fetch", fetch)?);
        let credential_resolver =
            resolver.map(|resolver| Box::new(JsResolver(resolver)) as Box<dyn CredentialResolver>);
        let default = ClientConfig::default();
        let config = ClientConfig {
            credential_resolver,
            timeout_ms: timeout_ms.unwrap_or(default.timeout_ms),
            read_max_bytes: read_max_bytes.unwrap_or(default.read_max_bytes),
            ..default
        };
        let (client, run) = Client::new(host, config);
        spawn_local(run);
        Ok(CellsDriver { client })
    };
    create().map_err(|error| thrown(&error))
}

/// Client of Cells nodes.
#[wasm_bindgen(skip_typescript)]
pub struct CellsDriver {
    pub(crate) client: Client,
}

#[wasm_bindgen]
impl CellsDriver {
    /// Keeps a secret in memory; the function that is returned puts the previous one back.
    #[wasm_bindgen(js_name = setCredential)]
    pub fn set_credential(&self, reference: &JsValue, secret: &JsValue) -> Result<Function, JsValue> {
        const OPERATION: &str = "set_credential";
        let reference = Argument { operation: OPERATION, name: "reference" }.string(reference);
        let secret = Argument { operation: OPERATION, name: "secret" }.string(secret);
        let arguments = reference.and_then(|reference| Ok((reference, secret?)));
        let (reference, secret) = arguments.map_err(|error| thrown(&error))?;
        let restore = RefCell::new(Some(self.client.set_credential(reference, Secret::new(secret))));
        let undo = Closure::<dyn FnMut()>::new(move || {
            if let Some(restore) = restore.take() {
                restore.restore();
            }
        });
        Ok(undo.into_js_value().unchecked_into())
    }

    /// Forgets a secret.
    #[wasm_bindgen(js_name = clearCredential)]
    pub fn clear_credential(&self, reference: &JsValue) -> Result<(), JsValue> {
        let reference = Argument { operation: "clear_credential", name: "reference" }.string(reference);
        self.client.clear_credential(&reference.map_err(|error| thrown(&error))?);
        Ok(())
    }

    /// The current secret.
    #[wasm_bindgen(js_name = resolveCredential)]
    pub fn resolve_credential(&self, reference: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "resolve_credential";
        promise(OPERATION, options, |operation| {
            let reference = Argument { operation: OPERATION, name: "reference" }.string(reference)?;
            let client = self.client.clone();
            Ok(async move { Ok(client.resolve_credential(&reference, operation).await?.expose().into()) })
        })
    }

    /// What a node says about itself.
    pub fn discover(&self, target: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "discover";
        promise(OPERATION, options, |operation| {
            let connection = connection(OPERATION, target)?;
            let metadata = member(options, "metadata");
            let metadata = if is_absent(&metadata) {
                None
            } else {
                Some(Argument { operation: OPERATION, name: "metadata" }.json(&metadata)?)
            };
            let client = self.client.clone();
            Ok(async move { to_js(&client.discover(&connection, DiscoverOptions { metadata, operation }).await?) })
        })
    }

    /// What the file side of a node offers.
    pub fn capabilities(&self, target: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "capabilities";
        promise(OPERATION, options, |operation| {
            let (client, connection) = (self.client.clone(), connection(OPERATION, target)?);
            Ok(async move { to_js(&client.capabilities(&connection, operation).await?) })
        })
    }

    /// The exports that the caller may see.
    pub fn exports(&self, target: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "exports";
        promise(OPERATION, options, |operation| {
            let (client, connection) = (self.client.clone(), connection(OPERATION, target)?);
            Ok(async move { to_js(&client.exports(&connection, operation).await?) })
        })
    }

    /// Files of one export.
    pub fn files(&self, target: &JsValue) -> Result<FileClient, JsValue> {
        let files = file_connection("files", target).and_then(|connection| self.client.files(&connection));
        Ok(FileClient::new(files.map_err(|error| thrown(&error))?))
    }

    /// One export and what may be done with it, for `pkg/src/storage.js`.
    #[wasm_bindgen(js_name = openStorage)]
    pub fn open_storage(&self, target: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "open";
        promise(OPERATION, options, |operation| {
            let (client, connection) = (self.client.clone(), file_connection(OPERATION, target)?);
            Ok(async move { Ok(FileStorage::new(client.file_storage(&connection, operation).await?).into()) })
        })
    }

    /// Requests to any route, for `pkg/src/transport.js`.
    pub fn transport(&self, target: &JsValue) -> Result<Transport, JsValue> {
        let transport = connection("request", target).and_then(|connection| self.client.http_transport(&connection));
        Ok(Transport::new(transport.map_err(|error| thrown(&error))?))
    }

    /// Agent sessions.
    pub fn harness(&self, target: &JsValue) -> Result<HarnessClient, JsValue> {
        let harness = connection("harness", target).and_then(|connection| self.client.harness(&connection));
        Ok(HarnessClient::new(harness.map_err(|error| thrown(&error))?))
    }

    /// Ends what the driver owns and forgets the secrets.
    pub fn dispose(&self) -> Promise {
        self.client.dispose();
        done()
    }
}

fn function(name: &'static str, value: &JsValue) -> Result<Option<Function>> {
    if is_absent(value) {
        return Ok(None);
    }
    let wrong = || Error::new(ErrorKind::Invalid, CREATE, format!("{name} must be a function"));
    value.dyn_ref::<Function>().cloned().map(Some).ok_or_else(wrong)
}

const CREATE: &str = "createCellsDriver";
