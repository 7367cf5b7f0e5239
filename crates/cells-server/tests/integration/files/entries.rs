//! `files-http.md` §4.4.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use cells_protocol::files::EntriesPage;
use serde_json::json;

use crate::support::{Reply, TestNode, make_files, refusal};

async fn page(node: &TestNode, alias: &str, path: &str, cursor: Option<&str>) -> EntriesPage {
    let reply = Reply::of(node.entries(alias, path, cursor)).await;
    assert_eq!(reply.status, 200, "{:?}", reply.body);
    let json = reply.json();
    let cursor = json.get("nextCursor");
    assert!(cursor.is_some_and(|cursor| cursor.is_string() || cursor.is_null()), "{json}");
    assert!(json["warnings"].is_array(), "{json}");
    EntriesPage::parse(&reply.body).unwrap()
}

/// Names of each page, from the first to the last.
async fn pages(node: &TestNode, alias: &str, path: &str) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = page(node, alias, path, cursor.as_deref()).await;
        pages.push(page.entries.into_iter().map(|entry| entry.name).collect());
        cursor = page.next_cursor;
        if cursor.is_none() {
            return pages;
        }
    }
}

#[tokio::test]
async fn pages_hold_512_names_in_byte_order() {
    let node = TestNode::start().await;
    for (count, sizes) in
        [(0, vec![0]), (1, vec![1]), (512, vec![512]), (513, vec![512, 1]), (1200, vec![512, 512, 176])]
    {
        let directory = format!("of-{count}");
        fs::create_dir(node.path("ro").join(&directory)).unwrap();
        for at in 0..count {
            fs::write(node.path("ro").join(&directory).join(format!("{:x}-ü", at * 7919 % 65_536)), "").unwrap();
        }
        let pages = pages(&node, "ro", &directory).await;
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), sizes, "{count}");
        let names = pages.concat();
        let mut sorted = names.clone();
        sorted.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
        sorted.dedup();
        assert_eq!(names, sorted, "{count}");
    }
}

