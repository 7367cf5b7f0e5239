//! `put` and `get`: files and directories, strange names, and what cannot be copied.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, SystemTime};

use cells_testkit::fault_proxy::{Fault, Plan, Rule};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::stage::{Stage, asks, content, tree};

#[tokio::test]
async fn a_file_goes_up_and_comes_down() {
    let stage = Stage::new().await;
    let content = content(3_000_000);
    fs::write(stage.path("local"), &content).unwrap();
    fs::write(stage.path("empty"), "").unwrap();
    fs::create_dir(stage.path("notes/dir")).unwrap();
    fs::create_dir(stage.path("here")).unwrap();
    stage
        .check(&[
            (&["put", "local", "notes/new"], 0, "notes/new: 3000000 bytes written\n", ""),
            (&["put", "local", "notes/new"], 0, "notes/new: was there already\n", ""),
            (&["put", "local", "notes/dir"], 0, "notes/dir/local: 3000000 bytes written\n", ""),
            (&["get", "notes/new", "copy"], 0, "copy: 3000000 bytes written\n", ""),
            (&["get", "notes/new", "copy"], 0, "copy: was here already\n", ""),
            (&["get", "notes/new", "here"], 0, "here/new: 3000000 bytes written\n", ""),
            (&["put", "empty", "notes/empty"], 0, "notes/empty: 0 bytes written\n", ""),
            (&["get", "notes/empty", "none"], 0, "none: 0 bytes written\n", ""),
        ])
        .await;
    for copy in ["notes/new", "notes/dir/local", "copy", "here/new"] {
        assert!(fs::read(stage.path(copy)).unwrap() == content, "{copy}");
    }
    assert_eq!(fs::read(stage.path("none")).unwrap(), b"");
    fs::remove_file(stage.path("none")).unwrap();
    fs::write(stage.path("local"), "other").unwrap();
    let other = "cells: notes/new exists with other content; --replace replaces it\n";
    let taken = "cells: copy exists with other content; --force replaces it\n";
    stage
        .check(&[
            (&["put", "local", "notes/new"], 1, "", other),
            (&["put", "--replace", "local", "notes/new"], 0, "notes/new: 5 bytes written\n", ""),
            (&["get", "notes/new", "copy"], 1, "", taken),
            (&["get", "--force", "notes/new", "copy"], 0, "copy: 5 bytes written\n", ""),
            (&["get", "notes/none", "copy"], 4, "", "cells: notes/none does not exist (ENOENT)\n"),
            (&["get", "notes/dir", "copy"], 2, "", "cells: notes/dir is a directory; -r copies it\n"),
            (&["get", "notes/new", "none/x"], 1, "", "cells: none/*: No such file or directory *\n"),
            (&["put", "here", "notes/x"], 2, "", "cells: here is a directory; -r copies it\n"),
            (&["put", "none", "notes/x"], 1, "", "cells: none: *\n"),
            (&["put", "local", "notes/none/x"], 4, "", "cells: notes/none does not exist (ENOENT)\n"),
            (&["put", "local", "notes/../x"], 2, "", "cells: notes/../x: *`..` segment (EINVAL)\n"),
        ])
        .await;
    assert_eq!(fs::read(stage.path("copy")).unwrap(), b"other");

    // As large as the old one, so that only its content tells.
    fs::write(stage.path("local"), "OTHER").unwrap();
    stage.check(&[(&["put", "local", "notes/new"], 1, "", other)]).await;
    fs::write(stage.path("copy"), "OTHER").unwrap();
    stage.check(&[(&["get", "notes/new", "copy"], 1, "", taken)]).await;
    assert_eq!(fs::read(stage.path("copy")).unwrap(), b"OTHER");
    assert!(tree(&stage.path("here")).keys().all(|name| name == "new"), "nothing is left beside a copy");
    let parts = fs::read_dir(stage.path("")).unwrap();
    assert!(parts.flatten().all(|entry| !entry.file_name().to_string_lossy().ends_with(".cells-part")));
}

