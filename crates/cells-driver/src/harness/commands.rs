//! Slash commands (`cells-0.4.md` §5.1–5.3).

use cells_protocol::commands::{CommandCatalog, CommandKind, CommandResult};
use cells_protocol::error::{INVALID_SELECTION, Outcome};
use cells_protocol::harness::HarnessModelSelection;
use cells_protocol::ids::{CommandName, NativeId, ProfileId};
use cells_protocol::json::object;
use cells_protocol::limits::PROMPT_MAX_BYTES;
use cells_protocol::receipts::Recovery;
use cells_protocol::text::is_text;
use serde_json::Value;

use super::models::Catalogs;
use super::mutations::{Committed, MutationOptions, mutate_within};
use super::reads::{known_profile, not_offered};
use crate::budget::Budget;
use crate::cancellation::OperationOptions;
use crate::error::{Error, Result};
use crate::host::Callback;
use crate::node::Link;

/// Options of [`HarnessClient::command`](crate::HarnessClient::command). Made from [`MutationOptions`] where there is nothing
/// more to say.
#[derive(Default)]
pub struct CommandOptions {
    /// The model of a prompt command; without it the agent's current choice. Errors are those of
    /// [`TurnOptions::selection`](crate::TurnOptions::selection); `EINVAL`, and nothing is sent, for an action.
    pub selection: Option<HarnessModelSelection>,
    /// As [`MutationOptions::operation`].
    pub operation: OperationOptions,
    /// As [`MutationOptions::on_dispatch`].
    pub on_dispatch: Option<Callback<Recovery>>,
}

impl From<MutationOptions> for CommandOptions {
    fn from(MutationOptions { operation, on_dispatch }: MutationOptions) -> Self {
        Self { operation, on_dispatch, ..Self::default() }
    }
}

impl std::fmt::Debug for CommandOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandOptions").field("selection", &self.selection).finish_non_exhaustive()
    }
}

pub(super) async fn commands(
    link: &Link,
    profile_id: &ProfileId,
    session_id: &NativeId,
    options: &OperationOptions,
) -> Result<CommandCatalog> {
    const COMMANDS: &str = "harness_commands";
    link.check_open(COMMANDS)?;
    let budget = link.core.budget(options);
    let profile = budget.run(COMMANDS, known_profile(link, COMMANDS, profile_id)).await?;
    if !profile.capabilities.slash_commands {
        return Err(not_offered(COMMANDS, profile_id, "slash commands"));
    }
    catalog(link, profile_id, session_id, &budget).await
}

async fn catalog(
    link: &Link,
    profile_id: &ProfileId,
    session_id: &NativeId,
    budget: &Budget,
) -> Result<CommandCatalog> {
    let arguments = object(vec![("profileId", profile_id.as_str().into()), ("sessionId", session_id.as_str().into())]);
    link.read_tool("harness_commands", arguments, budget, "the command catalog", CommandCatalog::read).await
}

pub(super) async fn command(
    (link, catalogs): (&Link, &Catalogs),
    profile_id: &ProfileId,
    session_id: &NativeId,
    name: &CommandName,
    args: &str,
    options: CommandOptions,
) -> Result<Committed<CommandResult>> {
    const COMMAND: &str = "harness_command";
    let not_started = |error: Error| error.with_outcome(Outcome::NotStarted);
    link.check_open(COMMAND).map_err(not_started)?;
    let budget = link.core.budget(&options.operation);
    let profile = budget.run(COMMAND, known_profile(link, COMMAND, profile_id)).await.map_err(not_started)?;
    let mut arguments =
        object(vec![("sessionId", session_id.as_str().into()), ("name", name.as_str().into()), ("args", args.into())]);
    if profile.capabilities.command_outputs {
        arguments["outputMode"] = "reference".into();
    }
    if profile.capabilities.slash_commands && options.selection.is_some() {
        let commands = catalog(link, profile_id, session_id, &budget).await.map_err(not_started)?.commands;
        if commands.iter().any(|command| command.name == *name && command.kind == CommandKind::Action) {
            let message = "a command that is an action takes no model";
            return Err(not_started(Error::invalid(COMMAND, message).with_reason(INVALID_SELECTION)));
        }
        let target = (profile_id, session_id);
        let selected = catalogs.add_selection(link, COMMAND, target, options.selection, &mut arguments, &budget).await;
        selected.map_err(not_started)?;
    }
    let arguments = if !profile.capabilities.slash_commands {
        Err(not_offered(COMMAND, profile_id, "slash commands"))
    } else if !is_text(args, PROMPT_MAX_BYTES) {
        Err(Error::invalid(COMMAND, format!("the arguments are longer than {PROMPT_MAX_BYTES} bytes or hold a NUL")))
    } else {
        Ok(arguments)
    };
    let decode = |result: &Value, recovery: &Recovery| {
        CommandResult::from_receipt(result, &recovery.request_id, &recovery.epoch, name)
    };
    let committed = mutate_within(link, COMMAND, profile_id, arguments, options.on_dispatch, &budget).await?;
    committed.decode(COMMAND, decode)
}
