//! The `cells` command. Each verb is one file below `commands`.

mod commands;
mod conversation;
mod dispatch;
mod failure;
mod interrupts;
mod listing;
mod node;
mod output;
mod remote_path;
mod table;
mod text;
mod transfer;
mod under_way;
mod writes;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::commands::Command;
use crate::failure::{EXIT_CODES, Exit};
use crate::text::one_line;

/// A local Cells node, and a client for people at a terminal.
#[derive(Debug, Parser)]
#[command(name = "cells", version, propagate_version = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => cli.command.run(),
        Err(error) if asks_for_help(error.kind()) => error.exit(),
        Err(error) => {
            eprintln!("cells: {}", one_line(&shortened(&error.to_string())));
            Exit::Usage.into()
        }
    }
}

fn asks_for_help(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// What clap says of a wrong command line, without its repetition of the usage: the problem and the tips on one line.
fn shortened(report: &str) -> String {
    let report = report.strip_prefix("error: ").unwrap_or(report);
    let parts = report.split("\n\n").take_while(|part| !part.starts_with("Usage: ") && !part.starts_with("For more "));
    let parts: Vec<String> = parts.map(|part| part.lines().map(str::trim).collect::<Vec<_>>().join(" ")).collect();
    parts.join("; ")
}
