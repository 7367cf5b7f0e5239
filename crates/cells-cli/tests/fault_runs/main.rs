//! Fault runs of file, SeqFile and process mutations: one mutation, one fault, drawn by a seed.
//!
//! Checked in each run: the planned fault took effect; the node has no effect or one, and a file exactly its old or its
//! new content; the reported outcome is what happened, or `unknown`; when the faults have stopped, one question turns each
//! `unknown` whose receipt the node can answer into what happened; without a fault nothing is ever `unknown`.
//!
//! | variable | |
//! |---|---|
//! | `CELLS_FAULT_SEED` | only this seed: repeats a run that failed |
//! | `CELLS_NIGHTLY` | `1`: 100,100 runs, in place of 2,100 |

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at what cannot be")]

mod judge;
mod killed;
mod network;
mod scene;

use std::{
    collections::VecDeque,
    env,
    io::Write as _,
    sync::{Arc, Mutex},
    time::Instant,
};

use cells_testkit::fault_runs::{FaultRun, FileMutation, Tally};
use futures::future::join_all;

/// A run with its mutation.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) mutation: FileMutation,
    pub(crate) run: FaultRun,
}

/// What a run that passed is counted as.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passed {
    /// The outcome was reported as unknown.
    pub(crate) unknown: bool,
    /// It still was after the question.
    pub(crate) open: bool,
}

/// Runs that wait to be taken by a lane.
#[derive(Clone)]
pub(crate) struct Queue(Arc<Mutex<VecDeque<Planned>>>);

impl Queue {
    fn new(runs: Vec<Planned>) -> Queue {
        Queue(Arc::new(Mutex::new(runs.into())))
    }

    pub(crate) fn take(&self) -> Option<Planned> {
        self.0.lock().unwrap().pop_front()
    }
}

/// Everything that came of the runs.
#[derive(Clone, Default)]
pub(crate) struct Report(Arc<Mutex<(Tally, Vec<String>)>>);

impl Report {
    pub(crate) fn add(&self, planned: &Planned, end: Result<Passed, String>) {
        let mut report = self.0.lock().unwrap();
        match end {
            Ok(Passed { unknown, open }) => report.0.add(&planned.run, unknown, open),
            Err(why) => {
                let seed = planned.run.seed;
                report.1.push(format!(
                    "{}: {why}\n    CELLS_FAULT_SEED={seed} cargo test --package cells-cli --test fault_runs",
                    planned.run
                ));
            }
        }
    }
}

impl Report {
    /// Shows the table, and fails with the lines that repeat what failed.
    fn finish(&self, node: &str, started: Instant) -> Tally {
        let report = self.0.lock().unwrap();
        let (tally, failures) = &*report;
        let seconds = started.elapsed().as_secs();
        // Past the test harness, which shows nothing of a test that passes.
        let _ = writeln!(std::io::stderr(), "\n{tally}{} fault runs on {node} in {seconds} s", tally.runs());
        let first = failures[..failures.len().min(SHOWN)].join("\n");
        assert!(failures.is_empty(), "{} runs failed:\n{first}", failures.len());
        tally.clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_reported_is_what_happened_or_unknown() {
    let started = Instant::now();
    let (network, killed): (Vec<Planned>, Vec<Planned>) =
        seeds().map(planned).partition(|planned| planned.run.fault.kill().is_none());
    let report = Report::default();
    for some in network.chunks(RUNS_OF_ONE_NODE) {
        network::run(some.to_vec(), &report).await;
    }
    let queue = Queue::new(killed);
    join_all((0..KILLED_LANES).map(|_| killed::lane(queue.clone(), report.clone()))).await;
    let tally = report.finish("the local node", started);
    if env::var_os(SEED).is_none() {
        let (cells, fewest) = tally.cells();
        assert!(tally.runs() >= 2_000 && cells == 70 && fewest >= 10, "{} runs in {cells} cells", tally.runs());
    }
}

/// The older node is killed by nobody: it runs in this process, and its receipts would be gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_reported_of_the_old_node_is_what_happened_or_unknown() {
    let started = Instant::now();
    let runs = seeds().take(OLD_NODE_RUNS).map(planned).filter(|planned| planned.run.fault.kill().is_none());
    let report = Report::default();
    network::run_old(runs.collect(), &report).await;
    report.finish("the old node", started);
}

fn planned(seed: u64) -> Planned {
    let (mutation, run) = FileMutation::of_seed(seed);
    Planned { mutation, run }
}

fn seeds() -> std::ops::Range<u64> {
    let runs = if env::var("CELLS_NIGHTLY").is_ok_and(|value| value == "1") { 100_100 } else { 2_100 };
    match env::var(SEED) {
        Ok(seed) => {
            let seed: u64 = seed.parse().expect("CELLS_FAULT_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..runs,
    }
}

const SEED: &str = "CELLS_FAULT_SEED";
const RUNS_OF_ONE_NODE: usize = 490;
const OLD_NODE_RUNS: usize = 700;
const KILLED_LANES: usize = 4;
const SHOWN: usize = 20;
