//! `stat`, `ls` and `cat`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use cells_testkit::fault_proxy::{Fault, Plan, Rule};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use crate::stage::{Ran, Stage, content};

#[tokio::test]
async fn files_as_people_see_them() {
    let stage = Stage::new().await;
    stage.write("today.md", "Hello, file\n");
    stage.write("archive/old.md", "");
    stage.write("\u{1b}[31mred", "x");
    let time = "20*-*-* *:*:*";
    stage
        .check(&[
            (&["exports"], 0, "ALIAS  ACCESS\nnotes  read, write\n", ""),
            (
                &["ls", "notes"],
                0,
                &format!(
                    "KIND       SIZE  MODIFIED             NAME\n\
                     file          1  {time}  \\u{{1b}}[31mred\n\
                     directory  *  {time}  archive/\n\
                     file         12  {time}  today.md\n"
                ),
                "",
            ),
            (&["ls", "notes:archive/"], 0, "KIND  SIZE  MODIFIED             NAME\nfile     0  * old.md\n", ""),
            (&["ls", "notes/today.md"], 1, "", "cells: notes/today.md is not a directory, or leads through a file (ENOTDIR)\n"),
            (&["ls", "notes/none"], 4, "", "cells: notes/none does not exist (ENOENT)\n"),
            (&["ls", "other"], 5, "", "cells: other may not be read; `cells exports` lists what may (EACCES)\n"),
            (
                &["stat", "notes", "notes/today.md", "notes:archive/old.md"],
                0,
                "KIND       SIZE  MODIFIED             PATH\n\
                 directory  *  notes\nfile         12  *  notes/today.md\nfile          0  *  notes/archive/old.md\n",
                "",
            ),
            (
                &["stat", "notes/none", "notes/today.md"],
                4,
                "KIND     SIZE  MODIFIED             PATH\nmissing     -  -                    notes/none\nfile  * notes/today.md\n",
                "",
            ),
            (
                &["stat", "notes/none", "other/x", "notes/today.md/x"],
                5,
                "KIND*\nmissing* notes/none\nerror* other/x\nerror* notes/today.md/x\n",
                "cells: other/x may not be read; *\ncells: notes/today.md/x is not a directory, or leads through a file (ENOTDIR)\n",
            ),
            (&["stat", "notes/../x"], 2, "KIND*\nerror*\n", "cells: notes/../x: *`..` segment (EINVAL)\n"),
            (&["cat", "notes/today.md"], 0, "Hello, file\n", ""),
            (&["cat", "notes/archive/old.md"], 0, "", ""),
            (&["cat", "notes/today.md", "--range", "7-10"], 0, "file", ""),
            (&["cat", "notes/today.md", "--range", "7-"], 0, "file\n", ""),
            (&["cat", "notes/today.md", "--range", "7-1000"], 0, "file\n", ""),
            (&["cat", "notes/today.md", "--range", "12-"], 0, "", ""),
            (&["cat", "notes/today.md", "--range", "13-"], 1, "", "cells: notes/today.md: *beyond the end*\n"),
            (&["cat", "notes/none"], 4, "", "cells: notes/none does not exist (ENOENT)\n"),
            (&["cat", "notes/archive"], 1, "", "cells: notes/archive is not a file with content (ECAPABILITY)\n"),
            (&["cat", "notes/today.md", "-o", "no/such/folder"], 1, "", "cells: no/such/folder: *\n"),
            (&["cat", "notes/today.md", "-o", "copy"], 0, "", ""),
            (&["cat", "notes/today.md", "--range", "9-2"], 2, "", "cells: invalid value '9-2' for '--range <A-B>': the last byte of the range comes before*\n"),
            (&["cat", "/etc/passwd"], 2, "", "cells: invalid value '/etc/passwd' for '<ALIAS/PATH>': a path is ALIAS/PATH or ALIAS:PATH, for example notes/today.md; `cells exports` lists the aliases\n"),
        ])
        .await;
    assert_eq!(std::fs::read(stage.path("copy")).unwrap(), b"Hello, file\n");
}

#[tokio::test]
async fn files_as_programs_see_them() {
    let stage = Stage::new().await;
    stage.write("a", "12345");
    assert_eq!(
        stage.json(&["exports"]).await,
        json!({"version": 1, "exports": [
            {"alias": "notes", "access": "rw", "nameSemantics": "source", "strongRevision": true},
        ]})
    );
    let listed = stage.json(&["ls", "notes"]).await;
    let entry = listed["entries"][0].clone();
    assert_eq!(listed, json!({"path": "notes", "entries": [entry], "warnings": [], "complete": true}));
    assert_eq!(
        (&entry["name"], &entry["stat"]["kind"], &entry["stat"]["size"]),
        (&json!("a"), &json!("file"), &json!(5))
    );
    let copied = stage.json(&["cat", "notes/a", "-o", "copy"]).await;
    assert_eq!(copied, json!({"path": "notes/a", "bytes": 5, "revision": entry["stat"]["revision"]}));

    let ran = stage.run(&["stat", "--json", "notes/a", "notes/none", "other/x"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(5), ""));
    let results = ran.objects().remove(0)["results"].clone();
    let message = results[2]["error"]["message"].clone();
    assert!(message.is_string());
    assert_eq!(
        results,
        json!([
            {"path": "notes/a", "stat": entry["stat"]},
            {"path": "notes/none", "stat": null},
            {"path": "other/x", "error": {"code": "EACCES", "message": message}},
        ])
    );

    let ran = stage.run(&["cat", "notes/none", "--json"]).await;
    assert_eq!((ran.code, ran.stdout()), (Some(4), ""));
    let told: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(
        told,
        json!({"error": {
            "message": "notes/none does not exist (ENOENT)", "exitCode": 4,
            "code": "ENOENT", "operation": "read_stream", "remoteCode": "ENOENT", "status": 404,
        }})
    );
}

