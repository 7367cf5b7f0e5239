//! `cargo xtask npm`: builds and packs the npm package.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};

use crate::{
    repo,
    setup::{self, NpmPackages, Setup, WasmTools},
    shell,
};

/// Builds the package as a release and packs it to `target/npm/*.tgz`, with `target/npm/size.json` beside it. Gives the
/// path of the packed file.
pub(crate) fn npm(setup: &Setup) -> anyhow::Result<PathBuf> {
    let wasm = setup.wasm.as_ref().map_err(setup::Missing::error)?;
    let packages = setup.npm.as_ref().map_err(setup::Missing::error)?;
    let glue = bind(wasm, &compile(wasm)?)?;
    refuse_local_paths(&glue.join("cells_driver_bg.wasm"))?;
    pack(packages, &glue)
}

fn compile(tools: &WasmTools) -> anyhow::Result<PathBuf> {
    let root = repo::root().display();
    let cargo_home = cargo_home()?;
    let mut cargo = tools.cargo();
    shell::run(
        cargo
            .args(["build", "--locked", "--package", "cells-wasm", "--profile", "npm"])
            .args(["--target", "wasm32-unknown-unknown"])
            .env(
                "CARGO_ENCODED_RUSTFLAGS",
                format!("--remap-path-prefix={}=/cargo\x1f--remap-path-prefix={root}=/src", cargo_home.display()),
            ),
    )?;
    Ok(setup::wasm_dir().join("wasm32-unknown-unknown/npm/cells_wasm.wasm"))
}

/// Makes the JavaScript side. One set serves all: `pkg/build.mjs` makes the CommonJS one from it.
fn bind(tools: &WasmTools, wasm: &Path) -> anyhow::Result<PathBuf> {
    let glue = setup::wasm_dir().join("npm-glue");
    shell::run(
        std::process::Command::new(tools.wasm_bindgen())
            .args(["--target", "web", "--omit-default-module-path", "--no-typescript"])
            .args(["--remove-name-section", "--remove-producers-section", "--out-name", "cells_driver", "--out-dir"])
            .args([&glue, wasm]),
    )?;
    Ok(glue)
}

fn pack(packages: &NpmPackages, glue: &Path) -> anyhow::Result<PathBuf> {
    let out = repo::output("npm")?;
    let package = out.join("package");
    let mut node = packages.node();
    shell::run(node.arg(repo::root().join("pkg/build.mjs")).args([glue, &package]).arg(env!("CARGO_PKG_VERSION")))?;
    for old in tarballs(&out)? {
        fs::remove_file(&old).with_context(|| format!("cannot remove {}", old.display()))?;
    }
    let mut npm = std::process::Command::new("npm");
    shell::run(npm.args(["pack", "--silent", "--pack-destination"]).arg(&out).current_dir(&package))?;
    let mut packed = tarballs(&out)?;
    ensure!(packed.len() == 1, "npm pack left {} files in {}", packed.len(), out.display());
    packed.pop().context("npm pack left no file")
}

fn tarballs(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "tgz"));
    Ok(paths)
}

/// What ships must not tell where it was built.
fn refuse_local_paths(wasm: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(wasm).with_context(|| format!("cannot read {}", wasm.display()))?;
    for folder in [repo::root().to_path_buf(), cargo_home()?] {
        let text = folder.display().to_string();
        if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
            bail!("{} contains the path {text}", wasm.display());
        }
    }
    Ok(())
}

fn cargo_home() -> anyhow::Result<PathBuf> {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home).context("neither CARGO_HOME nor HOME is set")
}
