//! Reading content into a buffer: ranges, revisions, sizes.

use bytes::Bytes;
use cells_driver::{ErrorKind, FileContent, ReadOptions, Result};
use cells_testkit::fake_host::{FakeHost, FakeReply, FakeRequest};
use serde_json::json;

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{files, host, sent};

const CONTENT: &[u8] = b"0123456789";
const REVISION: &str = "\"5f0c:41\"";

/// A node with one file that serves ranges as `files-http.md` §4.5 says.
pub(crate) fn serve(request: &FakeRequest, content: &'static [u8]) -> FakeReply {
    let total = content.len();
    let range =
        request.header("range").and_then(|range| range.strip_prefix("bytes=")).and_then(|range| range.split_once('-'));
    let Some((first, last)) = range else { return FakeReply::bytes(200, content) };
    let first: usize = first.parse().unwrap();
    if first >= total {
        return FakeReply::bytes(416, "").header("content-range", format!("bytes */{total}"));
    }
    let last = last.parse().unwrap_or(total - 1).min(total - 1);
    FakeReply::bytes(206, &content[first..=last]).header("content-range", format!("bytes {first}-{last}/{total}"))
}

fn read(host: &FakeHost, offset: u64, length: Option<u64>) -> Result<FileContent> {
    let options = ReadOptions { offset, length, ..ReadOptions::default() };
    host.block_on(files(host).read("a", options))
}

#[test]
fn ranges_give_what_there_is() {
    for takes_all in [false, true] {
        for (offset, length, expected, header) in [
            (0, None, Ok("0123456789"), None),
            (0, Some(4), Ok("0123"), Some("bytes=0-3")),
            (4, None, Ok("456789"), Some("bytes=4-")),
            (4, Some(3), Ok("456"), Some("bytes=4-6")),
            (8, Some(100), Ok("89"), Some("bytes=8-107")),
            (10, Some(5), Ok(""), Some("bytes=10-14")),
            (10, None, Ok(""), Some("bytes=10-")),
            (11, None, Err(ErrorKind::Invalid), Some("bytes=11-")),
        ] {
            let host = host(|request| request.path().contains("/content?path=a").then(|| serve(request, CONTENT)));
            if takes_all {
                host.takes_all();
            }
            let result = read(&host, offset, length).map(|content| content.data).map_err(|error| error.kind());
            assert_eq!(result, expected.map(|text| Bytes::from(text.to_owned())), "{offset} {length:?}");
            assert_eq!(sent(&host, "/v1/fs")[0].header("range"), header, "{offset} {length:?}");
        }
    }
}

#[test]
fn what_needs_no_request_sends_none() {
    let host = host(|_| None);
    assert_eq!(read(&host, 5, Some(0)).unwrap().data, Bytes::new());
    assert_eq!(read(&host, u64::MAX, Some(2)).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(read(&host, 1 << 53, None).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(host.requests().len(), 0);
}

#[test]
fn a_node_that_ignores_ranges_is_sliced_or_refused() {
    for (offset, length, expected) in [
        (0, Some(4), Ok("0123")),
        (4, None, Ok("456789")),
        (4, Some(3), Ok("456")),
        (8, Some(100), Ok("89")),
        (10, None, Ok("")),
        (11, None, Err(ErrorKind::Invalid)),
        (40 << 20, Some(1), Err(ErrorKind::Invalid)),
    ] {
        let whole = || FakeReply::bytes(200, "01").chunk("234").chunk("56789");
        let host = host(move |request| request.path().contains("/content").then(whole));
        let result = read(&host, offset, length).map(|content| content.data).map_err(|error| error.kind());
        assert_eq!(result, expected.map(|text| Bytes::from(text.to_owned())), "{offset} {length:?}");
    }
    let large = || FakeReply::bytes(200, "x").header("content-length", (64_u64 << 20).to_string());
    let host = host(move |request| request.path().contains("/content").then(large));
    let error = read(&host, 40 << 20, Some(1)).unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Io, "protocol"));
}

#[test]
fn ranges_that_were_not_asked_for_are_refused() {
    let part = |range: &str, body: &str| FakeReply::bytes(206, body.to_owned()).header("content-range", range);
    for (case, offset, length, reply) in [
        ("unasked part", 0, None, part("bytes 0-3/10", "0123")),
        ("other start", 4, Some(3), part("bytes 3-5/10", "345")),
        ("too long", 4, Some(3), part("bytes 4-7/10", "4567")),
        ("too short inside the file", 4, Some(3), part("bytes 4-5/10", "45")),
        ("rest not up to the end", 4, None, part("bytes 4-8/10", "45678")),
        ("malformed", 4, Some(3), part("bytes 4-6/*", "456")),
        ("missing", 4, Some(3), FakeReply::bytes(206, "456")),
        ("other length", 4, Some(3), part("bytes 4-6/10", "456").header("content-length", "2")),
        ("body cut off", 4, Some(3), part("bytes 4-6/10", "45").without_length()),
        ("whole of unknown length", 4, Some(3), FakeReply::bytes(200, "0123456789").without_length()),
        ("no content", 0, None, FakeReply::bytes(204, "")),
        ("announced and cut off", 0, None, FakeReply::bytes(200, "01234").header("content-length", "10")),
    ] {
        let mut reply = Some(reply);
        let host = host(move |request| request.path().contains("/content").then(|| reply.take().unwrap()));
        let error = read(&host, offset, length).unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Io, "protocol"), "{case}: {error}");
        assert!(error.message().contains("read"), "{case}: {error}");
    }
    let mut reply = Some(FakeReply::bytes(200, "01234").header("content-length", "10").broken());
    let host = host(move |request| request.path().contains("/content").then(|| reply.take().unwrap()));
    assert_eq!(read(&host, 0, None).unwrap_err().operation(), "connect");
}

#[test]
fn more_than_one_buffer_is_refused_before_it_is_read() {
    let large =
        || FakeReply::bytes(200, "x").header("content-length", (32_u64 * 1024 * 1024 + 1).to_string()).wait(60_000);
    let host = host(move |request| request.path().contains("/content").then(large));
    let error = read(&host, 0, None).unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::TooLarge, "read"));
    assert!(host.requests()[0].is_aborted());
}

#[test]
fn a_revision_that_was_asked_for_must_come_back() {
    for (case, reply, expected) in [
        ("the same", FakeReply::bytes(200, CONTENT).header("etag", REVISION), None),
        ("another", FakeReply::bytes(200, CONTENT).header("etag", "\"5f0c:42\""), Some(ErrorKind::Conflict)),
        ("none", FakeReply::bytes(200, CONTENT), Some(ErrorKind::Conflict)),
        ("refused", FakeReply::status(412, &json!({"code": "ECONFLICT"})), Some(ErrorKind::Conflict)),
    ] {
        let mut reply = Some(reply);
        let host = host(move |request| request.path().contains("/content").then(|| reply.take().unwrap()));
        let options = ReadOptions { if_revision: Some(REVISION.to_owned()), ..ReadOptions::default() };
        let result = host.block_on(files(&host).read("a", options));
        assert_eq!(host.requests()[0].header("if-match"), Some(REVISION));
        match expected {
            None => assert_eq!(result.unwrap().revision.as_deref(), Some(REVISION), "{case}"),
            Some(kind) => assert_eq!(result.unwrap_err().kind(), kind, "{case}"),
        }
    }
}
