//! Developer commands of this repository; `cargo xtask --help` lists them.

mod check;
mod repo;
mod setup;
mod shell;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer commands of this repository. Each first sees to what it needs, as `setup` does.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Gets what a fresh machine lacks: wasm32 std, wasm-bindgen, npm packages, a browser
    Setup,
    /// Format, lints, docs, wasm32, dependency arrows, TypeScript types, tidy
    Check {
        /// Run only the checks whose name contains this
        filter: Option<String>,
    },
    /// Every test: native, Node, Chromium, packaging
    Test,
}

fn main() -> ExitCode {
    let ok = match Args::parse().command {
        Verb::Setup => setup::setup().map(|_| true),
        Verb::Check { filter } => check::check(filter.as_deref()),
        Verb::Test => test::test(),
    };
    match ok {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
