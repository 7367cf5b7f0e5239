//! What is kept of an output stream.

use std::collections::VecDeque;

use cells_protocol::limits::{PROCESS_OUTPUT_KEPT_BYTES, PROCESS_OUTPUT_MAX_BYTES};
use cells_protocol::process::ProcessOutputChunk;

/// The bytes of one stream.
#[derive(Debug)]
pub(super) struct Kept {
    bytes: VecDeque<u8>,
    /// How many bytes came before the first one that is kept.
    dropped: u64,
    /// Bytes came after the last one that is kept.
    cut: bool,
    /// The stream was still open long after the end of its process.
    abandoned: bool,
    keep: Keep,
}

/// Which bytes are kept of a stream that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// The first 64 KiB.
    Oldest,
    /// The last 8 MiB.
    Newest,
}

impl Kept {
    pub(super) fn new(keep: Keep) -> Self {
        Self { bytes: VecDeque::new(), dropped: 0, cut: false, abandoned: false, keep }
    }

    /// Adds bytes; false = they are too many, and the process shall end.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        match self.keep {
            Keep::Oldest => {
                let room = PROCESS_OUTPUT_MAX_BYTES - self.bytes.len();
                self.bytes.extend(&bytes[..bytes.len().min(room)]);
                self.cut |= bytes.len() > room;
                !self.cut
            }
            Keep::Newest => {
                self.bytes.extend(bytes);
                self.shrink(PROCESS_OUTPUT_KEPT_BYTES);
                true
            }
        }
    }

    /// Drops the oldest bytes, so that `limit` are left.
    pub(super) fn shrink(&mut self, limit: usize) {
        let excess = self.bytes.len().saturating_sub(limit);
        self.bytes.drain(..excess);
        self.dropped += excess as u64;
    }

    /// Frees the room that is not needed, once nothing is added any more.
    pub(super) fn finish(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// From now on the status tells nothing of this stream.
    pub(super) fn abandon(&mut self) {
        self.abandoned = true;
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The offset at which the next byte will stand.
    pub(super) fn end(&self) -> u64 {
        self.dropped + self.bytes.len() as u64
    }

    /// Text of the status, and whether it is not the whole stream.
    pub(super) fn text(&self) -> (String, bool) {
        if self.abandoned {
            return (String::new(), true);
        }
        let skipped = self.bytes.len().saturating_sub(PROCESS_OUTPUT_MAX_BYTES);
        let bytes: Vec<u8> = self.bytes.range(skipped..).copied().collect();
        (String::from_utf8_lossy(&bytes).into_owned(), self.cut || self.dropped > 0 || skipped > 0)
    }

    /// The bytes from offset `from`; none when the stream has not come so far.
    pub(super) fn chunk(&self, from: u64) -> Option<ProcessOutputChunk> {
        if from > self.end() {
            return None;
        }
        let offset = from.max(self.dropped);
        let start = usize::try_from(offset - self.dropped).ok()?;
        let end = self.bytes.len().min(start + PROCESS_OUTPUT_MAX_BYTES);
        let data = self.bytes.range(start..end).copied().collect();
        Some(ProcessOutputChunk { offset, data, truncated: offset > from })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    #[test]
    fn a_stream_keeps_what_its_policy_says() {
        // policy, bytes pushed in pieces of 40 KiB; goes on, first kept, end, length of the text, whether it is cut
        for (keep, pushed, goes_on, first, end, text, cut) in [
            (Keep::Oldest, 40 * KIB, true, 0, 40 * KIB, 40 * KIB, false),
            (Keep::Oldest, 80 * KIB, false, 0, 64 * KIB, 64 * KIB, true),
            (Keep::Newest, 40 * KIB, true, 0, 40 * KIB, 40 * KIB, false),
            (Keep::Newest, 80 * KIB, true, 0, 80 * KIB, 64 * KIB, true),
            (Keep::Newest, 8200 * KIB, true, 8 * KIB, 8200 * KIB, 64 * KIB, true),
        ] {
            let mut kept = Kept::new(keep);
            let went_on = (0..pushed / (40 * KIB)).map(|_| kept.push(&[b'x'; 40 * KIB])).last();
            let (length, is_cut) = (kept.text().0.len(), kept.text().1);
            let seen = (went_on, kept.dropped, kept.end(), length, is_cut);
            assert_eq!(seen, (Some(goes_on), first as u64, end as u64, text, cut), "{keep:?} {pushed}");
        }
    }

    #[test]
    fn chunks_start_where_they_are_asked_for_or_say_that_they_do_not() {
        let mut kept = Kept::new(Keep::Newest);
        for letter in [b'a', b'b'] {
            kept.push(&vec![letter; PROCESS_OUTPUT_KEPT_BYTES]);
        }
        let limit = PROCESS_OUTPUT_KEPT_BYTES as u64;
        let longest = PROCESS_OUTPUT_MAX_BYTES;
        for (from, expected) in [
            (0, Some((limit, longest, true))),
            (limit - 1, Some((limit, longest, true))),
            (limit, Some((limit, longest, false))),
            (2 * limit - 3, Some((2 * limit - 3, 3, false))),
            (2 * limit, Some((2 * limit, 0, false))),
            (2 * limit + 1, None),
            (u64::MAX, None),
        ] {
            let chunk = kept.chunk(from);
            let seen = chunk.map(|chunk| {
                let data = chunk.data;
                assert!(data.iter().all(|byte| *byte == b'b'));
                (chunk.offset, data.len(), chunk.truncated)
            });
            assert_eq!(seen, expected, "{from}");
        }
        kept.shrink(10);
        assert_eq!((kept.len(), kept.end()), (10, 2 * limit));
    }

    #[test]
    fn an_abandoned_stream_is_empty_in_the_status_only() {
        let mut kept = Kept::new(Keep::Oldest);
        kept.push(b"before \xff");
        assert_eq!(kept.text(), ("before \u{FFFD}".to_owned(), false));
        kept.abandon();
        assert_eq!(kept.text(), (String::new(), true));
        assert_eq!(kept.chunk(0).unwrap().data, b"before \xff");
    }
}
