//! Files of this machine as content that is sent.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Result};
use std::path::Path;
use std::time::SystemTime;

use bytes::Bytes;
use cells_driver::Upload;
use futures::stream;

/// The file `path` of this machine as content for
/// [`FileMutations::replace`](cells_driver::FileMutations::replace). It is read while it is sent, 256 KiB at a time. A file
/// of which the size or the time of modification changes meanwhile fails the write, and nothing is committed.
///
/// Needs a tokio runtime.
///
/// # Errors
/// When the file cannot be opened, or is a directory.
///
/// ```no_run
/// # use cells_driver::{FileMutationOptions, FileMutations, ReplaceCondition};
/// # async fn example(writes: FileMutations) -> Result<(), Box<dyn std::error::Error>> {
/// let content = cells_native::upload_file("holiday.jpg").await?;
/// let options = FileMutationOptions {
///     progress: Some(Box::new(|done, all| println!("{done} of {all} bytes"))),
///     ..FileMutationOptions::default()
/// };
/// writes.replace("pictures/holiday.jpg", content, ReplaceCondition::CreateOnly, options).await?;
/// # Ok(())
/// # }
/// ```
pub async fn upload_file(path: impl AsRef<Path>) -> Result<Upload> {
    let path = path.as_ref().to_owned();
    let source = blocking(move || Source::open(&path)).await?;
    let size = source.version.map(|version| version.size);
    let pieces = stream::try_unfold(source, |source| async {
        let (piece, source) = blocking(move || source.read()).await?;
        Ok((!piece.is_empty()).then_some((piece, source)))
    });
    Ok(Upload::stream(size, pieces))
}

struct Source {
    file: File,
    /// What the file was when it was opened. A pipe or a device has none: it ends when it ends.
    version: Option<Version>,
}

/// What changes with the content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    size: u64,
    modified: Option<SystemTime>,
}

impl Source {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        let version = metadata.is_file().then(|| Version::of(&metadata));
        Ok(Self { file, version })
    }

    /// The next piece; an empty one is the end.
    fn read(self) -> Result<(Bytes, Self)> {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        (&self.file).take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
        // Asked at the end, which the driver awaits before it sends the last bytes.
        if piece.is_empty()
            && let Some(version) = self.version
            && Version::of(&self.file.metadata()?) != version
        {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok((piece.into(), self))
    }
}

impl Version {
    fn of(metadata: &Metadata) -> Self {
        Self { size: metadata.len(), modified: metadata.modified().ok() }
    }
}

/// Runs `work` where it may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}

/// Read at a time.
const PIECE_BYTES: usize = 256 * 1024;
