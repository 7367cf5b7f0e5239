//! Search in sessions (`cells-0.4.md` §8.2–8.3).

use cells_protocol::error::ErrorKind;
use cells_protocol::harness::{HarnessSearchMode, HarnessSearchQuery, HarnessSearchResult};
use cells_protocol::ids::ProfileId;
use cells_protocol::json::object;

use super::HarnessClient;
use super::feature::Feature;
use crate::cancellation::OperationOptions;
use crate::error::{Error, Result};

impl HarnessClient {
    /// Searches titles, or what was said. At most 100 matches, and no next page: when the result is `truncated`, search for
    /// something narrower. A node that does not know keywords looks for the query as it stands; the result says so
    /// (`literal`) where that makes a difference.
    ///
    /// # Errors
    /// `EINVAL`, before anything is sent, for a query that breaks a rule of [`HarnessSearchQuery`]; `ECAPABILITY`, without a
    /// search, when the profile does not search, or the mode is `prompt` and the node does not announce `searchPrompts`;
    /// `EBUSY` while two searches run.
    pub async fn search(
        &self,
        profile_id: &ProfileId,
        query: &HarnessSearchQuery,
        options: OperationOptions,
    ) -> Result<HarnessSearchResult> {
        let link = &self.0.link;
        link.check_open(SEARCH)?;
        query.check().map_err(|error| Error::invalid(SEARCH, error))?;
        let budget = link.core.budget(&options);
        SEARCHES.check(link, SEARCH, profile_id, &budget).await?;
        let mut literal = false;
        // What the node announces is asked only where it makes a difference, and then once.
        if query.mode == HarnessSearchMode::Prompt || query.has_separators() {
            let descriptor = budget.run(SEARCH, link.descriptor()).await?;
            if query.mode == HarnessSearchMode::Prompt && !descriptor.document.search_prompts {
                return Err(Error::new(ErrorKind::Unsupported, SEARCH, "the node does not search prompts alone"));
            }
            if descriptor.document.search_keywords {
                query.check_keywords().map_err(|error| Error::invalid(SEARCH, error))?;
            } else {
                literal = query.has_separators();
            }
        }
        let mut arguments = object(vec![
            ("profileId", profile_id.as_str().into()),
            ("query", query.query.as_str().into()),
            ("mode", query.mode.as_str().into()),
        ]);
        if query.archived {
            arguments["archived"] = true.into();
        }
        let result = link.read_tool(SEARCH, arguments, &budget, "the search result", HarnessSearchResult::read).await?;
        Ok(HarnessSearchResult { literal, ..result })
    }
}

const SEARCH: &str = "harness_session_search";

const SEARCHES: Feature = Feature { name: "search", is_offered: |can| can.search };
