//! The verbs.

mod cat;
mod catalog;

mod completions;
mod digest;
mod discover;
mod exec;
mod exports;
mod get;
mod interrupt;
mod ls;
mod managed;
mod mkdir;
mod models;
mod mv;
mod op;
mod output;
mod profiles;
mod put;
mod receipt;
mod receipts;
mod respond;
mod rm;
mod run;
mod send;
mod serve;
mod sessions;
mod stat;
mod usage;
mod watch;

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;

use crate::failure::{Exit, Failure};
use crate::interrupts::Interrupts;
use crate::under_way::UnderWay;

/// One verb and its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Serve),
    Discover(discover::Discover),
    Exports(exports::Exports),
    Stat(stat::Stat),
    Ls(ls::Ls),
    Cat(cat::Cat),
    Get(get::Get),
    Put(put::Put),
    Mkdir(mkdir::Mkdir),
    Mv(mv::Mv),
    Rm(rm::Rm),
    Op(op::Op),
    Exec(exec::Exec),
    Profiles(profiles::Profiles),
    Sessions(sessions::Sessions),
    Send(send::Send),
    Watch(watch::Watch),
    Respond(respond::Respond),
    Interrupt(interrupt::Interrupt),
    Models(models::Models),
    Usage(usage::Usage),
    Digest(digest::Digest),
    Commands(catalog::Commands),
    Run(run::Run),
    Output(output::Output),
    Receipt(receipt::Receipt),
    Receipts(receipts::Receipts),
    Completions(completions::Completions),
}

impl Command {
    /// Runs the verb and gives its exit code.
    pub(crate) fn run(self) -> ExitCode {
        match self {
            Self::Serve(verb) => verb.run(),
            Self::Discover(verb) => client(verb.node.json, verb.run()),
            Self::Exports(verb) => client(verb.node.json, verb.run()),
            Self::Stat(verb) => client(verb.node.json, verb.run()),
            Self::Ls(verb) => client(verb.node.json, verb.run()),
            Self::Cat(verb) => client(verb.node.json, verb.run()),
            Self::Get(verb) => client(verb.node.json, verb.run()),
            Self::Put(verb) => changing(verb.node.json, |under_way| verb.run(under_way)),
            Self::Mkdir(verb) => changing(verb.node.json, |under_way| verb.run(under_way)),
            Self::Mv(verb) => changing(verb.node.json, |under_way| verb.run(under_way)),
            Self::Rm(verb) => changing(verb.node.json, |under_way| verb.run(under_way)),
            Self::Op(verb) => client(verb.json(), verb.run()),
            Self::Exec(verb) => changing(verb.node.json, |under_way| verb.run(under_way)),
            Self::Profiles(verb) => client(verb.node.json, verb.run()),
            // Ctrl-C has a meaning of its own there.
            Self::Sessions(verb) if verb.changes_something() => block_on(async { told(verb.json(), verb.run().await) }),
            Self::Sessions(verb) => client(verb.json(), verb.run()),
            Self::Send(verb) => block_on(async { told(verb.node.json, verb.run().await) }),
            Self::Watch(verb) => client(verb.node.json, verb.run()),
            Self::Respond(verb) => block_on(async { told(verb.node.json, verb.run().await) }),
            Self::Interrupt(verb) => block_on(async { told(verb.at.node.json, verb.run().await) }),
            Self::Models(verb) => client(verb.node.json, verb.run()),
            Self::Usage(verb) => client(verb.at.node.json, verb.run()),
            Self::Digest(verb) => client(verb.at.node.json, verb.run()),
            Self::Commands(verb) => client(verb.at.node.json, verb.run()),
            Self::Run(verb) => block_on(async { told(verb.at.node.json, verb.run().await) }),
            Self::Output(verb) => client(verb.node.json, verb.run()),
            Self::Receipt(verb) => client(verb.node.json, verb.run()),
            Self::Receipts(verb) => told(verb.json(), verb.run()),
            Self::Completions(verb) => told(false, verb.run()),
        }
    }
}

/// Runs a client verb until it ends or the user presses Ctrl-C.
fn client(json: bool, work: impl Future<Output = Result<Exit, Failure>>) -> ExitCode {
    block_on(async {
        let interrupted = async {
            match Interrupts::listen() {
                Ok(mut interrupts) => interrupts.first().await,
                Err(_) => std::future::pending().await,
            }
        };
        let result = tokio::select! {
            result = work => result,
            () = interrupted => Err(Failure::Interrupted),
        };
        told(json, result)
    })
}

/// Runs a client verb that changes something. Ctrl-C stops what is under way, and the verb tells how that ended; a second
/// one leaves at once, and tells what is left.
fn changing<T: Into<ExitCode>, W: Future<Output = Result<T, Failure>>>(
    json: bool,
    work: impl FnOnce(UnderWay) -> W,
) -> ExitCode {
    block_on(async {
        let under_way = UnderWay::new(json);
        let (mut first, mut second) = match Interrupts::listen() {
            Ok(interrupts) => (interrupts.clone(), interrupts),
            Err(failure) => return told(json, Err::<Exit, _>(failure)),
        };
        let stopped = under_way.clone();
        tokio::spawn(async move {
            first.first().await;
            stopped.stop();
        });
        tokio::select! {
            result = work(under_way.clone()) => told(json, result),
            () = second.second() => {
                under_way.tell_left();
                Exit::Interrupted.into()
            }
        }
    })
}

/// Tells what went wrong, and gives the exit code.
fn told<T: Into<ExitCode>>(json: bool, result: Result<T, Failure>) -> ExitCode {
    match result {
        Ok(done) => done.into(),
        Err(failure) => {
            failure.tell(json);
            failure.exit().into()
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
