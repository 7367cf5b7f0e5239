//! `mkdir`, `mv`, `rm` and `op`: names that change, lost replies, and Ctrl-C.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use cells_testkit::fault_proxy::{Fault, Plan, Rule};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::stage::{KEY, Stage, asks, tree};

#[tokio::test]
async fn names_are_made_moved_and_removed() {
    let stage = Stage::new().await;
    stage.write("2024: strange \u{fc} name", "x");
    stage.write("file", "x");
    let name = "notes/2024: strange \u{fc} name";
    stage
        .check(&[
            (&["mkdir", "notes/dir"], 0, "", ""),
            (&["mkdir", "notes/dir"], 1, "", "cells: notes/dir exists already (EEXIST)\n"),
            (&["mkdir", "-p", "notes/dir/sub/deep", "notes/dir", "notes"], 0, "", ""),
            (&["mkdir", "-p", "notes/file"], 1, "", "cells: notes/file exists, and is no directory (EEXIST)\n"),
            (&["mkdir", "-p", "notes/file/x"], 1, "", "cells: notes/file*is *no*directory*\n"),
            (&["mkdir", "notes/none/x"], 4, "", "cells: notes/none does not exist (ENOENT)\n"),
            (
                &["mkdir", "notes/file/x"],
                1,
                "",
                "cells: notes/file is not a directory, or leads through a file (ENOTDIR)\n",
            ),
            (&["mkdir", "notes"], 2, "", "cells: notes: *root of an export*\n"),
            (&["mv", name, "notes/dir/sub/-file"], 0, "", ""),
            (&["mv", "notes/none", "notes/x"], 4, "", "cells: notes/none does not exist (ENOENT)\n"),
            (&["mv", "notes/none", "notes/none/x"], 2, "", "cells: notes/none cannot be moved into itself\n"),
            (&["mv", "notes/file", "notes/gone/x"], 4, "", "cells: notes/gone does not exist (ENOENT)\n"),
            (&["mv", "notes/dir", "notes/file"], 1, "", "cells: notes/file exists already (EEXIST)\n"),
            (
                &["mv", "notes/dir", "notes/file/x"],
                1,
                "",
                "cells: notes/file/x is not a directory, or leads through a file *\n",
            ),
            (&["mv", "notes/file", "notes/../x"], 2, "", "cells: notes/../x: *`..` segment (EINVAL)\n"),
            (&["mv", "notes/./a", "notes/x"], 2, "", "cells: notes/./a: *`..` segment (EINVAL)\n"),
            (&["mv", "notes/dir", "notes/dir/sub"], 2, "", "cells: notes/dir cannot be moved into itself\n"),
            (&["mv", "notes", "notes/x"], 2, "", "cells: notes is an export, and keeps its name\n"),
            (&["mv", "notes/dir", "other/dir"], 2, "", "cells: a file keeps its export; *\n"),
            (&["mv", "notes/file", "notes/dir/"], 0, "", ""),
            (&["rm", "notes/dir/sub"], 1, "", "cells: notes/dir/sub is not empty (ENOTEMPTY)\n"),
            (&["rm", "notes/dir/sub/-file", "notes/dir/sub/deep", "notes/dir/sub", "notes/dir/file"], 0, "", ""),
            (&["rm", "notes/dir", "notes/none"], 4, "", "cells: notes/none does not exist (ENOENT)\n"),
            (&["rm", "other/x"], 5, "", "cells: other: *EACCES*"),
            (&["rm", "notes/../x"], 2, "", "cells: notes/../x: *`..` segment (EINVAL)\n"),
        ])
        .await;
    assert_eq!(tree(&stage.path("notes")), BTreeMap::new());
    let made = stage.json(&["mkdir", "-p", "notes/a/b"]).await;
    assert_eq!(made, json!({ "path": "notes/a/b", "made": ["notes/a", "notes/a/b"] }));
    let moved = stage.json(&["mv", "notes/a/b", "notes/c"]).await;
    let id = moved["operationId"].as_str().unwrap();
    assert_eq!(moved, json!({ "from": "notes/a/b", "to": "notes/c", "operationId": id }));
    let asked = stage.json(&["op", "get", "notes", id]).await;
    assert_eq!(
        asked,
        json!({ "alias": "notes", "operationId": id, "outcome": "committed", "result": asked["result"] })
    );
}

