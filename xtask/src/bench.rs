//! `cargo xtask bench`: the driver against its peers, in the same run on the same node.

use std::{
    fs,
    io::{BufWriter, Write as _},
    path::Path,
    process::Command,
};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::{
    app, npm, repo,
    setup::{self, NpmPackages},
    shell,
};

/// Measures everything, prints a table and writes `target/bench/report.json`. True also when an aim was missed: the
/// report says so.
pub(crate) fn bench() -> anyhow::Result<bool> {
    let setup = setup::setup()?;
    let packages = setup.npm.as_ref().map_err(setup::Missing::error)?;
    shell::run(&mut shell::cargo([
        "build",
        "--locked",
        "--release",
        "--package=cells-cli",
        "--package=cells-native",
        "--bins",
        "--example=bench",
    ]))?;
    let package = npm::npm(&setup)?;
    let folder = repo::output("bench")?;
    fs::remove_dir_all(&folder).context("cannot remove what the bench before left")?;
    make_export(&folder.join("export"))?;
    let app = app::install(&folder, &package, "bench")?;
    link_peers(&app)?;

    let programs = repo::build_dir().join("release");
    let cells = programs.join("cells");
    let (native, node) = (folder.join("native.json"), folder.join("node.json"));
    shell::run(Command::new(programs.join("examples/bench")).args([&cells, &folder, &native]))?;
    let options = json!({ "cells": cells, "folder": folder, "report": node });
    shell::run(packages.node().current_dir(&app).arg("bench/main.js").arg(options.to_string()))?;
    fs::remove_dir_all(folder.join("export")).context("cannot remove the export of the bench")?;

    let mut rows = Vec::new();
    for report in [native, node] {
        let measured: Vec<Value> = serde_json::from_slice(&fs::read(report)?)?;
        rows.extend(measured);
    }
    rows.push(package_size()?);
    rows.push(import_time(packages, &app)?);
    let rows: Vec<Value> = rows.iter().map(judge).collect();
    print_table(&rows);
    let report = format!("{:#}\n", Value::from(rows));
    fs::write(folder.join("report.json"), report).context("cannot write target/bench/report.json")?;
    println!("report: target/bench/report.json");
    Ok(true)
}

/// 2,000 small files, one of 256 MiB, and directories of 1,000 and of 100,000 empty files.
fn make_export(folder: &Path) -> anyhow::Result<()> {
    for entries in [1_000, 100_000] {
        let many = folder.join(format!("many-{entries}"));
        fs::create_dir_all(&many).context("cannot create the export of the bench")?;
        for number in 0..entries {
            fs::write(many.join(format!("entry-{number:06}")), "")?;
        }
    }
    let tree = folder.join("tree");
    fs::create_dir_all(&tree).context("cannot create the export of the bench")?;
    for number in 0..2_000 {
        fs::write(tree.join(format!("file-{number:04}.txt")), format!("{number}\n"))?;
    }
    let mut large = BufWriter::new(fs::File::create(folder.join("large.bin"))?);
    let block: Vec<u8> = (0..1_048_576_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    for _ in 0..256 {
        large.write_all(&block)?;
    }
    large.flush().context("cannot write the large file of the bench")
}

/// The peers are packages of node-tests; Node takes their own dependencies from there.
fn link_peers(app: &Path) -> anyhow::Result<()> {
    for peer in ["dataloader", "@modelcontextprotocol"] {
        let installed = repo::root().join("node-tests/node_modules").join(peer);
        std::os::unix::fs::symlink(installed, app.join("node_modules").join(peer)).context("cannot link a peer")?;
    }
    Ok(())
}

/// Everything a browser loads, as the package was just packed.
fn package_size() -> anyhow::Result<Value> {
    let size: Value = serde_json::from_slice(&fs::read(repo::output("npm")?.join("size.json"))?)?;
    let brotli = size["total"]["brotli"].as_f64().context("target/npm/size.json has no total")?;
    Ok(json!({ "name": "npm_brotli_kib", "value": brotli / 1024.0, "unit": "KiB", "aim": 120 }))
}

/// Milliseconds until the package can be used, in a fresh process, against the official MCP client's.
fn import_time(packages: &NpmPackages, app: &Path) -> anyhow::Result<Value> {
    let once = |package: &str| -> anyhow::Result<f64> {
        let program = format!(
            "const started = performance.now(); await import('{package}'); console.log(performance.now() - started);"
        );
        let mut node = packages.node();
        node.current_dir(app).args(["--input-type=module", "--eval", &program]);
        shell::capture(&mut node)?.trim().parse().context("node printed no time")
    };
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..IMPORT_ROUNDS {
        ours.push(once("@itookit/cells-driver")?);
        peers.push(once("@modelcontextprotocol/client")?);
    }
    Ok(json!({
        "name": "node_import_ms_vs_sdk", "value": median(ours), "unit": "ms", "peer": "@modelcontextprotocol/client",
        "peer_value": median(peers), "aim": 0.5,
    }))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A row with every member of the report. The aim is one of the ratio where there is a peer, else of the value.
fn judge(row: &Value) -> Value {
    let rounded = |number: f64| (number * 1_000.0).round() / 1_000.0;
    let value = row["value"].as_f64().unwrap_or(f64::NAN);
    let peer_value = row["peer_value"].as_f64();
    let ratio = peer_value.map(|peer| value / peer);
    let ok = row["aim"].as_f64().map(|aim| ratio.unwrap_or(value) <= aim);
    let mut judged = json!({
        "name": row["name"], "value": rounded(value), "unit": row["unit"], "peer": row["peer"],
        "peer_value": peer_value.map(rounded), "ratio": ratio.map(rounded), "aim": row["aim"], "ok": ok,
    });
    if let Some(note) = row.get("note") {
        judged["note"] = note.clone();
    }
    judged
}

fn print_table(rows: &[Value]) {
    let number = |value: &Value| value.as_f64().map_or("–".to_owned(), |number| format!("{number:.2}"));
    println!("\n{:<32} {:>10} {:>10} {:>7} {:>7}  unit, peer", "name", "value", "peer", "ratio", "aim");
    for row in rows {
        let mark = match row["ok"].as_bool() {
            Some(true) => "ok",
            Some(false) => "MISSED",
            None => "",
        };
        println!(
            "{:<32} {:>10} {:>10} {:>7} {:>7}  {}{} {mark}",
            row["name"].as_str().unwrap_or_default(),
            number(&row["value"]),
            number(&row["peer_value"]),
            number(&row["ratio"]),
            number(&row["aim"]),
            row["unit"].as_str().unwrap_or_default(),
            row["peer"].as_str().map(|peer| format!(", {peer}")).unwrap_or_default(),
        );
        if let Some(note) = row["note"].as_str() {
            println!("    {note}");
        }
    }
}

const IMPORT_ROUNDS: usize = 11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_aim_is_of_the_ratio_where_there_is_a_peer() {
        let with_peer =
            judge(&json!({ "name": "a", "value": 3, "unit": "ms", "peer": "p", "peer_value": 4, "aim": 0.7 }));
        assert_eq!((&with_peer["ratio"], &with_peer["ok"]), (&json!(0.75), &json!(false)));
        let alone = judge(&json!({ "name": "b", "value": 8, "unit": "requests", "aim": 8 }));
        assert_eq!((&alone["ratio"], &alone["peer"], &alone["ok"]), (&Value::Null, &Value::Null, &json!(true)));
        assert_eq!(judge(&json!({ "name": "c", "value": 1, "unit": "ms" }))["ok"], Value::Null);
    }
}
