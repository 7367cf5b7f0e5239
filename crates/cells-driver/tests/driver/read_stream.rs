//! Streams of content that go on when the transfer breaks.

use std::sync::{Arc, Mutex};

use cells_driver::{Cancellation, ErrorKind, FileClient, OperationOptions, ReadOptions, ReadStream, Result};
use cells_testkit::fake_host::{FakeHost, FakeReply, FakeRequest};
use serde_json::json;

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{files, host, sent, within};
use crate::read::serve;

const CONTENT: &[u8] = b"abcdefghijklmnopqrst";

async fn all(stream: &mut ReadStream) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await? {
        assert!(!piece.is_empty());
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

async fn read_all(files: &FileClient, options: ReadOptions) -> Result<Vec<u8>> {
    let mut stream = files.read_stream("a", options).await?;
    let size = stream.size;
    let bytes = all(&mut stream).await?;
    assert_eq!(bytes.len() as u64, size);
    Ok(bytes)
}

/// What a node that cuts every transfer after `n` bytes answers.
fn cut_after(n: usize, request: &FakeRequest, content: &'static [u8], etag: Option<&str>) -> FakeReply {
    let range = request.header("range").and_then(|range| range.strip_prefix("bytes="));
    let first: usize = range.and_then(|range| range.split_once('-')).map_or(0, |(first, _)| first.parse().unwrap());
    let last = range.and_then(|range| range.split_once('-')).and_then(|(_, last)| last.parse().ok());
    let last: usize = last.unwrap_or(content.len() - 1).min(content.len() - 1);
    let status = if range.is_some() { 206 } else { 200 };
    let sent_until = (first + n - 1).min(last);
    let mut reply = FakeReply::bytes(status, &content[first..=sent_until]);
    reply = reply.header("content-length", (last + 1 - first).to_string());
    if range.is_some() {
        reply = reply.header("content-range", format!("bytes {first}-{last}/{}", content.len()));
    }
    if let Some(etag) = etag {
        reply = reply.header("etag", etag);
    }
    if sent_until < last { reply.broken() } else { reply }
}

fn ranges(host: &FakeHost) -> Vec<Option<String>> {
    sent(host, "/v1/fs/notes/content").iter().map(|request| request.header("range").map(str::to_owned)).collect()
}

#[test]
fn a_stream_without_trouble_is_one_request() {
    let host = host(|request| request.path().contains("/content").then(|| serve(request, CONTENT)));
    let files = files(&host);
    for (offset, length, expected) in
        [(0, None, "abcdefghijklmnopqrst"), (18, Some(9), "st"), (3, Some(2), "de"), (20, None, ""), (0, Some(0), "")]
    {
        let options = ReadOptions { offset, length, ..ReadOptions::default() };
        let bytes = host.block_on(read_all(&files, options)).unwrap();
        assert_eq!(bytes, expected.as_bytes(), "{offset} {length:?}");
    }
    assert_eq!(ranges(&host).len(), 4);
    assert_eq!(sent(&host, "/v1/fs/notes/content")[0].header("x-timeout-ms"), None, "the transfer has no budget");
}

#[test]
fn a_stream_that_is_cut_goes_on_from_where_it_was() {
    for (etag, n_stats) in [(Some("\"r:1\""), 1), (None, 4)] {
        let host =
            host(move |request| request.path().contains("/content").then(|| cut_after(6, request, CONTENT, etag)));
        let files = files(&host);
        let bytes = host.block_on(read_all(&files, ReadOptions::default())).unwrap();
        assert_eq!(bytes, CONTENT);
        let expected = [None, Some("bytes=6-19"), Some("bytes=12-19"), Some("bytes=18-19")];
        assert_eq!(ranges(&host), expected.map(|range| range.map(str::to_owned)));
        let if_match: Vec<_> = sent(&host, "/v1/fs/notes/content")
            .iter()
            .skip(1)
            .map(|request| request.header("if-match").map(str::to_owned))
            .collect();
        assert_eq!(if_match, vec![etag.map(str::to_owned); 3]);
        assert_eq!(sent(&host, "/v1/fs/notes/stat").len(), n_stats, "without revisions each part is compared");
    }
}

#[test]
fn pieces_of_two_versions_never_mix() {
    const OTHER: &[u8] = b"ABCDEFGHIJKLMNOPQRST";
    const LONGER: &[u8] = b"ABCDEFGHIJKLMNOPQRSTU";
    let stat = |modified_at: u64| {
        FakeReply::json(&json!({"results": [{"stat": {"kind": "file", "size": 20, "modifiedAt": modified_at}}]}))
    };
    for (case, etags, second, times) in [
        ("another revision", [Some("\"r:1\""), Some("\"r:2\"")], OTHER, [5, 5]),
        ("another size", [None, None], LONGER, [5, 5]),
        ("another time", [None, None], OTHER, [5, 6]),
        ("no time to compare", [None, None], OTHER, [0, 0]),
        ("a revision that came later", [None, Some("\"r:2\"")], OTHER, [5, 5]),
    ] {
        let (mut n_contents, mut n_stats) = (0, 0);
        let host = host(move |request| {
            if request.path().ends_with("/stat") {
                n_stats += 1;
                return Some(stat(times[n_stats - 1]));
            }
            request.path().contains("/content").then(|| {
                n_contents += 1;
                if n_contents == 1 {
                    cut_after(6, request, CONTENT, etags[0])
                } else {
                    cut_after(99, request, second, etags[1])
                }
            })
        });
        let files = files(&host);
        let mut stream = host.block_on(files.read_stream("a", ReadOptions::default())).unwrap();
        let error = host.block_on(all(&mut stream)).unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Conflict, "read_stream"), "{case}");
        assert_eq!(host.block_on(stream.next()).unwrap_err().kind(), ErrorKind::Conflict, "{case}: and stays so");
    }
}

