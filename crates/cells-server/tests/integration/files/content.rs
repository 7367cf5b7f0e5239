//! `files-http.md` §4.5.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use reqwest::Method;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{KEY, Reply, TestNode, query_value, refusal};

#[tokio::test]
async fn ranges_give_exactly_their_bytes() {
    let node = TestNode::start().await;
    fs::write(node.path("ro/ten"), "0123456789").unwrap();
    fs::write(node.path("ro/empty"), "").unwrap();
    let whole = || (200, "0123456789", None);
    for (range, expected) in [
        (None, Ok(whole())),
        (Some("bytes=0-0"), Ok((206, "0", Some("bytes 0-0/10")))),
        (Some("bytes=2-4"), Ok((206, "234", Some("bytes 2-4/10")))),
        (Some("bytes=7-"), Ok((206, "789", Some("bytes 7-9/10")))),
        (Some("bytes=7-99"), Ok((206, "789", Some("bytes 7-9/10")))),
        (Some("bytes=-4"), Ok((206, "6789", Some("bytes 6-9/10")))),
        (Some("bytes=-99"), Ok((206, "0123456789", Some("bytes 0-9/10")))),
        (Some("bytes=0-1,4-5"), Ok(whole())),
        (Some("lines=0-1"), Ok(whole())),
        (Some("bytes=10-"), Ok((416, "", Some("bytes */10")))),
        (Some("bytes=5-4"), Ok((416, "", Some("bytes */10")))),
        (Some("bytes=-0"), Ok((416, "", Some("bytes */10")))),
        (Some("bytes="), Err(refusal(400, "EINVAL"))),
        (Some("bytes=-"), Err(refusal(400, "EINVAL"))),
        (Some("bytes=x-y"), Err(refusal(400, "EINVAL"))),
    ] {
        let ask = |request: reqwest::RequestBuilder| match range {
            Some(range) => request.header("range", range),
            None => request,
        };
        let reply = Reply::of(ask(node.content("ro", "ten"))).await;
        let (status, body, content_range) = match expected {
            Ok(expected) => expected,
            Err(expected) => {
                assert_eq!(reply.refusal(), expected, "{range:?}");
                continue;
            }
        };
        assert_eq!((reply.status, &reply.body[..]), (status, body.as_bytes()), "{range:?}");
        assert_eq!(reply.header("content-range"), content_range, "{range:?}");
        assert_eq!(reply.header("content-length"), Some(body.len().to_string().as_str()), "{range:?}");
        if status != 416 {
            assert_eq!(reply.header("content-type"), Some("application/octet-stream"), "{range:?}");
            assert_eq!(reply.header("accept-ranges"), Some("bytes"), "{range:?}");
            assert_eq!(reply.header("etag"), None, "{range:?}: a read-only export has no revisions");
        }

        let route = format!("/v1/fs/ro/content?path={}", query_value("ten"));
        let head = Reply::of(ask(node.anonymous(Method::HEAD, &route).bearer_auth(KEY))).await;
        assert_eq!((head.status, head.body.len()), (status, 0), "HEAD {range:?}");
        for header in ["content-length", "content-range", "content-type", "accept-ranges"] {
            assert_eq!(head.header(header), reply.header(header), "HEAD {range:?} {header}");
        }
    }
    let empty = Reply::of(node.content("ro", "empty")).await;
    assert_eq!((empty.status, empty.body.len(), empty.header("content-length")), (200, 0, Some("0")));
    let empty_range = Reply::of(node.content("ro", "empty").header("range", "bytes=0-0")).await;
    assert_eq!((empty_range.status, empty_range.header("content-range")), (416, Some("bytes */0")));
}