#[tokio::test]
async fn a_directory_is_removed_with_all_below_it() {
    let stage = Stage::with_exports(&["notes", "other"]).await;
    for at in 0..600 {
        stage.write(&format!("tree/{}/{at}", at % 5), "x");
    }
    fs::create_dir_all(stage.path("notes/tree/empty/deep")).unwrap();
    fs::write(stage.path("other/stays"), "x").unwrap();
    std::os::unix::fs::symlink(stage.path("other"), stage.path("notes/tree/link")).unwrap();
    std::os::unix::fs::symlink(stage.path("other"), stage.path("notes/link")).unwrap();
    stage.write("file", "x");
    stage
        .check(&[
            (&["rm", "notes/tree"], 1, "", "cells: notes/tree is not empty (ENOTEMPTY)\n"),
            (&["rm", "-r", "notes/file", "notes"], 2, "", "cells: notes is an export, which stays\n"),
            (&["rm", "-r", "notes/none"], 4, "", "cells: notes/none does not exist (ENOENT)\n"),
        ])
        .await;
    let removed = stage.json(&["rm", "-r", "notes/tree"]).await;
    assert_eq!(removed, json!({ "path": "notes/tree", "removed": 600 + 1 + 5 + 3, "failed": 0 }));
    stage.check(&[(&["rm", "-r", "notes/link", "notes/file"], 0, "", "")]).await;
    assert_eq!(tree(&stage.path("notes")), BTreeMap::new());
    assert_eq!(fs::read(stage.path("other/stays")).unwrap(), b"x");

    // What the node does not list stays, and its directory with it.
    stage.write("tree/a", "x");
    fs::write(stage.path("notes/tree").join(OsStr::from_bytes(b"\xff")), "x").unwrap();
    stage.check(&[(&["rm", "-r", "notes/tree"], 1, "", "cells: notes/tree is not empty (ENOTEMPTY)\n")]).await;
    assert_eq!(fs::read_dir(stage.path("notes/tree")).unwrap().count(), 1);
}

#[tokio::test]
async fn what_may_not_be_changed_is_told_as_such() {
    let stage = Stage::with_exports(&["notes", "library:ro"]).await;
    fs::write(stage.path("library/file"), "x").unwrap();
    fs::write(stage.path("local"), "x").unwrap();
    std::os::unix::fs::symlink(stage.path("library"), stage.path("notes/link")).unwrap();
    let read_only = "cells: library is read-only here (EROFS); `cells exports` lists what may be written\n";
    let denied = "cells: notes/link/* may not be changed: the credential does not allow it, *link (EACCES)\n";
    stage
        .check(&[
            (&["mkdir", "library/x"], 5, "", read_only),
            (&["put", "local", "library/x"], 5, "", read_only),
            (&["mv", "library/file", "library/x"], 5, "", read_only),
            // Nothing is changed when one of the exports cannot be.
            (&["rm", "notes/link", "library/file"], 5, "", read_only),
            (&["get", "library/file", "copy"], 0, "copy: 1 bytes written\n", ""),
            (&["mkdir", "notes/link/x"], 5, "", denied),
            (&["rm", "notes/link/file"], 5, "", denied),
            (&["rm", "notes/link"], 0, "", ""),
        ])
        .await;
    let told = stage.run(&["rm", "library/file", "--json"]).await;
    let told: Value = serde_json::from_str(&told.stderr).unwrap();
    assert_eq!(told["error"]["exitCode"], 5);
    assert_eq!(fs::read(stage.path("library/file")).unwrap(), b"x");
}

const OPERATIONS: &str = "/v1/fs/notes/operations/*";
const MUTATE: &str = "/v1/fs/notes/mutate";
const CONTENT: &str = "/v1/fs/notes/content";

#[tokio::test]
async fn a_lost_reply_is_settled_by_the_receipt_and_nothing_is_sent_twice() {
    let stage = Stage::new().await;
    fs::write(stage.path("local"), "content").unwrap();
    stage.write("old", "x");
    let cases: [(&[&str], &str, &str); 4] = [
        (&["put", "local", "notes/new"], "PUT /v1/fs/notes/content", "notes/new: 7 bytes written\n"),
        (&["mkdir", "notes/dir"], "POST /v1/fs/notes/mutate", ""),
        (&["mv", "notes/old", "notes/dir/x"], "POST /v1/fs/notes/mutate", ""),
        (&["rm", "notes/dir/x"], "POST /v1/fs/notes/mutate", ""),
    ];
    for (arguments, request, stdout) in cases {
        let (method, path) = request.split_once(' ').unwrap();
        stage.proxy.reset_counts();
        let rule = Rule { method: Some(method.to_owned()), ..Rule::path(path, Fault::ResetAfter) };
        stage.proxy.set_plan(Plan::new([rule.first(1)]));
        stage.check(&[(arguments, 0, stdout, "")]).await;
        let counts = stage.proxy.counts();
        assert_eq!((counts.faults, counts.paths[request]), (1, 1), "{arguments:?}");
    }
    assert_eq!(tree(&stage.path("notes")).keys().collect::<Vec<_>>(), ["dir/", "new"]);
}