#[test]
fn a_file_that_shrank_or_vanished_ends_the_stream() {
    for (reply, kind) in [
        (FakeReply::bytes(416, "").header("content-range", "bytes */3"), ErrorKind::Conflict),
        (FakeReply::status(412, &json!({"code": "ECONFLICT"})), ErrorKind::Conflict),
        (FakeReply::status(404, &json!({"code": "ENOENT"})), ErrorKind::NotFound),
    ] {
        let mut later = Some(reply);
        let mut n = 0;
        let host = host(move |request| {
            request.path().contains("/content").then(|| {
                n += 1;
                if n == 1 { cut_after(6, request, CONTENT, Some("\"r:1\"")) } else { later.take().unwrap() }
            })
        });
        let files = files(&host);
        assert_eq!(host.block_on(read_all(&files, ReadOptions::default())).unwrap_err().kind(), kind);
    }
}

#[test]
fn breaks_without_progress_end_the_stream() {
    let n_contents = Arc::new(Mutex::new(0));
    let n = Arc::clone(&n_contents);
    let host = host(move |request| {
        request.path().contains("/content").then(|| {
            let mut n = n.lock().unwrap();
            *n += 1;
            if *n == 1 { cut_after(6, request, CONTENT, Some("\"r:1\"")) } else { FakeReply::network_error() }
        })
    });
    let files = files(&host);
    let error = host.block_on(read_all(&files, ReadOptions::default())).unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Io, "connect"));
    assert_eq!(*n_contents.lock().unwrap(), 3, "the break itself and two more");
}

#[test]
fn silence_ends_a_stream_and_slowness_does_not() {
    let slow = || FakeReply::bytes(200, "ab").wait(20_000).chunk("cd").wait(20_000).chunk("ef");
    let silent = || FakeReply::bytes(200, "ab").header("content-length", "4").wait(30_001).chunk("cd");
    let host = host(move |request| match request.path() {
        path if path.ends_with("content?path=a") => Some(slow()),
        path if path.ends_with("content?path=silent") => Some(silent()),
        _ => None,
    });
    let files = files(&host);
    assert_eq!(host.block_on(read_all(&files, ReadOptions::default())).unwrap(), b"abcdef");
    let mut stream = host.block_on(files.read_stream("silent", ReadOptions::default())).unwrap();
    assert_eq!(host.block_on(all(&mut stream)).unwrap_err().kind(), ErrorKind::TimedOut);
    let mut stream = host
        .block_on(files.read_stream("a", ReadOptions { operation: within(10_000), ..ReadOptions::default() }))
        .unwrap();
    assert_eq!(
        host.block_on(all(&mut stream)).unwrap_err().kind(),
        ErrorKind::TimedOut,
        "a budget is one of each piece"
    );
}

#[test]
fn a_dropped_wait_loses_nothing_and_a_cancelled_one_ends_the_stream() {
    let mut n = 0;
    let host = host(move |request| {
        request.path().contains("/content").then(|| {
            n += 1;
            let reply = serve(request, CONTENT).header("etag", "\"r:1\"");
            if n == 1 { reply.delay(0).header("content-length", "20") } else { reply }
        })
    });
    let files = files(&host);
    let (cancel, token) = Cancellation::new();
    let options =
        ReadOptions { operation: OperationOptions { timeout_ms: None, cancel: Some(token) }, ..ReadOptions::default() };
    let mut stream = host.block_on(files.read_stream("a", options)).unwrap();
    drop(stream.next());
    assert_eq!(host.block_on(all(&mut stream)).unwrap(), CONTENT);

    let mut second = host.block_on(files.read_stream("a", ReadOptions::default())).unwrap();
    cancel.cancel();
    assert_eq!(host.block_on(stream.next()).unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(host.block_on(all(&mut second)).unwrap(), CONTENT, "others go on");
}
