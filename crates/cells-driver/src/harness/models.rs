//! Models, and the choice of one (`cells-0.4.md` §4).

use std::collections::BTreeMap;
use std::sync::Mutex;

use cells_protocol::error::INVALID_SELECTION;
use cells_protocol::harness::{HarnessModelCatalog, HarnessModelSelection};
use cells_protocol::ids::{NativeId, ProfileId};
use cells_protocol::json::object;
use serde_json::Value;

use super::HarnessClient;
use super::feature::Feature;
use crate::budget::Budget;
use crate::cancellation::OperationOptions;
use crate::error::{Error, Result};
use crate::node::Link;
use crate::sync::lock;

impl HarnessClient {
    /// The models of a profile; with a session also the one that it uses now. Starts and controls nothing.
    ///
    /// # Errors
    /// `ECAPABILITY`, without a request, when the profile has no models; `ENOENT` for an unknown session; `EIO` of operation
    /// `protocol` for a catalog that breaks a rule of [`HarnessModelCatalog`].
    pub async fn models(
        &self,
        profile_id: &ProfileId,
        session_id: Option<&NativeId>,
        options: OperationOptions,
    ) -> Result<HarnessModelCatalog> {
        const LIST: &str = "harness_models";
        let link = &self.0.link;
        link.check_open(LIST)?;
        let budget = link.core.budget(&options);
        MODELS.check(link, LIST, profile_id, &budget).await?;
        let mut arguments = object(vec![("profileId", profile_id.as_str().into())]);
        if let Some(session_id) = session_id {
            arguments["sessionId"] = session_id.as_str().into();
        }
        let catalog = link.read_tool(LIST, arguments, &budget, "the models", HarnessModelCatalog::read).await?;
        if let Some(session_id) = session_id {
            self.0.catalogs.put(profile_id, session_id, &catalog);
        }
        Ok(catalog)
    }
}

/// The catalogs that were read last, by session.
#[derive(Default)]
pub(super) struct Catalogs(Mutex<BTreeMap<(ProfileId, NativeId), HarnessModelCatalog>>);

impl Catalogs {
    fn put(&self, profile_id: &ProfileId, session_id: &NativeId, catalog: &HarnessModelCatalog) {
        let mut catalogs = lock(&self.0);
        let key = (profile_id.clone(), session_id.clone());
        if catalogs.len() >= CATALOGS_MAX && !catalogs.contains_key(&key) {
            // Without a catalog the node alone checks.
            catalogs.pop_first();
        }
        catalogs.insert(key, catalog.clone());
    }

    /// Whether the catalog of the session, if it is known, has no such model.
    fn refuses(&self, profile_id: &ProfileId, session_id: &NativeId, selection: &HarnessModelSelection) -> bool {
        let catalogs = lock(&self.0);
        let catalog = catalogs.get(&(profile_id.clone(), session_id.clone()));
        catalog.is_some_and(|catalog| !catalog.offers(selection))
    }

    /// Puts `selection` into `arguments`, if there is one.
    ///
    /// # Errors
    /// `ECAPABILITY` when the profile has no models; `EINVAL` with reason `HARNESS_SELECTION_INVALID` for a model that is
    /// known not to be offered.
    pub(super) async fn add_selection(
        &self,
        link: &Link,
        tool: &'static str,
        target: (&ProfileId, &NativeId),
        selection: Option<HarnessModelSelection>,
        arguments: &mut Value,
        budget: &Budget,
    ) -> Result<()> {
        let Some(selection) = selection else { return Ok(()) };
        MODELS.check(link, tool, target.0, budget).await?;
        if self.refuses(target.0, target.1, &selection) {
            let message = "the session has no such model, or the model no such reasoning effort";
            return Err(Error::invalid(tool, message).with_reason(INVALID_SELECTION));
        }
        let mut chosen = object(vec![("modelId", selection.model_id.into())]);
        if let Some(effort) = selection.reasoning_effort {
            chosen["reasoningEffort"] = effort.into();
        }
        arguments["selection"] = chosen;
        Ok(())
    }
}

const MODELS: Feature = Feature { name: "models", is_offered: |can| can.models };
const CATALOGS_MAX: usize = 64;
