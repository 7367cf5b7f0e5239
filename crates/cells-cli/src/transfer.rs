//! What `get`, `put` and `rm` share.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use futures::{StreamExt as _, stream};
use indicatif::ProgressBar;
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;

use crate::failure::{Exit, Failure};

/// What came of many pieces of work, each about one file.
pub(crate) struct Ended<T> {
    /// Of those that succeeded, in any order.
    pub(crate) done: Vec<T>,
    /// How many failed. Each was told.
    pub(crate) failed: usize,
    /// How the program ends.
    pub(crate) exit: Exit,
}

/// Does `work`, some pieces at a time. One that fails is told at once, and the others go on, unless it is not the file that is
/// to blame; those under way then still come to their end.
pub(crate) async fn for_all<T>(
    work: impl Iterator<Item = impl Future<Output = Result<T, Failure>>>,
    json: bool,
    progress: &ProgressBar,
) -> Ended<T> {
    let goes_on = Cell::new(true);
    let mut ended = Ended { done: Vec::new(), failed: 0, exit: Exit::Done };
    let mut work = stream::iter(work.take_while(|_| goes_on.get())).buffer_unordered(TRANSFERS_AT_A_TIME);
    while let Some(result) = work.next().await {
        match result {
            Ok(done) => ended.done.push(done),
            Err(failure) => {
                progress.suspend(|| failure.tell(json));
                goes_on.set(goes_on.get() && failure.is_of_one_file());
                // What was not begun has not failed.
                ended.failed += usize::from(!matches!(failure, Failure::Interrupted));
                ended.exit = ended.exit.and(failure.exit());
            }
        }
    }
    progress.finish_and_clear();
    ended
}

/// The SHA-256 of content that comes in pieces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hash(Sha256);

impl Hash {
    /// The hash of a whole file.
    pub(crate) async fn of_file(path: &Path) -> io::Result<String> {
        let path = path.to_owned();
        Ok(blocking(move || Self::of_rest(&mut File::open(path)?)).await?.0.finish())
    }

    /// The hash of what `file` still holds, and its size. Blocks.
    pub(crate) fn of_rest(file: &mut File) -> io::Result<(Self, u64)> {
        let mut hash = Self::default();
        let mut buffer = vec![0; 256 * 1024];
        let mut size = 0;
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok((hash, size)),
                count => {
                    hash.add(buffer.get(..count).unwrap_or_default());
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

/// Does `work` where it may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

/// How many files are on their way at the same time.
const TRANSFERS_AT_A_TIME: usize = 8;
