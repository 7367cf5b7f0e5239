//! `cargo xtask test`: every test, one sum.

mod output;
mod report;

use std::path::Path;

use crate::{
    npm, repo,
    setup::{self, Setup},
    shell,
};

use report::Report;

/// Runs every suite, also after a failure. True when no test failed.
pub(crate) fn test() -> anyhow::Result<bool> {
    let mut report = Report::new(std::env::var_os(ALL_MUST_RUN).is_some());
    let setup = report.timed("setup", setup::setup)?;
    native(&mut report, &setup)?;
    node(&mut report, &setup)?;
    wasm(&mut report, &setup)?;
    Ok(report.finish())
}

/// Builds first, so that the build is a step of its own; that also gives the programs and examples that other suites
/// start.
fn native(report: &mut Report, setup: &Setup) -> anyhow::Result<()> {
    if report.suite("native build", &mut shell::cargo(["test", "--workspace", "--locked", "--no-run"]))? {
        report.suite("native", &mut shell::cargo(["test", "--workspace", "--locked", "--no-fail-fast"]))?;
    }
    // The tests of processes then use the host alone.
    if let Err(missing) = &setup.sandbox {
        report.skip("processes in a sandbox", missing);
    }
    Ok(())
}

/// The packed npm package in Node, in bundlers and in Chromium, and what README.md shows.
fn node(report: &mut Report, setup: &Setup) -> anyhow::Result<()> {
    let packages = match (&setup.wasm, &setup.npm) {
        (Ok(_), Ok(packages)) => packages,
        (Err(missing), _) | (_, Err(missing)) => {
            report.missing("npm package", missing);
            return Ok(());
        }
    };
    let Some(package) = report.required("npm build", || npm::npm(setup)) else { return Ok(()) };
    let programs = repo::build_dir().join("debug");
    let run = |report: &mut Report, name: &str, files: &[String], chromium: Option<&Path>| {
        let mut node = packages.node();
        node.args(["--test", "--test-reporter=spec"]).args(files);
        node.env("CELLS_BIN", programs.join("cells"))
            .env("CELLS_FAULT_PROXY", programs.join("cells-fault-proxy"))
            .env("CELLS_FAULT_RUNS", programs.join("cells-fault-runs"))
            .env("CELLS_OLD_NODE", programs.join("cells-old-node"))
            .env("CELLS_START", programs.join("examples/start"))
            .env("CELLS_TARBALL", &package)
            .envs(chromium.map(|path| ("CHROMIUM", path)));
        report.suite(name, &mut node).map(drop)
    };
    let tests = repo::files()?.into_iter().filter_map(|path| Some(path.strip_prefix("node-tests/")?.to_owned()));
    let (in_browser, in_node): (Vec<_>, Vec<_>) =
        tests.filter(|path| path.ends_with(".test.js")).partition(|path| path.contains("browser"));
    run(report, "npm package", &in_node, None)?;
    match &setup.browser {
        Ok(browser) => run(report, "npm package in Chromium", &in_browser, Some(&browser.chromium)),
        Err(missing) => {
            report.missing("npm package in Chromium", missing);
            Ok(())
        }
    }
}

/// The shared cases under wasm-bindgen-test, in Node and in Chromium.
fn wasm(report: &mut Report, setup: &Setup) -> anyhow::Result<()> {
    let tools = match &setup.wasm {
        Ok(tools) => tools,
        Err(missing) => {
            report.missing("wasm tests in Node", missing);
            report.missing("wasm tests in Chromium", missing);
            return Ok(());
        }
    };
    let arguments = ["test", "--locked", "--package", "wasm-tests", "--target", "wasm32-unknown-unknown", "--tests"];
    if !report.suite("wasm build", tools.cargo().args(arguments).arg("--no-run"))? {
        return Ok(());
    }
    match &setup.npm {
        Ok(_) => report.suite("wasm in Node", tools.cargo().args(arguments)).map(drop)?,
        Err(missing) => report.missing("wasm tests in Node", missing),
    }
    match &setup.browser {
        Ok(browser) => {
            let mut cargo = tools.cargo();
            report.suite("wasm in Chromium", cargo.args(arguments).envs(browser.environment())).map(drop)?;
        }
        Err(missing) => report.missing("wasm tests in Chromium", missing),
    }
    Ok(())
}

/// Set by `.ci/run`: a suite whose tools are missing is a failure, else it could stay unrun for ever without being seen.
const ALL_MUST_RUN: &str = "CELLS_TEST_ALL";
