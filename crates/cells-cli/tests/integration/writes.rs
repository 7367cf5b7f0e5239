//! `put`, `get`, `mkdir`, `mv`, `rm`, `op` and `exec`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cells_testkit::fault_proxy::{Fault, Plan, Rule};
use rustix::process::Signal;
use serde_json::json;

use crate::stage::Stage;

/// Relative path and content of every file below `folder`; directories end with a slash.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut tree = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                tree.insert(format!("{name}/"), Vec::new());
                waiting.push(path);
            } else {
                tree.insert(name, fs::read(path).unwrap());
            }
        }
    }
    tree
}

#[tokio::test]
async fn names_are_made_moved_and_removed() {
    let stage = Stage::new().await;
    stage.write("2024: strange \u{fc} name", "x");
    stage
        .check(&[
            (&["mkdir", "notes/dir"], 0, "", ""),
            (&["mkdir", "notes/dir"], 1, "", "cells: notes/dir: *EEXIST*"),
            (&["mkdir", "-p", "notes/dir/sub/deep", "notes/dir"], 0, "", ""),
            (&["mkdir", "notes/none/x"], 4, "", "cells: notes/none/x does not exist (ENOENT)\n"),
            (&["mv", "notes/2024: strange \u{fc} name", "notes/dir/sub/-file"], 0, "", ""),
            (&["mv", "notes/none", "notes/x"], 4, "", "cells: notes/none does not exist (ENOENT)\n"),
            (&["mv", "notes/dir", "other/dir"], 2, "", "cells: a file keeps its export; *\n"),
            (&["rm", "notes/dir/sub"], 1, "", "cells: notes/dir/sub: *ENOTEMPTY*"),
            (&["rm", "notes/dir/sub/-file", "notes/dir/sub/deep", "notes/dir/sub"], 0, "", ""),
            (&["rm", "notes/dir", "notes/none"], 4, "", "cells: notes/none does not exist (ENOENT)\n"),
            (&["rm", "other/x"], 5, "", "cells: other: *EACCES*"),
            (&["rm", "notes/../x"], 2, "", "cells: notes/../x: *`..` segment (EINVAL)\n"),
        ])
        .await;
    assert_eq!(tree(&stage.path("notes")), BTreeMap::new());
}

