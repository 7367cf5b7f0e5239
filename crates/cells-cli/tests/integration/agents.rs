//! `sessions`, `send`, `receipt` and `output` with the scripted agent.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::stage::{Ran, Stage};

/// What `send` tells before the agent answers.
const SENT: &str = "session session-*\nepoch   *\nrequest *\n";

#[tokio::test]
async fn prompts_and_what_comes_of_them() {
    let stage = Stage::new().await;
    let sent = |rest: &str| format!("{SENT}{rest}");
    stage.write("a.txt", "A\n");
    stage
        .check(&[
            (&["send", "say Hello there."], 0, "Hello there.\n", &sent("")),
            (&["send", "say", "two", "words"], 0, "two words\n", &sent("")),
            (&["send", "say one\nsay two"], 0, "one\ntwo\n", &sent("")),
            (
                &["send", "run cat a.txt", "--approve", "yes"],
                0,
                "Command `cat a.txt` exited with 0:\n```\nA\n```\n",
                &sent("$ cat a.txt\ncells: the agent asks to run: cat a.txt; answered yes by --approve\n"),
            ),
            (
                &["send", "run touch never", "--approve", "no"],
                0,
                "Command `touch never` was declined.\n",
                &sent("$ touch never\ncells: *answered no by --approve\n$ touch never: declined\n"),
            ),
            (
                &["send", "write b.txt B", "--approve", "yes"],
                0,
                "File `b.txt` was written: 2 bytes.\n",
                &sent("edit b.txt\ncells: the agent asks to change: b.txt; answered yes by --approve\n"),
            ),
            (
                &["send", "run touch never"],
                1,
                "",
                &sent("$ touch never\n*cells: the agent asks to run: touch never; there is no terminal to ask on, so the turn was interrupted; use --approve yes or --approve no\n"),
            ),
            (
                &["send", "ask Which color?", "--approve", "yes"],
                1,
                "",
                &sent("*cells: the agent asks: Which color?; there is no terminal to ask on, so the turn was interrupted\n"),
            ),
            (&["send", "say so\nfail no luck"], 1, "so\n", &sent("cells: the turn failed: no luck\n")),
            (&["send", "reject EBUSY"], 1, "", &sent("cells: harness_turn: *EBUSY*\n")),
            (
                &["send", "reject EIO"],
                3,
                "",
                &sent("cells: harness_turn: *; whether it happened is unknown; ask again with: cells receipt * --profile scripted --url http://*\n"),
            ),
            (&["send", "slow-receipt end\nrun echo early", "--approve", "yes"], 0, "Command*early*", &sent("$ echo early\ncells: *\n")),
            (&["send"], 2, "", "cells: the prompt is empty\n"),
            (&["send", "--profile", "other", "hi"], 4, "", "cells: the node has no profile other; it has scripted\n"),
            (&["send", "--workspace", "other", "hi"], 4, "", "cells: the profile scripted has no workspace other; it has notes\n"),
            (&["send", "--session", "other", "hi"], 4, "", "cells: --session: *ENOENT*\n"),
            (&["send", "--session", "a", "--workspace", "b", "hi"], 2, "", "cells: *--session*--workspace*\n"),
        ])
        .await;
    assert!(!stage.path("notes/never").exists());
    assert_eq!(std::fs::read(stage.path("notes/b.txt")).unwrap(), b"B\n");
}

