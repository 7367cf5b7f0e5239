//! Mutations: one request id, one HTTP request, one honest outcome (`cells-0.4.md` §11.2).

use cells_machines::receipts::{CallVerdict, Observation, classify_call};
use cells_protocol::error::{EPOCH_CHANGED, ErrorKind, Outcome, kind_of_tool_code};
use cells_protocol::harness::SessionInfo;
use cells_protocol::ids::{NativeId, ProfileId, RequestId, WorkspaceId};
use cells_protocol::json::{Json, Malformed, object};
use cells_protocol::receipts::{Receipt, Recovery};
use futures::channel::oneshot;
use serde_json::Value;

use super::feature::Feature;
use super::reads::{RECEIPT, known_profiles};
use crate::budget::Budget;
use crate::cancellation::OperationOptions;
use crate::dispatch::{Gate, GiveUpOnDrop, new_uuid};
use crate::error::{Error, Result};
use crate::host::{Callback, HttpRequest};
use crate::mcp::{McpCall, McpFailure};
use crate::node::Link;
use crate::run::stopped;

/// Options of a call that changes something at an agent.
#[derive(Default)]
pub struct MutationOptions {
    /// How long the caller waits (default 30 s), and what ends its waiting. Neither aborts a mutation that was sent: it goes on
    /// at the node, and its error says `unknown`.
    pub operation: OperationOptions,
    /// Called right before the only HTTP request of the mutation is sent. Whoever stores the value can ask for the outcome
    /// with [`HarnessClient::operation`](crate::HarnessClient::operation), whatever happens to this process.
    pub on_dispatch: Option<Callback<Recovery>>,
}

impl std::fmt::Debug for MutationOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MutationOptions").field("operation", &self.operation).finish_non_exhaustive()
    }
}

/// The result of a mutation that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Committed<T> {
    /// The result.
    pub value: T,
    /// Names the mutation: profile, epoch and request id of its receipt.
    pub recovery: Recovery,
}

impl Committed<Value> {
    /// Reads what the receipt holds. One that cannot be read changes nothing: it happened.
    pub(super) fn decode<T>(
        self,
        tool: &'static str,
        decode: impl FnOnce(&Value, &Recovery) -> Result<T, Malformed>,
    ) -> Result<Committed<T>> {
        let Self { value, recovery } = self;
        match decode(&value, &recovery) {
            Ok(value) => Ok(Committed { value, recovery }),
            Err(problem) => Err(Error::protocol(tool, &problem)
                .with_source(problem)
                .with_reason(RESULT_INVALID)
                .with_outcome(Outcome::Committed)
                .with_recovery(recovery)),
        }
    }
}

pub(super) async fn create(
    link: &Link,
    profile_id: &ProfileId,
    workspace_id: &WorkspaceId,
    options: MutationOptions,
) -> Result<Committed<SessionInfo>> {
    let arguments = object(vec![("workspaceId", workspace_id.as_str().into())]);
    mutate(link, "harness_create", profile_id, Ok(arguments), options).await?.decode("harness_create", session)
}

pub(super) async fn resume(
    link: &Link,
    profile_id: &ProfileId,
    session_id: &NativeId,
    options: MutationOptions,
) -> Result<Committed<SessionInfo>> {
    let arguments = object(vec![("sessionId", session_id.as_str().into())]);
    mutate(link, "harness_resume", profile_id, Ok(arguments), options).await?.decode("harness_resume", session)
}

pub(super) async fn respond(
    link: &Link,
    profile_id: &ProfileId,
    native_request_id: Value,
    response: Value,
    options: MutationOptions,
) -> Result<Committed<()>> {
    const RESPOND: &str = "harness_respond";
    let is_id = native_request_id.is_string() || native_request_id.is_i64() || native_request_id.is_u64();
    let arguments = if !is_id {
        Err(Error::invalid(RESPOND, "the native request id is neither a string nor an integer"))
    } else if !response.is_object() {
        Err(Error::invalid(RESPOND, "the response is not an object"))
    } else {
        Ok(object(vec![("nativeRequestId", native_request_id), ("response", response)]))
    };
    mutate(link, RESPOND, profile_id, arguments, options).await.map(nothing)
}

