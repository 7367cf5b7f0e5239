//! The main job of the driver, done and checked step by step against a local node; `cargo xtask demo` runs it.
//!
//! ```text
//! demo run CELLS REPOSITORY FOLDER REPORT    CELLS: the program; FOLDER: has `scratch`, gets `state`
//! demo receipts STATE REQUEST_ID             prints how many receipts a node has, of all and of one request
//! ```

mod agent;
mod files;
mod recovery;
mod stage;

use std::{fs, future::Future, path::Path, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use stage::Stage;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["run", cells, repository, folder, report] => {
            run(Path::new(cells), Path::new(repository), Path::new(folder), Path::new(report)).await
        }
        ["receipts", state, request_id] => recovery::count_receipts(Path::new(state), request_id).map(|counts| {
            println!("{}", json!({ "all": counts.all, "ofRequest": counts.of_request }));
            true
        }),
        _ => Err(anyhow::anyhow!("see the first lines of this program for its arguments")),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cells: &Path, repository: &Path, folder: &Path, report: &Path) -> anyhow::Result<bool> {
    let mut stage = Stage::set(cells, repository, folder).await?;
    let mut steps = Steps::default();
    steps.run("discover", files::discover(&stage)).await;
    steps.run("stat-batch", files::stat_batch(&stage)).await;
    steps.run("list-pages", files::list_pages(&stage)).await;
    steps.run("read-range", files::read_range(&stage)).await;
    steps.run("read-verify", files::read_verify(&stage)).await;
    steps.run("conversation", agent::conversation(&stage)).await;
    steps.run("approval", agent::approval(&stage)).await;
    steps.run("command-output", agent::command_output(&stage)).await;
    steps.run("lost-reply", recovery::lost_reply(&stage)).await;
    steps.run("restart", recovery::restart(&mut stage)).await;
    steps.run("bad-credential", files::bad_credential(&stage)).await;
    fs::write(report, serde_json::to_vec(&steps.done)?).context("cannot write the report")?;
    Ok(steps.done.iter().all(|step| step["ok"] == true))
}

#[derive(Default)]
struct Steps {
    done: Vec<Value>,
}

impl Steps {
    /// Runs one step; its result is what it saw.
    async fn run(&mut self, name: &str, step: impl Future<Output = anyhow::Result<String>>) {
        let seen = match tokio::time::timeout(STEP_MAX, step).await {
            Ok(seen) => seen,
            Err(_) => Err(anyhow::anyhow!("not done after {} s", STEP_MAX.as_secs())),
        };
        let (ok, detail) = match seen {
            Ok(detail) => (true, detail),
            Err(error) => (false, format!("{error:#}")),
        };
        println!("native  {name:<15} {}  {detail}", if ok { "ok    " } else { "FAILED" });
        self.done.push(json!({ "name": name, "host": "native", "ok": ok, "detail": detail }));
    }
}

/// Fails a step unless two values are equal.
#[expect(clippy::needless_pass_by_value, reason = "literals need no `&` at the callers")]
fn expect_equal<T: PartialEq + std::fmt::Debug>(what: &str, seen: T, expected: T) -> anyhow::Result<()> {
    if seen != expected {
        bail!("{what}: {seen:?}, expected {expected:?}");
    }
    Ok(())
}

/// Keeps a step that hangs from hanging the demo.
const STEP_MAX: Duration = Duration::from_secs(120);