#[tokio::test]
async fn a_prompt_is_read_from_standard_input() {
    let stage = Stage::new().await;
    for arguments in [&["send"][..], &["send", "-"]] {
        let mut child = stage.cells(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all("say from a pipe – ü\n".as_bytes()).await.unwrap();
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        assert_eq!((output.status.code(), output.stdout), (Some(0), "from a pipe – ü\n".into()), "{arguments:?}");
    }
    let mut child = stage.cells(&["send"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"say \xff\n").await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[tokio::test]
async fn sessions_are_listed_and_gone_on_with_after_a_restart() {
    let mut stage = Stage::new().await;
    let first = stage.run(&["send", "say first"]).await;
    let session = first.named("session").to_owned();
    stage.run(&["send", "say other"]).await;
    stage.kill_node().await;
    stage.start_node().await;
    let listed = stage.json(&["sessions"]).await;
    assert_eq!((&listed["profileId"], &listed["complete"]), (&json!("scripted"), &json!(true)));
    let titles: Vec<&Value> = listed["sessions"].as_array().unwrap().iter().map(|session| &session["title"]).collect();
    assert_eq!(titles, ["say other", "say first"]);
    assert_eq!(listed["sessions"][0]["status"], "notLoaded");

    let again = stage.run(&["send", "--session", &session, "say again"]).await;
    again.check("a stored session", 0, "again\n", "session *");
    assert_eq!(again.named("session"), session);
    stage
        .check(&[
            (
                &["sessions", "--limit", "1"],
                0,
                &format!("SESSION*TITLE\n{session}  idle    *  say first\n"),
                "cells: warning: there are more sessions; --limit leaves them out\n",
            ),
            (&["sessions", "--archived"], 0, "SESSION  STATUS  USED  TITLE\n", ""),
        ])
        .await;
}

#[tokio::test]
async fn all_pages_of_sessions_are_listed() {
    let stage = Stage::new().await;
    let session = stage.run(&["send", "say first"]).await.named("session").to_owned();
    let create = |_| stage.run(&["send", "--command", "echo", "x"]);
    for chunk in (0..110).collect::<Vec<_>>().chunks(10) {
        futures::future::join_all(chunk.iter().map(create)).await;
    }
    let listed = stage.json(&["sessions"]).await;
    let sessions = listed["sessions"].as_array().unwrap();
    assert_eq!((sessions.len(), &listed["complete"]), (111, &json!(true)));
    assert_eq!(sessions.last().unwrap()["id"], *session);
}

#[tokio::test]
async fn with_several_workspaces_one_must_be_chosen() {
    let stage = Stage::with_exports(&["notes", "code"]).await;
    stage.write("here", "");
    stage
        .check(&[
            (
                &["send", "hi"],
                2,
                "",
                "cells: the profile scripted has the workspaces code, notes; choose one with --workspace\n",
            ),
            (&["send", "--workspace", "notes", "run ls", "--approve", "yes"], 0, "*\nhere\n*", "*"),
            (&["send", "--workspace", "code", "run ls", "--approve", "yes"], 0, "*no output*", "*"),
        ])
        .await;
}

#[tokio::test]
async fn slash_commands_of_both_kinds() {
    let stage = Stage::new().await;
    let sent = |rest: &str| format!("{SENT}{rest}");
    stage
        .check(&[
            (&["send", "--command", "echo", "a  b"], 0, "a  b", &sent("")),
            (&["send", "--command", "/echo", "x"], 0, "x", &sent("")),
            (&["send", "--command", "echo"], 0, "", &sent("")),
            (&["send", "--command", "do", "say done"], 0, "done\n", &sent("")),
            (&["send", "--command", "plan", "run ls"], 0, "1. Ask for approval, then run `ls`.\n", &sent("")),
            (&["send", "--command", "fail", "NO_LUCK"], 1, "", &sent("cells: the command fail failed: NO_LUCK\n")),
            (&["send", "--command", "none"], 4, "", "cells: the agent has no command none; it has help, status, *\n"),
            (&["send", "--command", "no name"], 2, "", "cells: *--command*\n"),
        ])
        .await;
}

#[tokio::test]
async fn what_cannot_be_sent_leaves_no_session_behind() {
    let stage = Stage::new().await;
    let sent = format!("{SENT}cells: the session has no command none; it has help, status, *\n");
    stage.check(&[(&["send", "--command", "none"], 4, "", &sent)]).await;
    let count = async || stage.json(&["sessions"]).await["sessions"].as_array().unwrap().len();
    let before = count().await;
    let long = "x".repeat(131_073);
    std::fs::write(stage.path("long"), &long).unwrap();
    for arguments in [&["send", "-"][..], &["send", "--command", "echo", "-"]] {
        let mut command = stage.cells(arguments);
        command.stdin(std::fs::File::open(stage.path("long")).unwrap());
        let ran = Ran::of(&mut command).await;
        ran.check("long", 2, "", "cells: the prompt has 131073 bytes; at most 131072 can be sent\n");
    }
    let missing = "cells: the agent has no command none; it has help, status, *\n";
    stage.check(&[(&["send", "--command", "none"], 4, "", missing)]).await;
    assert_eq!(count().await, before);
}

/// The first `n_bytes` bytes of the text of the command `output`, as docs/scripted-agent.md tells.
fn output(n_bytes: usize) -> Vec<u8> {
    let mut text = String::new();
    for number in 0.. {
        if text.len() >= n_bytes {
            break;
        }
        text.push_str(&format!("{number:010} 0 naïve café – 日本語 😀\n"));
    }
    let end = (0..=n_bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap();
    let mut bytes = text.into_bytes();
    bytes.truncate(end);
    bytes.resize(n_bytes, b'.');
    bytes
}

#[tokio::test]
async fn long_output_is_kept_and_fetched_whole() {
    const BYTES: usize = 3_000_001;
    let stage = Stage::new().await;
    let whole = output(BYTES);
    let sent = stage.run(&["send", "--command", "output", &BYTES.to_string()]).await;
    assert_eq!(sent.code, Some(0));
    assert!(whole.starts_with(&sent.stdout) && sent.stdout.len() > 10_000, "the preview is the beginning");
    let (epoch, request) = (sent.named("epoch"), sent.named("request"));
    let line = sent.stderr.lines().last().unwrap();
    let ask = format!("cells output {epoch} {request} --profile scripted --url {}", stage.proxy.url());
    assert_eq!(line, format!("cells: this is the beginning of {BYTES} bytes; get all with: {ask}"));

    let words: Vec<&str> = ask.split(' ').skip(1).collect();
    let fetched = stage.run(&words).await;
    assert_eq!((fetched.code, fetched.stderr.as_str()), (Some(0), ""));
    assert!(fetched.stdout == whole, "other bytes arrived");
    let told = stage.json(&[&words[..], &["-o", "body"]].concat()).await;
    assert_eq!(told, json!({"epoch": epoch, "requestId": request, "bytes": BYTES}));
    assert!(std::fs::read(stage.path("body")).unwrap() == whole);

    let small = stage.run(&["send", "--command", "echo", "all of it"]).await;
    let turn = stage.run(&["send", "say x"]).await;
    let unknown = "0".repeat(64);
    stage
        .check(&[
            (&["output", small.named("epoch"), small.named("request")], 0, "all of it", ""),
            (&["output", epoch, request, "--max-bytes", "1000"], 1, "", "cells: harness_command_output: *(EFBIG)\n"),
            (
                &["output", epoch, turn.named("request")],
                4,
                "",
                "cells: * was no slash command, or its result is lost\n",
            ),
            (&["output", epoch, "none"], 4, "", "cells: the node has no receipt of none; it may still arrive\n"),
            (&["output", &unknown, "none"], 3, "", "cells: the node no longer has the receipts of that epoch; *\n"),
            (&["output", "0f", "none"], 2, "", "cells: *64 lowercase hex digits*\n"),
        ])
        .await;
}

#[tokio::test]
async fn receipts_tell_how_it_ended() {
    let mut stage = Stage::new().await;
    let turn = stage.run(&["send", "say x"]).await;
    let command = stage.run(&["send", "--command", "echo", "x"]).await;
    let refused = stage.run(&["send", "reject EBUSY", "--json"]).await;
    let unclear = stage.run(&["send", "reject EIO"]).await;
    let epoch = turn.named("epoch").to_owned();
    let refused = refused.objects().into_iter().find(|object| object["type"] == "dispatch").unwrap();
    let refused = refused["requestId"].as_str().unwrap();
    let receipt = |outcome: &str, request: &str, rest: &str| {
        format!("outcome  {outcome}\nprofile  scripted\nepoch    {epoch}\nrequest  {request}\n{rest}")
    };
    let cases: &[(&str, i32, String, &str)] = &[
        (turn.named("request"), 0, receipt("committed", turn.named("request"), "turn     *\n"), ""),
        (
            command.named("request"),
            0,
            receipt(
                "committed",
                command.named("request"),
                "command  echo completed\noutput   1 bytes; get them with: cells output *\n",
            ),
            "",
        ),
        (refused, 1, receipt("not-committed (EBUSY)", refused, ""), ""),
        (
            unclear.named("request"),
            3,
            receipt("unknown for good (EIO): look at the session", unclear.named("request"), ""),
            "",
        ),
        ("none", 4, String::new(), "cells: the node has no receipt of none; it may still arrive\n"),
    ];
    for (request, code, stdout, stderr) in cases {
        stage.check(&[(&["receipt", &epoch, request], *code, stdout, stderr)]).await;
    }
    let told = stage.json(&["receipt", &epoch, turn.named("request")]).await;
    let request = turn.named("request");
    let result = json!({"turnId": request});
    assert_eq!(told, json!({"outcome": "committed", "epoch": epoch, "requestId": request, "result": result}));

    stage.kill_node().await;
    stage.start_node().await;
    stage
        .check(&[
            (&["receipt", &epoch, request], 0, "outcome  committed\n*", ""),
            (&["receipt", &epoch, "never-sent"], 1, "outcome  not-committed (HARNESS_NOT_ADMITTED)\n*", ""),
        ])
        .await;
}

#[tokio::test]
async fn programs_follow_a_turn_line_by_line() {
    let stage = Stage::new().await;
    let types = |ran: &Ran| -> Vec<String> {
        ran.objects().iter().map(|object| object["type"].as_str().unwrap().to_owned()).collect()
    };
    let ran = stage.run(&["send", "--json", "say Hi you\nrun true", "--approve", "yes"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let objects = ran.objects();
    let of = |kind: &str| objects.iter().find(|object| object["type"] == kind).unwrap();
    let (session, dispatch) = (&objects[0], &objects[1]);
    assert_eq!((&session["type"], &session["profileId"]), (&json!("session"), &json!("scripted")));
    assert!(session["sessionId"].is_string());
    let request = &dispatch["requestId"];
    assert_eq!(
        dispatch,
        &json!({
            "type": "dispatch", "operation": "harness_turn", "profileId": "scripted",
            "epoch": dispatch["epoch"], "requestId": request,
        })
    );
    assert_eq!(of("text")["delta"], "Hi ");
    assert_eq!(of("message"), &json!({"type": "message", "itemId": of("text")["itemId"], "text": "Hi you"}));
    let asked = of("request");
    assert_eq!(
        (&asked["method"], &asked["params"]["command"]),
        (&json!("item/commandExecution/requestApproval"), &json!("true"))
    );
    assert_eq!(of("answer"), &json!({"type": "answer", "id": asked["id"], "decision": "accept"}));
    assert_eq!(objects.last().unwrap(), &json!({"type": "end", "status": "completed"}));

    let ran = stage.run(&["send", "--json", "--command", "output", "100000"]).await;
    assert_eq!(types(&ran), ["session", "dispatch", "command", "notice"]);
    let command = &ran.objects()[2];
    assert_eq!(
        (&command["state"], &command["truncated"], &command["outputRef"]["bytes"]),
        (&json!("completed"), &json!(true), &json!(100_000))
    );

    let ran = stage.run(&["send", "--json", "fail no luck"]).await;
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.objects().last().unwrap(), &json!({"type": "end", "status": "failed", "message": "no luck"}));
    let told: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(told, json!({"error": {"exitCode": 1, "message": "the turn failed: no luck"}}));

    let ran = stage.run(&["send", "--json", "reject EIO"]).await;
    assert_eq!(ran.code, Some(3));
    let told: Value = serde_json::from_str(&ran.stderr).unwrap();
    let dispatch = &ran.objects()[1];
    let recovery = json!({"profileId": "scripted", "epoch": dispatch["epoch"], "requestId": dispatch["requestId"]});
    assert_eq!((&told["error"]["outcome"], &told["error"]["recovery"]), (&json!("unknown"), &recovery));
    assert!(told["error"]["ask"].as_str().unwrap().starts_with("cells receipt "), "{told}");
}

#[tokio::test]
async fn an_answer_longer_than_the_memory_of_the_node_is_complete() {
    let stage = Stage::new().await;
    let expected: String = (1..=20_000).map(|number| format!("{number} ")).collect();
    let ran = stage.run(&["send", "stream 20000"]).await;
    assert_eq!((ran.code, ran.stdout() == format!("{expected}\n")), (Some(0), true), "{}", ran.stderr);
}

#[tokio::test]
async fn a_reader_that_goes_away_does_not_end_the_turn() {
    let stage = Stage::new().await;
    let mut child =
        stage.cells(&["send", "say first\nsleep 1\nstream 100\nwrite done yes", "--approve", "yes"]).spawn().unwrap();
    let mut first = [0; 6];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).await.unwrap();
    drop(stdout);
    let output = child.wait_with_output().await.unwrap();
    assert_eq!((output.status.code(), &first), (Some(0), b"first\n"));
    let listed = stage.json(&["sessions"]).await;
    assert_eq!(listed["sessions"][0]["status"], "active", "it waits for an approval that nobody gives");
}
