//! The conformance list: what a node must do on the wire, as cases that run against any node by its URL.
//!
//! The cases are plain HTTP, not the driver, so that they judge the node alone. Each is gated by what the node declares;
//! a case that a node does not declare is skipped with the reason. Where the wire document calls a behaviour a quirk or
//! infers it, every reading of it passes.
//!
//! Cases that change something run only when an alias is given, and only below a fresh directory
//! `cells-conformance-<random>` of that alias, which is removed at the end, also after failures. Processes run in that
//! directory, too.
//!
//! ```no_run
//! # async fn judge() -> Result<(), String> {
//! use cells_testkit::conformance::{Target, run};
//!
//! let target = Target {
//!     url: "http://127.0.0.1:4477".into(),
//!     username: None,
//!     secret: std::env::var("CELLS_API_KEY").map_err(|error| error.to_string())?,
//!     alias: Some("scratch".into()),
//! };
//! let sum = run(&target, |line| println!("{line}"), std::future::pending()).await?;
//! assert_eq!(sum.failed, 0);
//! # Ok(())
//! # }
//! ```

mod case;
mod cases;
mod check;
mod declared;
mod http;
mod playground;
mod scene;

use std::{fmt, future::Future, pin::pin};

use case::Case;
use declared::Declared;
use http::Http;
use playground::Playground;

/// The node to judge, and as whom.
#[derive(Clone)]
pub struct Target {
    /// Its address, such as `http://127.0.0.1:4477`; a path prefix is kept.
    pub url: String,
    /// With a name, `secret` is a password (Basic); without, a token (Bearer).
    pub username: Option<String>,
    /// The credential.
    pub secret: String,
    /// The export below which cases may change files. None: only reads.
    pub alias: Option<String>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("alias", &self.alias).finish_non_exhaustive()
    }
}

/// How many cases ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Cases that the node passed.
    pub passed: usize,
    /// Cases that it did not pass.
    pub failed: usize,
    /// Cases that say nothing about this node; each line names the reason.
    pub skipped: usize,
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Runs every case, one after the other, and tells `line` one line about each. When `stop` is ready, no further case
/// begins; the directory of the cases is removed all the same.
///
/// # Errors
/// One line when nothing could be judged: the URL is none, the node does not answer, or it refuses the credential or
/// the directory of the cases.
pub async fn run(target: &Target, mut line: impl FnMut(&str), stop: impl Future<Output = ()>) -> Result<Sum, String> {
    let http = Http::new(target)?;
    let declared = Declared::ask(&http, target.alias.as_deref()).await?;
    let playground = match (&target.alias, &declared.writable) {
        (Some(alias), Ok(())) => Some(Playground::create(&http, alias).await?),
        (_, Err(_)) | (None, Ok(())) => None,
    };
    let mut stop = pin!(stop);
    let mut sum = Sum::default();
    for case in cases::all() {
        let verdict = tokio::select! {
            biased;
            () = &mut stop => break,
            verdict = judge(&case, &http, &declared, playground.as_ref()) => verdict,
        };
        match verdict {
            Verdict::Passed => sum.passed += 1,
            Verdict::Failed(_) => sum.failed += 1,
            Verdict::Skipped(_) => sum.skipped += 1,
        }
        line(&format!("{verdict} {}: {}{}", case.feature, case.name, verdict.why()));
    }
    if let Some(playground) = &playground
        && let Err(why) = playground.remove(&http).await
    {
        sum.failed += 1;
        line(&format!("failed cleanup: {} of the export stays: {why}", playground.directory));
    }
    Ok(sum)
}

enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

impl Verdict {
    fn why(&self) -> String {
        match self {
            Verdict::Passed => String::new(),
            Verdict::Failed(why) | Verdict::Skipped(why) => format!(": {why}"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Passed => "passed ",
            Verdict::Failed(_) => "failed ",
            Verdict::Skipped(_) => "skipped",
        })
    }
}

async fn judge(case: &Case, http: &Http, declared: &Declared, playground: Option<&Playground>) -> Verdict {
    if let Some(reason) = case.needs.iter().find_map(|need| declared.lacks(*need)) {
        return Verdict::Skipped(reason);
    }
    match case.run(http, declared, playground).await {
        Ok(()) => Verdict::Passed,
        Err(why) => Verdict::Failed(why),
    }
}
