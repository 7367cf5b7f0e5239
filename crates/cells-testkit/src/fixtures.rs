//! The golden wire messages of `cells-protocol/fixtures`, and the checks that every parser of replies must pass.
//!
//! The checks are plain functions, so that native and wasm tests call the same ones.

mod harness;
mod mutation;
mod parser;
mod rules;

use serde::Deserialize;
use serde_json::Value;

pub use mutation::Mutator;
pub use parser::{Accepted, Parser};

/// One golden message.
#[derive(Debug, Clone)]
pub struct Fixture {
    /// Path below the folder of the fixtures.
    pub file: String,
    /// What reads it, with what the reader must know beside the bytes.
    pub parser: Parser,
    /// The complete error text, for a message that must be refused.
    pub error: Option<String>,
    /// The message.
    pub bytes: &'static [u8],
    /// What its reader makes of it, for a message that is another thing after it was read.
    pub reads: Option<Reads>,
}

/// What the reader of a message gives, as JSON.
#[derive(Debug, Clone)]
pub struct Reads {
    /// Path below the folder of the fixtures.
    pub file: String,
    /// The JSON.
    pub value: Value,
}

/// Every golden message, in the order of `index.json`.
///
/// # Errors
/// One line, when the index and the files do not fit together.
pub fn fixtures() -> Result<Vec<Fixture>, String> {
    #[derive(Deserialize)]
    struct Entry {
        file: String,
        #[serde(flatten)]
        parser: Parser,
        #[serde(default)]
        error: Option<String>,
        #[serde(default)]
        reads: Option<String>,
    }
    let entries: Vec<Entry> = serde_json::from_str(INDEX).map_err(|error| format!("index.json: {error}"))?;
    let n_named = entries.len() + entries.iter().filter(|entry| entry.reads.is_some()).count();
    if n_named != FILES.len() {
        return Err(format!("index.json names {n_named} files, and {} are built in", FILES.len()));
    }
    let bytes_of = |file: &str| fixture_bytes(file).ok_or_else(|| format!("{file} is not built in"));
    let reads = |file: String| {
        let value = serde_json::from_slice(bytes_of(&file)?).map_err(|error| format!("{file}: {error}"))?;
        Ok::<_, String>(Reads { file, value })
    };
    let fixture = |entry: Entry| {
        let bytes = bytes_of(&entry.file)?;
        let reads = entry.reads.map(reads).transpose()?;
        Ok(Fixture { file: entry.file, parser: entry.parser, error: entry.error, bytes, reads })
    };
    entries.into_iter().map(fixture).collect()
}

/// The bytes of one golden message.
pub fn fixture_bytes(file: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(name, _)| *name == file).map(|(_, bytes)| *bytes)
}

/// Parses every golden message: the good ones are accepted, are what the index says they read as, and stay the same when
/// they are written and read again; the bad ones are refused with the words of the index. Gives the number of messages.
///
/// # Errors
/// One line on the first message for which this does not hold.
pub fn check_fixtures() -> Result<usize, String> {
    let fixtures = fixtures()?;
    for fixture in &fixtures {
        match (fixture.parser.parse(fixture.bytes), &fixture.error) {
            (Ok(accepted), None) => accepted.holds().map_err(|problem| format!("{}: {problem}", fixture.file))?,
            (Err(error), Some(expected)) if error == *expected => {}
            (outcome, expected) => {
                let outcome = outcome.map(|_| ());
                return Err(format!("{}: {outcome:?}, and the index says {expected:?}", fixture.file));
            }
        }
        if let Some(reads) = &fixture.reads {
            let read = fixture.parser.reading(fixture.bytes)?;
            if read != reads.value {
                let (read, said) = first_difference(&read, &reads.value);
                return Err(format!("{} reads as {read}, and {} says {said}", fixture.file, reads.file));
            }
        }
    }
    Ok(fixtures.len())
}

/// The smallest parts of two values that differ, going into lists.
fn first_difference<'a>(one: &'a Value, other: &'a Value) -> (&'a Value, &'a Value) {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pair = one.iter().zip(other).find(|(one, other)| one != other);
            pair.map_or((&Value::Null, &Value::Null), |(one, other)| first_difference(one, other))
        }
        _ => (one, other),
    }
}

/// How many mutated messages were accepted and how many refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MutationCounts {
    /// Accepted, and whole when written and read again.
    pub accepted: usize,
    /// Refused.
    pub refused: usize,
}

