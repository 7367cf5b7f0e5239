//! Content of a file as a stream that survives a broken connection.

use bytes::Bytes;
use cells_protocol::files::FileStat;

use super::content::{self, Content, Range, changed};
use super::{FileClient, check};
use crate::budget::{Budget, Timer};
use crate::error::{CONNECT, Error, Result};
use crate::host::{Chunk, HttpBody};
use crate::transport::{cut_off, host_error};
use crate::{OperationOptions, ReadOptions};

/// Content of a file, piece by piece, without a limit of its size.
///
/// A node ends every transfer after 30 s, and networks break. The stream then goes on by itself with a request for the
/// rest, and proves that the file is still the same: by its revision, or, where the export has none, by its size and its
/// time of modification, for which the stream asks once before it starts. A file that changed ends the stream with
/// `ECONFLICT`; the pieces never come from two versions. Three breaks in a row without a byte between them end it with
/// `EIO`.
///
/// There is no budget for the whole stream. [`OperationOptions::timeout_ms`] holds for each piece: 30 s without a byte
/// end the stream with `ETIMEDOUT`. Dropping the stream ends the transfer.
///
/// ```no_run
/// # use cells_driver::{FileClient, ReadOptions, Result};
/// # async fn example(files: FileClient) -> Result<()> {
/// let mut stream = files.read_stream("backup.tar", ReadOptions::default()).await?;
/// let mut received = 0;
/// while let Some(piece) = stream.next().await? {
///     received += piece.len() as u64;
/// }
/// assert_eq!(received, stream.size);
/// # Ok(())
/// # }
/// ```
#[must_use = "a stream transfers nothing unless it is read"]
pub struct ReadStream {
    /// How many bytes the stream gives in all.
    pub size: u64,
    /// The revision that they belong to, on exports that have revisions.
    pub revision: Option<String>,
    files: FileClient,
    path: String,
    options: OperationOptions,
    /// Size of the file.
    total: u64,
    /// Attributes of the file before the stream was opened, for exports without revisions.
    before: Option<FileStat>,
    /// The next byte to give, and the one after the last.
    position: u64,
    end: u64,
    body: Option<Box<dyn HttpBody>>,
    skip: u64,
    /// Breaks since the last byte.
    n_breaks: u32,
    /// The timer of the pieces, while there are more to come.
    timer: Timer,
    failed: Option<Error>,
}

pub(super) async fn open(files: &FileClient, path: &str, options: ReadOptions) -> Result<ReadStream> {
    let link = &files.0.link;
    link.check_open(READ_STREAM)?;
    check(READ_STREAM, path)?;
    let range = Range::new(READ_STREAM, options.offset, options.length)?;
    let empty = Content { body: None, skip: 0, size: 0, is_exact: true, total: 0, revision: None };
    let (before, content) = if range.length == Some(0) {
        (None, empty)
    } else {
        let budget = link.budget(&options.operation);
        let open = open_first(files, path, range, options.if_revision.as_deref(), &options.operation, &budget);
        budget.run(READ_STREAM, open).await?
    };
    Ok(ReadStream {
        size: content.size,
        revision: content.revision,
        files: files.clone(),
        path: path.to_owned(),
        options: options.operation,
        total: content.total,
        before,
        position: range.offset,
        end: range.offset + content.size,
        body: content.body,
        skip: content.skip,
        n_breaks: 0,
        timer: Timer::default(),
        failed: None,
    })
}

async fn open_first(
    files: &FileClient,
    path: &str,
    range: Range,
    if_revision: Option<&str>,
    options: &OperationOptions,
    budget: &Budget,
) -> Result<(Option<FileStat>, Content)> {
    // The attributes must be older than the content, else a change between the two would go unseen. If they cannot be
    // had, the request for the content says why.
    let before = match if_revision {
        Some(_) => None,
        None => files.stat(path, options.clone()).await.ok().flatten(),
    };
    let url = files.0.url_of("content", path).await?;
    let content = content::open(&files.0.link, READ_STREAM, url, range, if_revision, false, budget).await?;
    Ok((before, content))
}

