//! Secrets that the host resolves.

use cells_driver::host::HostFuture;
use cells_driver::{CredentialResolver, Error, ErrorKind, Result, Secret};
use js_sys::{Function, Promise};
use wasm_bindgen::prelude::JsValue;
use wasm_bindgen_futures::JsFuture;

/// `resolveCredential(reference)`, which gives a string or a promise of one.
pub(crate) struct JsResolver(pub(crate) Function);

impl CredentialResolver for JsResolver {
    fn resolve(&self, reference: &str) -> HostFuture<'static, Result<Secret>> {
        let answer = self.0.call1(&JsValue::UNDEFINED, &reference.into());
        Box::pin(async move {
            // What was thrown is not quoted: it may name the secret.
            let denied = |message| Error::new(ErrorKind::AccessDenied, "credential", message);
            let promise =
                Promise::resolve(&answer.map_err(|_| denied("the function that gives the secret threw an error"))?);
            let secret =
                JsFuture::from(promise).await.map_err(|_| denied("the function that gives the secret was rejected"))?;
            secret
                .as_string()
                .map(Secret::new)
                .ok_or_else(|| denied("the function that gives the secret gave no string"))
        })
    }
}
