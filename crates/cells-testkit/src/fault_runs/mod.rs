//! Fault runs: one mutation and one fault, drawn by a seed.
//!
//! A seed is all that is needed to repeat a run: it names the mutation and the fault ([`FaultRun::of_seed`]) and decides
//! every detail ([`FaultRun::draw`]). Consecutive seeds deal all pairs of mutation and fault evenly. Each pair is a
//! *cell* of the [`Tally`].
//!
//! A run is written as one line of JSON, so that tests in other languages run the same cells with the program
//! `cells-fault-proxy`: see [`FaultRun::line`], and the program `cells-fault-runs`, which prints those of files.
//!
//! ```
//! use cells_testkit::fault_runs::{FaultRun, RunFault};
//!
//! let mutations = ["mkdir", "remove"];
//! let run = FaultRun::of_seed(21, &mutations);
//! assert_eq!((run.mutation.as_str(), run.fault), ("remove", RunFault::None));
//! assert_eq!(run, FaultRun::of_seed(21, &mutations));
//! ```

mod draw;
mod files;
mod tally;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::fault_proxy::{Fault, Rule};

pub use draw::Draw;
pub use files::FileMutation;
pub use tally::Tally;

/// What goes wrong in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunFault {
    /// Nothing.
    None,
    /// The port refuses the connection.
    Refused,
    /// The connection is reset before the request is whole.
    ResetBeforeWhole,
    /// The connection is reset after the node has the request.
    ResetAfter,
    /// The reply is cut off.
    Truncated,
    /// One byte of the reply is changed.
    Corrupted,
    /// The request or the reply is held back until the deadline of the caller has passed.
    Delayed,
    /// The node is killed with SIGKILL before the effect.
    KilledBefore,
    /// The node is killed with SIGKILL during the effect.
    KilledDuring,
    /// The node is killed with SIGKILL after the effect, before its reply.
    KilledAfter,
}

impl RunFault {
    /// Every fault, and none.
    pub const ALL: [RunFault; 10] = [
        RunFault::None,
        RunFault::Refused,
        RunFault::ResetBeforeWhole,
        RunFault::ResetAfter,
        RunFault::Truncated,
        RunFault::Corrupted,
        RunFault::Delayed,
        RunFault::KilledBefore,
        RunFault::KilledDuring,
        RunFault::KilledAfter,
    ];

    /// Its word in lines and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            RunFault::None => "none",
            RunFault::Refused => "refused",
            RunFault::ResetBeforeWhole => "reset-before-whole",
            RunFault::ResetAfter => "reset-after",
            RunFault::Truncated => "truncated",
            RunFault::Corrupted => "corrupted",
            RunFault::Delayed => "delayed",
            RunFault::KilledBefore => "killed-before",
            RunFault::KilledDuring => "killed-during",
            RunFault::KilledAfter => "killed-after",
        }
    }

    /// When the node is killed: `before`, `during` or `after` the effect. None for faults of the network.
    pub fn kill(self) -> Option<&'static str> {
        match self {
            RunFault::KilledBefore => Some("before"),
            RunFault::KilledDuring => Some("during"),
            RunFault::KilledAfter => Some("after"),
            RunFault::None
            | RunFault::Refused
            | RunFault::ResetBeforeWhole
            | RunFault::ResetAfter
            | RunFault::Truncated
            | RunFault::Corrupted
            | RunFault::Delayed => None,
        }
    }
}

impl fmt::Display for RunFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One mutation and one fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultRun {
    /// Repeats the run.
    pub seed: u64,
    /// The mutation, by its name in the list of the suite.
    pub mutation: String,
    /// What goes wrong.
    pub fault: RunFault,
}

impl FaultRun {
    /// The run of a seed, among these mutations. No mutation: a run of nothing.
    pub fn of_seed(seed: u64, mutations: &[&str]) -> FaultRun {
        let count = mutations.len().max(1) as u64;
        let index = |at: u64, of: u64| usize::try_from(at % of).unwrap_or_default();
        let faults = RunFault::ALL.len() as u64;
        FaultRun {
            seed,
            mutation: mutations.get(index(seed, count)).copied().unwrap_or_default().to_owned(),
            fault: RunFault::ALL[index(seed / count, faults)],
        }
    }

