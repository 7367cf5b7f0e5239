//! The `cells` command. Each verb is one file below `commands`.

mod commands;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;

/// A local Cells node, and a client for people at a terminal.
#[derive(Debug, Parser)]
#[command(name = "cells", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    Cli::parse().command.run()
}
