use cells_native::cells_driver::{CommandResult, Error, ErrorKind, Outcome, ReceiptView, Recovery};
use clap::Args;

use crate::failure::{Exit, Failure};
use crate::node::{Node, NodeArgs, RecoveryArgs};
use crate::output::{print, print_json};
use crate::text::one_line;

/// Ask how something that was sent to an agent ended.
///
/// EPOCH and ID are those that `cells send` printed. Nothing is repeated: only the receipt is read. Exit code 0 when it
/// happened, 1 when it did not, 3 when that is not known, 4 when the node has no such receipt.
#[derive(Debug, Args)]
pub(crate) struct Receipt {
    #[command(flatten)]
    recovery: RecoveryArgs,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

impl Receipt {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        let harness = node.harness()?;
        let recovery = self.recovery.recovery(&node, &harness).await?;
        let receipt = ask(&harness.operation(&recovery, node.options()).await, &recovery)?;
        if self.node.json { print_json(&receipt) } else { print(&describe(&receipt, &recovery, &node)) }?;
        Ok(match receipt.outcome {
            Outcome::Committed => Exit::Done,
            Outcome::NotCommitted | Outcome::NotStarted => Exit::Failed,
            Outcome::Unknown | Outcome::Partial => Exit::Unknown,
        })
    }
}

/// The receipt of `recovery`, or why the node gave none.
///
/// # Errors
/// The question failed. That says nothing about the mutation; its outcome stays unknown.
pub(super) fn ask(answer: &Result<ReceiptView, Error>, recovery: &Recovery) -> Result<ReceiptView, Failure> {
    let error = match answer {
        Ok(receipt) => return Ok(receipt.clone()),
        Err(error) => error,
    };
    let request_id = &recovery.request_id;
    let (exit, message) = match (error.kind(), error.remote_code()) {
        (_, Some("HARNESS_EPOCH_CHANGED")) => {
            let message =
                format!("the node no longer has the receipts of that epoch; how {request_id} ended stays unknown");
            (Exit::Unknown, message)
        }
        (ErrorKind::NotFound, _) => {
            (Exit::NotFound, format!("the node has no receipt of {request_id}; it may still arrive"))
        }
        (ErrorKind::AccessDenied, _) => (Exit::AccessDenied, error.to_string()),
        _ => (Exit::Failed, error.to_string()),
    };
    Err(Failure::driver(error.clone(), message).with_exit(exit))
}

fn describe(receipt: &ReceiptView, recovery: &Recovery, node: &Node) -> String {
    let outcome = match (receipt.outcome, receipt.code.as_deref()) {
        (Outcome::Unknown, None) => "unknown: it runs, or waits to run".to_owned(),
        (Outcome::Unknown, Some(code)) => format!("unknown for good ({code}): look at the session"),
        (outcome, Some(code)) => format!("{outcome} ({code})"),
        (outcome, None) => outcome.to_string(),
    };
    let mut lines = vec![
        ("outcome", outcome),
        ("profile", recovery.profile_id.to_string()),
        ("epoch", receipt.epoch.to_string()),
        ("request", receipt.request_id.to_string()),
    ];
    let result = receipt.result.as_ref();
    let text = |pointer: &str| result.and_then(|result| result.pointer(pointer)?.as_str()).map(str::to_owned);
    lines.extend(text("/session/id").map(|id| ("session", id)));
    lines.extend(text("/turnId").map(|id| ("turn", id)));
    let command = result.and_then(|result| serde_json::from_value::<CommandResult>(result.clone()).ok());
    if let Some(command) = command {
        lines.push(("command", format!("{} {}", command.name, text("/state").unwrap_or_default())));
        lines.extend(command.error.map(|error| ("error", error.code)));
        let reference = command.output_ref.map(|reference| {
            let command = node.output_command(&reference, &recovery.profile_id);
            format!("{} bytes; get them with: {command}", reference.bytes)
        });
        lines.extend(reference.map(|text| ("output", text)));
    }
    lines.into_iter().map(|(name, value)| format!("{name:<8} {}\n", one_line(&value))).collect()
}
