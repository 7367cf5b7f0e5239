//! The verbs.

mod serve;

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;

/// One verb and its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Serve),
}

impl Command {
    /// Runs the verb. Exit code 0: done, 1: it failed, 2: wrong usage or configuration.
    pub(crate) fn run(self) -> ExitCode {
        match self {
            Self::Serve(serve) => serve.run(),
        }
    }
}

/// Runs `work` on a tokio runtime. Work that still blocks at the end is left behind, so that the program always ends.
fn block_on(work: impl Future<Output = ExitCode>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(1, &format!("the runtime does not start: {error}")),
    };
    let code = runtime.block_on(work);
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

/// Prints one line for people and gives the exit code.
fn fail(code: u8, line: &str) -> ExitCode {
    eprintln!("cells: {line}");
    ExitCode::from(code)
}
