//! `cargo xtask check`: everything that can be judged without running the product.

mod arrows;
mod documents;
mod invariants;
mod licences;
mod tidy;

use std::time::Instant;

use anyhow::ensure;

use crate::{
    repo,
    setup::{self, Setup},
    shell,
};

/// Runs every check whose name contains `filter`, the quick ones first, and names those that failed. True when none did.
pub(crate) fn check(filter: Option<&str>) -> anyhow::Result<bool> {
    let setup = setup::setup()?;
    let chosen: Vec<_> = CHECKS.iter().filter(|(name, _)| filter.is_none_or(|part| name.contains(part))).collect();
    ensure!(!chosen.is_empty(), "no check has such a name; there are: {}", names(CHECKS.iter()));
    let mut failed = Vec::new();
    for check in &chosen {
        let (name, run) = check;
        let started = Instant::now();
        let outcome = run(&setup);
        let seconds = started.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("check: {name}: ok ({seconds:.1} s)"),
            Err(error) => {
                println!("check: {name}: FAILED ({seconds:.1} s)\n{error:#}");
                failed.push(*check);
            }
        }
    }
    match failed.as_slice() {
        [] => println!("check: {} checks ok", chosen.len()),
        [..] => println!("check: {} of {} failed: {}", failed.len(), chosen.len(), names(failed.iter().copied())),
    }
    Ok(failed.is_empty())
}

fn names<'a>(checks: impl Iterator<Item = &'a Check>) -> String {
    checks.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

type Check = (&'static str, fn(&Setup) -> anyhow::Result<()>);

const CHECKS: &[Check] = &[
    ("format", |_| shell::run(&mut shell::cargo(["fmt", "--all", "--check"]))),
    ("file sizes", |_| tidy::file_sizes()),
    ("unfinished code", |_| tidy::unfinished_code()),
    ("machine paths", |_| tidy::machine_paths()),
    ("lock files", |_| tidy::lock_files()),
    ("documents", |_| documents::name_what_exists()),
    ("README code", |_| documents::readme_shows_tested_code()),
    ("dependency arrows", |_| arrows::dependency_arrows()),
    ("invariants", |_| invariants::invariants()),
    ("licences", |_| licences::licences()),
    ("TypeScript types", typescript),
    ("clippy", |_| {
        shell::run(&mut shell::cargo(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
    }),
    ("rustdoc", |_| {
        shell::run(
            shell::cargo(["doc", "--workspace", "--no-deps", "--locked", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"),
        )
    }),
    ("clippy for wasm32", clippy_wasm),
];

/// Lints what ships as wasm with the lints of wasm's own code paths, its tests too.
fn clippy_wasm(setup: &Setup) -> anyhow::Result<()> {
    let tools = setup.wasm.as_ref().map_err(setup::Missing::error)?;
    let mut cargo = tools.cargo();
    cargo.args(["clippy", "--locked", "--target", "wasm32-unknown-unknown", "--lib", "--tests"]);
    for package in ["cells-wasm", "wasm-tests"] {
        cargo.args(["--package", package]);
    }
    shell::run(cargo.args(["--", "-D", "warnings"]))?;
    let mut cargo = tools.cargo();
    cargo.args(["clippy", "--locked", "--target", "wasm32-unknown-unknown", "--lib"]);
    for package in ["cells-protocol", "cells-machines", "cells-driver"] {
        cargo.args(["--package", package]);
    }
    shell::run(cargo.args(["--", "-D", "warnings"]))
}

/// The types of the npm package, with everything they refer to. How consumers see them is tested on the packed file.
fn typescript(setup: &Setup) -> anyhow::Result<()> {
    let npm = setup.npm.as_ref().map_err(setup::Missing::error)?;
    shell::run(npm.bin("tsc").arg("--project").arg(repo::root().join("pkg/tsconfig.json")))
}
