//! Content that is sent to a node.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use cells_protocol::error::ErrorKind;
use cells_protocol::ids::Sha256Hex;
use cells_protocol::limits::UPLOAD_MAX_BYTES;
use futures::{Stream, StreamExt};

use crate::error::{Error, Result};
use crate::host::{ByteStream, MaybeSend, PlatformContent, Progress, RequestBody};
use crate::sync::lock;

/// Content of a file that is to be written, of at most 256 MiB. It is sent once.
///
/// ```
/// use cells_driver::Upload;
/// use futures::stream;
///
/// let note = Upload::bytes("remember the milk");
/// assert_eq!(note.size(), Some(17));
///
/// let pieces = stream::iter(["remember ", "the milk"].map(|piece| Ok(piece.into())));
/// assert_eq!(Upload::stream(None, pieces).size(), None);
/// ```
pub struct Upload {
    body: RequestBody,
    sha256: Option<Sha256Hex>,
}

impl Upload {
    /// Content that is in memory.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self { body: RequestBody::Bytes(bytes.into()), sha256: None }
    }

    /// Content that comes piece by piece, when the transfer takes it. At most 1 MiB of it is held in memory besides what
    /// the source holds, if its pieces are not larger than 256 KiB.
    ///
    /// Pass the `size` if it is known: a source that gives another number of bytes then fails the write, and nothing is
    /// committed. An error of the source does the same.
    pub fn stream(size: Option<u64>, pieces: impl Stream<Item = std::io::Result<Bytes>> + MaybeSend + 'static) -> Self {
        Self { body: RequestBody::Stream { size, pieces: Box::pin(pieces) }, sha256: None }
    }

    /// Content in an object of the platform, which sends it as it is: a `Blob`, a `File`, bytes of JavaScript. Only the
    /// [`Host`](crate::host::Host) that knows the object can send it.
    pub fn platform(content: impl PlatformContent) -> Self {
        Self { body: RequestBody::Platform(Box::new(content)), sha256: None }
    }

    /// The same content with its SHA-256, if that is known: it can prove later that a write happened, when the node cannot
    /// tell. The driver finds it out by itself for content in memory.
    #[must_use]
    pub fn with_sha256(self, sha256: Sha256Hex) -> Self {
        Self { sha256: Some(sha256), ..self }
    }

    /// How many bytes there are, if it is known.
    pub fn size(&self) -> Option<u64> {
        self.body.size()
    }

    pub(super) fn sha256(&self) -> Option<&Sha256Hex> {
        self.sha256.as_ref()
    }

    /// The content, if it is in memory. Not a copy.
    pub(super) fn in_memory(&self) -> Option<Bytes> {
        match &self.body {
            RequestBody::Bytes(bytes) => Some(bytes.clone()),
            RequestBody::Stream { .. } | RequestBody::Platform(_) => None,
        }
    }

    /// Checks what can be known before anything is sent.
    pub(super) fn check(&self, operation: &'static str, streams_requests: bool) -> Result<()> {
        if self.size().is_some_and(|size| size > UPLOAD_MAX_BYTES) {
            return Err(Error::new(ErrorKind::TooLarge, operation, TOO_LARGE));
        }
        if matches!(self.body, RequestBody::Stream { .. }) && !streams_requests {
            let message = "this platform cannot send a stream; pass bytes or an object of the platform";
            return Err(Error::new(ErrorKind::Unsupported, operation, message));
        }
        Ok(())
    }

    /// The body of the request. `progress` is told of every piece that the transfer takes; where the platform takes the
    /// content as a whole, only of the start and, by [`Sending::finish`], of the end.
    pub(super) fn into_body(self, streams_requests: bool, progress: Option<Progress>) -> (RequestBody, Sending) {
        let size = self.size();
        let mut sending = Sending { problem: Arc::default(), whole: None };
        let (pieces, progress): (ByteStream, _) = match (self.body, progress) {
            (RequestBody::Stream { pieces, .. }, progress) => (pieces, progress),
            (RequestBody::Bytes(bytes), progress @ Some(_)) if streams_requests => {
                (Box::pin(futures::stream::iter([Ok(bytes)])), progress)
            }
            (body @ (RequestBody::Bytes(_) | RequestBody::Platform(_)), progress) => {
                sending.whole = progress.map(|mut progress| {
                    progress(0, size.unwrap_or(0));
                    (progress, size.unwrap_or(0))
                });
                return (body, sending);
            }
        };
        let problem = Arc::clone(&sending.problem);
        let source = Pieces {
            source: pieces,
            piece: Bytes::new(),
            size,
            received: 0,
            taken: 0,
            ended: false,
            progress,
            problem,
        };
        (RequestBody::Stream { size, pieces: Box::pin(source) }, sending)
    }
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.size() {
            Some(size) => write!(f, "Upload({size} bytes)"),
            None => f.write_str("Upload"),
        }
    }
}