impl ReadStream {
    /// The next piece, never empty; `None` at the end, when all [`size`](Self::size) bytes were given.
    ///
    /// # Errors
    /// See [`ReadStream`]. The stream is over then, and gives the same error again.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        Ok(self.next_unread().await?.map(Chunk::into_bytes))
    }

    /// As [`next`](Self::next), for a caller that hands the bytes on to the platform they came from: they need not be
    /// copied into the memory of this program.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn next_unread(&mut self) -> Result<Option<Chunk>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let budget = self.files.0.link.budget(&self.options);
        let timer = std::mem::take(&mut self.timer);
        let mut piece = budget.run(READ_STREAM, self.advance(&budget)).with_timer(timer);
        let result = (&mut piece).await;
        let timer = piece.into_timer();
        match &result {
            Ok(_) if self.position < self.end => self.timer = timer,
            Ok(_) => {}
            Err(error) => {
                self.failed = Some(error.clone());
                self.body = None;
            }
        }
        result
    }

    async fn advance(&mut self, budget: &Budget) -> Result<Option<Chunk>> {
        while self.position < self.end {
            // Taken out while it is waited for: if the caller drops this call, a piece may be lost with it, and the next
            // call asks the node for it again.
            let problem = match self.body.take() {
                Some(mut body) => match body.next_unread().await {
                    Ok(Some(chunk)) => {
                        self.body = Some(body);
                        let chunk = self.take(chunk);
                        if chunk.is_empty() {
                            continue;
                        }
                        return Ok(Some(chunk));
                    }
                    Ok(None) => cut_off(READ_STREAM, self.size - (self.end - self.position), self.size),
                    Err(error) => host_error(READ_STREAM, error),
                },
                None => match self.reopen(budget).await {
                    Ok(()) => continue,
                    Err(error) if error.operation() == CONNECT => error,
                    Err(error) => return Err(error),
                },
            };
            self.n_breaks += 1;
            if self.n_breaks >= BREAKS_MAX {
                return Err(problem);
            }
        }
        self.body = None;
        Ok(None)
    }

    /// The part of `chunk` that was asked for.
    fn take(&mut self, chunk: Chunk) -> Chunk {
        let length = chunk.len() as u64;
        let skipped = self.skip.min(length);
        self.skip -= skipped;
        let wanted = (self.end - self.position).min(length - skipped);
        // Both ends are at most the length of the chunk.
        let chunk = chunk.slice(skipped as usize..(skipped + wanted) as usize);
        self.position += wanted;
        if wanted > 0 {
            self.n_breaks = 0;
        }
        chunk
    }

    /// Asks for the rest, of the same file.
    async fn reopen(&mut self, budget: &Budget) -> Result<()> {
        if self.n_breaks > 1 {
            self.files.0.link.core.host.sleep(u64::from(self.n_breaks) * BREAK_DELAY_MS).await;
        }
        let rest = Range { offset: self.position, length: Some(self.end - self.position) };
        let revision = self.revision.as_deref();
        let url = self.files.0.url_of("content", &self.path).await?;
        let opened = content::open(&self.files.0.link, READ_STREAM, url, rest, revision, false, budget).await;
        let content = match opened {
            Ok(content) => content,
            // The file is shorter than it was.
            Err(error) if error.status() == Some(416) => return Err(changed(READ_STREAM)),
            Err(error) => return Err(error),
        };
        if content.total != self.total || content.size != self.end - self.position || content.revision != self.revision
        {
            return Err(changed(READ_STREAM));
        }
        if self.revision.is_none() {
            // After the request, so that these attributes are not older than the content.
            let after = self.files.stat(&self.path, self.options.clone()).await?;
            if !same_file(self.before.as_ref(), after.as_ref()) {
                return Err(changed(READ_STREAM));
            }
        }
        self.skip = content.skip;
        self.body = content.body;
        Ok(())
    }
}

impl std::fmt::Debug for ReadStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReadStream({} bytes, {} to come)", self.size, self.end - self.position)
    }
}

/// Whether both are known and nothing tells them apart.
fn same_file(before: Option<&FileStat>, after: Option<&FileStat>) -> bool {
    let known = |stat: &FileStat| stat.modified_at.is_some_and(|time_ms| time_ms > 0);
    before.is_some_and(known) && before == after
}

const READ_STREAM: &str = "read_stream";

/// Breaks in a row, without a byte between them, that end a stream.
const BREAKS_MAX: u32 = 3;
/// Wait before the second request of such a row; the third waits twice as long.
const BREAK_DELAY_MS: u64 = 250;