#[tokio::test]
async fn a_write_that_did_not_arrive_has_not_happened() {
    let stage = Stage::new().await;
    stage.proxy.set_plan(Plan::new([Rule::path(MUTATE, Fault::ResetBefore)]));
    let told = "cells: notes/dir: nothing has changed: the connection broke, and the node says ECANCELLED\n";
    stage.check(&[(&["mkdir", "notes/dir"], 1, "", told)]).await;
    assert!(!stage.path("notes/dir").exists());
}

#[tokio::test]
async fn an_unknown_write_says_how_to_ask_for_it() {
    let stage = Stage::new().await;
    fs::write(stage.path("local"), "content").unwrap();
    let method = |method: &str, fault| Rule { method: Some(method.to_owned()), ..Rule::any(fault) };
    stage
        .proxy
        .set_plan(Plan::new([method("PUT", Fault::ResetAfter), Rule::path(OPERATIONS, Fault::Truncate { at: 0 })]));
    let ran = stage.run(&["put", "local", "notes/new", "--timeout", "2"]).await;
    ran.check(
        "an unknown write",
        3,
        "",
        "cells: notes/new: connect: *; whether it happened is unknown; ask again with: cells op wait notes *\n",
    );
    stage.proxy.set_plan(Plan::default());
    let mut ask = asks(&ran.stderr);
    for verb in ["wait", "get", "cancel"] {
        ask[1] = verb.to_owned();
        let ask: Vec<&str> = ask.iter().map(String::as_str).collect();
        stage.check(&[(&ask, 0, "committed\n", "")]).await;
    }
    stage
        .check(&[
            (&["op", "cancel", "notes", "never-seen"], 1, "not committed (ECANCELLED)\n", ""),
            (&["op", "get", "notes", "unknown"], 4, "", "cells: the node has no receipt of unknown: *"),
            (&["op", "get", "notes", "not an id"], 2, "", "*"),
            (&["op", "get", "none", "unknown"], 5, "", "cells: none: *(EACCES)\n"),
        ])
        .await;

    stage.proxy.set_plan(Plan::new([
        Rule::path(MUTATE, Fault::ResetAfter),
        Rule::path(OPERATIONS, Fault::Truncate { at: 0 }),
    ]));
    let ran = stage.run(&["mkdir", "notes/dir", "--timeout", "2", "--json"]).await;
    let told: Value = serde_json::from_str(&ran.stderr).unwrap();
    let error = &told["error"];
    let id = error["operationId"].as_str().unwrap();
    assert_eq!((ran.code, &error["outcome"], &error["exitCode"]), (Some(3), &json!("unknown"), &json!(3)), "{error}");
    assert!(error["ask"].as_str().unwrap().starts_with(&format!("cells op wait notes {id} ")), "{error}");
}

#[tokio::test]
async fn a_write_that_runs_is_waited_for_and_stopped() {
    let stage = Stage::new().await;
    let mut upload = TcpStream::connect(stage.proxy.address()).await.unwrap();
    let head = format!(
        "PUT /v1/fs/notes/content?path=new HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Length: 9\r\n\
         Content-Type: application/octet-stream\r\nIf-None-Match: *\r\nX-Operation-Id: one\r\n\r\nhalf"
    );
    upload.write_all(head.as_bytes()).await.unwrap();
    // It runs as soon as the node has read the head.
    while stage.run(&["op", "get", "notes", "one"]).await.code == Some(4) {}
    stage
        .check(&[
            (&["op", "get", "notes", "one"], 3, "running\n", ""),
            (
                &["op", "wait", "notes", "one", "--timeout", "1"],
                3,
                "",
                "cells: the write still runs after 1 s; --timeout waits longer\n",
            ),
            (&["op", "cancel", "notes", "one"], 1, "not committed (ECANCELLED)\n", ""),
            (&["op", "wait", "notes", "one"], 1, "not committed (ECANCELLED)\n", ""),
        ])
        .await;
    assert!(!stage.path("notes/new").exists());
}

const STOPPING: &str = "cells: stopping; press Ctrl-C again to leave at once\n";
const LONG: u64 = 600_000;