/// Sends one mutation and says how it ended. `arguments` are those besides profile, epoch and request id, if they are
/// valid. The result is what the receipt holds; see [`Committed::decode`].
pub(super) async fn mutate(
    link: &Link,
    tool: &'static str,
    profile_id: &ProfileId,
    arguments: Result<Value>,
    options: MutationOptions,
) -> Result<Committed<Value>> {
    let budget = link.core.budget(&options.operation);
    mutate_within(link, tool, profile_id, arguments, options.on_dispatch, &budget).await
}

/// As [`mutate`], when the profile announces `feature`; else nothing is sent.
pub(super) async fn mutate_offered(
    link: &Link,
    tool: &'static str,
    profile_id: &ProfileId,
    feature: Feature,
    arguments: Result<Value>,
    options: MutationOptions,
) -> Result<Committed<Value>> {
    let not_started = |error: Error| error.with_outcome(Outcome::NotStarted);
    link.check_open(tool).map_err(not_started)?;
    let arguments = arguments.map_err(not_started)?;
    let budget = link.core.budget(&options.operation);
    feature.check(link, tool, profile_id, &budget).await.map_err(not_started)?;
    mutate_within(link, tool, profile_id, Ok(arguments), options.on_dispatch, &budget).await
}

/// As [`mutate`], within a budget that has begun.
pub(super) async fn mutate_within(
    link: &Link,
    tool: &'static str,
    profile_id: &ProfileId,
    arguments: Result<Value>,
    on_dispatch: Option<Callback<Recovery>>,
    budget: &Budget,
) -> Result<Committed<Value>> {
    mutate_as(link, tool, profile_id, arguments, on_dispatch, None, budget).await
}

/// As [`mutate_within`], under a request id that the host chose and that was never sent, or else a random one.
pub(super) async fn mutate_as(
    link: &Link,
    tool: &'static str,
    profile_id: &ProfileId,
    arguments: Result<Value>,
    on_dispatch: Option<Callback<Recovery>>,
    chosen_id: Option<RequestId>,
    budget: &Budget,
) -> Result<Committed<Value>> {
    let not_started = |error: Error| error.with_outcome(Outcome::NotStarted);
    link.check_open(tool).map_err(not_started)?;
    let prepare = async {
        let arguments = arguments?;
        let profiles = known_profiles(link).await?;
        let url = link.mcp_url().await?;
        let request_id = match chosen_id {
            Some(chosen_id) => chosen_id,
            None => RequestId::new(new_uuid(&link.core, tool)?).map_err(|error| Error::invalid(tool, error))?,
        };
        let recovery =
            Recovery { profile_id: profile_id.clone(), epoch: profiles.epoch.clone(), request_id, scope: None };
        let call = link.tool_call(url.without_trailing_slash(), tool, &with_identity(arguments, &recovery));
        let request = link.prepare_mcp(&call, budget).await?;
        Ok(Prepared { recovery, call, request })
    };
    let prepared = budget.run(tool, prepare).await.map_err(not_started)?;
    let recovery = prepared.recovery.clone();

    let gate = Gate::new();
    let (sender, receiver) = oneshot::channel();
    let task = follow(link.clone(), tool, prepared, gate.clone(), on_dispatch, sender);
    link.core.spawner.spawn(tool, Box::pin(task)).map_err(not_started)?;
    let _guard = GiveUpOnDrop(&gate);
    let reply = budget.run(tool, async { receiver.await.map_err(|_| stopped(tool)) }).await;
    match reply {
        Ok(Ok(receipt)) => settle(tool, Observation::Receipt(receipt), None, recovery),
        Ok(Err(failure)) => settle(tool, failure.observation, Some(failure.error), recovery),
        Err(error) if gate.give_up() => Err(not_started(error)),
        Err(error) => Err(error.with_outcome(Outcome::Unknown).with_recovery(recovery)),
    }
}

