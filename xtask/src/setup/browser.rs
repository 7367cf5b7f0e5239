//! A Chromium and its chromedriver.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::Context as _;
use serde_json::json;

use super::{Had, Missing};
use crate::{repo, shell};

/// A browser that tests can drive.
#[derive(Debug, Clone)]
pub(crate) struct Browser {
    /// The browser.
    pub(crate) chromium: PathBuf,
    /// The program that drives it.
    pub(crate) chromedriver: PathBuf,
    /// Its settings, for wasm-bindgen-test-runner.
    pub(crate) webdriver_json: PathBuf,
}

impl Browser {
    /// The variables by which wasm-bindgen-test-runner takes this browser.
    pub(crate) fn environment(&self) -> [(&'static str, PathBuf); 3] {
        [
            ("WASM_BINDGEN_USE_BROWSER", PathBuf::from("1")),
            ("CHROMEDRIVER", self.chromedriver.clone()),
            ("WASM_BINDGEN_TEST_WEBDRIVER_JSON", self.webdriver_json.clone()),
        ]
    }
}

pub(super) fn browser() -> anyhow::Result<Result<Had<Browser>, Missing>> {
    let mut how = "found";
    let mut programs = find();
    if programs.is_none() && apt_get_install() {
        how = "installed with apt-get";
        programs = find();
    }
    let Some((chromium, chromedriver)) = programs else {
        return Ok(Err(Missing::new(
            "Chromium with chromedriver",
            "install both, on Debian `apt-get install chromium chromium-driver`",
        )));
    };
    let note = format!("{}, {how}", chromium.display());
    let webdriver_json = settings(&chromium)?;
    Ok(Ok(Had { value: Browser { chromium, chromedriver, webdriver_json }, note }))
}

fn find() -> Option<(PathBuf, PathBuf)> {
    let chromium =
        ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"].into_iter().find_map(shell::find)?;
    Some((chromium, shell::find("chromedriver")?))
}

/// Whether the packages could be installed: on Debian, as root or with a sudo that asks nothing.
fn apt_get_install() -> bool {
    if shell::find("apt-get").is_none() {
        return false;
    }
    let is_root = shell::capture(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let run = |arguments: &[&str]| {
        let mut command = if is_root { Command::new("apt-get") } else { Command::new("sudo") };
        if !is_root {
            command.args(["-n", "apt-get"]);
        }
        command
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    run(&["update", "-qq"]) && run(&["install", "-y", "-qq", "--no-install-recommends", "chromium", "chromium-driver"])
}

/// Headless, and off the network but for the pages under test.
fn settings(chromium: &PathBuf) -> anyhow::Result<PathBuf> {
    let path = repo::output("setup")?.join("webdriver.json");
    let settings = json!({ "goog:chromeOptions": {
        "binary": chromium,
        "args": ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    } });
    fs::write(&path, format!("{settings:#}\n")).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
