//! `cells-conformance`: judges the node at `CELLS_URL`, as `CELLS_USER` (or nobody) with the secret `CELLS_API_KEY`,
//! below the export `CELLS_ALIAS` (or without changing anything). `cargo xtask conformance` runs it. One line a case,
//! the sum on the last line. Exit status 0: the node passed; 1: it failed a case; 2: it could not be judged.

fn main() -> std::process::ExitCode {
    #[cfg(not(target_family = "wasm"))]
    return native::main();
    #[cfg(target_family = "wasm")]
    std::process::ExitCode::SUCCESS
}

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::{env, process::ExitCode};

    use cells_testkit::conformance::{Target, run};

    #[tokio::main]
    pub(super) async fn main() -> ExitCode {
        match judge().await {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(why) => {
                eprintln!("error: {why}");
                ExitCode::from(2)
            }
        }
    }

    async fn judge() -> Result<bool, String> {
        let given = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let target = Target {
            url: given("CELLS_URL").ok_or("set CELLS_URL to the address of the node")?,
            username: given("CELLS_USER"),
            secret: given("CELLS_API_KEY").ok_or("set CELLS_API_KEY to the secret of the node")?,
            alias: given("CELLS_ALIAS"),
        };
        // An interrupt ends the list, not the removal of what the cases made.
        let stop = async {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let sum = run(&target, |line| println!("{line}"), stop).await?;
        println!("{sum}");
        Ok(sum.failed == 0)
    }
}
