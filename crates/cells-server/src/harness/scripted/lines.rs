//! The lines of a file from its end to its beginning, without reading more of it than asked.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Reads whole lines backward from a position. What follows the last newline before that position is not a line: it is
/// what a crash left of one.
#[derive(Debug)]
pub(super) struct LinesBackward<'a> {
    file: &'a File,
    /// File offset of `buffer[0]`.
    start: u64,
    /// The bytes between `start` and the line given last.
    buffer: Vec<u8>,
}

/// A line and where it stands in the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Offset of its first byte.
    pub(super) start: u64,
    /// Its bytes, without the newline.
    pub(super) bytes: Vec<u8>,
}

impl<'a> LinesBackward<'a> {
    /// Lines that end at or before `end`.
    pub(super) fn new(file: &'a File, end: u64) -> io::Result<Self> {
        let mut lines = Self { file, start: end, buffer: Vec::new() };
        // Drops a torn line, so that the buffer ends behind a newline from here on.
        loop {
            if let Some(newline) = lines.buffer.iter().rposition(|byte| *byte == b'\n') {
                lines.buffer.truncate(newline + 1);
                return Ok(lines);
            }
            lines.buffer.clear();
            if !lines.fill()? {
                return Ok(lines);
            }
        }
    }

    /// Where the line given last starts; at first, where the last whole line ends.
    pub(super) fn position(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// The line before.
    ///
    /// # Errors
    /// [`io::ErrorKind::FileTooLarge`] when it is longer than 8 MiB, and what reading the file gives.
    pub(super) fn previous(&mut self) -> io::Result<Option<Line>> {
        let mut searched = 1;
        loop {
            let unsearched = self.buffer.len().saturating_sub(searched);
            if let Some(newline) = self.buffer[..unsearched].iter().rposition(|byte| *byte == b'\n') {
                return Ok(Some(self.take(newline + 1)));
            }
            if self.buffer.len() > LINE_MAX_BYTES {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            searched = self.buffer.len().max(1);
            if !self.fill()? {
                return Ok((!self.buffer.is_empty()).then(|| self.take(0)));
            }
        }
    }

    fn take(&mut self, from: usize) -> Line {
        let mut bytes = self.buffer.split_off(from);
        bytes.pop();
        Line { start: self.position(), bytes }
    }

    /// Reads the chunk before the buffer; false at the beginning of the file. Chunks grow with the line they look for,
    /// until the buffer is one byte longer than a line may be.
    fn fill(&mut self) -> io::Result<bool> {
        let wanted = CHUNK_BYTES.max(self.buffer.len()).min(LINE_MAX_BYTES + 1 - self.buffer.len());
        let size = usize::try_from(self.start).unwrap_or(usize::MAX).min(wanted);
        let mut chunk = vec![0; size];
        let start = self.start - size as u64;
        self.file.read_exact_at(&mut chunk, start)?;
        chunk.append(&mut self.buffer);
        self.buffer = chunk;
        self.start = start;
        Ok(size > 0)
    }
}

const CHUNK_BYTES: usize = 64 * 1024;
/// The window of a history page (`harness.md` §4.1).
const LINE_MAX_BYTES: usize = 8 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file
    }

    fn check(content: &str, end: usize, expected: &[(u64, &str)], position: u64) {
        let file = file(content.as_bytes());
        let mut lines = LinesBackward::new(&file, end as u64).unwrap();
        assert_eq!(lines.position(), position, "{content:?} {end}");
        let mut seen = Vec::new();
        while let Some(line) = lines.previous().unwrap() {
            assert_eq!(lines.position(), line.start);
            seen.push((line.start, String::from_utf8(line.bytes).unwrap()));
        }
        let expected: Vec<_> = expected.iter().map(|(start, text)| (*start, (*text).to_owned())).collect();
        assert_eq!(seen, expected, "{content:?} {end}");
    }

    #[test]
    fn whole_lines_come_from_the_end_to_the_beginning() {
        check("one\ntwo\n", 8, &[(4, "two"), (0, "one")], 8);
        check("one\n\ntwo\n", 9, &[(5, "two"), (4, ""), (0, "one")], 9);
        check("one\ntwo\n", 4, &[(0, "one")], 4);
        check("", 0, &[], 0);
        check("\n", 1, &[(0, "")], 1);
    }

    #[test]
    fn what_follows_the_last_newline_is_not_a_line() {
        check("one\ntw", 6, &[(0, "one")], 4);
        check("one\ntwo\n", 6, &[(0, "one")], 4);
        check("torn", 4, &[], 0);
    }

    #[test]
    fn lines_longer_than_a_chunk_are_whole() {
        let long = "x".repeat(300_000);
        check(&format!("a\n{long}\nb\n"), 300_005, &[(300_003, "b"), (2, &long), (0, "a")], 300_005);
        check(&format!("a\n{long}"), 300_002, &[(0, "a")], 2);
    }

    #[test]
    fn a_line_of_more_than_8_mebibytes_is_refused() {
        for (bytes, is_read) in [(LINE_MAX_BYTES - 1, true), (LINE_MAX_BYTES, false), (3 * LINE_MAX_BYTES, false)] {
            let content = format!("a\n{}\n", "x".repeat(bytes));
            let file = file(content.as_bytes());
            let mut lines = LinesBackward::new(&file, content.len() as u64).unwrap();
            let previous = lines.previous().map(|line| line.unwrap().bytes.len()).map_err(|error| error.kind());
            assert_eq!(previous, if is_read { Ok(bytes) } else { Err(io::ErrorKind::FileTooLarge) });
        }
    }
}
