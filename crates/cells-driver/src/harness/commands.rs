//! Slash commands (`cells-0.4.md` §5.1–5.3).

use cells_protocol::commands::{CommandCatalog, CommandResult};
use cells_protocol::error::Outcome;
use cells_protocol::ids::{CommandName, NativeId, ProfileId};
use cells_protocol::json::object;
use cells_protocol::limits::PROMPT_MAX_BYTES;
use cells_protocol::receipts::Recovery;
use cells_protocol::text::is_text;
use serde_json::Value;

use super::mutations::{Committed, MutationOptions, mutate_within};
use super::reads::{known_profile, not_offered};
use crate::cancellation::OperationOptions;
use crate::error::{Error, Result};
use crate::node::Link;

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
    let arguments = object(vec![("profileId", profile_id.as_str().into()), ("sessionId", session_id.as_str().into())]);
    link.read_tool(COMMANDS, arguments, &budget, "the command catalog", CommandCatalog::read).await
}

pub(super) async fn command(
    link: &Link,
    profile_id: &ProfileId,
    session_id: &NativeId,
    name: &CommandName,
    args: &str,
    options: MutationOptions,
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
