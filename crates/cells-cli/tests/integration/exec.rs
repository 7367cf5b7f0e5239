//! `exec`: output, exit codes, mounts, and how a command is stopped.

use std::fs;

use cells_testkit::fault_proxy::{Fault, Plan, Rule};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::stage::Stage;

/// A node for each way to run commands, as far as this machine has it.
async fn stages(exports: &[&str]) -> Vec<(&'static str, Stage)> {
    let mut stages = Vec::new();
    for (model, arguments) in [("sandbox", &["--execution", "sandbox"][..]), ("host", &["--execution", "host"])] {
        match Stage::with_arguments(exports, arguments).await {
            Ok(stage) => stages.push((model, stage)),
            Err(error) => assert_eq!(model, "sandbox", "{error}"),
        }
    }
    stages
}

const STOPPING: &str = "cells: stopping; press Ctrl-C again to leave at once\n";

#[tokio::test]
async fn a_command_runs_in_a_directory_of_the_node() {
    for (model, stage) in stages(&["notes", "library:ro"]).await {
        stage.write("dir/file", "content\n");
        stage.write("dir/sub/below", "below\n");
        fs::write(stage.path("library/book"), "book\n").unwrap();
        let (signalled, told) = match model {
            "sandbox" => (143, ""),
            _ => (1, "cells: a signal ended the command\n"),
        };
        stage
            .check(&[
                (&["exec", "notes/dir", "--", "cat", "file"], 0, "content\n", ""),
                (&["exec", "notes/dir", "--cwd", "sub", "--", "cat", "below"], 0, "below\n", ""),
                (&["exec", "notes/dir", "--cwd", "/workspace/sub", "--", "cat", "below"], 0, "below\n", ""),
                (&["exec", "notes/dir", "--", "sh", "-c", "echo out; echo err >&2; exit 7"], 7, "out\n", "err\n"),
                // Not the 3 of this program, which comes with a line.
                (&["exec", "notes/dir", "--", "sh", "-c", "exit 3"], 3, "", ""),
                (&["exec", "notes/dir", "--", "sh", "-c", "kill -TERM $$"], signalled, "", told),
                (
                    &["exec", "notes", "--run-timeout", "1", "--", "sleep", "30"],
                    1,
                    "",
                    "cells: the command ran longer than 1 s and was stopped (ETIMEDOUT)\n",
                ),
                (&["exec", "library", "--read-only", "--", "cat", "book"], 0, "book\n", ""),
                (
                    &["exec", "library", "--", "cat", "book"],
                    5,
                    "",
                    "cells: library is read-only here; with --read-only the command may read it (EROFS)\n",
                ),
                (
                    &["exec", "notes/none", "--", "true"],
                    4,
                    "",
                    "cells: notes/none is no directory that exists (ENOENT)\n",
                ),
                (
                    &["exec", "notes/dir/file", "--", "true"],
                    1,
                    "",
                    "cells: notes/dir/file is no directory that exists *\n",
                ),
                (
                    &["exec", "notes", "--cwd", "none", "--", "true"],
                    4,
                    "",
                    "cells: --cwd none is no directory that exists *\n",
                ),
                (&["exec", "notes", "--cwd", "..", "--", "true"], 2, "", "cells: *\n"),
                (&["exec", "other", "--", "true"], 5, "", "cells: the command may not use other; *(EACCES)\n"),
                (&["exec", "notes"], 2, "", "cells: *COMMAND*\n"),
                (&["exec", "notes", "--run-timeout", "301", "--", "true"], 2, "", "cells: *--run-timeout*\n"),
            ])
            .await;
        let ran = stage.run(&["exec", "notes", "--json", "--", "sh", "-c", "echo out; exit 7"]).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(7), ""), "{model}");
        let object = &ran.objects()[0];
        assert!(object["processId"].is_string());
        let expected = json!({
            "code": 7, "stdout": "out\n", "stderr": "", "truncated": false, "processId": object["processId"],
        });
        assert_eq!(*object, expected);
        let ran = stage.run(&["exec", "notes", "--json", "--run-timeout", "1", "--", "sleep", "30"]).await;
        let told: Value = serde_json::from_str(&ran.stderr).unwrap();
        let error = &told["error"];
        assert!(error["processId"].is_string());
        assert_eq!(
            (ran.code, ran.stdout(), &error["code"], &error["outcome"]),
            (Some(1), "", &json!("ETIMEDOUT"), &json!("partial")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_command_sees_the_mounts_that_it_is_given() {
    for (model, stage) in stages(&["notes", "library:ro", "more"]).await {
        stage.write("dir/file", "content\n");
        fs::write(stage.path("library/book"), "book\n").unwrap();
        let all = "notes/dir:/all/of it";
        let cannot = "cells: the node cannot show these directories together: *(ECAPABILITY)\n";
        // What a sandbox answers, and what any node without one does.
        let check = async |arguments: &[&str], (code, stdout, stderr)| {
            let (code, stdout, stderr) = if model == "sandbox" { (code, stdout, stderr) } else { (1, "", cannot) };
            stage.check(&[(arguments, code, stdout, stderr)]).await;
        };
        let books = "library:/books";
        let both = ["exec", "more", "--mount", books, "--mount", all, "--", "cat", "/books/book", "/all/of it/file"];
        check(&both, (0, "book\ncontent\n", "")).await;
        check(&["exec", "more", "--mount", books, "--cwd", "/books", "--", "cat", "book"], (0, "book\n", "")).await;
        let read_only = "touch: *Read-only file system\n";
        check(&["exec", "more", "--mount", all, "--", "touch", "/all/of it/new"], (1, "", read_only)).await;
        let written = ["exec", "library", "--read-only", "--mount", "more:/out:rw", "--", "cp", "book", "/out/copy"];
        check(&written, (0, "", "")).await;
        // Two exports that can be written are too much for any node.
        check(&["exec", "more", "--mount", "notes:/notes:rw", "--", "true"], (1, "", cannot)).await;
        assert_eq!(stage.path("more/copy").exists(), model == "sandbox");
        stage
            .check(&[
                (
                    &["exec", "more", "--mount", "library:/usr", "--", "true"],
                    2,
                    "",
                    "cells: *cannot be at or below /usr*\n",
                ),
                (&["exec", "more", "--mount", "library:/workspace", "--", "true"], 2, "", "cells: *same place*\n"),
                (&["exec", "more", "--mount", "library", "--", "true"], 2, "", "cells: *a mount is ALIAS/PATH:AT*"),
                (
                    &["exec", "more", "--mount", "other:/other", "--", "true"],
                    5,
                    "",
                    "cells: the command may not use more or other; *\n",
                ),
                (
                    &["exec", "more", "--mount", "library:/a:rw", "--", "true"],
                    5,
                    "",
                    "cells: library is read-only here; leave `:rw` out (EROFS)\n",
                ),
                (
                    &["exec", "more", "--mount", "library/x:/a", "--", "true"],
                    4,
                    "",
                    "cells: library/x is no directory *\n",
                ),
            ])
            .await;
    }
}

#[tokio::test]
async fn ctrl_c_stops_the_command_and_a_second_one_leaves_it() {
    let stage = Stage::new().await;
    let command = ["exec", "notes", "--", "sh", "-c", "echo begun >&2; exec sleep 300"];
    let mut started = stage.start(&command);
    started.line("begun").await;
    started.signal(Signal::INT);
    started.finish().await.check("the first", 130, "", &format!("begun\n{STOPPING}"));

    let cancel =
        Rule { method: Some("POST".to_owned()), ..Rule::path("/v1/processes/*", Fault::DelayRequest { ms: 600_000 }) };
    stage.proxy.set_plan(Plan::new([cancel]));
    let mut started = stage.start(&command);
    started.line("begun").await;
    started.signal(Signal::INT);
    started.line("cells: stopping").await;
    started.signal(Signal::INT);
    let left = "cells: left; process *-* may still run; the node ends it 120 s after its start\n";
    started.finish().await.check("the second", 130, "", &format!("begun\n{STOPPING}{left}"));
}

#[tokio::test]
async fn a_command_of_which_the_end_is_not_confirmed_is_told_as_such() {
    let stage = Stage::new().await;
    let command = ["exec", "notes", "--", "sh", "-c", "echo begun >&2; exec sleep 300"];
    let (mut started, for_programs) =
        (stage.start(&command), stage.start(&[&["exec", "--json"], &command[1..]].concat()));
    started.line("begun").await;
    stage.sees("POST /v1/processes", 2).await;
    stage.proxy.refuse().await;
    let ran = started.finish().await;
    let told = "begun\ncells: process *-* may still run; the node ends it 120 s after its start: *\n";
    ran.check("unconfirmed", 3, "", told);
    let ran = for_programs.finish().await;
    let told: Value = serde_json::from_str(&ran.stderr).unwrap();
    let error = &told["error"];
    assert_eq!((ran.code, &error["outcome"], ran.stdout()), (Some(3), &json!("unknown"), ""), "{error}");
    assert!(error["message"].as_str().unwrap().contains(error["processId"].as_str().unwrap()));
}

#[tokio::test]
async fn an_end_that_is_confirmed_late_is_told_as_far_as_it_is_known() {
    // The first request to stop the command does not arrive; the second one, of the confirmation, does.
    let cancel =
        Rule { method: Some("POST".to_owned()), ..Rule::path("/v1/processes/*", Fault::DelayRequest { ms: 600_000 }) };
    let stage = Stage::new().await;
    stage.proxy.set_plan(Plan::new([cancel.clone().first(1)]));
    let over = "cells: process *-* is over; how it ended is unknown: *\n";
    stage.check(&[(&["exec", "notes", "--run-timeout", "1", "--", "sleep", "300"], 3, "", over)]).await;

    stage.proxy.set_plan(Plan::new([cancel.first(1)]));
    let mut started = stage.start(&["exec", "notes", "--", "sh", "-c", "echo begun >&2; exec sleep 300"]);
    started.line("begun").await;
    started.signal(Signal::INT);
    started.finish().await.check("stopped by Ctrl-C", 130, "", &format!("begun\n{STOPPING}"));
}

#[tokio::test]
async fn output_that_comes_faster_than_it_can_be_fetched_is_told_to_have_gaps() {
    let stage = Stage::new().await;
    // The command has written everything before the first piece is fetched.
    let output =
        Rule { method: Some("GET".to_owned()), ..Rule::path("/v1/processes/*", Fault::DelayRequest { ms: 1_000 }) };
    stage.proxy.set_plan(Plan::new([output.first(1)]));
    let ran = stage.run(&["exec", "notes", "--", "head", "-c", "30000000", "/dev/zero"]).await;
    assert!(ran.stdout.len() < 30_000_000, "{}", ran.stdout.len());
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (
            Some(0),
            "cells: warning: pieces of the output are missing: the command wrote faster than it could be fetched\n"
        )
    );
    let ran = stage.run(&["exec", "notes", "--", "seq", "1", "100000"]).await;
    let expected: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    assert!(ran.stdout() == expected && ran.stderr.is_empty(), "{}", ran.stderr);
}
