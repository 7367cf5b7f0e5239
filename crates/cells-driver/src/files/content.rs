//! One request for content, and what its response holds (`files-http.md` §4.5).

use cells_protocol::error::ErrorKind;
use cells_protocol::files::{ContentRange, digits};
use cells_protocol::limits::{READ_MAX_BYTES, SAFE_INTEGER_MAX};

use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::host::{HttpBody, HttpResponse};
use crate::node::Link;
use crate::transport::{Call, content_length, is_success};

/// Which bytes of a file are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) offset: u64,
    pub(super) length: Option<u64>,
}

impl Range {
    /// Checks that the range can be written down.
    pub(super) fn new(operation: &'static str, offset: u64, length: Option<u64>) -> Result<Self> {
        let end = offset.checked_add(length.unwrap_or(0));
        if end.is_none_or(|end| end > SAFE_INTEGER_MAX) {
            return Err(Error::invalid(operation, format!("offset and length reach beyond {SAFE_INTEGER_MAX}")));
        }
        Ok(Self { offset, length })
    }

    /// The header; none for a whole file. The length is not 0.
    fn header(self) -> Option<String> {
        match self.length {
            Some(length) => Some(format!("bytes={}-{}", self.offset, self.offset + length - 1)),
            None if self.offset > 0 => Some(format!("bytes={}-", self.offset)),
            None => None,
        }
    }
}

/// The body of a response, and which of its bytes were asked for.
pub(super) struct Content {
    pub(super) body: Option<Box<dyn HttpBody>>,
    /// Bytes of the body before the first that was asked for: the node did not honour the range.
    pub(super) skip: u64,
    /// Bytes that were asked for and exist.
    pub(super) size: u64,
    /// The body has exactly these bytes, as its `Content-Length` says.
    pub(super) is_exact: bool,
    /// Size of the file.
    pub(super) total: u64,
    pub(super) revision: Option<String>,
}

/// Asks for `range` of the content at `url`. `sends_deadline` is false for a body that may take longer than one budget.
pub(super) async fn open(
    link: &Link,
    operation: &'static str,
    url: String,
    range: Range,
    if_revision: Option<&str>,
    sends_deadline: bool,
    budget: &Budget,
) -> Result<Content> {
    let mut call = Call::get(operation, url);
    call.headers = vec![("accept", "*/*".to_owned())];
    call.headers.extend(range.header().map(|header| ("range", header)));
    call.headers.extend(if_revision.map(|revision| ("if-match", revision.to_owned())));
    call.sends_deadline = sends_deadline;
    call.is_accepted = |status| is_success(status) || status == RANGE_NOT_SATISFIABLE;
    let response = link.open(&call, budget).await?;
    let revision = response.header("etag").map(str::to_owned);
    if let Some(expected) = if_revision {
        // A node that has nothing in that range checked the revision first, and need not repeat it.
        let unsaid = revision.is_none() && response.status == RANGE_NOT_SATISFIABLE;
        if revision.as_deref() != Some(expected) && !unsaid {
            return Err(changed(operation));
        }
    }
    let extent = Extent::of(operation, range, &response)?;
    let Extent { skip, size, is_exact, total } = extent;
    let body = (size > 0).then_some(response.body);
    Ok(Content { body, skip, size, is_exact, total, revision })
}

/// The error of a file that is not the one that was asked for, or not the one that was read so far.
pub(super) fn changed(operation: &'static str) -> Error {
    Error::new(ErrorKind::Conflict, operation, "the file has changed, or its node gives no revision to compare")
}

#[derive(Debug, PartialEq, Eq)]
struct Extent {
    skip: u64,
    size: u64,
    is_exact: bool,
    total: u64,
}

impl Extent {
    /// What `response` holds of `range`.
    fn of(operation: &'static str, range: Range, response: &HttpResponse) -> Result<Self> {
        let wrong = |problem: &str| Err(Error::protocol(operation, problem));
        let length = content_length(response);
        match response.status {
            206 if range.header().is_none() => wrong("it is a part of the file, but all of it was asked for"),
            206 => {
                let Some(part) = response.header("content-range").and_then(ContentRange::parse) else {
                    return wrong("its Content-Range is missing or malformed");
                };
                let last = match range.length {
                    // The last range of a file may be shorter than asked.
                    Some(length) => (range.offset + length - 1).min(part.total - 1),
                    None => part.total - 1,
                };
                if part.first != range.offset || part.last != last {
                    return wrong("its Content-Range is not the range that was asked for");
                }
                if length.is_some_and(|length| length != part.len()) {
                    return wrong("its Content-Range and its Content-Length differ");
                }
                Ok(Self { skip: 0, size: part.len(), is_exact: length.is_some(), total: part.total })
            }
            200 => {
                let Some(total) = length else { return wrong("it does not say how long it is") };
                if range.offset > total {
                    return Err(beyond_the_end(operation, range.offset, total));
                }
                if range.offset > READ_MAX_BYTES {
                    return wrong("it is the whole file, but a range far behind its start was asked for");
                }
                let rest = total - range.offset;
                let size = range.length.map_or(rest, |length| length.min(rest));
                Ok(Self { skip: range.offset, size, is_exact: size == total, total })
            }
            RANGE_NOT_SATISFIABLE => {
                let total = response.header("content-range").and_then(|header| header.strip_prefix("bytes */"));
                match total.and_then(digits) {
                    Some(total) if range.offset == total => Ok(Self { skip: 0, size: 0, is_exact: true, total }),
                    Some(total) => Err(beyond_the_end(operation, range.offset, total)),
                    None => {
                        let message = "the range starts beyond the end of the file";
                        Err(Error::invalid(operation, message).with_status(RANGE_NOT_SATISFIABLE))
                    }
                }
            }
            _ => wrong("its status is neither 200 nor 206"),
        }
    }
}

fn beyond_the_end(operation: &'static str, offset: u64, total: u64) -> Error {
    let message = format!("offset {offset} is beyond the end of the file, which has {total} bytes");
    Error::invalid(operation, message).with_status(RANGE_NOT_SATISFIABLE)
}

const RANGE_NOT_SATISFIABLE: u16 = 416;
