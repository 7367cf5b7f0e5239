//! Messages to a running turn, and interrupts (`cells-0.4.md` §6.1–6.2): what passes waiting mutations, under ids that the
//! host may choose.

use std::collections::BTreeSet;
use std::sync::Mutex;

use cells_protocol::error::Outcome;
use cells_protocol::harness::{HarnessAttachment, TurnSteered};
use cells_protocol::ids::{NativeId, ProfileId, RequestId};
use cells_protocol::json::{Json, object};
use cells_protocol::limits::PROMPT_MAX_BYTES;
use cells_protocol::receipts::Recovery;
use serde_json::Value;

use super::HarnessClient;
use super::feature::Feature;
use super::mutations::{Committed, MutationOptions, mutate_as};
use super::turns::add_attachments;
use crate::cancellation::OperationOptions;
use crate::error::{Error, Result};
use crate::host::Callback;
use crate::sync::lock;

/// Options of [`HarnessClient::steer`].
#[derive(Default)]
pub struct SteerOptions {
    /// What is sent beside the text; the rules are those of a turn.
    pub attachments: Vec<HarnessAttachment>,
    /// Request id of this message, which nothing had before. Default: a random one.
    pub submission_id: Option<RequestId>,
    /// As [`MutationOptions::operation`].
    pub operation: OperationOptions,
    /// As [`MutationOptions::on_dispatch`].
    pub on_dispatch: Option<Callback<Recovery>>,
}

/// Options of [`HarnessClient::interrupt`].
#[derive(Default)]
pub struct InterruptOptions {
    /// Request id of this interrupt, which nothing had before. Default: a random one.
    pub operation_id: Option<RequestId>,
    /// As [`MutationOptions::operation`].
    pub operation: OperationOptions,
    /// As [`MutationOptions::on_dispatch`].
    pub on_dispatch: Option<Callback<Recovery>>,
}

impl From<MutationOptions> for SteerOptions {
    fn from(MutationOptions { operation, on_dispatch }: MutationOptions) -> Self {
        Self { operation, on_dispatch, ..Self::default() }
    }
}

impl From<MutationOptions> for InterruptOptions {
    fn from(MutationOptions { operation, on_dispatch }: MutationOptions) -> Self {
        Self { operation, on_dispatch, ..Self::default() }
    }
}

impl std::fmt::Debug for SteerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut options = f.debug_struct("SteerOptions");
        options.field("attachments", &self.attachments).field("submission_id", &self.submission_id);
        options.finish_non_exhaustive()
    }
}

impl std::fmt::Debug for InterruptOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InterruptOptions").field("operation_id", &self.operation_id).finish_non_exhaustive()
    }
}

impl HarnessClient {
    /// Adds `text`, 1 to 131,072 bytes, to the running turn `turn_id`. Committed means that the agent took it. Does not wait
    /// behind other mutations; several messages to one session arrive in the order in which they were sent.
    ///
    /// # Errors
    /// See [`HarnessClient`]; `ECAPABILITY`, `not-started`, when the profile cannot be steered; `EINVAL`, `not-started`,
    /// for a text or attachment out of bounds, and with reason `SUBMISSION_ID_REUSED` for an id that this client sent
    /// before; `ECONFLICT` with `HARNESS_TURN_NOT_ACTIVE` when that turn does not run.
    pub async fn steer(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        turn_id: &NativeId,
        text: &str,
        options: impl Into<SteerOptions>,
    ) -> Result<Committed<TurnSteered>> {
        const STEER: &str = "harness_steer";
        const FEATURE: Feature = Feature { name: "messages to a running turn", is_offered: |can| can.steer };
        let SteerOptions { attachments, submission_id, operation, on_dispatch } = options.into();
        let link = &self.0.link;
        let not_started = |error: Error| error.with_outcome(Outcome::NotStarted);
        link.check_open(STEER).map_err(not_started)?;
        if text.is_empty() || text.len() > PROMPT_MAX_BYTES {
            let message = format!("the prompt is empty or longer than {PROMPT_MAX_BYTES} bytes");
            return Err(not_started(Error::invalid(STEER, message)));
        }
        let budget = link.core.budget(&operation);
        FEATURE.check(link, STEER, profile_id, &budget).await.map_err(not_started)?;
        let mut arguments = target(session_id, turn_id);
        arguments["prompt"] = text.into();
        add_attachments(link, STEER, profile_id, attachments, &mut arguments, &budget).await.map_err(not_started)?;
        self.0.chosen_ids.take(STEER, submission_id.as_ref(), "SUBMISSION_ID_REUSED").map_err(not_started)?;
        let steered = |result: &Value, _: &Recovery| {
            TurnSteered::read(&mut Json::of(result).object("the result of the message")?, turn_id)
        };
        let sent = mutate_as(link, STEER, profile_id, Ok(arguments), on_dispatch, submission_id, &budget).await?;
        sent.decode(STEER, steered)
    }

    /// Interrupts the turn `turn_id`. Committed means that the agent was told; the turn ends with an event. Does not wait
    /// behind other mutations.
    ///
    /// # Errors
    /// See [`HarnessClient`]; `EINVAL`, `not-started`, with reason `OPERATION_ID_REUSED` for an id that this client sent
    /// before; `ECONFLICT` with `HARNESS_TURN_NOT_ACTIVE` when that turn does not run.
    pub async fn interrupt(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        turn_id: &NativeId,
        options: impl Into<InterruptOptions>,
    ) -> Result<Committed<()>> {
        const INTERRUPT: &str = "harness_interrupt";
        let InterruptOptions { operation_id, operation, on_dispatch } = options.into();
        let link = &self.0.link;
        let not_started = |error: Error| error.with_outcome(Outcome::NotStarted);
        link.check_open(INTERRUPT).map_err(not_started)?;
        self.0.chosen_ids.take(INTERRUPT, operation_id.as_ref(), "OPERATION_ID_REUSED").map_err(not_started)?;
        let (arguments, budget) = (Ok(target(session_id, turn_id)), link.core.budget(&operation));
        let sent = mutate_as(link, INTERRUPT, profile_id, arguments, on_dispatch, operation_id, &budget).await?;
        Ok(Committed { value: (), recovery: sent.recovery })
    }
}

/// The request ids that the host chose: each goes out once.
#[derive(Default)]
pub(super) struct ChosenIds(Mutex<BTreeSet<RequestId>>);

impl ChosenIds {
    fn take(&self, operation: &'static str, id: Option<&RequestId>, reason: &'static str) -> Result<()> {
        match id {
            Some(id) if !lock(&self.0).insert(id.clone()) => {
                let message = "this id was sent before; ask for its receipt instead";
                Err(Error::invalid(operation, message).with_reason(reason))
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn target(session_id: &NativeId, turn_id: &NativeId) -> Value {
    object(vec![("sessionId", session_id.as_str().into()), ("turnId", turn_id.as_str().into())])
}
