use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use cells_native::cells_driver::{
    Cancellation, ExecOptions, OperationOptions, OutputStream, ProcessMount, ProcessSpec,
};
use clap::Args;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::interrupts::Interrupts;
use crate::node::NodeArgs;
use crate::output::print_json;
use crate::remote_path::RemotePath;

/// Run a command on the node, in a directory of an export.
///
/// What it writes appears while it runs, and its exit code is that of this program. Ctrl-C stops it; whether it has ended is
/// then asked for. With --json, one object at the end tells all.
#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// The directory, such as notes/project; it is /workspace for the command
    #[arg(value_name = "ALIAS/PATH")]
    directory: RemotePath,
    /// The command may only read there
    #[arg(long)]
    read_only: bool,
    /// How long the command may run, at most 300
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=300))]
    run_timeout: u64,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<String>,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

impl Exec {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let node = self.node.connect()?;
        let capabilities = node.client.capabilities(&node.connection, node.options()).await?;
        let access = if self.read_only { "ro" } else { "rw" };
        let mount = ProcessMount {
            alias: self.directory.alias.clone(),
            path: self.directory.path.clone(),
            at: WORKSPACE.to_owned(),
            access: access.to_owned(),
        };
        let spec = ProcessSpec::on(&capabilities, WORKSPACE, vec![mount])?;
        let session = node.client.process(&node.connection, spec)?;
        let (stop, cancel) = Cancellation::new();
        let mut interrupts = Interrupts::listen()?;
        tokio::spawn(async move {
            interrupts.first().await;
            stop.cancel();
        });
        let is_live = !self.node.json;
        let options = ExecOptions {
            timeout_ms: Some(self.run_timeout * 1000),
            cancel: Some(cancel.clone()),
            on_output: is_live.then(|| Box::new(|stream, bytes: bytes::Bytes| pass_on(stream, &bytes)) as _),
            ..ExecOptions::default()
        };
        let (program, arguments) = self.command.split_first().unwrap_or((&self.command[0], &[]));
        let result = session.exec(program, arguments, options).await;
        // An end that is not confirmed is asked for once more.
        let confirm = OperationOptions { timeout_ms: Some(CONFIRM.as_millis() as u64), cancel: None };
        let released = session.release(confirm).await;
        let exit = match result {
            Ok(exit) => exit,
            Err(error) => {
                let failure = match error.process_id().cloned() {
                    Some(id) if released.is_err() => Failure::from(error)
                        .about(&format!("whether process {id} has ended is not known"))
                        .with_exit(Exit::Unknown),
                    _ if cancel.is_cancelled() => Failure::Interrupted,
                    _ => Failure::from(error),
                };
                return Err(failure);
            }
        };
        if self.node.json {
            let (stdout, stderr) = (exit.stdout, exit.stderr);
            print_json(&json!({ "code": exit.code, "stdout": stdout, "stderr": stderr, "truncated": exit.truncated }))?;
        }
        // A process that a signal ended has none.
        Ok(exit.code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
    }
}

fn pass_on(stream: OutputStream, bytes: &[u8]) {
    // A reader that is gone does not stop the command.
    let _ = match stream {
        OutputStream::Stdout => std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush()),
        OutputStream::Stderr => std::io::stderr().write_all(bytes),
    };
}

/// Where the directory is for the command.
const WORKSPACE: &str = "/workspace";
/// How long the end of a command is asked for.
const CONFIRM: Duration = Duration::from_secs(10);
