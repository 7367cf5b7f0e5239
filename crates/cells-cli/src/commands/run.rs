use std::path::PathBuf;

use cells_native::cells_driver::{CommandName, CommandState, InvalidId};
use clap::Args;
use serde_json::json;

use super::managed::mutate;
use super::output::{MAX_BYTES, load};
use crate::failure::{Exit, Failure};
use crate::node::SessionArgs;
use crate::output::{Target, note, print_json};

/// Run a slash command in a session and write its whole output to standard output, or to a file.
///
/// Not a byte is written before size and SHA-256 are verified. A command that starts a turn gives the id of the turn;
/// `cells send --command` follows it.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(super) at: SessionArgs,
    /// Name of the command
    #[arg(value_name = "COMMAND", value_parser = name)]
    command: CommandName,
    /// Its arguments
    #[arg(value_name = "ARGS")]
    args: Vec<String>,
    /// Write to FILE, which appears only when it is complete
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Run {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let at = self.at.find().await?;
        let (args, json) = (self.args.join(" "), self.at.node.json);
        let mut target = Target::open(self.output.as_deref())?;
        let (profile_id, session_id) = (&at.profile_id, &at.session_id);
        let ran = mutate(&at.node, |options| at.harness.command(profile_id, session_id, &self.command, &args, options));
        let ran = ran.await?;
        let (state, turn_id) = (ran.value.state, ran.value.turn_id.clone());
        if let (CommandState::Failed, Some(error)) = (state, &ran.value.error) {
            let message = format!("the command {} failed: {}", self.command, error.code);
            return Err(Failure::new(Exit::Failed, message));
        }
        let body = load(ran.value, &at.harness, &ran.recovery, MAX_BYTES, &mut target).await?;
        if json && self.output.is_none() {
            let text = String::from_utf8_lossy(&body);
            print_json(
                &json!({"commandId": ran.recovery.request_id, "state": state, "turnId": turn_id, "output": text}),
            )?;
            return Ok(Exit::Done);
        }
        target.write(&body)?;
        target.finish()?;
        if json {
            let (id, bytes) = (&ran.recovery.request_id, body.len());
            print_json(&json!({"commandId": id, "state": state, "turnId": turn_id, "bytes": bytes}))?;
        } else if let Some(turn_id) = turn_id {
            note(&format!("the turn {turn_id} runs; follow it with: cells watch --session {session_id}"));
        }
        Ok(Exit::Done)
    }
}

fn name(text: &str) -> Result<CommandName, InvalidId> {
    CommandName::new(text.strip_prefix('/').unwrap_or(text))
}