#[tokio::test]
async fn standard_input_is_a_file_like_others() {
    let stage = Stage::new().await;
    let content = content(1_000_000);
    let cases: [(&[&str], i32, &str, &str); 3] = [
        (&["put", "-", "notes/new"], 0, "notes/new: 1000000 bytes written\n", ""),
        (&["put", "-", "notes/new"], 1, "", "cells: notes/new exists with other content; --replace replaces it\n"),
        (&["put", "-", "notes"], 2, "", "cells: notes is a directory, and /dev/stdin has no name to keep\n"),
    ];
    for (arguments, code, stdout, stderr) in cases {
        let mut child = stage.cells(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // One that is refused reads nothing.
        let (output, _) = tokio::join!(child.wait_with_output(), async {
            let _ = stdin.write_all(&content).await;
            drop(stdin);
        });
        let output = output.unwrap();
        let told = (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        );
        assert_eq!(told, (Some(code), stdout.to_owned(), stderr.to_owned()));
    }
    assert!(fs::read(stage.path("notes/new")).unwrap() == content);
}

#[tokio::test]
async fn a_copy_is_told_to_programs() {
    let stage = Stage::new().await;
    fs::create_dir(stage.path("local")).unwrap();
    fs::write(stage.path("local/a"), "other").unwrap();
    symlink("a", stage.path("local/link")).unwrap();
    let sha256 = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"; // printf other | sha256sum
    let up = stage.json(&["put", "local/a", "notes/a"]).await;
    let (id, revision) = (&up["operationId"], &up["revision"]);
    assert!(id.is_string() && revision.is_string());
    let expected = json!({
        "path": "notes/a", "written": 1, "same": 0, "bytes": 5, "operationId": id, "revision": revision,
    });
    assert_eq!(up, expected);
    for (arguments, expected) in [
        (&["put", "local/a", "notes/a"][..], json!({ "path": "notes/a", "written": 0, "same": 1, "bytes": 0 })),
        (
            &["get", "notes/a", "b"],
            json!({ "path": "notes/a", "local": "b", "written": 1, "same": 0, "bytes": 5, "sha256": sha256 }),
        ),
        (
            &["get", "notes/a", "b"],
            json!({ "path": "notes/a", "local": "b", "written": 0, "same": 1, "bytes": 0, "sha256": sha256 }),
        ),
        (
            &["put", "-r", "local", "notes/up"],
            json!({
                "path": "notes/up", "written": 1, "same": 0, "bytes": 5, "failed": 0, "leftOut": ["local/link"],
            }),
        ),
        (
            &["get", "-r", "notes", "down"],
            json!({
                "path": "notes", "written": 2, "same": 0, "bytes": 10, "failed": 0, "leftOut": [], "warnings": [],
            }),
        ),
    ] {
        assert_eq!(stage.json(arguments).await, expected, "{arguments:?}");
    }
    fs::write(stage.path("local/a"), "more").unwrap();
    let ran = stage.run(&["put", "-r", "local", "notes/up", "--json"]).await;
    let told: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!((ran.code, &ran.objects()[0]["failed"], &told["error"]["exitCode"]), (Some(1), &json!(1), &json!(1)));
}

#[tokio::test]
async fn a_thousand_files_go_up_and_come_down() {
    let stage = Stage::new().await;
    for at in 0..1000 {
        let file = stage.path("local").join(format!("d{}/e {}", at % 7, at % 3)).join(format!("file {at} \u{e9}"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content(at * 7)).unwrap();
    }
    fs::create_dir(stage.path("local/empty")).unwrap();
    let counted = |written: u32, same: u32, object: &Value| {
        let expected = (&json!(written), &json!(same), &json!(0));
        assert_eq!((&object["written"], &object["same"], &object["failed"]), expected);
    };
    counted(1000, 0, &stage.json(&["put", "-r", "local", "notes/up"]).await);
    fs::remove_file(stage.path("notes/up/d0/e 0/file 0 \u{e9}")).unwrap();
    counted(1, 999, &stage.json(&["put", "-r", "local", "notes/up"]).await);
    let times = |folder| fs::metadata(stage.path(folder).join("d1/e 1/file 1 \u{e9}")).unwrap().modified().unwrap();
    let before = times("notes/up");
    counted(0, 1000, &stage.json(&["put", "-r", "--replace", "local", "notes/up"]).await);
    assert_eq!(times("notes/up"), before, "what is there is not written again");
    counted(1000, 0, &stage.json(&["get", "-r", "notes/up", "down"]).await);
    counted(0, 1000, &stage.json(&["get", "-r", "notes/up", "down"]).await);
    // All bytes are compared, which no hash does better.
    assert!(tree(&stage.path("local")) == tree(&stage.path("down")));
    assert!(tree(&stage.path("local")) == tree(&stage.path("notes/up")));
    let one = stage.json(&["get", "notes/up/d1/e 1/file 1 \u{e9}", "one"]).await;
    let sum = std::process::Command::new("sha256sum").arg(stage.path("local/d1/e 1/file 1 \u{e9}")).output().unwrap();
    assert_eq!(one["sha256"].as_str(), String::from_utf8(sum.stdout).unwrap().split(' ').next());
}

#[tokio::test]
async fn strange_names_and_deep_trees_arrive_as_they_are() {
    let stage = Stage::new().await;
    let long = "\u{20ac}".repeat(85);
    let name_255 = "x".repeat(255);
    let names = [
        "new\nline",
        "-rf",
        "--",
        " ",
        "*",
        "'quote\"",
        "tab\t",
        "\u{1b}[31mred",
        "e\u{301}",
        "\u{e9}",
        "\u{1f600}",
        "\u{202e}txt",
        ".hidden",
        "...",
        "a:b",
        "%2e%2e",
        "?&#=+;",
        &long,
        &name_255,
    ];
    for name in names {
        fs::create_dir_all(stage.path("local").join("in").join(name)).unwrap();
        fs::write(stage.path("local").join("in").join(name).join(name), name).unwrap();
    }
    let deep: String = (0..90).map(|level| format!("level {level:0>14}/")).collect();
    fs::create_dir_all(stage.path("local").join(&deep).join("empty")).unwrap();
    fs::write(stage.path("local").join(&deep).join("file"), "deep").unwrap();
    fs::write(stage.path("local").join(&deep).join("nothing"), "").unwrap();
    let n_files = names.len() + 2;
    let bytes = names.iter().map(|name| name.len()).sum::<usize>() + 4;
    for (verb, from, to, already) in [("put", "local", "notes/up", "there"), ("get", "notes/up", "down", "here")] {
        let first = format!("{n_files} files written ({bytes} bytes), 0 were {already} already\n");
        let again = format!("0 files written (0 bytes), {n_files} were {already} already\n");
        stage.check(&[(&[verb, "-r", from, to], 0, &first, ""), (&[verb, "-r", from, to], 0, &again, "")]).await;
    }
    assert!(tree(&stage.path("local")) == tree(&stage.path("notes/up")));
    assert!(tree(&stage.path("local")) == tree(&stage.path("down")));

    fs::create_dir(stage.path("single")).unwrap();
    fs::create_dir(stage.path("notes/single")).unwrap();
    for name in names {
        let (remote, local) = (format!("notes/single/{name}"), format!("single/{name}"));
        let from = format!("local/in/{name}/{name}");
        for arguments in [&["put", &from, &remote], &["get", &remote, &local]] {
            let ran = stage.run(arguments).await;
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{arguments:?}");
            assert!(ran.stdout().trim_end().chars().all(|character| !character.is_control()), "{:?}", ran.stdout());
        }
        assert_eq!(fs::read_to_string(stage.path(&local)).unwrap(), name);
        stage.check(&[(&["rm", &remote], 0, "", "")]).await;
    }
}

#[tokio::test]
async fn what_cannot_be_copied_is_named_and_the_rest_is_copied() {
    let stage = Stage::new().await;
    for at in 0..20 {
        fs::create_dir_all(stage.path("local")).unwrap();
        fs::write(stage.path("local").join(format!("{at:02}")), format!("{at}")).unwrap();
    }
    stage.write("up/07", "else");
    stage.write("up/08/in the way", "");
    fs::write(stage.path("local/back\\slash"), "x").unwrap();
    fs::write(stage.path("local").join(OsStr::from_bytes(b"not\xfftext")), "x").unwrap();
    symlink("00", stage.path("local/link")).unwrap();
    symlink("nowhere", stage.path("local/\u{1b}[2Jdangling")).unwrap();
    mknodat(CWD, stage.path("local/pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let ran = stage.run(&["put", "-r", "local", "notes/up"]).await;
    assert_eq!(
        (ran.code, ran.stdout()),
        (Some(1), "18 files written (28 bytes), 0 were there already, 3 failed\n"),
        "{ran:?}"
    );
    let mut lines: Vec<&str> = ran.stderr.lines().collect();
    lines.sort_unstable();
    let left_out = |name: &str, why: &str| format!("cells: warning: local/{name} {why}, and is left out");
    let expected = [
        "cells: notes/up/07 exists with other content; --replace replaces it".to_owned(),
        "cells: notes/up/08 exists, and is no file (directory)".to_owned(),
        "cells: notes/up/back\\slash: stat: the path holds a backslash or a NUL (EINVAL)".to_owned(),
        left_out("\\u{1b}[2Jdangling", "is a link"),
        left_out("link", "is a link"),
        left_out("not\u{fffd}text", "has a name that is not UTF-8"),
        left_out("pipe", "is a pipe or a device"),
    ];
    assert_eq!(lines, expected);

    // LOCAL itself may be a link.
    symlink("local", stage.path("to local")).unwrap();
    symlink("local/00", stage.path("to 00")).unwrap();
    stage
        .check(&[
            (&["put", "to 00", "notes/00"], 0, "notes/00: 1 bytes written\n", ""),
            (
                &["put", "-r", "to local", "notes/2"],
                2,
                "20 files written (30 bytes), 0 were there already, 1 failed\n",
                "*",
            ),
        ])
        .await;

    symlink("00", stage.path("notes/link")).unwrap();
    fs::write(stage.path("notes").join(OsStr::from_bytes(b"not\xfftext")), "x").unwrap();
    fs::create_dir_all(stage.path("down/2/03")).unwrap();
    fs::create_dir_all(stage.path("down/up")).unwrap();
    fs::write(stage.path("down/up/07"), "mine").unwrap();
    let ran = stage.run(&["get", "-r", "notes", "down"]).await;
    let told = format!("{} files written (* bytes), 0 were here already, 2 failed\n", 1 + 20 + 20 - 2);
    ran.check("get -r", 1, &told, "*");
    let mut lines: Vec<&str> = ran.stderr.lines().collect();
    lines.sort_unstable();
    let expected = [
        "cells: down/2/03 is a directory",
        "cells: down/up/07 exists with other content; --force replaces it",
        "cells: warning: an entry of notes is left out: NON_UTF8_NAME",
        "cells: warning: notes/link is a link, and is left out",
    ];
    assert_eq!(lines, expected);
    assert_eq!(fs::read(stage.path("down/up/07")).unwrap(), b"mine");
    stage.check(&[(&["get", "notes/link", "x"], 1, "", "cells: notes/link is a link, which no node follows\n")]).await;
}

#[tokio::test]
async fn a_file_that_somebody_else_makes_meanwhile_stays() {
    let stage = Stage::new().await;
    let pipe = stage.path("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    for (arguments, before) in
        [(&["put", "pipe", "notes/a"][..], None), (&["put", "--replace", "pipe", "notes/b"], Some("old"))]
    {
        let target = stage.path("notes").join(arguments.last().unwrap().strip_prefix("notes/").unwrap());
        if let Some(before) = before {
            fs::write(&target, before).unwrap();
        }
        let started = stage.start(arguments);
        let path = pipe.clone();
        // Opens when the upload begins: what stands at the node was looked at before.
        let mut writer =
            tokio::task::spawn_blocking(move || fs::File::options().write(true).open(path).unwrap()).await.unwrap();
        fs::write(&target, "somebody else's").unwrap();
        Write::write_all(&mut writer, b"mine").unwrap();
        drop(writer);
        let told = format!("cells: {} exists, or has changed meanwhile (ECONFLICT)\n", arguments.last().unwrap());
        started.finish().await.check(&format!("{arguments:?}"), 1, "", &told);
        assert_eq!(fs::read(&target).unwrap(), b"somebody else's");
    }
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_copied_is_not_written() {
    let stage = Stage::new().await;
    let local = stage.path("local");
    fs::write(&local, content(40_000_000)).unwrap();
    let file = fs::File::options().write(true).open(&local).unwrap();
    let (ends, ended) = std::sync::mpsc::channel::<()>();
    let changes = std::thread::spawn(move || {
        let mut at = 0;
        while ended.try_recv() == Err(TryRecvError::Empty) {
            at += 1;
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_millis(at)).unwrap();
        }
    });
    let ran = stage.run(&["put", "local", "notes/new"]).await;
    drop(ends);
    changes.join().unwrap();
    ran.check("a file that changes", 1, "", "cells: local changed while it was copied, and was not written\n");
    while fs::read_dir(stage.path("notes")).unwrap().count() > 0 {
        tokio::task::yield_now().await;
    }
    stage.check(&[(&["put", "local", "notes/new"], 0, "notes/new: 40000000 bytes written\n", "")]).await;
}

#[tokio::test]
async fn a_node_that_is_lost_ends_a_copy_and_every_unknown_write_is_named() {
    let stage = Stage::new().await;
    fs::create_dir(stage.path("local")).unwrap();
    for at in 0..40 {
        fs::write(stage.path("local").join(format!("{at:02}")), "x").unwrap();
    }
    // The replies to some uploads are lost, and the node cannot be asked.
    let put = Rule { method: Some("PUT".to_owned()), ..Rule::any(Fault::ResetAfter) };
    let asked = Rule::path("/v1/fs/notes/operations/*", Fault::Truncate { at: 0 });
    stage.proxy.set_plan(Plan::new([put.clone().nth(3), put.nth(5), asked]));
    let ran = stage.run(&["put", "-r", "local", "notes/up", "--timeout", "2"]).await;
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let unknown: Vec<_> = ran.stderr.lines().map(asks).collect();
    assert_eq!(unknown.len(), 2, "{}", ran.stderr);
    stage.proxy.set_plan(Plan::default());
    for ask in unknown {
        let ask: Vec<&str> = ask.iter().map(String::as_str).collect();
        stage.check(&[(&ask, 0, "committed\n", "")]).await;
    }
    let written = tree(&stage.path("notes/up")).len();
    let told = format!("{} files written (* bytes), {written} were there already\n", 40 - written);
    stage.check(&[(&["put", "-r", "local", "notes/up"], 0, &told, "")]).await;
    assert!(tree(&stage.path("local")) == tree(&stage.path("notes/up")));

    // A node that is gone is told once, not once a file.
    fs::write(stage.path("local/new"), "x").unwrap();
    let rule = Rule { method: Some("PUT".to_owned()), ..Rule::any(Fault::Refuse) };
    stage.proxy.set_plan(Plan::new([rule]));
    let ran = stage.run(&["put", "-r", "local", "notes/again", "--timeout", "2"]).await;
    assert!(ran.stderr.lines().count() <= 8 && ran.code != Some(0), "{ran:?}");
}

#[tokio::test]
async fn ctrl_c_ends_a_copy_and_tells_of_every_write_under_way() {
    let stage = Stage::new().await;
    fs::create_dir(stage.path("local")).unwrap();
    for at in 0..40 {
        fs::write(stage.path("local").join(format!("{at:02}")), "x").unwrap();
    }
    let rule = |fault| Rule { method: Some("PUT".to_owned()), ..Rule::any(fault) };
    let held = rule(Fault::DelayRequest { ms: 600_000 });
    stage.proxy.set_plan(Plan::new([held.nth(4), rule(Fault::DelayReply { ms: 600_000 }).nth(6)]));
    let mut started = stage.start(&["put", "-r", "local", "notes/up"]);
    // All others are through by then: only two are under way.
    stage.sees("PUT /v1/fs/notes/content", 40).await;
    let is_file = |name: &OsStr| !name.as_bytes().starts_with(b".");
    let n_files = || {
        fs::read_dir(stage.path("notes/up"))
            .unwrap()
            .filter(|entry| is_file(&entry.as_ref().unwrap().file_name()))
            .count()
    };
    while n_files() < 39 {
        tokio::task::yield_now().await;
    }
    started.signal(Signal::INT);
    started.line("cells: stopping").await;
    let ran = started.finish().await;
    assert_eq!(ran.code, Some(130), "{ran:?}");
    let (stopped, done): (Vec<&str>, Vec<&str>) =
        ran.stderr.lines().skip(1).partition(|line| line.contains("stopped,"));
    assert!(
        stopped.iter().all(|line| line.ends_with(": stopped, and nothing has changed (ECANCELLED)")),
        "{stopped:?}"
    );
    // Others may have had no reply by then.
    assert!(done.iter().all(|line| line.ends_with(": done before it could be stopped")), "{done:?}");
    assert!(stopped.len() == 1 && !done.is_empty(), "{}", ran.stderr);
    assert_eq!(ran.stdout(), "39 files written (39 bytes), 0 were there already, 1 failed\n");
    stage.proxy.set_plan(Plan::default());
    let told = "1 files written (1 bytes), 39 were there already\n";
    stage.check(&[(&["put", "-r", "local", "notes/up"], 0, told, "")]).await;
}
