//! The cases, by feature.

mod agents;
mod discovery;
mod listing;
pub(super) mod mcp;
mod mutating;
mod process;
mod ranges;
mod reading;
mod receipts;
mod seq;
mod writing;

use super::case::Case;

/// Every case, in the order in which they run.
pub(super) fn all() -> Vec<Case> {
    [
        discovery::cases(),
        reading::cases(),
        writing::cases(),
        ranges::cases(),
        listing::cases(),
        mutating::cases(),
        receipts::cases(),
        seq::cases(),
        process::cases(),
        mcp::cases(),
        agents::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
