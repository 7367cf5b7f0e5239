//! Where things are.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;

use crate::shell;

/// The top of this repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Where the commands leave what others read, such as `target/demo/report.json`. Created when it is missing.
pub(crate) fn output(folder: &str) -> anyhow::Result<PathBuf> {
    let path = root().join("target").join(folder);
    fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
    Ok(path)
}

/// Where cargo builds: `CARGO_TARGET_DIR`, else `target`.
pub(crate) fn build_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// A file of the repository.
pub(crate) fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))
}

/// Every file of the repository, tracked or new, that is not ignored and not deleted; sorted.
pub(crate) fn files() -> anyhow::Result<Vec<String>> {
    let list = shell::capture(Command::new("git").current_dir(root()).args([
        // The clone may belong to somebody else than who checks it.
        "-c",
        "safe.directory=*",
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "--deduplicate",
    ]))?;
    let mut files: Vec<String> = list.lines().filter(|path| root().join(path).is_file()).map(str::to_owned).collect();
    files.sort();
    Ok(files)
}

/// The version of a package in Cargo.lock.
pub(crate) fn locked_version(package: &str) -> anyhow::Result<String> {
    let lock = read("Cargo.lock")?;
    let entry = format!("name = \"{package}\"\nversion = \"");
    lock.split_once(&entry)
        .and_then(|(_, rest)| rest.split_once('"'))
        .map(|(version, _)| version.to_owned())
        .with_context(|| format!("Cargo.lock names no package {package}"))
}