#[tokio::test]
async fn entries_carry_the_same_stat_as_the_stat_route() {
    let node = TestNode::start().await;
    for alias in ["rw", "ro"] {
        let at = |name: &str| node.path(alias).join(name);
        fs::create_dir_all(at("dir/sub")).unwrap();
        fs::write(at("dir/file"), "four").unwrap();
        symlink("file", at("dir/link")).unwrap();
        let reply = Reply::of(node.entries(alias, "dir", None)).await.json();
        let stats = Reply::of(node.stat(alias, &["dir/file", "dir/link", "dir/sub"])).await.json();
        for (at, name) in ["file", "link", "sub"].into_iter().enumerate() {
            assert_eq!(reply["entries"][at], json!({ "name": name, "stat": stats["results"][at]["stat"] }), "{alias}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_named_or_opened_is_a_warning_on_every_page() {
    let node = TestNode::start().await;
    let root = node.path("rw");
    fs::create_dir(root.join("sub")).unwrap();
    for directory in [root.clone(), root.join("sub")] {
        fs::write(directory.join(OsStr::from_bytes(b"not-utf8-\xff")), "").unwrap();
        fs::write(directory.join("back\\slash"), "").unwrap();
        fs::write(directory.join("C:drive"), "").unwrap();
        fs::write(directory.join(".itookit-upload-0123"), "").unwrap();
        fs::write(directory.join("line\nbreak"), "").unwrap();
        fs::write(directory.join("2024:Q1.md"), "").unwrap();
    }
    let _socket = UnixListener::bind(root.join("sub/socket")).unwrap();
    for at in 0..520 {
        fs::write(root.join(format!("sub/z{at:04}")), "").unwrap();
    }

    let mut root_page = page(&node, "rw", "", None).await;
    root_page.warnings.sort();
    assert_eq!(root_page.warnings, ["NON_UTF8_NAME", "UNSUPPORTED_NAME", "UNSUPPORTED_NAME"]);
    let names: Vec<_> = root_page.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["2024:Q1.md", "line\nbreak", "sub"], "a drive prefix counts only at the root");

    let first = page(&node, "rw", "sub", None).await;
    let second = page(&node, "rw", "sub", first.next_cursor.as_deref()).await;
    assert_eq!(
        first.entries[..3].iter().map(|e| e.name.as_str()).collect::<Vec<_>>(),
        ["2024:Q1.md", "C:drive", "line\nbreak"]
    );
    for (which, mut warnings) in [("first", first.warnings), ("second", second.warnings)] {
        warnings.sort();
        assert_eq!(warnings, ["NON_UTF8_NAME", "UNSUPPORTED_NAME", "UNSUPPORTED_NODE"], "{which}");
    }
    assert_eq!((second.entries.len(), second.next_cursor), (11, None));
}

#[tokio::test]
async fn a_listing_keeps_its_names_and_skips_those_that_vanished() {
    let node = TestNode::start().await;
    for at in 0..600 {
        fs::write(node.path(&format!("ro/n{at:04}")), "").unwrap();
    }
    let first = page(&node, "ro", "", None).await;
    fs::remove_file(node.path("ro/n0511")).unwrap(); // the last name of the first page
    fs::remove_file(node.path("ro/n0512")).unwrap();
    fs::write(node.path("ro/n0100x"), "").unwrap();
    fs::write(node.path("ro/n0599x"), "").unwrap();
    let second = page(&node, "ro", "", first.next_cursor.as_deref()).await;
    let names: Vec<_> = second.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!((names.len(), names[0], names[names.len() - 1]), (87, "n0513", "n0599"));
}

#[tokio::test]
async fn a_cursor_is_valid_only_for_the_listing_that_gave_it() {
    let node = TestNode::start().await;
    for alias in ["rw", "ro"] {
        fs::create_dir(node.path(alias).join("other")).unwrap();
        for at in 0..600 {
            fs::write(node.path(alias).join(format!("n{at}")), "").unwrap();
        }
    }
    let cursor = page(&node, "ro", "", None).await.next_cursor.unwrap();
    assert_eq!(Reply::of(node.entries("ro", "", Some(&cursor))).await.status, 200);
    let restarted = TestNode::start().await;
    let mut changed = cursor.clone().into_bytes();
    changed[10] = if changed[10] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(changed).unwrap();
    for (what, node, alias, path, cursor) in [
        ("another directory", &node, "ro", "other", cursor.as_str()),
        ("another export", &node, "rw", "", &cursor),
        ("another start of the node", &restarted, "ro", "", &cursor),
        ("changed", &node, "ro", "", &changed),
        ("cut", &node, "ro", "", &cursor[..cursor.len() - 1]),
        ("empty", &node, "ro", "", ""),
        ("noise", &node, "ro", "", "💥"),
        ("too long", &node, "ro", "", &"A".repeat(16_385)),
    ] {
        let reply = Reply::of(node.entries(alias, path, Some(cursor))).await;
        assert_eq!(reply.refusal(), refusal(400, "EINVAL"), "{what}");
    }
}

#[tokio::test]
async fn what_is_not_a_directory_cannot_be_listed() {
    let node = TestNode::start().await;
    fs::create_dir(node.path("ro/dir")).unwrap();
    fs::write(node.path("ro/file"), "").unwrap();
    symlink("dir", node.path("ro/link")).unwrap();
    let _socket = UnixListener::bind(node.path("ro/socket")).unwrap();
    for (path, expected) in [
        ("missing", refusal(404, "ENOENT")),
        ("dir/missing", refusal(404, "ENOENT")),
        ("file", refusal(400, "ENOTDIR")),
        ("file/x", refusal(400, "ENOTDIR")),
        ("socket", refusal(400, "ENOTDIR")),
        ("link", refusal(403, "EACCES")),
        ("link/x", refusal(403, "EACCES")),
    ] {
        assert_eq!(Reply::of(node.entries("ro", path, None)).await.refusal(), expected, "{path}");
    }
}

#[tokio::test]
async fn a_directory_of_more_than_100000_entries_is_refused() {
    let node = TestNode::start().await;
    make_files(&node.path("ro"), 0..100_000);
    let first = page(&node, "ro", "", None).await;
    assert_eq!(first.entries.len(), 512);
    make_files(&node.path("ro"), 100_000..100_001);
    assert_eq!(Reply::of(node.entries("ro", "", None)).await.refusal(), refusal(413, "DIRECTORY_LIMIT"));
}
