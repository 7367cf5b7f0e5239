//! What only looks: profiles, sessions, history, receipts.

use std::sync::Arc;

use cells_protocol::error::{ErrorKind, Outcome};
use cells_protocol::harness::{HistoryPage, Profile, Profiles, SessionInfo, SessionPage};
use cells_protocol::ids::{Epoch, NativeId, ProfileId, RequestId};
use cells_protocol::json::object;
use cells_protocol::limits::SESSIONS_PAGE_MAX;
use cells_protocol::receipts::{Receipt, Recovery};
use serde::Serialize;
use serde_json::Value;

use crate::cancellation::OperationOptions;
use crate::error::{Error, Result};
use crate::node::Link;

/// Options of [`HarnessClient::list`](crate::HarnessClient::list).
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// The archived sessions; default: the others.
    pub archived: bool,
    /// Most sessions on the page, 1 to 100. Default: what the node thinks fit, 25 or 100.
    pub limit: Option<u64>,
    /// Budget and cancellation.
    pub operation: OperationOptions,
}

/// Options of [`HarnessClient::read`](crate::HarnessClient::read).
#[derive(Debug, Clone, Default)]
pub struct HistoryOptions {
    /// `next_cursor` of the page after the wanted one. Default: the latest page.
    pub cursor: Option<String>,
    /// Budget and cancellation.
    pub operation: OperationOptions,
}

/// What the node says of a mutation (`cells-0.4.md` §12.4).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptView {
    /// `committed` and `not-committed` are final. `unknown` without a code means that it runs; with a code, that the node
    /// does not know either.
    pub outcome: Outcome,
    /// The mutation.
    pub request_id: RequestId,
    /// The epoch in which it was sent.
    pub epoch: Epoch,
    /// The node's reason, for `not-committed` and `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The result of a committed mutation, as the node keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

pub(super) async fn profiles(link: &Link, options: &OperationOptions) -> Result<Profiles> {
    let budget = link.core.budget(options);
    let profiles = link.read_tool(PROFILES, object(Vec::new()), &budget, "the profiles", Profiles::read).await?;
    let profiles: Arc<Profiles> = Arc::new(profiles);
    link.node.profiles.put(Arc::clone(&profiles));
    Ok((*profiles).clone())
}

/// The profiles as they were at the last question of this client; asked if there was none.
pub(super) async fn known_profiles(link: &Link) -> Result<Arc<Profiles>> {
    let shared = link.clone();
    let fetch = || async move { profiles(&shared, &OperationOptions::default()).await.map(Arc::new) };
    link.node.profiles.get(|| Box::pin(fetch())).await
}

/// The profile called `profile_id`, for what it can do.
pub(super) async fn known_profile(link: &Link, operation: &'static str, profile_id: &ProfileId) -> Result<Profile> {
    let profiles = known_profiles(link).await?;
    profiles
        .profiles
        .iter()
        .find(|profile| profile.id == *profile_id)
        .cloned()
        .ok_or_else(|| Error::new(ErrorKind::NotFound, operation, format!("the node has no profile `{profile_id}`")))
}

/// The error of a feature that the profile does not announce. Nothing was sent.
pub(super) fn not_offered(operation: &'static str, profile_id: &ProfileId, feature: &str) -> Error {
    Error::new(ErrorKind::Unsupported, operation, format!("the profile `{profile_id}` does not offer {feature}"))
}

pub(super) async fn list(link: &Link, profile_id: &ProfileId, options: ListOptions) -> Result<SessionPage> {
    const LIST: &str = "harness_sessions";
    let mut arguments = object(vec![("profileId", profile_id.as_str().into())]);
    if let Some(limit) = options.limit {
        if !(1..=SESSIONS_PAGE_MAX).contains(&limit) {
            return Err(Error::invalid(LIST, format!("limit is outside 1 to {SESSIONS_PAGE_MAX} sessions")));
        }
        arguments["limit"] = limit.into();
    }
    if options.archived {
        arguments["archived"] = true.into();
    }
    if let Some(cursor) = options.cursor {
        arguments["cursor"] = cursor.into();
    }
    let budget = link.core.budget(&options.operation);
    link.read_tool(LIST, arguments, &budget, "the list of sessions", SessionPage::read).await
}

pub(super) async fn read(
    link: &Link,
    profile_id: &ProfileId,
    session_id: &NativeId,
    options: HistoryOptions,
) -> Result<HistoryPage> {
    let mut arguments = object(vec![
        ("profileId", profile_id.as_str().into()),
        ("sessionId", session_id.as_str().into()),
        ("toolDetail", "summary".into()),
    ]);
    if let Some(cursor) = options.cursor {
        arguments["cursor"] = cursor.into();
    }
    let budget = link.core.budget(&options.operation);
    link.read_tool("harness_session_read", arguments, &budget, "the history page", HistoryPage::read).await
}

pub(super) async fn inspect(
    link: &Link,
    profile_id: &ProfileId,
    session_id: &NativeId,
    options: &OperationOptions,
) -> Result<SessionInfo> {
    let arguments = object(vec![("profileId", profile_id.as_str().into()), ("sessionId", session_id.as_str().into())]);
    let budget = link.core.budget(options);
    link.read_tool("harness_session_info", arguments, &budget, "the session", SessionInfo::read).await
}

pub(super) async fn operation(link: &Link, recovery: &Recovery, options: &OperationOptions) -> Result<ReceiptView> {
    let still_unknown = |error: Error| error.with_outcome(Outcome::Unknown).with_recovery(recovery.clone());
    link.check_open(OPERATION).map_err(still_unknown)?;
    let arguments = arguments_of(recovery);
    let budget = link.core.budget(options);
    let receipt = budget
        .run(OPERATION, async {
            let url = link.mcp_url().await?;
            let call = link.tool_call(url.without_trailing_slash(), OPERATION, &arguments);
            let request = link.prepare_mcp(&call, &budget).await?;
            let reply = link.exchange(&call, request).await?;
            Ok(link.tool_value(&call, &reply, RECEIPT, |object| Receipt::read(object, &recovery.request_id))?)
        })
        .await
        .map_err(still_unknown)?;
    let view = |outcome, code, result| ReceiptView {
        outcome,
        request_id: recovery.request_id.clone(),
        epoch: recovery.epoch.clone(),
        code,
        result,
    };
    Ok(match receipt {
        Receipt::Committed(result) => view(Outcome::Committed, None, Some(result)),
        Receipt::NotCommitted { code } => view(Outcome::NotCommitted, Some(code), None),
        Receipt::Running => view(Outcome::Unknown, None, None),
        Receipt::Undetermined { code } => view(Outcome::Unknown, Some(code), None),
    })
}

/// The arguments that name a mutation. A scope stands flat beside the others.
fn arguments_of(recovery: &Recovery) -> Value {
    let Recovery { profile_id, epoch, request_id, scope } = recovery;
    let mut arguments = object(vec![
        ("profileId", profile_id.as_str().into()),
        ("epoch", epoch.as_str().into()),
        ("requestId", request_id.as_str().into()),
    ]);
    if let Some(scope) = scope {
        arguments["projectId"] = scope.project_id.as_str().into();
        arguments["revision"] = scope.revision.into();
        arguments["readOnly"] = scope.read_only.into();
    }
    arguments
}

const PROFILES: &str = "harness_profiles";
const OPERATION: &str = "harness_operation";

/// What errors call a receipt.
pub(super) const RECEIPT: &str = "the receipt";
