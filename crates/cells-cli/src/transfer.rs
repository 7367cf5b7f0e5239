//! What `get` and `put` share.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// The SHA-256 of content that comes in pieces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hash(Sha256);

impl Hash {
    /// The hash of a whole file.
    pub(crate) fn of_file(path: &Path) -> io::Result<String> {
        let mut hash = Self::default();
        hash.add_file(path)?;
        Ok(hash.finish())
    }

    /// Adds the content of a file, and gives its size.
    pub(crate) fn add_file(&mut self, path: &Path) -> io::Result<u64> {
        let mut file = File::open(path)?;
        let mut buffer = vec![0; 256 * 1024];
        let mut size = 0;
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(size),
                count => {
                    self.add(buffer.get(..count).unwrap_or_default());
                    size += count as u64;
                }
            }
        }
    }

    /// Adds the next piece.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// 64 lowercase hex digits.
    pub(crate) fn finish(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// How many files are on their way at the same time.
pub(crate) const TRANSFERS_AT_A_TIME: usize = 8;