#[tokio::test]
async fn all_pages_of_a_directory_are_listed_and_what_is_left_out_is_told() {
    let stage = Stage::new().await;
    for number in 0..1200 {
        stage.write(&format!("many/{number:04}"), "");
    }
    std::fs::write(stage.path("notes/many").join(OsStr::from_bytes(b"\xff")), "").unwrap();
    let ran = stage.run(&["ls", "notes/many"]).await;
    let names: Vec<&str> = ran.stdout().lines().skip(1).map(|line| line.split_whitespace().last().unwrap()).collect();
    let expected: Vec<String> = (0..1200).map(|number| format!("{number:04}")).collect();
    assert_eq!(names, expected);
    assert_eq!(ran.stderr, "cells: warning: an entry of notes/many is left out: NON_UTF8_NAME\n");
    assert_eq!(stage.proxy.counts().paths["GET /v1/fs/notes/entries"], 3);

    for (limit, expected, complete) in
        [("1", 1, false), ("512", 512, false), ("1200", 1200, true), ("9999", 1200, true)]
    {
        let listed = stage.json(&["ls", "notes/many", "--limit", limit]).await;
        let n_entries = listed["entries"].as_array().unwrap().len();
        assert_eq!((n_entries, &listed["complete"]), (expected, &json!(complete)), "{limit}");
        assert_eq!(listed["warnings"], json!(["NON_UTF8_NAME"]));
    }
    let ran = stage.run(&["ls", "notes/many", "--limit", "1"]).await;
    assert!(ran.stderr.ends_with("cells: warning: notes/many has more entries; --limit leaves them out\n"), "{ran:?}");
}

#[tokio::test]
async fn many_paths_are_asked_in_one_request() {
    let stage = Stage::new().await;
    let paths: Vec<String> = (0..200).map(|number| format!("notes/{number}")).collect();
    let arguments: Vec<&str> = std::iter::once("stat").chain(paths.iter().map(String::as_str)).collect();
    let ran = stage.run(&arguments).await;
    assert_eq!((ran.code, ran.stdout().lines().count()), (Some(4), 201));
    assert_eq!(stage.proxy.counts().paths["POST /v1/fs/notes/stat"], 1);
}

#[tokio::test]
async fn a_transfer_survives_a_broken_connection_and_ends_with_a_lost_node() {
    let stage = Stage::new().await;
    let content = content(3_000_000);
    stage.write("big", &content);
    stage.proxy.set_plan(Plan::new([Rule::path("/v1/fs/notes/content", Fault::Truncate { at: 1_000_001 }).first(2)]));
    let ran = stage.run(&["cat", "notes/big"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout == content, "other bytes arrived");

    stage.proxy.set_plan(Plan::new([Rule::path("/v1/fs/notes/content", Fault::Truncate { at: 0 })]));
    let ran = stage.run(&["cat", "notes/big", "-o", "copy"]).await;
    ran.check("cat from a node that always breaks", 1, "", "cells: notes/big: *\n");
    assert!(!stage.path("copy").exists());
    assert_eq!(parts(&stage), 0, "nothing is left of it");
}

fn parts(stage: &Stage) -> usize {
    let names = stage.path("").read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".part")).count()
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_failure() {
    let stage = Stage::new().await;
    stage.write("big", content(3_000_000));
    let mut child = stage.cells(&["cat", "notes/big"]).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0; 1000];
    stdout.read_exact(&mut first).await.unwrap();
    drop(stdout);
    let output = child.wait_with_output().await.unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[tokio::test]
async fn an_interrupted_download_leaves_nothing() {
    let stage = Stage::new().await;
    stage.write("big", content(1000));
    stage.proxy.set_plan(Plan::new([Rule::path("/v1/fs/notes/content", Fault::DelayReply { ms: 600_000 })]));
    let started = stage.start(&["cat", "notes/big", "-o", "copy"]);
    while !stage.proxy.counts().paths.contains_key("GET /v1/fs/notes/content") {
        tokio::task::yield_now().await;
    }
    started.signal(Signal::INT);
    let ran: Ran = started.finish().await;
    ran.check("an interrupted download", 130, "", "");
    assert_eq!((parts(&stage), stage.path("copy").exists()), (0, false));
}