/// Breaks every golden message in `rounds` ways that follow from `seed`, and parses the results. None may panic, an
/// accepted one must stay the same when it is written and read again, and no error may hold words of the message.
///
/// # Errors
/// One line on the first message for which this does not hold, with the message.
pub fn check_mutations(seed: u64, rounds: usize) -> Result<MutationCounts, String> {
    let mut counts = MutationCounts::default();
    let mut mutator = Mutator::new(seed);
    for fixture in fixtures()? {
        for _ in 0..rounds {
            let message = mutator.mutate(fixture.bytes);
            let problem = match fixture.parser.parse(&message) {
                Ok(accepted) => {
                    counts.accepted += 1;
                    accepted.holds().err()
                }
                Err(error) => {
                    counts.refused += 1;
                    error.contains(SECRET).then(|| format!("the error quotes the message: {error}"))
                }
            };
            if let Some(problem) = problem {
                return Err(format!("{} as {:?}: {problem}", fixture.file, String::from_utf8_lossy(&message)));
            }
        }
    }
    Ok(counts)
}

/// Stands wherever a message holds something that no error may quote.
const SECRET: &str = "PRIVATE";

const INDEX: &str = include_str!("../../cells-protocol/fixtures/index.json");

macro_rules! built_in {
    ($($file:literal,)*) => {
        /// Path and content of each file.
        const FILES: &[(&str, &[u8])] =
            &[$(($file, include_bytes!(concat!("../../cells-protocol/fixtures/", $file))),)*];
    };
}