#[tokio::test]
async fn preconditions_are_compared_with_the_revision() {
    let node = TestNode::start().await;
    for alias in ["rw", "ro"] {
        fs::write(node.path(alias).join("ten"), "0123456789").unwrap();
    }
    let stat = Reply::of(node.stat("rw", &["ten"])).await.json();
    let revision = stat["results"][0]["stat"]["revision"].as_str().unwrap();
    let plain = Reply::of(node.content("rw", "ten")).await;
    assert_eq!(plain.header("etag"), Some(revision), "the revision of a file is the same on every route");
    let list = format!("{revision}, \"x\"");
    let weak = format!("W/{revision}");
    let part = "bytes=2-4";
    for (alias, header, value, range, expected) in [
        ("rw", "if-match", revision, None, Ok(200)),
        ("rw", "if-match", revision, Some(part), Ok(206)),
        ("rw", "if-match", "\"other\"", None, Err(())),
        ("rw", "if-match", "*", None, Err(())),
        ("rw", "if-match", list.as_str(), None, Err(())),
        ("rw", "if-match", weak.as_str(), None, Err(())),
        ("rw", "if-match", revision.trim_matches('"'), None, Err(())),
        ("rw", "if-match", "\"other\"", Some("bytes=x"), Err(())),
        ("ro", "if-match", "\"other\"", None, Ok(200)),
        ("rw", "if-range", revision, Some(part), Ok(206)),
        ("rw", "if-range", "\"other\"", Some(part), Ok(200)),
        ("rw", "if-range", "\"other\"", Some("bytes=99-"), Ok(200)),
        ("ro", "if-range", "\"other\"", Some(part), Ok(200)),
        ("rw", "if-none-match", revision, None, Ok(200)),
        ("rw", "if-none-match", "*", None, Ok(200)),
    ] {
        let mut request = node.content(alias, "ten").header(header, value);
        if let Some(range) = range {
            request = request.header("range", range);
        }
        let reply = Reply::of(request).await;
        let what = format!("{alias} {header}: {value} {range:?}");
        match expected {
            Ok(status) => {
                let body = if status == 206 { "234" } else { "0123456789" };
                assert_eq!((reply.status, &reply.body[..]), (status, body.as_bytes()), "{what}");
                assert_eq!(reply.header("etag"), (alias == "rw").then_some(revision), "{what}");
            }
            Err(()) => assert_eq!(reply.refusal(), refusal(412, "ECONFLICT"), "{what}"),
        }
    }
    fs::write(node.path("rw/ten"), "changed").unwrap();
    let stale = Reply::of(node.content("rw", "ten").header("if-match", revision)).await;
    assert_eq!(stale.refusal(), refusal(412, "ECONFLICT"), "an edit from outside");
}

#[tokio::test]
async fn only_files_have_content() {
    let node = TestNode::start().await;
    fs::create_dir(node.path("ro/dir")).unwrap();
    fs::write(node.path("ro/file"), "").unwrap();
    symlink("file", node.path("ro/link")).unwrap();
    let _socket = UnixListener::bind(node.path("ro/socket")).unwrap();
    mknodat(CWD, node.path("ro/pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    for (path, expected) in [
        ("", refusal(422, "ECAPABILITY")),
        ("dir", refusal(422, "ECAPABILITY")),
        ("socket", refusal(422, "ECAPABILITY")),
        ("pipe", refusal(422, "ECAPABILITY")),
        ("link", refusal(403, "EACCES")),
        ("missing", refusal(404, "ENOENT")),
        ("file/x", refusal(400, "ENOTDIR")),
    ] {
        assert_eq!(Reply::of(node.content("ro", path)).await.refusal(), expected, "{path}");
    }
}

/// Bytes that differ at every offset of a piece.
fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at % 251) as u8 ^ (at >> 16) as u8).collect()
}

#[tokio::test]
async fn large_files_arrive_whole_over_piece_borders() {
    let node = TestNode::start().await;
    for size in [524_287, 524_288, 524_289, 1_048_576, 5_000_001] {
        let bytes = pattern(size);
        fs::write(node.path("rw/large"), &bytes).unwrap();
        let reply = Reply::of(node.content("rw", "large")).await;
        assert!(reply.body == bytes, "{size}");
        let (first, last) = (100_000, size - 2);
        let range = format!("bytes={first}-{last}");
        let reply = Reply::of(node.content("rw", "large").header("range", &range)).await;
        assert!(reply.body == bytes[first..=last], "{range} of {size}");
    }
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_sent_is_cut_where_a_revision_was_promised() {
    type Change = fn(&Path, &fs::File);
    let size: u64 = 64 * 1024 * 1024;
    for (what, alias, change, cut) in [
        ("cut short", "rw", (|_, file| file.set_len(1024 * 1024).unwrap()) as Change, true),
        ("cut short", "ro", |_, file| file.set_len(1024 * 1024).unwrap(), true),
        ("one byte written", "rw", |_, file| file.write_all_at(b"x", 0).unwrap(), true),
        ("one byte written", "ro", |_, file| file.write_all_at(b"x", 0).unwrap(), false),
        ("grown", "ro", |_, file| file.set_len(1 << 30).unwrap(), false),
        ("removed", "rw", |path, _| fs::remove_file(path).unwrap(), false),
        ("left alone", "rw", |_, _| {}, false),
    ] {
        let node = TestNode::start().await;
        let path = node.path(alias).join("large");
        fs::File::create(&path).unwrap().set_len(size).unwrap();
        let mut response = node.content(alias, "large").send().await.unwrap();
        let mut received = response.chunk().await.unwrap().unwrap().len() as u64;
        change(&path, &fs::File::options().write(true).open(&path).unwrap());
        let failed = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => received += chunk.len() as u64,
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        assert_eq!((failed, received < size), (cut, cut), "{what} {alias}: {received}");
    }
}
