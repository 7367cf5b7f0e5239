//! `cargo xtask setup`: what a fresh machine lacks. Every step looks first, acts only when it must, and prints one line.

mod apt;
mod browser;
mod npm_packages;
mod sandbox;
mod wasm;

use std::{
    fmt,
    io::{Write as _, stdout},
};

use anyhow::Context as _;

use crate::shell;

pub(crate) use browser::Browser;
pub(crate) use npm_packages::NpmPackages;
pub(crate) use wasm::{WasmTools, wasm_dir};

/// What the machine has now.
pub(crate) struct Setup {
    /// Builds and tests of wasm32.
    pub(crate) wasm: Result<WasmTools, Missing>,
    /// Everything that runs in Node.
    pub(crate) npm: Result<NpmPackages, Missing>,
    /// Everything that runs in Chromium.
    pub(crate) browser: Result<Browser, Missing>,
    /// Processes in a sandbox.
    pub(crate) sandbox: Result<(), Missing>,
}

/// One line: what is missing, and how to get it.
#[derive(Debug, Clone)]
pub(crate) struct Missing(String);

impl Missing {
    fn new(what: impl fmt::Display, how: impl fmt::Display) -> Missing {
        Missing(format!("{what} is missing: {how}"))
    }

    /// As the error of a command that cannot do without.
    pub(crate) fn error(&self) -> anyhow::Error {
        anyhow::anyhow!("{self}")
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Runs every step.
///
/// # Errors
/// Only when the machine itself fails, such as a full disk. What cannot be had is in the result.
pub(crate) fn setup() -> anyhow::Result<Setup> {
    step("C compiler (SQLite and TLS are built from C)", c_compiler)?.ok();
    let sandbox = step("bubblewrap (the sandbox of processes)", sandbox::bubblewrap)?;
    let toolchain = step("wasm32 std (the npm package is Rust compiled to wasm)", wasm::toolchain)?;
    let bindgen = match &toolchain {
        Ok(_) => step("wasm-bindgen (makes the JavaScript side of the wasm)", wasm::bindgen)?,
        Err(missing) => Err(missing.clone()),
    };
    let npm = step("npm packages (tests, bundlers and types of the npm package)", npm_packages::packages)?;
    let browser = step("Chromium (tests in a browser)", browser::browser)?;
    let wasm = toolchain.and_then(|toolchain| bindgen.map(|tools| WasmTools::new(toolchain, tools)));
    Ok(Setup { wasm, npm, browser, sandbox })
}

/// What a step found or did, for its line.
struct Had<T> {
    value: T,
    note: String,
}

/// Prints what is looked for and why, then how it ended.
fn step<T>(
    what: &str,
    run: impl FnOnce() -> anyhow::Result<Result<Had<T>, Missing>>,
) -> anyhow::Result<Result<T, Missing>> {
    print!("setup: {what}: ");
    stdout().flush().context("cannot write to the terminal")?;
    Ok(match run().inspect_err(|_| println!("failed"))? {
        Ok(Had { value, note }) => {
            println!("{note}");
            Ok(value)
        }
        Err(missing) => {
            println!("{missing}");
            Err(missing)
        }
    })
}

fn c_compiler() -> anyhow::Result<Result<Had<()>, Missing>> {
    Ok(match ["cc", "gcc", "clang"].into_iter().find(|name| shell::find(name).is_some()) {
        Some(name) => Ok(Had { value: (), note: format!("{name}, found") }),
        None => Err(Missing::new("a C compiler", "install gcc or clang, on Debian `apt-get install gcc libc6-dev`")),
    })
}