#[tokio::test]
async fn ctrl_c_stops_a_write_and_tells_what_became_of_it() {
    let stage = Stage::new().await;
    fs::write(stage.path("local"), "content").unwrap();
    for name in ["a", "b", "c", "d"] {
        stage.write(name, "x");
    }
    /// Where it shows that the node has done it; without one, the node gets no request.
    type Shows<'a> = Option<(&'a str, bool)>;
    let stopped = |path| format!("cells: {path}: stopped, and nothing has changed (ECANCELLED)\n");
    let done = |path| format!("cells: {path}: done before it could be stopped\n");
    let (put, mutate) = ("PUT /v1/fs/notes/content", "POST /v1/fs/notes/mutate");
    let cases: [(&[&str], &str, Shows<'_>, i32, String); 9] = [
        (&["put", "local", "notes/p1"], put, None, 130, stopped("notes/p1")),
        (&["put", "local", "notes/p2"], put, Some(("p2", true)), 0, done("notes/p2")),
        (&["mkdir", "notes/m1"], mutate, None, 130, stopped("notes/m1")),
        (&["mkdir", "notes/m2"], mutate, Some(("m2", true)), 0, done("notes/m2")),
        (&["mv", "notes/a", "notes/a1"], mutate, None, 130, stopped("notes/a")),
        (&["mv", "notes/b", "notes/b1"], mutate, Some(("b1", true)), 0, done("notes/b")),
        (&["rm", "notes/c"], mutate, None, 130, stopped("notes/c")),
        // What comes after it is left as it is.
        (&["rm", "notes/d", "notes/c"], mutate, Some(("d", false)), 130, done("notes/d")),
        (&["mkdir", "-p", "notes/m3/x"], mutate, Some(("m3", true)), 130, done("notes/m3")),
    ];
    for (arguments, request, shows, code, stderr) in cases {
        stage.proxy.reset_counts();
        let (method, path) = request.split_once(' ').unwrap();
        let fault = if shows.is_some() { Fault::DelayReply { ms: LONG } } else { Fault::DelayRequest { ms: LONG } };
        stage.proxy.set_plan(Plan::new([Rule { method: Some(method.to_owned()), ..Rule::path(path, fault) }]));
        let started = stage.start(arguments);
        stage.sees(request, 1).await;
        while shows.is_some_and(|(name, exists)| stage.path("notes").join(name).exists() != exists) {
            tokio::task::yield_now().await;
        }
        started.signal(Signal::INT);
        let ran = started.finish().await;
        ran.check(&format!("{arguments:?}"), code, "*", &format!("{STOPPING}{stderr}"));
        assert_eq!(stage.proxy.counts().paths[request], 1, "{arguments:?}");
    }
    let left = tree(&stage.path("notes"));
    assert_eq!(left.keys().collect::<Vec<_>>(), ["a", "b1", "c", "m2/", "m3/", "p2"]);
}

#[tokio::test]
async fn what_ctrl_c_leaves_unknown_is_told_with_the_command_that_asks() {
    let stage = Stage::new().await;
    let lost = Rule::path(MUTATE, Fault::DelayReply { ms: LONG });
    // The node cannot be asked: the program gives up after 5 s.
    stage.proxy.set_plan(Plan::new([lost.clone(), Rule::path(OPERATIONS, Fault::ResetBefore)]));
    let mut started = stage.start(&["mkdir", "notes/a"]);
    while !stage.path("notes/a").exists() {
        tokio::task::yield_now().await;
    }
    started.signal(Signal::INT);
    started.line("cells: stopping").await;
    let first = started.finish().await;
    first.check("the first", 3, "", &format!("{STOPPING}cells: notes/a: stopped (ECANCELLED); whether it happened is unknown; ask again with: cells op wait *\n"));

    stage.proxy.reset_counts();
    stage.proxy.set_plan(Plan::new([lost, Rule::path(OPERATIONS, Fault::DelayRequest { ms: LONG })]));
    let mut started = stage.start(&["mkdir", "notes/b"]);
    while !stage.path("notes/b").exists() {
        tokio::task::yield_now().await;
    }
    started.signal(Signal::INT);
    started.line("cells: stopping").await;
    started.signal(Signal::INT);
    let second = started.finish().await;
    let left = "cells: notes/b: left; whether it is written is unknown; ask again with: cells op wait *\n";
    second.check("the second", 130, "", &format!("{STOPPING}{left}"));

    stage.proxy.set_plan(Plan::default());
    for ran in [first, second] {
        let ask = asks(&ran.stderr);
        let ask: Vec<&str> = ask.iter().map(String::as_str).collect();
        stage.check(&[(&ask, 0, "committed\n", "")]).await;
    }
}

#[tokio::test]
async fn ctrl_c_before_anything_was_sent_only_ends_the_program() {
    let stage = Stage::new().await;
    stage.proxy.set_plan(Plan::new([Rule::path("/v1/exports", Fault::DelayReply { ms: LONG })]));
    for arguments in [&["mkdir", "notes/a"][..], &["rm", "notes/a"], &["mv", "notes/a", "notes/b"]] {
        stage.proxy.reset_counts();
        let started = stage.start(arguments);
        stage.sees("GET /v1/exports", 1).await;
        started.signal(Signal::INT);
        started.finish().await.check(&format!("{arguments:?}"), 130, "", "");
    }
    assert_eq!(stage.proxy.counts().paths.get(&format!("POST {MUTATE}")), None);
    assert_eq!(stage.proxy.counts().paths.get(&format!("PUT {CONTENT}")), None);
}
