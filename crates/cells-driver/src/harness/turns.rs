//! Turns, and what they carry.

use cells_protocol::error::Outcome;
use cells_protocol::harness::{
    AttachmentKind, HarnessAttachment, HarnessModelSelection, TurnStarted, check_attachments,
};
use cells_protocol::ids::{NativeId, ProfileId};
use cells_protocol::json::{Json, object};
use cells_protocol::limits::PROMPT_MAX_BYTES;
use cells_protocol::receipts::Recovery;
use serde_json::Value;

use super::feature::Feature;
use super::models::Catalogs;
use super::mutations::{Committed, MutationOptions, mutate_within};

use crate::budget::Budget;
use crate::cancellation::OperationOptions;
use crate::error::{Error, Result};
use crate::host::Callback;
use crate::node::Link;

/// Options of [`HarnessClient::turn`](crate::HarnessClient::turn). Made from [`MutationOptions`] where there is nothing more
/// to say.
#[derive(Default)]
pub struct TurnOptions {
    /// What is sent beside the text: at most 5, of kinds that the profile takes. `EINVAL` or `ECAPABILITY`, and nothing is
    /// sent, when they break a rule of [`check_attachments`](crate::check_attachments) or the profile does not take one.
    pub attachments: Vec<HarnessAttachment>,
    /// The model of this turn; without it the agent's current choice. `ECAPABILITY`, and nothing is sent, when the profile has
    /// no models; `EINVAL` with reason `HARNESS_SELECTION_INVALID` when the [`models`](crate::HarnessClient::models) of the
    /// session were read and this is none of them.
    pub selection: Option<HarnessModelSelection>,
    /// As [`MutationOptions::operation`].
    pub operation: OperationOptions,
    /// As [`MutationOptions::on_dispatch`].
    pub on_dispatch: Option<Callback<Recovery>>,
}

impl From<MutationOptions> for TurnOptions {
    fn from(MutationOptions { operation, on_dispatch }: MutationOptions) -> Self {
        Self { operation, on_dispatch, ..Self::default() }
    }
}

impl std::fmt::Debug for TurnOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnOptions").field("attachments", &self.attachments).finish_non_exhaustive()
    }
}

pub(super) async fn turn(
    (link, catalogs): (&Link, &Catalogs),
    profile_id: &ProfileId,
    session_id: &NativeId,
    text: &str,
    options: TurnOptions,
) -> Result<Committed<TurnStarted>> {
    let not_started = |error: Error| error.with_outcome(Outcome::NotStarted);
    link.check_open(TURN).map_err(not_started)?;
    if text.is_empty() || text.len() > PROMPT_MAX_BYTES {
        let message = format!("the prompt is empty or longer than {PROMPT_MAX_BYTES} bytes");
        return Err(not_started(Error::invalid(TURN, message)));
    }
    let budget = link.core.budget(&options.operation);
    let mut arguments = object(vec![("sessionId", session_id.as_str().into()), ("prompt", text.into())]);
    add_attachments(link, TURN, profile_id, options.attachments, &mut arguments, &budget).await.map_err(not_started)?;
    let target = (profile_id, session_id);
    let selected = catalogs.add_selection(link, TURN, target, options.selection, &mut arguments, &budget).await;
    selected.map_err(not_started)?;
    let started =
        |result: &Value, _: &Recovery| TurnStarted::read(&mut Json::of(result).object("the result of the turn")?);
    mutate_within(link, TURN, profile_id, Ok(arguments), options.on_dispatch, &budget).await?.decode(TURN, started)
}

/// Checks `attachments` by their rules and by what the profile takes, and puts them into `arguments` if there are any.
pub(super) async fn add_attachments(
    link: &Link,
    tool: &'static str,
    profile_id: &ProfileId,
    attachments: Vec<HarnessAttachment>,
    arguments: &mut Value,
    budget: &Budget,
) -> Result<()> {
    if attachments.is_empty() {
        return Ok(());
    }
    check_attachments(&attachments).map_err(|error| Error::invalid(tool, error))?;
    for (kind, feature) in [(AttachmentKind::Text, TEXT), (AttachmentKind::Image, IMAGES)] {
        if attachments.iter().any(|attachment| attachment.kind == kind) {
            feature.check(link, tool, profile_id, budget).await?;
        }
    }
    let mut list = Vec::with_capacity(attachments.len());
    for HarnessAttachment { kind, name, content, mime_type } in attachments {
        let mut attachment =
            object(vec![("kind", kind.as_str().into()), ("name", name.into()), ("content", content.into())]);
        if let (AttachmentKind::Image, Some(mime_type)) = (kind, mime_type) {
            attachment["mimeType"] = mime_type.into();
        }
        list.push(attachment);
    }
    arguments["attachments"] = Value::Array(list);
    Ok(())
}

const TURN: &str = "harness_turn";

const TEXT: Feature =
    Feature { name: "text attachments", is_offered: |can| can.attachments.contains(&AttachmentKind::Text) };
const IMAGES: Feature =
    Feature { name: "image attachments", is_offered: |can| can.attachments.contains(&AttachmentKind::Image) };