    /// The details of this run, always the same ones.
    pub fn draw(&self) -> Draw {
        Draw::new(self.seed)
    }

    /// What the proxy does to the request of the mutation. None when the fault is not one of the proxy.
    ///
    /// Bodies must be longer than [`SHORT_BODY_BYTES`], so that each fault takes effect. A delay ends only with the
    /// connection: the caller gives up first, whatever its deadline.
    pub fn proxy_fault(&self) -> Option<Fault> {
        let mut draw = self.draw();
        let at = draw.below(SHORT_BODY_BYTES);
        match self.fault {
            RunFault::ResetBeforeWhole if draw.chance(4) => Some(Fault::ResetBefore),
            RunFault::ResetBeforeWhole => Some(Fault::ResetWithin { at }),
            RunFault::ResetAfter => Some(Fault::ResetAfter),
            RunFault::Truncated => Some(Fault::Truncate { at }),
            RunFault::Corrupted => Some(Fault::Corrupt { at, xor: if draw.chance(2) { 255 } else { 1 } }),
            RunFault::Delayed if draw.chance(2) => Some(Fault::DelayRequest { ms: HELD_BACK_MS }),
            RunFault::Delayed => Some(Fault::DelayReply { ms: HELD_BACK_MS }),
            RunFault::None
            | RunFault::Refused
            | RunFault::KilledBefore
            | RunFault::KilledDuring
            | RunFault::KilledAfter => None,
        }
    }

    /// The rule of the proxy for the one request that `method` and `path` name. None as for [`FaultRun::proxy_fault`].
    pub fn rule(&self, method: &str, path: &str) -> Option<Rule> {
        self.proxy_fault().map(|fault| Rule { method: Some(method.to_owned()), ..Rule::path(path, fault).nth(1) })
    }

    /// The run as a line of JSON, with the rule for the proxy.
    pub fn line(&self, method: &str, path: &str) -> String {
        json!({
            "seed": self.seed, "mutation": self.mutation, "fault": self.fault, "rule": self.rule(method, path),
        })
        .to_string()
    }
}

impl fmt::Display for FaultRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {} × {}", self.seed, self.mutation, self.fault)
    }
}

/// Every request body and reply body of a mutation is longer.
pub const SHORT_BODY_BYTES: u64 = 32;
/// Longer than any caller waits.
const HELD_BACK_MS: u64 = 600_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const MUTATIONS: [&str; 3] = ["a", "b", "c"];

    #[test]
    fn seeds_deal_every_cell_evenly() {
        let mut cells: BTreeMap<(String, RunFault), u32> = BTreeMap::new();
        for seed in 100..400 {
            let run = FaultRun::of_seed(seed, &MUTATIONS);
            *cells.entry((run.mutation, run.fault)).or_default() += 1;
        }
        assert_eq!(cells.len(), 30);
        assert!(cells.values().all(|runs| *runs == 10), "{cells:?}");
    }

    #[test]
    fn a_seed_decides_every_detail() {
        let details = |seed| {
            let run = FaultRun::of_seed(seed, &MUTATIONS);
            (run.line("PUT", "/a"), run.draw().bytes(100))
        };
        assert_eq!(details(17), details(17));
        assert_ne!(details(17), details(47), "the same cell");
    }

    #[test]
    fn a_line_is_a_run_and_a_rule_of_the_proxy() {
        let run = FaultRun { seed: 3, mutation: "mkdir".into(), fault: RunFault::ResetAfter };
        assert_eq!(
            run.line("POST", "/v1/fs/work/mutate"),
            r#"{"fault":"reset-after","mutation":"mkdir","rule":{"fault":{"kind":"reset-after"},"method":"POST","path":"/v1/fs/work/mutate","when":{"nth":1}},"seed":3}"#
        );
        let killed = FaultRun { fault: RunFault::KilledBefore, ..run };
        assert!(killed.line("POST", "/").contains(r#""fault":"killed-before","mutation":"mkdir","rule":null"#));
    }
}
