//! A Chromium and its chromedriver.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use serde_json::json;

use super::{Had, Missing, apt};
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
    if programs.is_none() && apt::install(&["chromium", "chromium-driver"]) {
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
