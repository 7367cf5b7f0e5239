//! Developer commands of this repository; `cargo xtask --help` lists them.

mod app;
mod bench;
mod check;
mod conformance;
mod demo;
mod npm;
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
    /// Builds and packs the npm package: target/npm/*.tgz, and its sizes in target/npm/size.json
    Npm,
    /// The driver's main job against a local node, natively and in Node: target/demo/report.json
    Demo,
    /// The driver against its peers: target/bench/report.json
    Bench,
    /// The conformance list against a running node, one line a case
    Conformance(conformance::Target),
}

fn main() -> ExitCode {
    let ok = match Args::parse().command {
        Verb::Setup => setup::setup().map(|_| true),
        Verb::Check { filter } => check::check(filter.as_deref()),
        Verb::Test => test::test(),
        Verb::Npm => setup::setup().and_then(|setup| npm::npm(&setup)).map(|_| true),
        Verb::Demo => demo::demo(),
        Verb::Bench => bench::bench(),
        Verb::Conformance(target) => conformance::conformance(&target),
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