#[tokio::test]
async fn a_file_goes_up_and_comes_down() {
    let stage = Stage::new().await;
    let content: Vec<u8> = (0..3_000_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    fs::write(stage.path("local"), &content).unwrap();
    fs::create_dir(stage.path("notes/dir")).unwrap();
    fs::create_dir(stage.path("here")).unwrap();
    stage
        .check(&[
            (&["put", "local", "notes/new"], 0, "", ""),
            (&["put", "local", "notes/new"], 0, "", ""),
            (&["put", "local", "notes/dir"], 0, "", ""),
            (&["get", "notes/new", "copy"], 0, "", ""),
            (&["get", "notes/new", "here"], 0, "", ""),
        ])
        .await;
    for copy in ["notes/new", "notes/dir/local", "copy", "here/new"] {
        assert!(fs::read(stage.path(copy)).unwrap() == content, "{copy}");
    }
    fs::write(stage.path("local"), "other").unwrap();
    stage
        .check(&[
            (
                &["put", "local", "notes/new"],
                1,
                "",
                "cells: notes/new exists with other content; --replace replaces it\n",
            ),
            (&["put", "--replace", "local", "notes/new"], 0, "", ""),
            (&["get", "notes/new", "copy"], 1, "", "cells: copy exists with other content; --force replaces it\n"),
            (&["get", "--force", "notes/new", "copy"], 0, "", ""),
            (&["get", "notes/none", "copy"], 4, "", "cells: notes/none does not exist (ENOENT)\n"),
            (&["get", "notes/dir", "copy"], 2, "", "cells: notes/dir is a directory; -r copies it\n"),
            (&["put", "here", "notes/x"], 2, "", "cells: here is a directory; -r copies it\n"),
            (&["put", "none", "notes/x"], 1, "", "cells: none: *\n"),
            (&["put", "local", "notes/none/x"], 4, "", "cells: notes/none/x does not exist (ENOENT)\n"),
        ])
        .await;
    assert_eq!(fs::read(stage.path("copy")).unwrap(), b"other");
    let again = stage.json(&["get", "notes/new", "copy"]).await;
    let sha256 = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"; // printf other | sha256sum
    assert_eq!(again, json!({ "path": "notes/new", "written": 0, "same": 1, "bytes": 0, "sha256": sha256 }));
    assert!(tree(&stage.path("here")).keys().all(|name| name == "new"), "nothing is left beside a copy");
}

#[tokio::test]
async fn a_thousand_files_go_up_and_come_down() {
    let stage = Stage::new().await;
    for at in 0..1000 {
        let file = stage.path("local").join(format!("d{}/e {}", at % 7, at % 3)).join(format!("file {at} \u{e9}"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{at}\n").repeat(at)).unwrap();
    }
    fs::create_dir(stage.path("local/empty")).unwrap();
    let up = stage.json(&["put", "-r", "local", "notes/up"]).await;
    assert_eq!((&up["written"], &up["same"]), (&json!(1000), &json!(0)));
    fs::remove_file(stage.path("notes/up/d0/e 0/file 0 \u{e9}")).unwrap();
    let again = stage.json(&["put", "-r", "local", "notes/up"]).await;
    assert_eq!((&again["written"], &again["same"]), (&json!(1), &json!(999)), "what is there stays");
    let down = stage.json(&["get", "-r", "notes/up", "down"]).await;
    assert_eq!((&down["written"], &down["same"]), (&json!(1000), &json!(0)));
    let again = stage.json(&["get", "-r", "notes/up", "down"]).await;
    assert_eq!((&again["written"], &again["same"]), (&json!(0), &json!(1000)));
    assert!(tree(&stage.path("local")) == tree(&stage.path("down")));
    assert!(tree(&stage.path("local")) == tree(&stage.path("notes/up")));
}

#[tokio::test]
async fn a_lost_reply_is_unknown_and_its_receipt_can_be_asked_for() {
    let stage = Stage::new().await;
    fs::write(stage.path("local"), "content").unwrap();
    stage.proxy.set_plan(Plan::new([Rule { method: Some("PUT".to_owned()), ..Rule::any(Fault::ResetAfter) }]));
    let ran = stage.run(&["put", "local", "notes/new"]).await;
    assert_eq!((ran.code, ran.stdout.as_slice()), (Some(3), b"".as_slice()), "{}", ran.stderr);
    let ask = ran.stderr.trim_end().split_once("ask again with: cells ").unwrap().1.replace('\'', "");
    let mut ask: Vec<&str> = ask.split(' ').collect();
    assert_eq!(ask[..3], ["op", "wait", "notes"]);
    stage.check(&[(&ask, 0, "committed\n", "")]).await;
    assert_eq!(stage.json(&ask).await["outcome"], "committed");
    ask[1] = "cancel";
    stage.check(&[(&ask, 0, "committed\n", "")]).await;
    stage
        .check(&[
            (&["op", "cancel", "notes", "never-seen"], 1, "not committed (ECANCELLED)\n", ""),
            (&["op", "get", "notes", "unknown"], 4, "", "cells: the node has no receipt of unknown: *"),
            (&["op", "get", "notes", "not an id"], 2, "", "*"),
        ])
        .await;
    assert_eq!(fs::read(stage.path("notes/new")).unwrap(), b"content");
}

#[tokio::test]
async fn a_download_that_was_cut_goes_on_where_it_was() {
    let stage = Stage::new().await;
    let content: Vec<u8> = (0..4_000_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    stage.write("large", &content);
    let cut = |at| Rule::path("/v1/fs/notes/content", Fault::Truncate { at });
    stage.proxy.set_plan(Plan::new([cut(1_000_000).first(1), cut(0)]));
    let ran = stage.run(&["get", "notes/large", "large"]).await;
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let parts: Vec<_> = fs::read_dir(stage.path("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let part = parts.iter().find(|path| path.to_string_lossy().ends_with(".cells-part")).unwrap();
    let kept = part.metadata().unwrap().len();
    assert!(kept > 0 && kept < 4_000_000, "{kept}");
    stage.proxy.set_plan(Plan::new([]));
    stage.check(&[(&["get", "notes/large", "large"], 0, "", "")]).await;
    assert!(fs::read(stage.path("large")).unwrap() == content);
    assert!(!part.exists());
}

#[tokio::test]
async fn a_command_runs_in_a_directory_of_the_node() {
    let stage = Stage::new().await;
    stage.write("dir/file", "content\n");
    stage
        .check(&[
            (&["exec", "notes/dir", "--", "cat", "file"], 0, "content\n", ""),
            (&["exec", "notes/dir", "--", "sh", "-c", "echo out; echo err >&2; exit 7"], 7, "out\n", "err\n"),
            (&["exec", "notes/none", "--", "true"], 4, "", "*"),
            (&["exec", "notes", "--run-timeout", "1", "--", "sleep", "30"], 3, "", "cells: *"),
        ])
        .await;
    let ran = stage.run(&["exec", "notes", "--json", "--", "sh", "-c", "echo out; exit 7"]).await;
    assert_eq!(ran.code, Some(7), "{}", ran.stderr);
    let object: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(object, json!({ "code": 7, "stdout": "out\n", "stderr": "", "truncated": false }));

    let mut started = stage.start(&["exec", "notes", "--", "sh", "-c", "echo begun >&2; exec sleep 300"]);
    started.line("begun").await;
    started.signal(Signal::INT);
    let ran = started.finish().await;
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
}