/// What is known of content on its way.
pub(super) struct Sending {
    problem: Arc<Mutex<Option<Problem>>>,
    whole: Option<(Progress, u64)>,
}

impl Sending {
    /// Why the source gave up, if it did.
    pub(super) fn problem(&self, operation: &'static str) -> Option<Error> {
        lock(&self.problem).take().map(|Problem(kind, message)| Error::new(kind, operation, message))
    }

    /// All of it has arrived.
    pub(super) fn finish(&mut self) {
        if let Some((mut progress, size)) = self.whole.take() {
            progress(size, size);
        }
    }
}

struct Problem(ErrorKind, String);

/// Pieces of a source: cut small, counted, and given only when the count can still be right.
struct Pieces {
    source: ByteStream,
    /// What was received and not given yet.
    piece: Bytes,
    size: Option<u64>,
    received: u64,
    taken: u64,
    ended: bool,
    progress: Option<Progress>,
    problem: Arc<Mutex<Option<Problem>>>,
}

impl Pieces {
    fn fail(&mut self, kind: ErrorKind, message: String) -> Poll<Option<std::io::Result<Bytes>>> {
        self.ended = true;
        self.piece = Bytes::new();
        let error = std::io::Error::other(message.clone());
        *lock(&self.problem) = Some(Problem(kind, message));
        Poll::Ready(Some(Err(error)))
    }

    fn give(&mut self) -> Bytes {
        let part = self.piece.split_to(self.piece.len().min(PIECE_MAX_BYTES));
        self.taken += part.len() as u64;
        if let Some(progress) = &mut self.progress {
            progress(self.taken, self.size.unwrap_or(self.taken));
        }
        part
    }
}

impl Stream for Pieces {
    type Item = std::io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            // The last bytes are given once it is sure that they are the last: with them the node has all it needs.
            let is_last = this.size == Some(this.received);
            if !this.piece.is_empty() && (this.ended || !is_last) {
                return Poll::Ready(Some(Ok(this.give())));
            }
            if this.ended {
                return Poll::Ready(None);
            }
            match futures::ready!(this.source.poll_next_unpin(context)) {
                Some(Ok(piece)) if piece.is_empty() => {}
                Some(Ok(piece)) => {
                    this.received += piece.len() as u64;
                    match this.size {
                        Some(size) if this.received > size => {
                            let message = format!("the content has more than the {size} bytes that were announced");
                            return this.fail(ErrorKind::Invalid, message);
                        }
                        None if this.received > UPLOAD_MAX_BYTES => {
                            return this.fail(ErrorKind::TooLarge, TOO_LARGE.to_owned());
                        }
                        Some(_) | None => this.piece = piece,
                    }
                }
                Some(Err(error)) => {
                    // Its own text may name a path of this machine.
                    return this.fail(ErrorKind::Io, format!("the content could not be read: {}", error.kind()));
                }
                None => {
                    this.ended = true;
                    if let Some(size) = this.size.filter(|size| *size != this.received) {
                        let message = format!("the content has {} bytes, but {size} were announced", this.received);
                        return this.fail(ErrorKind::Invalid, message);
                    }
                }
            }
        }
    }
}

/// Larger pieces are cut, so that little is held by the platform at a time.
const PIECE_MAX_BYTES: usize = 256 * 1024;

