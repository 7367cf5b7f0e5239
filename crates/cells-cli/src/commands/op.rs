use std::time::Duration;

use cells_native::cells_driver::{Alias, Error, FileReceipt, OperationId};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::node::NodeArgs;
use crate::output::{print, print_json};

/// Ask how a write ended.
///
/// A write of which the reply was lost prints its id. The node keeps receipts for an hour.
#[derive(Debug, Args)]
pub(crate) struct Op {
    #[command(subcommand)]
    question: Question,
}

#[derive(Debug, Subcommand)]
enum Question {
    /// Show the receipt as it is now
    Get(OpArgs),
    /// Wait until the write has ended, and show its receipt
    Wait(OpArgs),
    /// Stop the write if it has not ended; one that the node has not seen is refused from then on
    Cancel(OpArgs),
}

#[derive(Debug, Args)]
struct OpArgs {
    /// The export
    #[arg(value_parser = |text: &str| Alias::new(text))]
    alias: Alias,
    /// The id of the write
    #[arg(value_name = "ID", value_parser = |text: &str| OperationId::new(text))]
    id: OperationId,
    #[command(flatten)]
    node: NodeArgs,
}

impl Op {
    pub(super) fn json(&self) -> bool {
        let (Question::Get(args) | Question::Wait(args) | Question::Cancel(args)) = &self.question;
        args.node.json
    }

    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let (args, waits, cancels) = match self.question {
            Question::Get(args) => (args, false, false),
            Question::Wait(args) => (args, true, false),
            Question::Cancel(args) => (args, true, true),
        };
        let node = args.node.connect()?;
        let storage = node.storage(args.alias.as_str()).await?;
        let ask = async {
            let mut receipt = match cancels {
                true => storage.cancel_operation(&args.id, node.options()).await?,
                false => storage.operation_status(&args.id, node.options()).await?,
            };
            while waits && matches!(receipt, FileReceipt::Running) {
                tokio::time::sleep(POLL).await;
                receipt = storage.operation_status(&args.id, node.options()).await?;
            }
            Ok::<_, Error>(receipt)
        };
        let seconds = node.timeout().as_secs();
        let receipt = tokio::time::timeout(node.timeout(), ask).await.map_err(|_| {
            Failure::new(Exit::Unknown, format!("the write still runs after {seconds} s; --timeout waits longer"))
        })?;
        let receipt = receipt.map_err(|error| match error.remote_code() {
            Some("OPERATION_UNKNOWN") => {
                let id = &args.id;
                let line = format!("the node has no receipt of {id}: it never saw the write, or has forgotten it");
                Failure::driver(error, line).with_exit(Exit::NotFound)
            }
            _ => Failure::from(error),
        })?;
        if args.node.json {
            print_json(&receipt_json(args.alias.as_str(), &args.id, &receipt))?;
        } else {
            print(&format!("{}\n", describe(&receipt)))?;
        }
        Ok(match receipt {
            FileReceipt::Committed { .. } => Exit::Done,
            FileReceipt::NotCommitted { .. } => Exit::Failed,
            FileReceipt::Unknown { .. } | FileReceipt::Running => Exit::Unknown,
        })
    }
}

fn describe(receipt: &FileReceipt) -> String {
    match receipt {
        FileReceipt::Committed { .. } => "committed".to_owned(),
        FileReceipt::NotCommitted { code } => format!("not committed ({code})"),
        FileReceipt::Unknown { code: Some(code) } => format!("unknown ({code}); look at the file"),
        FileReceipt::Unknown { code: None } => "unknown; look at the file".to_owned(),
        FileReceipt::Running => "running".to_owned(),
    }
}

/// A receipt as one object.
fn receipt_json(alias: &str, id: &OperationId, receipt: &FileReceipt) -> Value {
    let mut object = json!({ "alias": alias, "operationId": id.as_str() });
    match receipt {
        FileReceipt::Committed { result } => {
            object["outcome"] = json!("committed");
            object["result"] = json!(result);
        }
        FileReceipt::NotCommitted { code } => {
            object["outcome"] = json!("not-committed");
            object["code"] = json!(code);
        }
        FileReceipt::Unknown { code } => {
            object["outcome"] = json!("unknown");
            object["code"] = json!(code);
        }
        FileReceipt::Running => {
            object["outcome"] = json!("unknown");
            object["state"] = json!("running");
        }
    }
    object
}

const POLL: Duration = Duration::from_millis(200);
