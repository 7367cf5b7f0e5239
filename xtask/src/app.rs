//! Empty projects that use the npm package as anybody would: installed from the packed file.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;

use crate::{repo, shell};

/// Makes `folder/app`: the packed package, and copies of `node-tests/<scripts>` and `node-tests/support`.
pub(crate) fn install(folder: &Path, package: &Path, scripts: &str) -> anyhow::Result<PathBuf> {
    let app = folder.join("app");
    if app.exists() {
        fs::remove_dir_all(&app).with_context(|| format!("cannot remove {}", app.display()))?;
    }
    for part in [scripts, "support"] {
        let (from, to) = (repo::root().join("node-tests").join(part), app.join(part));
        fs::create_dir_all(&to).with_context(|| format!("cannot create {}", to.display()))?;
        for file in fs::read_dir(&from).with_context(|| format!("cannot read {}", from.display()))? {
            let file = file?;
            fs::copy(file.path(), to.join(file.file_name()))?;
        }
    }
    fs::write(app.join("package.json"), "{\"private\": true, \"type\": \"module\"}\n")?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]).arg(package).current_dir(&app);
    shell::run(&mut npm)?;
    Ok(app)
}