built_in! {
    "files/capabilities.json",
    "files/capabilities-files-only.json",
    "files/capabilities-bad-version.json",
    "files/capabilities-bad-terminal.json",
    "files/capabilities-bad-exec.json",
    "files/exports.json",
    "files/exports-empty.json",
    "files/exports-bad-version.json",
    "files/exports-bad-alias.json",
    "files/exports-bad-twice.json",
    "files/stat.json",
    "files/stat-bad-count.json",
    "files/stat-bad-neither.json",
    "files/entries.json",
    "files/entries-last.json",
    "files/entries-bad-name.json",
    "files/entries-bad-cursor.json",
    "files/receipt-committed.json",
    "files/receipt-committed-name.json",
    "files/receipt-committed-odd.json",
    "files/receipt-not-committed.json",
    "files/receipt-running.json",
    "files/receipt-unknown.json",
    "files/receipt-bad-code.json",
    "files/receipt-bad-no-code.json",
    "files/receipt-bad-outcome.json",
    "files/receipt-bad-refusal.json",
    "files/seq.json",
    "files/seq-missing.json",
    "files/seq-bad-order.json",
    "files/seq-bad-revision.json",
    "files/seq-bad-value.json",
    "files/error.json",
    "files/error-html.json",
    "process/status-running.json",
    "process/status-exited.json",
    "process/status-signal.json",
    "process/status-cancelled.json",
    "process/status-timed-out.json",
    "process/status-failed.json",
    "process/status-unknown.json",
    "process/status-bad-state.json",
    "process/status-bad-code.json",
    "process/status-bad-truncated.json",
    "process/output.json",
    "process/output-ended.json",
    "process/output-later.json",
    "process/output-bad-earlier.json",
    "process/output-bad-later.json",
    "process/output-bad-base64.json",
    "discovery/current.json",
    "discovery/local-node.json",
    "discovery/legacy-pi-agent.json",
    "discovery/legacy-fs-agent.json",
    "discovery/both-keys.json",
    "discovery/newer-versions.json",
    "discovery/no-document.json",
    "discovery/capability-tool.json",
    "discovery/bad-origin.json",
    "discovery/bad-type.json",
    "discovery/bad-null.json",
    "discovery/bad-version.json",
    "discovery/bad-protocol.json",
    "discovery/bad-projects.json",
    "discovery/bad-feature-version.json",
    "discovery/bad-user-info.json",
    "discovery/bad-server-id.json",
    "discovery/tools.json",
    "mcp/error.json",
    "mcp/error-without-id.json",
    "mcp/tool-error.json",
    "mcp/tool-error-absent.json",
    "mcp/tool-error-without-code.json",
    "mcp/bad-foreign-id.json",
    "mcp/bad-both.json",
    "mcp/bad-neither.json",
    "mcp/bad-version.json",
    "mcp/bad-unstructured.json",
    "mcp/bad-task.json",
    "mcp/bad-not-json.json",
    "mcp/bad-truncated.json",
    "harness/profiles.json",
    "harness/profiles-empty.json",
    "harness/profiles-bad-epoch.json",
    "harness/sessions.json",
    "harness/sessions-empty-page.json",
    "harness/session.json",
    "harness/session-bad-id.json",
    "harness/history-codex-log.json",
    "harness/history-codex-native.json",
    "harness/history-claude.json",
    "harness/history-cells.json",
    "harness/history-odd-cursor.json",
    "harness/history-bad-turns.json",
    "harness/session-old-name.json",
    "harness/session-old-name.read.json",
    "harness/session-old-preview.json",
    "harness/session-old-preview.read.json",
    "harness/archive-allowed.json",
    "harness/archive-allowed.read.json",
    "harness/session-untitled.json",
    "harness/session-untitled.read.json",
    "harness/history-evidence.json",
    "harness/history-evidence.read.json",
    "harness/search.json",
    "harness/search.read.json",
    "harness/search-bad-cursor.json",
    "harness/search-bad-summary.json",
    "harness/digest.json",
    "harness/digest.read.json",
    "harness/digest-metadata.json",
    "harness/digest-metadata.read.json",
    "harness/digest-bad-metadata.json",
    "harness/digest-bad-session.json",
    "harness/digest-bad-revision.json",
    "harness/digest-bad-twice.json",
    "harness/models.json",
    "harness/models.read.json",
    "harness/models-bad-twice.json",
    "harness/models-bad-default.json",
    "harness/models-bad-current.json",
    "harness/models-bad-effort.json",
    "harness/models-bad-label.json",
    "harness/usage.json",
    "harness/usage.read.json",
    "harness/usage-bad-session.json",
    "harness/usage-bad-sum.json",
    "harness/usage-bad-total.json",
    "harness/usage-bad-reasoning.json",
    "harness/usage-bad-twice.json",
    "harness/usage-bad-huge.json",
    "harness/metrics.json",
    "harness/metrics.read.json",
    "harness/metrics-least.json",
    "harness/metrics-least.read.json",
    "harness/metrics-bad-session.json",
    "harness/metrics-bad-percent.json",
    "harness/metrics-bad-estimate.json",
    "harness/metrics-bad-currency.json",
    "harness/metrics-bad-twice.json",
    "harness/steered.json",
    "harness/steered.read.json",
    "harness/steered-bad-target.json",
    "harness/session-detached.json",
    "harness/session-detached.read.json",
    "harness/session-detached-but-owned.json",
    "harness/session-detached-but-owned.read.json",
    "harness/session-bad-usage.json",
    "harness/session-bad-usage.read.json",
    "harness/digest-bad-role.json",
    "harness/deleted.json",
    "harness/deleted.read.json",
    "harness/deleted-bad-other.json",
    "harness/deleted-bad-twice.json",
    "harness/items-codex-native.json",
    "harness/items-codex-native.read.json",
    "harness/items-codex-log.json",
    "harness/items-codex-log.read.json",
    "harness/items-claude.json",
    "harness/items-claude.read.json",
    "harness/items-old-detail.json",
    "harness/items-old-detail.read.json",
    "harness/items-content.json",
    "harness/items-content.read.json",
    "harness/items-bad-list.json",
    "receipts/committed-turn.json",
    "receipts/committed-session.json",
    "receipts/committed-interrupt.json",
    "receipts/committed-truncated.json",
    "receipts/committed-without-result.json",
    "receipts/not-committed.json",
    "receipts/not-admitted.json",
    "receipts/running.json",
    "receipts/running-null-code.json",
    "receipts/restarted.json",
    "receipts/undetermined.json",
    "receipts/bad-foreign.json",
    "receipts/bad-outcome.json",
    "receipts/bad-code.json",
    "receipts/bad-reason.json",
    "commands/catalog.json",
    "commands/catalog-empty.json",
    "commands/catalog-bad-twice.json",
    "commands/catalog-bad-kind.json",
    "commands/result-reference.json",
    "commands/result-inline.json",
    "commands/result-prompt.json",
    "commands/result-too-large.json",
    "commands/result-failed.json",
    "commands/result-bad-reference.json",
    "commands/result-bad-command.json",
    "commands/result-bad-preview.json",
    "commands/result-bad-code.json",
    "commands/result-bad-type.json",
    "commands/result-bad-size.json",
    "commands/result-bad-state.json",
    "commands/page-first.json",
    "commands/page-last.json",
    "commands/page-short.json",
    "commands/page-escaped-slashes.json",
    "commands/page-bad-offset.json",
    "commands/page-bad-length.json",
    "commands/page-bad-next.json",
    "commands/page-bad-base64.json",
    "commands/page-bad-empty.json",
    "commands/page-bad-foreign.json",
    "events/ready.json",
    "events/ready-minimal.json",
    "events/ready-bad-heartbeat.json",
    "events/ready-bad-version.json",
    "events/open-harness.json",
    "events/open-directory.json",
    "events/open-process.json",
    "events/gap-epoch.json",
    "events/gap-ahead.json",
    "events/gap-evicted.json",
    "events/gap-bad-reason.json",
    "events/events-codex.json",
    "events/events-claude.json",
    "events/events-all-dropped.json",
    "events/events-bad-order.json",
    "events/events-bad-range.json",
    "events/requests.json",
    "events/requests-none.json",
    "events/error-final.json",
    "events/error-retry.json",
    "events/error-bad-code.json",
    "events/heartbeat.json",
    "events/closing.json",
    "events/closing-superseded.json",
    "events/directory.json",
    "events/process.json",
    "events/future.json",
    "events/messages-codex.json",
    "events/messages-codex.read.json",
    "events/messages-claude.json",
    "events/messages-claude.read.json",
    "events/messages-requests.json",
    "events/messages-requests.read.json",
    "events/messages-bad-method.json",
}
