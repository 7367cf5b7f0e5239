//! Replies to requests for a range, whatever they claim. Natively only: property tests need the system's randomness.

use cells_driver::ReadOptions;
use cells_testkit::fake_host::FakeReply;
use proptest::prelude::*;

use crate::node::{files, host};

const CONTENT: &[u8] = b"0123456789";

proptest! {
    #[test]
    fn a_range_is_exact_or_refused(
        status in prop::sample::select(vec![200_u16, 204, 206, 416]),
        (first, last, total) in (0..12_usize, 0..12_usize, 0..14_usize),
        says_length: bool,
        offset in 0..14_usize,
        length in prop::option::of(1..14_usize),
    ) {
        let host = host(move |request| {
            request.path().contains("/content").then(|| {
                // The bytes that the header promises, as far as there are any.
                let part = CONTENT.get(first..CONTENT.len().min(last + 1)).unwrap_or_default();
                let reply = FakeReply::bytes(status, if status == 206 { part } else { CONTENT });
                let reply = reply.header("content-range", format!("bytes {first}-{last}/{total}"));
                if says_length { reply } else { reply.without_length() }
            })
        });
        let options = ReadOptions { offset: offset as u64, length: length.map(|length| length as u64), ..ReadOptions::default() };
        if let Ok(content) = host.block_on(files(&host).read("a", options)) {
            let start = offset.min(CONTENT.len());
            let end = length.map_or(CONTENT.len(), |length| CONTENT.len().min(start + length));
            // A node may lie about the size of the file, but a byte is always the one at its place.
            prop_assert!(CONTENT[start..end].starts_with(&content.data), "{:?} is not at {}", content.data, offset);
        }
    }
}
