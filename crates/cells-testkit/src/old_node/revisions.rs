//! Revisions are generations of file objects (`files-http.md` §4.2).

use std::{collections::BTreeMap, fs::Metadata, io, os::unix::fs::MetadataExt as _};

use super::random_hex;

/// The revision table of one writable export.
#[derive(Debug)]
pub(super) struct Revisions {
    nonce: String,
    last: u64,
    /// By device and inode.
    generations: BTreeMap<(u64, u64), u64>,
}

impl Revisions {
    pub(super) fn new() -> io::Result<Revisions> {
        Ok(Revisions { nonce: random_hex::<16>()?, last: 0, generations: BTreeMap::new() })
    }

    /// The revision of a file object, quotes included.
    pub(super) fn of(&mut self, object: &Metadata) -> String {
        if self.generations.len() >= TABLE_MAX {
            self.clear();
        }
        let last = &mut self.last;
        let generation = self.generations.entry((object.dev(), object.ino())).or_insert_with(|| {
            *last += 1;
            *last
        });
        format!("\"{}:{generation}\"", self.nonce)
    }

    /// One object is gone: a later one with its inode is another.
    pub(super) fn retire(&mut self, object: &Metadata) {
        self.generations.remove(&(object.dev(), object.ino()));
    }

    /// Every revision given out is stale.
    pub(super) fn clear(&mut self) {
        self.generations.clear();
    }
}

const TABLE_MAX: usize = 100_000;
