//! Search and digests.

use cells_driver::{DigestOptions, DigestRevision, HarnessSearchQuery};
use js_sys::Promise;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::{HarnessClient, native, profile};
use crate::convert::{Argument, is_absent, member, to_js};
use crate::promise::promise;

/// Search and digests.
#[wasm_bindgen]
impl HarnessClient {
    /// Searches titles, or what was said.
    pub fn search(&self, profile_id: &JsValue, query: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_session_search";
        promise(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let query = Argument { operation: OPERATION, name: "query" }.typed(
                query,
                "{query, mode: 'title' | 'content' | 'prompt', archived?}",
                HarnessSearchQuery::read,
            )?;
            Ok(async move { to_js(&client.search(&profile_id, &query, operation).await?) })
        })
    }

    /// One page of a digest.
    pub fn digest(&self, profile_id: &JsValue, session_id: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_session_digest";
        promise(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            let argument = |name| Argument { operation: OPERATION, name };
            let revision = member(options, "expectedRevision");
            let options = DigestOptions {
                cursor: argument("cursor").optional_string(&member(options, "cursor"))?,
                expected_revision: if is_absent(&revision) {
                    None
                } else {
                    Some(argument("expectedRevision").id(&revision, DigestRevision::new)?)
                },
                metadata_only: argument("metadataOnly").flag(&member(options, "metadataOnly"))?,
                operation,
            };
            Ok(async move { to_js(&client.digest(&profile_id, &session_id, options).await?) })
        })
    }

    /// A whole digest.
    #[wasm_bindgen(js_name = loadDigest)]
    pub fn load_digest(&self, profile_id: &JsValue, session_id: &JsValue, options: &JsValue) -> Promise {
        const OPERATION: &str = "harness_session_digest";
        promise(OPERATION, options, |operation| {
            let (client, profile_id) = (self.client.clone(), profile(OPERATION, profile_id)?);
            let session_id = native(OPERATION, "sessionId", session_id)?;
            Ok(async move { to_js(&client.load_digest(&profile_id, &session_id, operation).await?) })
        })
    }
}
