//! Sends what starts a turn, once, and finds out whether it happened.

use std::time::Duration;

use cells_native::cells_driver::{
    CommandName, CommandOptions, CommandResult, Error, HarnessAttachment, HarnessModelSelection, MutationOptions,
    Outcome, Recovery, TurnOptions, TurnStarted,
};
use serde_json::Value;

use super::follow::{Follow, Started};
use crate::failure::{Exit, Failure};

/// What is sent to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Prompt {
    /// Text.
    Text {
        /// What is said.
        text: String,
        /// What is sent with it.
        attachments: Vec<HarnessAttachment>,
        /// The model, if one was chosen.
        selection: Option<HarnessModelSelection>,
    },
    /// A slash command.
    Command {
        /// Its name.
        name: CommandName,
        /// The text after its name.
        args: String,
        /// The model, if one was chosen.
        selection: Option<HarnessModelSelection>,
    },
}

/// Sends `prompt` and waits for its receipt. When the reply is lost, or the node works on it still, the receipt is asked
/// for; nothing is sent again.
///
/// # Errors
/// When it did not happen, or when that cannot be known; the failure then says how to ask again.
pub(crate) async fn start(follow: &Follow<'_>, prompt: Prompt) -> Result<Started, Failure> {
    match prompt {
        Prompt::Text { text, attachments, selection } => {
            let options = TurnOptions { attachments, selection, ..options(follow, "harness_turn").into() };
            let turn = follow.harness.turn(follow.profile_id, follow.session_id, &text, options).await;
            settle(follow, turn.map(|turn| started_turn(turn.value))).await
        }
        Prompt::Command { name, args, selection } => {
            let options = CommandOptions { selection, ..options(follow, "harness_command").into() };
            let result = follow.harness.command(follow.profile_id, follow.session_id, &name, &args, options).await;
            match result {
                Err(error) if error.remote_code() == Some("HARNESS_COMMAND_UNKNOWN") => {
                    Err(unknown_command(follow, &name, error).await)
                }
                result => settle(follow, result.map(|result| started_command(result.value))).await,
            }
        }
    }
}

fn options(follow: &Follow<'_>, operation: &'static str) -> MutationOptions {
    let (dispatch, printer) = (follow.dispatch.clone(), follow.printer.clone());
    MutationOptions {
        operation: follow.node.options(),
        on_dispatch: Some(Box::new(move |recovery: Recovery| {
            dispatch.sent(&recovery);
            // Whoever reads has gone; the next thing that is printed says so.
            let _ = printer.dispatched(operation, &recovery);
        })),
    }
}

async fn settle(follow: &Follow<'_>, sent: Result<Started, Error>) -> Result<Started, Failure> {
    let error = match sent {
        Ok(started) => return Ok(started),
        Err(error) => error,
    };
    let Some(recovery) = error.recovery().cloned().filter(|_| error.outcome() == Some(Outcome::Unknown)) else {
        return Err(error.into());
    };
    let mut wait = FIRST_WAIT;
    loop {
        let Ok(receipt) = follow.harness.operation(&recovery, follow.node.options()).await else {
            return Err(unknown(follow, error, &recovery));
        };
        match (receipt.outcome, receipt.code, receipt.result) {
            (Outcome::Committed, _, Some(result)) => return Ok(started(&result)),
            (Outcome::NotCommitted, Some(code), _) => {
                let message = format!("{}: the node says that it did not happen: {code}", error.operation());
                return Err(Failure::driver(error, message).with_exit(Exit::Failed));
            }
            // It runs, or waits to run.
            (Outcome::Unknown, None, _) => {}
            _ => return Err(unknown(follow, error, &recovery)),
        }
        tokio::time::sleep(wait).await;
        wait = LAST_WAIT.min(wait * 2);
    }
}

fn unknown(follow: &Follow<'_>, error: Error, recovery: &Recovery) -> Failure {
    let message = format!("{error}; whether it happened is unknown");
    Failure::driver(error, message).with_ask(follow.node.receipt_command(recovery))
}

/// The failure for a command that does not exist names those that do.
async fn unknown_command(follow: &Follow<'_>, name: &CommandName, error: Error) -> Failure {
    let catalog = follow.harness.commands(follow.profile_id, follow.session_id, follow.node.options()).await;
    let names: Vec<String> =
        catalog.map(|catalog| catalog.commands).unwrap_or_default().iter().map(|one| one.name.to_string()).collect();
    let message = match names.as_slice() {
        [] => format!("the session has no command {name}"),
        names => format!("the session has no command {name}; it has {}", names.join(", ")),
    };
    Failure::driver(error, message).with_exit(Exit::NotFound)
}

fn started_turn(turn: TurnStarted) -> Started {
    Started { turn_id: Some(turn.turn_id), command: None }
}

fn started_command(result: CommandResult) -> Started {
    Started { turn_id: result.turn_id.clone(), command: Some(result) }
}

/// The result of a receipt: of a command, else of a turn.
fn started(result: &Value) -> Started {
    match serde_json::from_value::<CommandResult>(result.clone()) {
        Ok(result) => started_command(result),
        Err(_) => Started { turn_id: serde_json::from_value(result["turnId"].clone()).ok(), command: None },
    }
}

/// How long until the receipt is asked for again.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(15);
