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

use crate::commands::Command;
use crate::failure::EXIT_CODES;

/// A local Cells node, and a client for people at a terminal.
#[derive(Debug, Parser)]
#[command(name = "cells", version, propagate_version = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    Cli::parse().command.run()
}