/// A mutation that only has to be sent.
struct Prepared {
    recovery: Recovery,
    call: McpCall,
    request: HttpRequest,
}

/// Sends the mutation and waits for its reply, in [`Run`](crate::Run): its caller may be gone by then.
async fn follow(
    link: Link,
    tool: &'static str,
    prepared: Prepared,
    gate: Gate,
    on_dispatch: Option<Callback<Recovery>>,
    sender: oneshot::Sender<Result<Receipt, McpFailure>>,
) {
    let Prepared { recovery, call, request } = prepared;
    if !gate.pass() {
        return;
    }
    if let Some(on_dispatch) = on_dispatch {
        on_dispatch(recovery.clone());
    }
    let budget = link.core.budget(&OperationOptions { timeout_ms: Some(FOLLOW_MS), cancel: None });
    let exchange = async { Ok(link.exchange(&call, request).await) };
    let reply = match budget.run(tool, exchange).await {
        Ok(Ok(reply)) => link.tool_value(&call, &reply, RECEIPT, |object| Receipt::read(object, &recovery.request_id)),
        Ok(Err(failure)) => Err(failure),
        Err(error) => Err(McpFailure { observation: Observation::NoReply, error }),
    };
    if reply.as_ref().is_err_and(|failure| failure.error.remote_code() == Some(EPOCH_CHANGED)) {
        link.node.profiles.forget_if(|profiles| profiles.epoch == recovery.epoch);
    }
    // A caller that is gone is told nothing.
    let _ = sender.send(reply);
}

/// What the caller gets. `error` is that of a reply without a receipt.
fn settle(
    tool: &'static str,
    observation: Observation,
    error: Option<Error>,
    recovery: Recovery,
) -> Result<Committed<Value>> {
    let (error, outcome) = match classify_call(observation) {
        CallVerdict::Committed(value) => return Ok(Committed { value, recovery }),
        CallVerdict::Rejected(rejection) => {
            let refused = || coded(tool, rejection.remote_code().unwrap_or_default(), "the node refused with code");
            (error.unwrap_or_else(refused), rejection.outcome())
        }
        CallVerdict::Running => {
            let message = "the node works on it still; ask for the outcome, it is not sent again";
            (Error::new(ErrorKind::TimedOut, tool, message), Outcome::Unknown)
        }
        CallVerdict::Undetermined { code } => {
            (coded(tool, &code, "the node does not know whether it happened; its code is"), Outcome::Unknown)
        }
        CallVerdict::Lost => {
            let lost = || Error::protocol(tool, "it holds no receipt");
            (error.unwrap_or_else(lost), Outcome::Unknown)
        }
    };
    Err(error.with_outcome(outcome).with_recovery(recovery))
}

fn coded(tool: &'static str, code: &str, message: &str) -> Error {
    Error::new(kind_of_tool_code(code), tool, format!("{message} {code}")).with_remote_code(code)
}

fn with_identity(mut arguments: Value, recovery: &Recovery) -> Value {
    arguments["profileId"] = recovery.profile_id.as_str().into();
    arguments["epoch"] = recovery.epoch.as_str().into();
    arguments["requestId"] = recovery.request_id.as_str().into();
    arguments
}

pub(super) fn session(result: &Value, _: &Recovery) -> Result<SessionInfo, Malformed> {
    SessionInfo::read(&mut Json::of(result).object("the session of the result")?)
}

/// The result is the native agent's own reply, which says nothing.
fn nothing(Committed { recovery, .. }: Committed<Value>) -> Committed<()> {
    Committed { value: (), recovery }
}

/// How long a request is followed when its caller has gone. A node answers after at most 25 s.
const FOLLOW_MS: u64 = 60_000;

/// Reason of a committed mutation whose result cannot be read.
const RESULT_INVALID: &str = "HARNESS_RESULT_INVALID";
