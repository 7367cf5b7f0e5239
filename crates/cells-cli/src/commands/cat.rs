use std::path::PathBuf;
use std::str::FromStr;

use cells_native::cells_driver::{Error, ErrorKind, FileConnection, ReadOptions};
use clap::Args;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::node::NodeArgs;
use crate::output::{Target, print_json};
use crate::remote_path::RemotePath;

/// Write the content of a file to standard output, or to a file.
///
/// Content of any size is passed on piece by piece. A broken connection is taken up again, and a file that changes
/// meanwhile ends the transfer with an error. With --json and -o, an object tells what was written.
#[derive(Debug, Args)]
pub(crate) struct Cat {
    /// The file, such as notes/today.md
    #[arg(value_name = "ALIAS/PATH")]
    path: RemotePath,
    /// Only the bytes A to B, both included, counted from 0; `A-` is up to the end
    #[arg(long, value_name = "A-B")]
    range: Option<ByteRange>,
    /// Write to FILE, which appears only when it is complete
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

impl Cat {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        let files = node.client.files(&FileConnection::new(node.connection.clone(), &self.path.alias))?;
        let about = |error: Error| match error.kind() {
            ErrorKind::Unsupported if error.remote_code().is_some() => {
                let message = format!("{} is not a file with content ({})", self.path, error.kind());
                Failure::driver(error, message)
            }
            _ => Failure::path(error, &self.path),
        };
        let range = self.range.unwrap_or_default();
        let options = ReadOptions {
            offset: range.offset,
            length: range.length,
            operation: node.options(),
            ..ReadOptions::default()
        };
        let mut stream = files.read_stream(&self.path.path, options).await.map_err(about)?;
        let mut target = Target::open(self.output.as_deref())?;
        target.start_progress(stream.size);
        while let Some(piece) = stream.next().await.map_err(about)? {
            target.write(&piece)?;
        }
        target.finish()?;
        if self.node.json && self.output.is_some() {
            let path = self.path.to_string();
            print_json(&json!({"path": path, "bytes": stream.size, "revision": stream.revision}))?;
        }
        Ok(Exit::Done)
    }
}

/// Bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ByteRange {
    offset: u64,
    length: Option<u64>,
}

impl FromStr for ByteRange {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        const FORM: &str = "a range is A-B or A-, for example 0-1023: the first and the last byte, counted from 0";
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse::<u64>().map_err(|_| FORM),
            false => Err(FORM),
        };
        let (first, last) = text.split_once('-').ok_or(FORM)?;
        let offset = number(first)?;
        if last.is_empty() {
            return Ok(Self { offset, length: None });
        }
        match number(last)?.checked_sub(offset).and_then(|length| length.checked_add(1)) {
            Some(length) => Ok(Self { offset, length: Some(length) }),
            None => Err("the last byte of the range comes before the first one"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_name_the_first_and_the_last_byte() {
        for (text, expected) in [
            ("0-0", Some((0, Some(1)))),
            ("10-19", Some((10, Some(10)))),
            ("5-", Some((5, None))),
            ("5-4", None),
            ("-5", None),
            ("5", None),
            ("+1-2", None),
            ("a-b", None),
            ("0-99999999999999999999", None),
            ("0-18446744073709551615", None),
        ] {
            let range = text.parse::<ByteRange>().ok().map(|range| (range.offset, range.length));
            assert_eq!(range, expected, "{text}");
        }
    }
}
