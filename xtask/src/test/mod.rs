//! `cargo xtask test`: every test, one sum.

mod output;
mod report;

use serde_json::json;

use crate::{
    app, npm, repo,
    setup::{self, Setup},
    shell,
};

use report::Report;

/// Runs every suite, also after a failure. True when no test failed.
pub(crate) fn test() -> anyhow::Result<bool> {
    let mut report = Report::default();
    let setup = report.timed("setup", setup::setup)?;
    native(&mut report)?;
    node(&mut report, &setup)?;
    wasm(&mut report, &setup)?;
    Ok(report.finish())
}

fn native(report: &mut Report) -> anyhow::Result<()> {
    // Tests and examples share their features with the programs that other suites start, so nothing is built twice.
    let programs = ["build", "--workspace", "--locked", "--bins", "--examples"];
    let tests = ["test", "--workspace", "--locked", "--no-run"];
    if report.suite("native build", &mut shell::cargo(tests))?
        && report.suite("native programs", &mut shell::cargo(programs))?
    {
        report.suite("native", &mut shell::cargo(["test", "--workspace", "--locked", "--no-fail-fast"]))?;
    }
    Ok(())
}

/// The packed npm package in Node, in bundlers and in Chromium, and what README.md shows.
fn node(report: &mut Report, setup: &Setup) -> anyhow::Result<()> {
    let packages = match (&setup.wasm, &setup.npm) {
        (Ok(_), Ok(packages)) => packages,
        (Err(missing), _) | (_, Err(missing)) => {
            report.skip("npm package", missing);
            report.skip("README", missing);
            return Ok(());
        }
    };
    let Some(package) = report.required("npm build", || npm::npm(setup)) else { return Ok(()) };
    let programs = repo::build_dir().join("debug");
    let chromium = setup.browser.as_ref().ok().map(|browser| &browser.chromium);
    let no_chromium = setup.browser.as_ref().err().map(ToString::to_string);

    let test = ["--test", "--test-reporter=spec"];
    let options = json!({
        "programs": programs, "package": package, "chromium": chromium, "noChromium": no_chromium,
    });
    let mut command = packages.node();
    report.suite("npm package", command.args(test).arg("tests/").env("CELLS_TESTS", options.to_string()))?;

    let Some(app) = report.required("README build", || app::install(&repo::output("readme")?, &package, "examples"))
    else {
        return Ok(());
    };
    let options = json!({ "programs": programs, "app": app, "chromium": chromium, "noChromium": no_chromium });
    let mut command = packages.node();
    let file = "examples/readme.test.js";
    report.suite("README", command.args(test).arg(file).env("CELLS_README", options.to_string()))?;
    Ok(())
}

/// The shared cases under wasm-bindgen-test, in Node and in Chromium.
fn wasm(report: &mut Report, setup: &Setup) -> anyhow::Result<()> {
    let tools = match &setup.wasm {
        Ok(tools) => tools,
        Err(missing) => {
            report.skip("wasm tests in Node", missing);
            report.skip("wasm tests in Chromium", missing);
            return Ok(());
        }
    };
    let arguments = ["test", "--locked", "--package", "wasm-tests", "--target", "wasm32-unknown-unknown", "--tests"];
    if !report.suite("wasm build", tools.cargo().args(arguments).arg("--no-run"))? {
        return Ok(());
    }
    match &setup.npm {
        Ok(_) => report.suite("wasm in Node", tools.cargo().args(arguments)).map(drop)?,
        Err(missing) => report.skip("wasm tests in Node", missing),
    }
    match &setup.browser {
        Ok(browser) => {
            let mut cargo = tools.cargo();
            report.suite("wasm in Chromium", cargo.args(arguments).envs(browser.environment())).map(drop)?;
        }
        Err(missing) => report.skip("wasm tests in Chromium", missing),
    }
    Ok(())
}
