use std::path::PathBuf;

use cells_native::cells_driver::{
    CommandResult, HarnessClient, OperationOptions, Outcome, OutputLoadOptions, ReceiptView, Recovery,
};
use clap::Args;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::node::{NodeArgs, RecoveryArgs};
use crate::output::{Target, print_json};

/// Write the whole output of a slash command to standard output, or to a file.
///
/// EPOCH and ID are those that `cells send --command` printed. The reference is taken from the receipt; nothing runs
/// again. Not a byte is written before size and SHA-256 are verified. With --json and -o, an object tells what was
/// written.
#[derive(Debug, Args)]
pub(crate) struct Output {
    #[command(flatten)]
    recovery: RecoveryArgs,
    /// Write to FILE, which appears only when it is complete
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Refuse output of more than BYTES; at most 33554432
    #[arg(long, value_name = "BYTES", default_value_t = MAX_BYTES, value_parser = clap::value_parser!(u64).range(1..=MAX_BYTES))]
    max_bytes: u64,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

impl Output {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        let harness = node.harness()?;
        let recovery = self.recovery.recovery(&node, &harness).await?;
        let receipt = super::receipt::ask(&harness.operation(&recovery, node.options()).await, &recovery)?;
        let result = command_result(receipt)?;
        let mut target = Target::open(self.output.as_deref())?;
        let body = load(result, &harness, &recovery, self.max_bytes, &mut target).await?;
        target.write(&body)?;
        target.finish()?;
        if self.node.json && self.output.is_some() {
            print_json(&json!({"epoch": recovery.epoch, "requestId": recovery.request_id, "bytes": body.len()}))?;
        }
        Ok(Exit::Done)
    }
}

/// The result of the command that `receipt` is about.
fn command_result(receipt: ReceiptView) -> Result<CommandResult, Failure> {
    let request_id = &receipt.request_id;
    match (receipt.outcome, receipt.result, receipt.code) {
        (Outcome::Committed, Some(result), _) => serde_json::from_value(result).map_err(|_| {
            Failure::new(Exit::NotFound, format!("{request_id} was no slash command, or its result is lost"))
        }),
        (Outcome::Unknown, _, None) => {
            Err(Failure::new(Exit::Unknown, format!("{request_id} has not ended; its output is not there yet")))
        }
        (outcome, _, code) => {
            let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
            let exit = if outcome == Outcome::Unknown { Exit::Unknown } else { Exit::Failed };
            Err(Failure::new(exit, format!("{request_id} has no output: it is {outcome}{code}")))
        }
    }
}

/// The whole output of a command, verified.
pub(super) async fn load(
    result: CommandResult,
    harness: &HarnessClient,
    recovery: &Recovery,
    max_bytes: u64,
    target: &mut Target,
) -> Result<Vec<u8>, Failure> {
    if let Some(reference) = result.output_ref {
        let progress = target.start_progress(reference.bytes);
        let options = OutputLoadOptions {
            max_bytes,
            // Each page has a time budget of its own; all together take as long as they take.
            operation: OperationOptions::default(),
            on_progress: Some(Box::new(move |loaded, _| progress.set_position(loaded))),
        };
        return Ok(harness.load_command_output(&recovery.profile_id, &reference, options).await?);
    }
    if let Some(text) = result.output {
        return Ok(text.into_bytes());
    }
    match (result.preview, result.output_error) {
        (_, Some(code)) => Err(Failure::new(Exit::NotFound, format!("the node did not keep the output: {code}"))),
        (Some(text), None) if result.truncated != Some(true) => Ok(text.into_bytes()),
        (None, None) => Ok(Vec::new()),
        (Some(_), None) => Err(Failure::new(Exit::NotFound, "the node kept only the beginning of the output")),
    }
}

/// The largest output that a node keeps.
pub(super) const MAX_BYTES: u64 = 32 * 1024 * 1024;
