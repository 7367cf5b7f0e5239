//! The closing message of a turn: what its commands gave and what its file changes did.
//!
//! Clients that ask for summaries never see the output of a command item, so it is quoted here, unchanged, in a form
//! from which it can be taken back (`docs/scripted-agent.md`).

use std::fmt::Write;

use super::shell::{End, OUTPUT_MAX_BYTES};

/// Collects what the closing message says.
#[derive(Debug, Default)]
pub(super) struct Report {
    text: String,
    quoted_bytes: usize,
}

impl Report {
    /// A command that ran. `cut` says that it wrote more than `output`.
    pub(super) fn command(&mut self, command: &str, end: End, output: &str, cut: bool) {
        let end = match end {
            End::Exited(code) => format!("exited with {code}"),
            End::Signalled(signal) => format!("was ended by signal {signal}"),
            End::TimedOut => "was ended because it ran too long".to_owned(),
            End::Stopped => "was interrupted".to_owned(),
        };
        let room = OUTPUT_MAX_BYTES - self.quoted_bytes;
        let quoted = cells_protocol::text::prefix(output, room);
        self.quoted_bytes += quoted.len();
        let mut notes = String::new();
        if cut || quoted.len() < output.len() {
            let _ = write!(notes, ", output cut after {} bytes", quoted.len());
        }
        if !quoted.is_empty() && !quoted.ends_with('\n') {
            notes.push_str(", no final newline");
        }
        let command = code_span(command);
        if quoted.is_empty() {
            let notes = if notes.is_empty() { ", no output" } else { &notes };
            self.paragraph(&format!("Command {command} {end}{notes}."));
            return;
        }
        let fence = "`".repeat(longest_backtick_run(quoted).max(2) + 1);
        let newline = if quoted.ends_with('\n') { "" } else { "\n" };
        self.paragraph(&format!("Command {command} {end}{notes}:\n{fence}\n{quoted}{newline}{fence}"));
    }

    /// Something that was not done, or done without output.
    pub(super) fn paragraph(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(text);
    }

    /// The message, if there is anything to say.
    pub(super) fn take(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.text)).filter(|text| !text.is_empty())
    }
}

/// The first line of `text` as inline code, cut to [`LABEL_MAX_CHARS`] characters.
pub(super) fn code_span(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut label: String = line.chars().take(LABEL_MAX_CHARS).collect();
    if label.len() < text.len() {
        label.push('…');
    }
    let fence = "`".repeat(longest_backtick_run(&label) + 1);
    let padding = if fence.len() > 1 { " " } else { "" };
    format!("{fence}{padding}{label}{padding}{fence}")
}

fn longest_backtick_run(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or_default()
}

const LABEL_MAX_CHARS: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_quoted_unchanged() {
        for (command, end, output, cut, expected) in [
            ("ls", End::Exited(0), "a\nb\n", false, "Command `ls` exited with 0:\n```\na\nb\n```"),
            ("ls", End::Exited(2), "a", false, "Command `ls` exited with 2, no final newline:\n```\na\n```"),
            ("true", End::Exited(0), "", false, "Command `true` exited with 0, no output."),
            ("x", End::Signalled(9), "", false, "Command `x` was ended by signal 9, no output."),
            (
                "x",
                End::TimedOut,
                "a\n",
                true,
                "Command `x` was ended because it ran too long, output cut after 2 bytes:\n```\na\n```",
            ),
            ("cat x", End::Exited(0), "````\n```\n", false, "Command `cat x` exited with 0:\n`````\n````\n```\n`````"),
            ("echo `a`\nls", End::Exited(0), "\n", false, "Command `` echo `a`… `` exited with 0:\n```\n\n```"),
        ] {
            let mut report = Report::default();
            report.command(command, end, output, cut);
            assert_eq!(report.take().as_deref(), Some(expected));
            assert_eq!(report.take(), None);
        }
    }

    #[test]
    fn all_quotes_of_a_turn_share_one_bound() {
        let mut report = Report::default();
        let line = "x\n".repeat(OUTPUT_MAX_BYTES / 2 - 1);
        report.command("first", End::Exited(0), &line, false);
        report.command("second", End::Exited(0), "yes\n", false);
        report.command("third", End::Exited(0), "no\n", false);
        let text = report.take().unwrap();
        assert!(
            text.contains("Command `second` exited with 0, output cut after 2 bytes, no final newline:\n```\nye\n```")
        );
        assert!(text.ends_with("Command `third` exited with 0, output cut after 0 bytes."));
    }
}
