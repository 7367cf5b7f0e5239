//! `GET /v1/fs/{alias}/content` (`files-http.md` §4.5).

use std::{
    fs::{File, Metadata},
    io::{self, SeekFrom},
    ops::Range,
    sync::Arc,
};

use axum::{
    body::{Body, Bytes},
    extract::{Path, Query, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt as _, AsyncSeekExt as _},
    sync::OwnedRwLockReadGuard,
    time::Instant,
};

use super::{
    Export, Node, access,
    error::{Code, Refusal},
    paths,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContentQuery {
    pub(super) path: String,
}

pub(super) async fn content(
    State(node): State<Arc<Node>>,
    Path(alias): Path<String>,
    Query(query): Query<ContentQuery>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    node.readable(&headers, &alias)?;
    let gate = node.share_gate()?;
    let deadline = access::deadline(&headers)?;
    let opened = access::blocking(deadline, move || {
        let export = node.exports.get(&alias).ok_or(Code("EACCES"))?;
        Opened::new(export, &query.path)
    })
    .await?;
    let size = opened.metadata.len();
    let condition = |name| headers.get(name).map(HeaderValue::as_bytes);
    let revision = opened.revision.as_deref();
    if let (Some(revision), Some(expected)) = (revision, condition("if-match"))
        && revision.as_bytes() != expected
    {
        return Err(Code("ECONFLICT").into());
    }
    // Without a revision nothing can be equal, so If-Range then always asks for everything.
    let whole = condition("if-range").is_some_and(|expected| revision.is_none_or(|it| it.as_bytes() != expected));
    let range = headers.get(header::RANGE).filter(|_| !whole).and_then(|value| value.to_str().ok());
    let (status, part) = match select(range, size) {
        Selected::Whole => (StatusCode::OK, 0..size),
        Selected::Part(part) => (StatusCode::PARTIAL_CONTENT, part),
        Selected::Unsatisfiable => {
            let total = format!("bytes */{size}");
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, [(header::CONTENT_RANGE, total)]).into_response());
        }
        Selected::Unreadable => return Err(Code("EINVAL").into()),
    };
    let mut reply = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::CONTENT_LENGTH, part.end - part.start)
        .header(header::ACCEPT_RANGES, "bytes");
    if let Some(revision) = revision {
        reply = reply.header(header::ETAG, revision);
    }
    if status == StatusCode::PARTIAL_CONTENT {
        reply = reply.header(header::CONTENT_RANGE, format!("bytes {}-{}/{size}", part.start, part.end - 1));
    }
    reply.body(body(opened.file, part, gate, deadline)).map_err(|_| Code("EIO").into())
}

/// A regular file with its revision at that moment.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) metadata: Metadata,
    pub(super) revision: Option<String>,
}

impl Opened {
    pub(super) fn new(export: &Export, path: &str) -> Result<Opened, Code> {
        let place = paths::resolve(&export.root, path)?;
        let kind = std::fs::symlink_metadata(&place)?.file_type();
        match (kind.is_symlink(), kind.is_file()) {
            (true, _) => return Err(Code("EACCES")),
            (false, false) => return Err(Code("ECAPABILITY")),
            (false, true) => {}
        }
        let file = File::open(&place)?;
        let metadata = file.metadata()?;
        let revision = export.revision(&metadata);
        Ok(Opened { file, metadata, revision })
    }
}

/// Pieces of 64 KiB. The gate is held until the last one, and the deadline cuts the body.
fn body(file: File, part: Range<u64>, gate: OwnedRwLockReadGuard<()>, deadline: Instant) -> Body {
    let start = (tokio::fs::File::from_std(file), part, true, gate);
    Body::from_stream(futures::stream::try_unfold(start, move |(mut file, mut part, first, gate)| async move {
        if part.is_empty() {
            return Ok(None);
        }
        let read = async {
            if first {
                file.seek(SeekFrom::Start(part.start)).await?;
            }
            let wanted = usize::try_from(part.end - part.start).unwrap_or(PIECE).min(PIECE);
            let mut piece = vec![0; wanted];
            let read = file.read(&mut piece).await?;
            piece.truncate(read);
            Ok::<_, io::Error>(piece)
        };
        let piece = tokio::time::timeout_at(deadline, read).await.map_err(|_| io::ErrorKind::TimedOut)??;
        if piece.is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof)); // the file became shorter
        }
        part.start += piece.len() as u64;
        Ok(Some((Bytes::from(piece), (file, part, false, gate))))
    }))
}

#[derive(Debug, PartialEq, Eq)]
enum Selected {
    Whole,
    Part(Range<u64>),
    Unsatisfiable,
    Unreadable,
}

fn select(range: Option<&str>, size: u64) -> Selected {
    let Some(spec) = range.and_then(|range| range.strip_prefix("bytes=")).filter(|spec| !spec.contains(',')) else {
        return Selected::Whole;
    };
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    let Some((first, last)) = spec.split_once('-') else { return Selected::Unreadable };
    let part = match (first, last) {
        ("", last) => number(last).map(|n| size.saturating_sub(n)..size),
        (first, "") => number(first).map(|first| first..size),
        (first, last) => number(first).zip(number(last)).map(|(a, b)| a..b.saturating_add(1).min(size)),
    };
    match part {
        None => Selected::Unreadable,
        Some(part) if part.is_empty() => Selected::Unsatisfiable,
        Some(part) => Selected::Part(part),
    }
}

const PIECE: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::{Selected::*, select};

    #[test]
    fn a_range_selects_bytes_of_the_file() {
        for (range, expected) in [
            (None, Whole),
            (Some("bytes=0-1,3-4"), Whole),
            (Some("lines=0-1"), Whole),
            (Some("bytes=2-4"), Part(2..5)),
            (Some("bytes=2-400"), Part(2..10)),
            (Some("bytes=2-"), Part(2..10)),
            (Some("bytes=-3"), Part(7..10)),
            (Some("bytes=-300"), Part(0..10)),
            (Some("bytes=10-"), Unsatisfiable),
            (Some("bytes=4-2"), Unsatisfiable),
            (Some("bytes=-0"), Unsatisfiable),
            (Some("bytes="), Unreadable),
            (Some("bytes=-"), Unreadable),
            (Some("bytes=x-y"), Unreadable),
            (Some("bytes=+1-2"), Unreadable),
        ] {
            assert_eq!(select(range, 10), expected, "{range:?}");
        }
        assert_eq!(select(Some("bytes=0-"), 0), Unsatisfiable);
    }
}
