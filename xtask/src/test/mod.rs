//! `cargo xtask test`: every test, one sum.

mod output;
mod report;

use crate::{
    setup::{self, Setup},
    shell,
};

use report::Report;

/// Runs every suite, also after a failure. True when no test failed.
pub(crate) fn test() -> anyhow::Result<bool> {
    let mut report = Report::default();
    let setup = report.timed("setup", setup::setup)?;
    native(&mut report)?;
    wasm(&mut report, &setup)?;
    Ok(report.finish())
}

fn native(report: &mut Report) -> anyhow::Result<()> {
    let build = ["test", "--workspace", "--locked", "--no-run"];
    if report.suite("native build", &mut shell::cargo(build))? {
        report.suite("native", &mut shell::cargo(["test", "--workspace", "--locked", "--no-fail-fast"]))?;
    }
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
