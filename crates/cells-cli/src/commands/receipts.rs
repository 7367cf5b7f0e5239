use std::path::PathBuf;

use cells_server::purge_receipts;
use chrono::{DateTime, Local, NaiveDate, NaiveTime, TimeZone as _};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::{print, print_json};

/// Work on the receipts of a node of this machine, which must be stopped.
#[derive(Debug, Args)]
pub(crate) struct Receipts {
    #[command(subcommand)]
    work: Work,
}

#[derive(Debug, Subcommand)]
enum Work {
    Purge(Purge),
}

/// Forget the receipts of old starts of the node.
///
/// A start is forgotten with all its receipts, if the last of them changed before DATE. What is forgotten cannot be asked
/// for any more. A node does the same by itself after 30 days.
#[derive(Debug, Args)]
struct Purge {
    /// The first moment that stays: YYYY-MM-DD, where the day begins here, or a time such as 2026-11-30T18:00:00Z
    #[arg(long, value_name = "DATE", value_parser = unix_ms)]
    before: u64,
    /// The state directory of the node [default: `cells` in your state directory]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Receipts {
    pub(super) fn json(&self) -> bool {
        let Work::Purge(purge) = &self.work;
        purge.json
    }

    pub(super) fn run(self) -> Result<Exit, Failure> {
        let Work::Purge(Purge { before, state, json }) = self.work;
        let epochs = purge_receipts(state.as_deref(), before).map_err(|error| match error.exit_code() {
            2 => Failure::usage(error.to_string()),
            _ => Failure::new(Exit::Failed, error.to_string()),
        })?;
        if json {
            print_json(&json!({ "epochs": epochs }))?;
        } else {
            let starts = if epochs == 1 { "start" } else { "starts" };
            print(&format!("forgot {epochs} {starts} of the node, with all receipts\n"))?;
        }
        Ok(Exit::Done)
    }
}

/// The moment that `text` names, in Unix milliseconds.
fn unix_ms(text: &str) -> Result<u64, String> {
    let moment = match text.parse::<NaiveDate>() {
        // A day that begins with the hour that is skipped for summer time has no midnight.
        Ok(day) => {
            Local.from_local_datetime(&day.and_time(NaiveTime::MIN)).earliest().map(|midnight| midnight.to_utc())
        }
        Err(_) => DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc()),
    };
    let ms = moment.and_then(|moment| u64::try_from(moment.timestamp_millis()).ok());
    ms.ok_or_else(|| "write YYYY-MM-DD, or a time such as 2026-11-30T18:00:00Z, not before 1970".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_day_or_a_time() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2026-11-30T18:00:00Z", Some(1_796_061_600_000)),
            ("2026-11-30T18:00:00.5+02:00", Some(1_796_054_400_500)),
            ("1969-12-31T23:59:59Z", None),
            ("2026-02-30", None),
            ("2026-11", None),
            ("2026-11-30T18:00:00", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(unix_ms(text).ok(), expected, "{text}");
        }
        let day = unix_ms("2026-11-30").unwrap();
        let local = Local.timestamp_millis_opt(i64::try_from(day).unwrap()).unwrap();
        assert_eq!(local.naive_local().to_string(), "2026-11-30 00:00:00");
    }
}
