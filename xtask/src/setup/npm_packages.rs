//! Node, npm and the packages of node-tests/package-lock.json.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::Context as _;

use super::{Had, Missing};
use crate::{repo, shell};

/// Node, with the packages that tests, bundlers and type checks need.
#[derive(Debug, Clone)]
pub(crate) struct NpmPackages {
    folder: PathBuf,
}

impl NpmPackages {
    /// Node in the folder whose `node_modules` has the packages.
    pub(crate) fn node(&self) -> Command {
        let mut node = Command::new("node");
        node.current_dir(&self.folder);
        node
    }

    /// A program that one of the packages brings.
    pub(crate) fn bin(&self, name: &str) -> Command {
        let mut command = Command::new(self.folder.join("node_modules/.bin").join(name));
        command.current_dir(&self.folder);
        command
    }
}

pub(super) fn packages() -> anyhow::Result<Result<Had<NpmPackages>, Missing>> {
    let how = format!("install Node {MIN_NODE} or newer with npm");
    let version = shell::capture(Command::new("node").arg("--version")).unwrap_or_default();
    let version = version.trim();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < MIN_NODE) {
        let what = if version.is_empty() { "Node".to_owned() } else { format!("a newer Node than {version}") };
        return Ok(Err(Missing::new(what, how)));
    }
    if shell::find("npm").is_none() {
        return Ok(Err(Missing::new("npm", how)));
    }

    let folder = repo::root().join("node-tests");
    let lock = repo::read("node-tests/package-lock.json")?;
    let marker = folder.join("node_modules/.installed-lock");
    let packages = NpmPackages { folder: folder.clone() };
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == lock) {
        return Ok(Ok(Had { value: packages, note: format!("Node {version}, kept") }));
    }
    let log_path = repo::output("setup")?.join("npm.log");
    let log = fs::File::create(&log_path).with_context(|| format!("cannot write {}", log_path.display()))?;
    // No package may run programs of its own while it is installed; none that is used here needs to.
    let installed = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .context("cannot start npm")?;
    if !installed.success() {
        let how = format!("`npm ci` in node-tests failed, see {}", log_path.display());
        return Ok(Err(Missing::new("a package of node-tests/package-lock.json", how)));
    }
    fs::write(marker, lock).context("cannot write node-tests/node_modules")?;
    Ok(Ok(Had { value: packages, note: format!("Node {version}, installed from node-tests/package-lock.json") }))
}

/// The oldest Node that is supported, as in pkg/package.json.
const MIN_NODE: u32 = 20;
