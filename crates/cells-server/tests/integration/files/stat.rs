//! `files-http.md` §4.1 and §4.3.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::time::{Duration, SystemTime};

use cells_protocol::files::{StatResult, parse_stat_reply};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{KEY, Reply, TestNode, refusal};

#[tokio::test]
async fn each_path_has_its_own_answer_in_its_own_place() {
    let node = TestNode::start().await;
    fs::create_dir(node.path("ro/dir")).unwrap();
    fs::write(node.path("ro/dir/file"), "four").unwrap();
    fs::write(node.path("ro/größe:1.md"), "").unwrap();
    let modified = SystemTime::UNIX_EPOCH + Duration::from_millis(1_770_000_000_123);
    fs::File::options().write(true).open(node.path("ro/dir/file")).unwrap().set_modified(modified).unwrap();
    symlink("dir", node.path("ro/link")).unwrap();
    let _socket = UnixListener::bind(node.path("ro/socket")).unwrap();

    let cases = [
        ("", json!("directory")),
        ("dir", json!("directory")),
        ("dir/file", json!("file")),
        ("größe:1.md", json!("file")),
        ("link", json!("symlink")),
        ("gone", json!({ "stat": null })),
        ("gone/further", json!({ "stat": null })),
        ("dir/file/x", json!({ "error": "ENOTDIR" })),
        ("link/file", json!({ "error": "EACCES" })),
        ("socket", json!({ "error": "ECAPABILITY" })),
        ("dir/../dir", json!({ "error": "EINVAL" })),
        (&"n".repeat(300), json!({ "error": "EINVAL" })),
        ("dir/file", json!("file")),
    ];
    let paths: Vec<&str> = cases.iter().map(|(path, _)| *path).collect();
    let reply = Reply::of(node.stat("ro", &paths)).await;
    let results = reply.json()["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), cases.len());
    for ((path, expected), result) in cases.iter().zip(&results) {
        let seen = if expected.is_string() { &result["stat"]["kind"] } else { result };
        assert_eq!(seen, expected, "{path:.40}");
    }
    assert_eq!(results[2]["stat"]["size"], 4);
    assert_eq!(results[2]["stat"]["modifiedAt"], 1_770_000_000_123_u64);
    assert!(results[2]["stat"]["createdAt"].is_u64());

    let parsed = parse_stat_reply(&reply.body, cases.len()).unwrap();
    assert!(matches!(parsed[0], StatResult::Found(_)) && matches!(parsed[5], StatResult::Missing));
}

#[tokio::test]
async fn writable_exports_have_revisions_that_follow_the_file() {
    let node = TestNode::start().await;
    let revisions = async |alias: &str| -> Vec<Value> {
        let json = Reply::of(node.stat(alias, &["", "file", "link"])).await.json();
        json["results"].as_array().unwrap().iter().map(|item| item["stat"]["revision"].clone()).collect()
    };
    for alias in ["rw", "ro"] {
        fs::write(node.path(alias).join("file"), "one").unwrap();
        symlink("file", node.path(alias).join("link")).unwrap();
    }
    assert_eq!(revisions("ro").await, [Value::Null, Value::Null, Value::Null]);
    let before = revisions("rw").await;
    assert!(before.iter().all(Value::is_string), "{before:?}");
    assert_eq!(before, revisions("rw").await, "stable across reads");
    fs::write(node.path("rw/file"), "three").unwrap();
    let after = revisions("rw").await;
    assert_ne!(before[1], after[1], "an edit from outside");
    assert_eq!(before[2], after[2], "the link is another file");
}

#[tokio::test]
async fn a_batch_has_at_most_256_paths_and_65536_bytes() {
    let node = TestNode::start().await;
    let of_bytes =
        |bytes: usize| -> Vec<String> { vec![b'x'; bytes].chunks(4096).map(|path| "x".repeat(path.len())).collect() };
    for (what, paths, accepted) in [
        ("no path", vec![], true),
        ("256 paths", vec!["x".to_owned(); 256], true),
        ("257 paths", vec!["x".to_owned(); 257], false),
        ("65,536 bytes", of_bytes(65_536), true),
        ("65,537 bytes", of_bytes(65_537), false),
        ("65,536 bytes of two-byte characters", vec!["ü".repeat(2048); 16], true),
        ("65,538 bytes of two-byte characters", [vec!["ü".repeat(2048); 16], vec!["ü".into()]].concat(), false),
    ] {
        let reply = Reply::of(node.stat("rw", &paths)).await;
        if accepted {
            assert_eq!(reply.json()["results"].as_array().unwrap().len(), paths.len(), "{what}");
        } else {
            assert_eq!(reply.refusal(), refusal(400, "EINVAL"), "{what}");
        }
    }
}

#[tokio::test]
async fn checks_come_in_the_order_of_the_protocol() {
    let node = TestNode::start().await;
    let too_many = json!({ "paths": vec!["x"; 257] }).to_string();
    for (alias, key, timeout, body, expected) in [
        ("other", "wrong", "0", too_many.as_str(), refusal(401, "EACCES")),
        ("other", KEY, "0", too_many.as_str(), refusal(403, "EACCES")),
        ("rw", KEY, "0", "{\"paths\":[]}", refusal(400, "EINVAL")),
        ("rw", KEY, "5000", too_many.as_str(), refusal(400, "EINVAL")),
    ] {
        let request = node.anonymous(Method::POST, &format!("/v1/fs/{alias}/stat")).bearer_auth(key);
        let request = request.header("content-type", "application/json").header("x-timeout-ms", timeout);
        assert_eq!(Reply::of(request.body(body.to_owned())).await.refusal(), expected, "{alias} {key} {timeout}");
    }
}
