//! What came of the runs, cell by cell.

use std::{collections::BTreeMap, fmt};

use super::{FaultRun, RunFault};

/// Counts of every cell. `Display` is a table: runs, share that was reported as unknown, share that stayed unknown.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    cells: BTreeMap<(String, RunFault), Cell>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    runs: u64,
    unknown: u64,
    open: u64,
}

impl Tally {
    /// Counts a run. `unknown`: its outcome was reported as unknown; `open`: it still was after it had been asked for.
    pub fn add(&mut self, run: &FaultRun, unknown: bool, open: bool) {
        let cell = self.cells.entry((run.mutation.clone(), run.fault)).or_default();
        cell.runs += 1;
        cell.unknown += u64::from(unknown);
        cell.open += u64::from(open);
    }

    /// Runs in all.
    pub fn runs(&self) -> u64 {
        self.cells.values().map(|cell| cell.runs).sum()
    }

    /// How many cells there are, and the runs of the one with the fewest.
    pub fn cells(&self) -> (usize, u64) {
        (self.cells.len(), self.cells.values().map(|cell| cell.runs).min().unwrap_or_default())
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<18} {:<18} {:>7} {:>9} {:>11}", "mutation", "fault", "runs", "unknown", "stays so")?;
        for ((mutation, fault), cell) in &self.cells {
            let share = |count: u64| format!("{} %", (count * 1_000 / cell.runs) as f64 / 10.0);
            let (unknown, open) = (share(cell.unknown), share(cell.open));
            writeln!(f, "{mutation:<18} {fault:<18} {:>7} {unknown:>9} {open:>11}", cell.runs)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counted_by_cell() {
        let mut tally = Tally::default();
        let run = |seed| FaultRun { seed, mutation: "mkdir".into(), fault: RunFault::Truncated };
        tally.add(&run(1), true, false);
        tally.add(&run(2), true, true);
        tally.add(&run(3), false, false);
        tally.add(&FaultRun { mutation: "remove".into(), ..run(4) }, false, false);
        assert_eq!((tally.runs(), tally.cells()), (4, (2, 1)));
        let line = "mkdir              truncated                3    66.6 %      33.3 %";
        assert!(tally.to_string().contains(line), "{tally}");
    }
}
