//! Files of this machine as content that is sent.

use std::fs::File;
use std::io::{Read, Result};
use std::path::Path;

use bytes::Bytes;
use cells_driver::Upload;
use futures::stream;

/// The file `path` of this machine as content for
/// [`FileMutations::replace`](cells_driver::FileMutations::replace). It is read while it is sent, 256 KiB at a time. A file
/// that changes its size meanwhile fails the write, and nothing is committed.
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
    let (file, size) = blocking(move || {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(std::io::ErrorKind::IsADirectory.into());
        }
        // A pipe or a device ends when it ends.
        Ok((file, metadata.is_file().then_some(metadata.len())))
    })
    .await?;
    let pieces = stream::try_unfold(file, |file| async {
        let (piece, file) = blocking(move || {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            (&file).take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
            Ok((piece, file))
        })
        .await?;
        Ok((!piece.is_empty()).then(|| (Bytes::from(piece), file)))
    });
    Ok(Upload::stream(size, pieces))
}

/// Runs `work` where it may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}

/// Read at a time.
const PIECE_BYTES: usize = 256 * 1024;
