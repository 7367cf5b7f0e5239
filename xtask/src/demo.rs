//! `cargo xtask demo`: the driver's main job against a local node, natively and in Node.

use std::{
    env, fs,
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    process::{self, Command},
};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::{
    app, npm, repo,
    setup::{self, NpmPackages},
    shell,
};

/// Runs every step in both hosts, writes `target/demo/report.json`, and prints `demo ok` when all passed. True then.
pub(crate) fn demo() -> anyhow::Result<bool> {
    let setup = setup::setup()?;
    let packages = setup.npm.as_ref().map_err(setup::Missing::error)?;
    let programs = Programs::build()?;
    let package = npm::npm(&setup)?;
    let folder = repo::output("demo")?;
    fs::remove_dir_all(&folder).context("cannot remove what the demo before left")?;

    let app = app::install(&folder, &package, "demo")?;

    let mut steps = Vec::new();
    for host in HOSTS {
        let scratch = Scratch::make()?;
        let report = folder.join(format!("{host}.json"));
        println!();
        let mut command = match host {
            "native" => programs.native(&scratch.folder, &report),
            _ => programs.node(packages, &app, &scratch.folder, &report),
        };
        // Its own exit status says no more than its report.
        shell::lines(&mut command, |line| println!("{line}"))?;
        steps.extend(reported(host, &report));
    }

    let report = json!({ "steps": steps });
    fs::write(folder.join("report.json"), format!("{report:#}\n")).context("cannot write target/demo/report.json")?;
    println!("\nreport: target/demo/report.json");
    let failed: Vec<&Value> = steps.iter().filter(|step| step["ok"] != true).collect();
    for step in &failed {
        println!("failed: {} ({}): {}", step["name"], step["host"], step["detail"]);
    }
    println!("{}", if failed.is_empty() { "demo ok" } else { "demo failed" });
    Ok(failed.is_empty())
}

/// What cargo built.
struct Programs {
    folder: PathBuf,
}

impl Programs {
    fn build() -> anyhow::Result<Programs> {
        shell::run(&mut shell::cargo([
            "build",
            "--locked",
            "--package=cells-cli",
            "--package=cells-testkit",
            "--package=cells-native",
            "--bins",
            "--example=demo",
        ]))?;
        Ok(Programs { folder: repo::build_dir().join("debug") })
    }

    fn native(&self, folder: &Path, report: &Path) -> Command {
        let mut demo = Command::new(self.folder.join("examples/demo"));
        demo.arg("run").arg(self.folder.join("cells")).args([repo::root(), folder, report]);
        demo
    }

    fn node(&self, packages: &NpmPackages, app: &Path, folder: &Path, report: &Path) -> Command {
        let options = json!({
            "cells": self.folder.join("cells"),
            "faultProxy": self.folder.join("cells-fault-proxy"),
            "demo": self.folder.join("examples/demo"),
            "repository": repo::root(),
            "folder": folder,
            "report": report,
        });
        let mut node = packages.node();
        node.current_dir(app).arg("demo/main.js").arg(options.to_string());
        node
    }
}

/// A folder outside of the repository, because a node shares no file under two names. Removed when it is dropped.
struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// Makes an export with 1,200 entries and a file of 64 MiB, and leaves room for the state of a node.
    fn make() -> anyhow::Result<Scratch> {
        let scratch = Scratch { folder: env::temp_dir().join(format!("cells-demo-{}", process::id())) };
        let export = scratch.folder.join("scratch");
        let entries = export.join("entries");
        fs::create_dir_all(&entries).with_context(|| format!("cannot create {}", entries.display()))?;
        for number in 0..1_200 {
            fs::write(entries.join(format!("entry-{number:04}.txt")), format!("This is entry {number}.\n"))?;
        }
        let mut large = BufWriter::new(fs::File::create(export.join("large.bin"))?);
        let mut word: u64 = 0x9e37_79b9_7f4a_7c15;
        for _ in 0..64 * 1024 * 1024 / size_of::<u64>() {
            word ^= word << 13; // xorshift: any bytes that do not repeat
            word ^= word >> 7;
            word ^= word << 17;
            large.write_all(&word.to_le_bytes())?;
        }
        large.flush().context("cannot write the large file of the scratch export")?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies where the system cleans up.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// One row for each step, also for those that a host did not come to.
fn reported(host: &str, report: &Path) -> Vec<Value> {
    let rows = fs::read(report).ok().and_then(|bytes| serde_json::from_slice::<Vec<Value>>(&bytes).ok());
    let rows = rows.unwrap_or_default();
    let of = |name: &str| rows.iter().find(|row| row["name"] == name).cloned();
    let missing = |name: &str| json!({ "name": name, "host": host, "ok": false, "detail": "did not run" });
    STEPS.iter().map(|name| of(name).unwrap_or_else(|| missing(name))).collect()
}

const HOSTS: [&str; 2] = ["native", "node"];
const STEPS: [&str; 11] = [
    "discover",
    "stat-batch",
    "list-pages",
    "read-range",
    "read-verify",
    "conversation",
    "approval",
    "command-output",
    "lost-reply",
    "restart",
    "bad-credential",
];
