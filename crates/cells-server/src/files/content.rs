//! `GET` and `HEAD /v1/fs/{alias}/content` (`files-http.md` §4.5).

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::{Stream, StreamExt, iter};
use rustix::buffer::spare_capacity;
use rustix::fs::Statx;
use rustix::io::{Errno, pread};
use serde::Deserialize;

use super::admit;
use super::confine::{ExportPath, stat_open};
use super::range::RangeRequest;
use super::revision::revision;
use super::workers::Workers;
use crate::app::AppState;
use crate::deadline::Deadline;
use crate::extract::StrictQuery;
use crate::refusal::Refusal;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContentQuery {
    pub(super) path: String,
}

pub(super) async fn content(
    State(app): State<AppState>,
    Path(alias): Path<String>,
    StrictQuery(query): StrictQuery<ContentQuery>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let (_, _, export) = admit(&app, &headers, &alias)?;
    let deadline = Deadline::start(&headers)?;
    let path = ExportPath::parse(query.path).ok_or(Refusal::INVALID)?;
    let strong = export.is_writable();
    let workers = app.files.workers.clone();
    let (file, stat) = workers.run(deadline, move || Ok(export.root.open_file(&path)?)).await?;
    let revision = strong.then(|| revision(&stat));

    let if_match = headers.get(header::IF_MATCH);
    if let (Some(wanted), Some(revision)) = (if_match, &revision)
        && wanted.as_bytes() != revision.as_bytes()
    {
        return Err(Refusal::CONFLICT);
    }
    let size = stat.stx_size;
    let (status, range) = match RangeRequest::parse(range_header(&headers, revision.as_deref()), size) {
        RangeRequest::Whole => (StatusCode::OK, 0..size),
        RangeRequest::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        RangeRequest::Unreadable => return Err(Refusal::INVALID),
        RangeRequest::Unsatisfiable => {
            let content_range = [(header::CONTENT_RANGE, format!("bytes */{size}"))];
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, content_range).into_response());
        }
    };

    let mut reply = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::CONTENT_LENGTH, range.end - range.start)
        .header(header::ACCEPT_RANGES, "bytes");
    if status == StatusCode::PARTIAL_CONTENT {
        reply = reply.header(header::CONTENT_RANGE, format!("bytes {}-{}/{size}", range.start, range.end - 1));
    }
    if let Some(revision) = &revision {
        reply = reply.header(header::ETAG, revision);
    }
    let download = Arc::new(Download { file, promised: strong.then_some(stat), end: range.end });
    reply.body(Body::from_stream(download.stream(range.start, deadline, workers))).map_err(|_| Refusal::IO)
}

/// The `Range` header, unless `If-Range` switches it off.
fn range_header<'a>(headers: &'a HeaderMap, revision: Option<&str>) -> Option<&'a [u8]> {
    let range = headers.get(header::RANGE)?.as_bytes();
    match headers.get(header::IF_RANGE) {
        None => Some(range),
        Some(wanted) => revision.is_some_and(|revision| wanted.as_bytes() == revision.as_bytes()).then_some(range),
    }
}

/// A file that is being sent.
struct Download {
    file: OwnedFd,
    /// On a writable export: the state of the file that the `ETag` promises.
    promised: Option<Statx>,
    end: u64,
}

impl Download {
    /// The bytes from `start`. One piece is read ahead while another is sent; nothing is read that the client does not
    /// take. An error cuts the body, so that the client sees fewer bytes than the reply announced.
    fn stream(
        self: Arc<Self>,
        start: u64,
        deadline: Deadline,
        workers: Workers,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        let end = self.end;
        let pieces = std::iter::successors(Some(start), |at| Some(at + PIECE_BYTES)).take_while(move |at| *at < end);
        let read = move |at: u64| {
            let (download, workers) = (Arc::clone(&self), workers.clone());
            async move {
                let piece = at..end.min(at + PIECE_BYTES);
                let bytes = workers.run(deadline, move || Ok(download.read(piece)?)).await;
                bytes.map_err(|refusal| io::Error::other(refusal.code))
            }
        };
        iter(pieces).map(read).buffered(READ_AHEAD)
    }

    fn read(&self, piece: Range<u64>) -> Result<Bytes, Errno> {
        let wanted = usize::try_from(piece.end - piece.start).map_err(|_| Errno::OVERFLOW)?;
        let mut bytes = Vec::with_capacity(wanted);
        while bytes.len() < wanted {
            let at = piece.start + bytes.len() as u64;
            match pread(&self.file, spare_capacity(&mut bytes), at) {
                Ok(0) => return Err(Errno::IO), // the file became shorter
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        bytes.truncate(wanted); // the allocator may have given more room than asked for
        if piece.end == self.end {
            self.check_promise()?;
        }
        Ok(bytes.into())
    }

    /// Bytes that were written while they were sent do not belong to the revision in the header: the last piece is kept
    /// back. A file that was only renamed, replaced or removed is still the promised one.
    fn check_promise(&self) -> Result<(), Errno> {
        let written = |stat: &Statx| (stat.stx_size, stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec);
        match &self.promised {
            Some(promised) if written(promised) != written(&stat_open(self.file.as_fd())?) => Err(Errno::STALE),
            _ => Ok(()),
        }
    }
}

/// Measured: smaller pieces cost more time in hand-overs between threads, larger ones are not faster.
const PIECE_BYTES: u64 = 512 * 1024;
/// Pieces in flight: one that is sent and one that is read meanwhile.
const READ_AHEAD: usize = 2;