const TOO_LARGE: &str = "the content has more than the 268435456 bytes that a node takes in one write";

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// What a progress was told.
    type Told = Vec<(u64, u64)>;

    /// The sizes of the pieces, or the error; and what the progress was told.
    fn taken(size: Option<u64>, pieces: Vec<std::io::Result<Bytes>>) -> (Result<Vec<usize>>, Told) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let progress: Progress = {
            let told = Arc::clone(&told);
            Box::new(move |done, all| lock(&told).push((done, all)))
        };
        let upload = Upload::stream(size, futures::stream::iter(pieces));
        let (body, sending) = upload.into_body(true, Some(progress));
        let RequestBody::Stream { size: announced, pieces } = body else { panic!("not a stream") };
        assert_eq!(announced, size);
        let given: Vec<_> = pieces.collect().now_or_never().unwrap();
        let told = lock(&told).clone();
        let sizes = given.iter().flatten().map(Bytes::len).collect();
        let broke = given.iter().any(std::result::Result::is_err);
        match sending.problem("replace") {
            Some(error) => {
                assert!(broke, "{error}");
                (Err(error), told)
            }
            None => {
                assert!(!broke);
                (Ok(sizes), told)
            }
        }
    }

    fn piece(n_bytes: usize) -> std::io::Result<Bytes> {
        Ok(vec![b'x'; n_bytes].into())
    }

    #[test]
    fn pieces_are_cut_and_counted() {
        const MAX: usize = PIECE_MAX_BYTES;
        for (size, pieces, expected, told) in [
            (None, vec![], vec![], vec![]),
            (Some(0), vec![piece(0)], vec![], vec![]),
            (Some(5), vec![piece(2), piece(0), piece(3)], vec![2, 3], vec![(2, 5), (5, 5)]),
            (None, vec![piece(2), piece(3)], vec![2, 3], vec![(2, 2), (5, 5)]),
            (
                Some(2 * MAX as u64 + 1),
                vec![piece(2 * MAX + 1)],
                vec![MAX, MAX, 1],
                vec![
                    (MAX as u64, 2 * MAX as u64 + 1),
                    (2 * MAX as u64, 2 * MAX as u64 + 1),
                    (2 * MAX as u64 + 1, 2 * MAX as u64 + 1),
                ],
            ),
        ] {
            let (sizes, seen) = taken(size, pieces);
            assert_eq!((sizes.unwrap(), seen), (expected, told));
        }
    }

    #[test]
    fn a_source_that_gives_another_number_of_bytes_never_completes() {
        let secret = || Err(std::io::Error::new(std::io::ErrorKind::NotFound, "/home/me/secret"));
        for (size, pieces, kind, message) in [
            (Some(3), vec![piece(2)], ErrorKind::Invalid, "has 2 bytes, but 3 were announced"),
            (Some(3), vec![piece(2), piece(1), piece(1)], ErrorKind::Invalid, "more than the 3 bytes"),
            (Some(0), vec![piece(1)], ErrorKind::Invalid, "more than the 0 bytes"),
            (Some(9), vec![piece(2), secret()], ErrorKind::Io, "could not be read: entity not found"),
            (None, vec![secret()], ErrorKind::Io, "could not be read"),
        ] {
            let (error, told) = taken(size, pieces);
            let error = error.unwrap_err();
            assert_eq!(error.kind(), kind);
            assert!(error.message().contains(message) && !error.message().contains("secret"), "{error}");
            assert!(told.iter().all(|(done, all)| done < all || size.is_none()), "{told:?}");
        }
    }

    #[test]
    fn what_is_too_large_is_refused_before_or_while_it_is_sent() {
        let empty = futures::stream::empty;
        let large = Upload::stream(Some(UPLOAD_MAX_BYTES + 1), empty());
        assert_eq!(large.check("replace", true).unwrap_err().kind(), ErrorKind::TooLarge);
        assert!(Upload::stream(Some(UPLOAD_MAX_BYTES), empty()).check("replace", true).is_ok());
        let kind = Upload::stream(None, empty()).check("replace", false).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::Unsupported);

        let block = Bytes::from(vec![0; 16 * 1024 * 1024]);
        let pieces = (0..17).map(|_| Ok(block.clone())).collect();
        assert_eq!(taken(None, pieces).0.unwrap_err().kind(), ErrorKind::TooLarge);
    }
}
