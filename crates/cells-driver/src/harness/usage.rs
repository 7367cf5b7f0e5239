//! Tokens and metrics of a session (`cells-0.4.md` §7.1–7.2). Read only; nothing is consumed.

use cells_protocol::harness::{HarnessMetrics, HarnessUsage};
use cells_protocol::ids::{NativeId, ProfileId};
use cells_protocol::json::{Malformed, Object, object};

use super::HarnessClient;
use super::feature::Feature;
use crate::cancellation::OperationOptions;
use crate::error::Result;

impl HarnessClient {
    /// The tokens that a session has used, by model.
    ///
    /// # Errors
    /// `ECAPABILITY`, without a request, when the profile does not tell; `ENOENT` for an unknown session; `EIO` of operation
    /// `protocol` when the numbers do not fit together.
    pub async fn usage(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        options: OperationOptions,
    ) -> Result<HarnessUsage> {
        const USAGE: Feature = Feature { name: "token usage", is_offered: |can| can.usage };
        let read = |object: &mut Object<'_>| HarnessUsage::read(&mut object.object("usage")?, session_id);
        self.of_session("harness_usage", USAGE, profile_id, session_id, options, "the usage", read).await
    }

    /// How full the context of a session is, what is left of its quotas, and what it cost, as far as the agent says.
    ///
    /// # Errors
    /// `ECAPABILITY`, without a request, when the profile does not tell; `ENOENT` for an unknown session; `EIO` of operation
    /// `protocol` for metrics that break a rule of [`HarnessMetrics`].
    pub async fn metrics(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        options: OperationOptions,
    ) -> Result<HarnessMetrics> {
        const METRICS: Feature = Feature { name: "metrics", is_offered: |can| can.metrics };
        let read = |object: &mut Object<'_>| HarnessMetrics::read(&mut object.object("metrics")?, session_id);
        self.of_session("harness_metrics", METRICS, profile_id, session_id, options, "the metrics", read).await
    }

    #[expect(clippy::too_many_arguments, reason = "what two public methods differ in")]
    async fn of_session<T>(
        &self,
        tool: &'static str,
        feature: Feature,
        profile_id: &ProfileId,
        session_id: &NativeId,
        options: OperationOptions,
        what: &'static str,
        read: impl Fn(&mut Object<'_>) -> Result<T, Malformed>,
    ) -> Result<T> {
        let link = &self.0.link;
        link.check_open(tool)?;
        let budget = link.core.budget(&options);
        feature.check(link, tool, profile_id, &budget).await?;
        let arguments =
            object(vec![("profileId", profile_id.as_str().into()), ("sessionId", session_id.as_str().into())]);
        link.read_tool(tool, arguments, &budget, what, read).await
    }
}
