//! The toolchain that compiles to wasm32, and wasm-bindgen at the version of the crate.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Context as _;

use super::{Had, Missing};
use crate::{repo, shell};

/// Builds for wasm32 and runs what was built.
#[derive(Debug, Clone)]
pub(crate) struct WasmTools {
    toolchain: PathBuf,
    tools: PathBuf,
}

impl WasmTools {
    pub(super) fn new(toolchain: PathBuf, tools: PathBuf) -> WasmTools {
        WasmTools { toolchain, tools }
    }

    /// Cargo of the wasm toolchain, with the wasm-bindgen tools in PATH and a target folder of its own, because cargo
    /// does not see that a std was replaced.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = Command::new(self.toolchain.join("bin/cargo"));
        cargo
            .current_dir(repo::root())
            .env("RUSTUP_TOOLCHAIN", &self.toolchain)
            .env("CARGO_TARGET_DIR", wasm_dir())
            .env("PATH", self.path())
            .env("LD_LIBRARY_PATH", self.toolchain.join("lib"));
        cargo
    }

    /// The program `wasm-bindgen`.
    pub(crate) fn wasm_bindgen(&self) -> PathBuf {
        self.tools.join("wasm-bindgen")
    }

    /// PATH with this toolchain and these tools first.
    pub(crate) fn path(&self) -> std::ffi::OsString {
        let rest = env::var_os("PATH").unwrap_or_default();
        let folders = [self.toolchain.join("bin"), self.tools.clone()].into_iter().chain(env::split_paths(&rest));
        env::join_paths(folders).unwrap_or(rest)
    }
}

/// Where builds for wasm32 are.
pub(crate) fn wasm_dir() -> PathBuf {
    repo::build_dir().join("wasm")
}

pub(super) fn toolchain() -> anyhow::Result<Result<Had<PathBuf>, Missing>> {
    let log_path = repo::output("setup")?.join("wasm-toolchain.log");
    let log = fs::File::create(&log_path).with_context(|| format!("cannot write {}", log_path.display()))?;
    let output = Command::new("bash")
        .arg("scripts/wasm-toolchain.sh")
        .current_dir(repo::root())
        .stdin(Stdio::null())
        .stderr(log)
        .output()
        .context("cannot start bash")?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if !output.status.success() || !folder.join("bin").is_dir() {
        return Ok(Err(Missing::new(
            "the std of wasm32-unknown-unknown",
            format!("run `rustup target add wasm32-unknown-unknown` (what was tried: {})", log_path.display()),
        )));
    }
    forget_builds_of_another(&folder)?;
    let note = format!("in the toolchain {}", folder.display());
    Ok(Ok(Had { value: folder, note }))
}

/// Builds against another std stop with "possibly newer version of crate `core`"; remove them.
fn forget_builds_of_another(toolchain: &Path) -> anyhow::Result<()> {
    let version = shell::capture(
        Command::new(toolchain.join("bin/rustc")).arg("-vV").env("LD_LIBRARY_PATH", toolchain.join("lib")),
    )?;
    let identity = format!("{}\n{version}", toolchain.display());
    let marker = wasm_dir().join("toolchain");
    if fs::read_to_string(&marker).is_ok_and(|kept| kept == identity) {
        return Ok(());
    }
    if wasm_dir().is_dir() {
        fs::remove_dir_all(wasm_dir()).context("cannot remove the wasm builds of another toolchain")?;
    }
    fs::create_dir_all(wasm_dir())?;
    fs::write(marker, identity).context("cannot write the folder of wasm builds")
}

pub(super) fn bindgen() -> anyhow::Result<Result<Had<PathBuf>, Missing>> {
    let wanted = repo::locked_version("wasm-bindgen")?;
    let target = repo::build_dir().join("tools");
    let folder = target.join("release");
    if has_version(&folder, &wanted) {
        return Ok(Ok(Had { value: folder, note: format!("{wanted}, kept") }));
    }
    let log_path = repo::output("setup")?.join("wasm-bindgen.log");
    let log = fs::File::create(&log_path).with_context(|| format!("cannot write {}", log_path.display()))?;
    let built = shell::cargo(["build", "--release", "--locked", "--manifest-path", "tools/Cargo.toml", "--target-dir"])
        .arg(&target)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .status()
        .context("cannot start cargo")?;
    Ok(if built.success() && has_version(&folder, &wanted) {
        Ok(Had { value: folder, note: format!("{wanted}, built from tools/ as Cargo.lock wants it") })
    } else {
        Err(Missing::new(
            format!("wasm-bindgen {wanted}"),
            format!(
                "`cargo build --release --locked --manifest-path tools/Cargo.toml` made none ({built}), see {}",
                log_path.display()
            ),
        ))
    })
}

/// Whether both tools are there; an older `wasm-bindgen` refuses what the crate of another version made.
fn has_version(folder: &Path, wanted: &str) -> bool {
    folder.join("wasm-bindgen-test-runner").is_file()
        && shell::capture(Command::new(folder.join("wasm-bindgen")).arg("-V"))
            .is_ok_and(|text| text.trim() == format!("wasm-bindgen {wanted}"))
}
