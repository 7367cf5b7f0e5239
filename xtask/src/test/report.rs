//! The sum over all suites, and where the time went.

use std::{
    fmt,
    process::Command,
    time::{Duration, Instant},
};

use super::output::{Line, parse};
use crate::shell;

/// Counts of all suites that ran.
#[derive(Debug, Default)]
pub(crate) struct Report {
    passed: u64,
    failed: u64,
    failed_suites: Vec<String>,
    skipped: Vec<String>,
    /// Whether a suite that cannot run is a failure.
    all_must_run: bool,
    steps: Vec<(Duration, String)>,
}

impl Report {
    /// A report in which a suite that cannot run counts as a failed test when `all_must_run`, else as skipped.
    pub(crate) fn new(all_must_run: bool) -> Self {
        Self { all_must_run, ..Self::default() }
    }

    /// Runs a step that is no test.
    pub(crate) fn timed<T>(&mut self, name: &str, run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let started = Instant::now();
        let done = run();
        self.steps.push((started.elapsed(), name.to_owned()));
        done
    }

    /// Runs a test program, shows its output and adds its tests. False when it failed.
    pub(crate) fn suite(&mut self, name: &str, command: &mut Command) -> anyhow::Result<bool> {
        println!("\n=== {name}");
        let mut part = (Instant::now(), name.to_owned());
        let (mut failed, before) = (0, self.passed);
        let status = shell::lines(command, |line| {
            println!("{line}");
            match parse(line) {
                Some(Line::Starts(program)) => {
                    let ended = std::mem::replace(&mut part, (Instant::now(), format!("{name}: {program}")));
                    self.steps.push((ended.0.elapsed(), ended.1));
                }
                Some(Line::Sum { passed, failed: more }) => {
                    self.passed += passed;
                    failed += more;
                }
                Some(Line::Skipped { test, reason }) => self.skipped.push(format!("{name}: {test}: {reason}")),
                None => {}
            }
        })?;
        self.steps.push((part.0.elapsed(), part.1));
        if !status.success() && failed == 0 {
            println!("{name}: {status} although no test failed: did it build?");
            failed = 1;
        }
        if failed > 0 {
            self.failed += failed;
            self.failed_suites.push(format!("{name} ({failed})"));
        }
        println!("=== {name}: {} passed, {failed} failed", self.passed - before);
        Ok(failed == 0)
    }

    /// Runs a step that later suites need; when it fails, that counts as one failed test.
    pub(crate) fn required<T>(&mut self, name: &str, run: impl FnOnce() -> anyhow::Result<T>) -> Option<T> {
        println!("\n=== {name}");
        match self.timed(name, run) {
            Ok(done) => Some(done),
            Err(error) => {
                println!("=== {name}: failed: {error:#}");
                self.failed += 1;
                self.failed_suites.push(name.to_owned());
                None
            }
        }
    }

    /// A suite that cannot run here, although every machine can be set up for it.
    pub(crate) fn missing(&mut self, name: &str, reason: &impl fmt::Display) {
        if self.all_must_run {
            println!("\n=== {name}: failed: {reason}");
            self.failed += 1;
            self.failed_suites.push(format!("{name}: {reason}"));
        } else {
            self.skip(name, reason);
        }
    }

    /// A suite that some machines can never run.
    pub(crate) fn skip(&mut self, name: &str, reason: &impl fmt::Display) {
        println!("\n=== {name}: skipped: {reason}");
        self.skipped.push(format!("{name}: {reason}"));
    }

    /// Prints the ten slowest steps, what was skipped and what failed, and the sum as the last line. True when no test failed.
    pub(crate) fn finish(mut self) -> bool {
        self.steps.sort_by(|a, b| b.cmp(a));
        println!("\nslowest steps:");
        for (time, name) in self.steps.iter().take(10) {
            println!("{:8.1} s  {name}", time.as_secs_f64());
        }
        for skipped in &self.skipped {
            println!("skipped: {skipped}");
        }
        for suite in &self.failed_suites {
            println!("failed: {suite}");
        }
        println!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped.len());
        self.failed == 0
    }
}

#[cfg(test)]
mod tests {
    use super::Report;

    #[test]
    fn a_suite_that_cannot_run_fails_only_where_all_must_run() {
        for (all_must_run, expected) in [(false, true), (true, false)] {
            let mut report = Report::new(all_must_run);
            report.skip("processes in a sandbox", &"no bubblewrap");
            report.missing("wasm tests in Node", &"no wasm toolchain");
            assert_eq!(report.finish(), expected, "{all_must_run}");
        }
    }
}
