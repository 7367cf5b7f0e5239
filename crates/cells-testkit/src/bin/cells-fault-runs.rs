//! `cells-fault-runs FIRST COUNT`: the fault runs of files with these seeds, one line of JSON each:
//! `{"seed":…,"mutation":…,"fault":…,"rule":…}`. The rule is one for `cells-fault-proxy`; null when the fault is none of
//! the proxy's rules: `refused` is its `POST /refuse`, and `killed-…` is somebody else's work.

fn main() -> std::process::ExitCode {
    #[cfg(not(target_family = "wasm"))]
    return native::main();
    #[cfg(target_family = "wasm")]
    std::process::ExitCode::SUCCESS
}

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::process::ExitCode;

    use cells_testkit::fault_runs::FileMutation;

    pub(super) fn main() -> ExitCode {
        let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
        let [first, count] = numbers[..] else {
            eprintln!("cells-fault-runs: give the first seed and how many runs, such as `0 70`");
            return ExitCode::from(2);
        };
        for seed in first..first.saturating_add(count) {
            let (mutation, run) = FileMutation::of_seed(seed);
            let (method, path) = mutation.request();
            println!("{}", run.line(method, path));
        }
        ExitCode::SUCCESS
    }
}
