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
        copy_directory(&repo::root().join("node-tests").join(part), &app.join(part))?;
    }
    fs::write(app.join("package.json"), "{\"private\": true, \"type\": \"module\"}\n")?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]).arg(package).current_dir(&app);
    shell::run(&mut npm)?;
    Ok(app)
}

/// Copies a directory with all that is in it.
fn copy_directory(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_directory(&from, &to)?;
        } else {
            fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_of_demo_and_bench_are_copied_with_their_directories() {
        let folder = tempfile::tempdir().unwrap();
        for part in ["demo", "bench", "support"] {
            let (from, to) = (repo::root().join("node-tests").join(part), folder.path().join(part));
            copy_directory(&from, &to).unwrap();
            let names = |folder: &Path| {
                let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
                names.sort();
                names
            };
            assert_eq!(names(&to), names(&from), "{part}");
        }
        assert!(folder.path().join("support/fault-runs/runs.js").is_file());
    }
}
