//! `profiles`, `sessions`, `models`, `usage`, `commands`, `run`, `digest`, `watch`, `respond` and `interrupt` with the scripted
//! agent.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::stage::Stage;

/// A node, and the id of a session in which something was said.
async fn scene() -> (Stage, String) {
    let stage = Stage::new().await;
    let session = stage.run(&["send", "say A badger crossed the river."]).await.named("session").to_owned();
    (stage, session)
}

#[tokio::test]
async fn what_an_agent_has_is_listed() {
    let (stage, session) = scene().await;
    stage
        .check(&[
            (&["profiles"], 0, "PROFILE   KIND      WORKSPACES\nscripted  scripted  notes\n", ""),
            (
                &["models"],
                0,
                "*MODEL*\n*  scripted-large  low, high  Scripted Large\n   scripted-fast *Scripted Fast\n",
                "",
            ),
            (
                &["commands", &session],
                0,
                "COMMAND*output BYTES [SEED]  action  Give exactly BYTES*\n*do PROMPT *prompt *",
                "",
            ),
            (&["usage", &session], 0, "MODEL *\nscripted-large*\nall *\n", ""),
            (&["digest", &session], 0, "> say A badger crossed the river.\n\nA badger crossed the river.\n\n", ""),
            (&["usage", "none"], 4, "", "cells: *ENOENT*\n"),
            (&["models", "--profile", "none"], 4, "", "cells: the node has no profile none; it has scripted\n"),
        ])
        .await;
    let models = stage.json(&["models", "--session", &session]).await;
    assert_eq!(models["current"]["modelId"], "scripted-large");
    assert_eq!(stage.json(&["profiles"]).await["profiles"][0]["id"], "scripted");
    let usage = stage.json(&["usage", &session]).await;
    assert_eq!(usage["totals"]["outputTokens"], 7);
    assert_eq!(stage.json(&["digest", &session]).await["entries"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn sessions_are_shown_found_and_managed() {
    let (stage, session) = scene().await;
    stage
        .check(&[
            (&["sessions", "list"], 0, &format!("SESSION*\n{session}*\n"), ""),
            (&["sessions", "show", &session], 0, "session *\ntitle    say A badger*\n*\n> say A badger crossed the river.\n\nA badger crossed the river.\n", ""),
            (&["sessions", "show", &session, "--pages", "0"], 0, "session *\ntokens   15\n", ""),
            (&["sessions", "show", "none"], 4, "", "cells: *ENOENT*\n"),
            (&["sessions", "search", "RIVER", "badger"], 0, "SESSION *\n*A badger crossed the river.\n*", ""),
            (&["sessions", "search", "--mode", "title", "wolf"], 0, "SESSION  TITLE  FOUND\n", ""),
            (&["sessions", "search", " "], 2, "", "cells: *\n"),
            (&["sessions", "rename", &session, "<b>river</b>"], 0, &format!("{session}\n"), ""),
            (&["sessions", "rename", &session, ""], 2, "", "cells: *harness_rename*\n"),
            (&["sessions", "archive", &session], 0, &format!("{session}\n"), ""),
            (&["sessions"], 0, "SESSION  STATUS  USED  TITLE\n", ""),
            (&["sessions", "--archived"], 0, "SESSION*<b>river</b>\n", ""),
            (&["send", "--session", &session, "say x"], 1, "", "*EINVAL*\n"),
            (&["sessions", "unarchive", &session], 0, &format!("{session}\n"), ""),
        ])
        .await;
    let forked = stage.json(&["sessions", "fork", &session, "--name", "try two"]).await;
    assert_eq!(forked["session"]["branchName"], "try two");
    let fork = forked["session"]["id"].as_str().unwrap().to_owned();
    let shown = stage.json(&["sessions", "show", &fork]).await;
    assert_eq!((&shown["session"]["parentSessionId"], &shown["complete"]), (&json!(session), &json!(true)));
    stage
        .check(&[
            (&["sessions", "delete", &fork], 0, &format!("{fork}\n"), ""),
            (&["sessions", "delete", &fork], 4, "", "cells: *ENOENT*\n"),
            (&["sessions", "delete", &session], 1, "", "cells: *EBUSY*\n"),
        ])
        .await;
}

#[tokio::test]
async fn prompts_take_files_and_models() {
    let (stage, session) = scene().await;
    stage.write("a.txt", "one\ntwo");
    stage.write("b.png", b"\x89PNG\r\n\x1a\n");
    stage.write("c.bin", b"\xff\xfe\x00");
    let (text, image, other) = ("notes/a.txt", "notes/b.png", "notes/c.bin");
    stage
        .check(&[
            (
                &["send", "quote a.txt\nquote b.png", "--attach", text, "--attach", image],
                0,
                "one\ntwo\n`b.png` is an image/png *\n",
                "*",
            ),
            (&["send", "hi", "--attach", other], 2, "", "cells: --attach notes/c.bin: is neither text nor *\n"),
            (&["send", "hi", "--attach", "none"], 2, "", "cells: --attach none: *\n"),
            (&["send", "--session", &session, "--model", "scripted-fast", "say x"], 0, "x\n", "*"),
            (&["send", "--session", &session, "--model", "none", "say x"], 1, "", "*HARNESS_SELECTION_INVALID*\n"),
            (
                &["send", "--session", &session, "--model", "scripted-fast", "--effort", "low", "say x"],
                1,
                "",
                "*HARNESS_SELECTION_INVALID*\n",
            ),
        ])
        .await;
    assert_eq!(stage.json(&["models", "--session", &session]).await["current"]["modelId"], "scripted-fast");
}

#[tokio::test]
async fn a_command_gives_its_whole_output() {
    let (stage, session) = scene().await;
    stage
        .check(&[
            (&["run", &session, "echo", "a", "b"], 0, "a b", ""),
            (&["run", &session, "/echo"], 0, "", ""),
            (&["run", &session, "fail", "NO_LUCK"], 1, "", "cells: the command fail failed: NO_LUCK\n"),
            (&["run", &session, "none"], 4, "", "cells: *HARNESS_COMMAND_UNKNOWN*\n"),
            (&["run", &session, "output", "200000", "-o", "body"], 0, "", "*"),
        ])
        .await;
    assert_eq!(std::fs::read(stage.path("body")).unwrap().len(), 200_000);
    let ran = stage.json(&["run", &session, "echo", "x"]).await;
    assert_eq!((&ran["state"], &ran["output"]), (&json!("completed"), &json!("x")));
}

#[tokio::test]
async fn an_agent_is_watched_answered_and_interrupted() {
    let (stage, session) = scene().await;
    let mut watch = stage.cells(&["watch", "--session", &session, "--until-turn-end"]).spawn().unwrap();
    let mut notes = BufReader::new(watch.stderr.take().unwrap()).lines();
    assert_eq!(notes.next_line().await.unwrap().unwrap(), "cells: watching; Ctrl-C ends");
    let prompt = "run echo hi\nask Which? | red | blue\nwait";
    let mut send = stage.cells(&["send", "--session", &session, prompt, "--json"]);
    // Without a terminal and without --approve, `send` would interrupt the turn: another program answers.
    let mut send = send.stdout(Stdio::piped()).arg("--approve").arg("yes").spawn().unwrap();
    let mut told = BufReader::new(send.stdout.take().unwrap()).lines();
    let request = loop {
        let line: Value = serde_json::from_str(&told.next_line().await.unwrap().unwrap()).unwrap();
        if line["type"] == "request" && line["method"] == "item/tool/requestUserInput" {
            break line["id"].as_str().unwrap().to_owned();
        }
    };
    // `send` leaves the question, which it cannot ask, by interrupting the turn; the watcher sees all of it.
    send.wait().await.unwrap();
    let output = watch.wait_with_output().await.unwrap();
    let seen = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    for expected in ["user: run echo hi", "asks (", "echo hi", &format!("asks ({request}): "), "cancelled"] {
        assert!(seen.contains(expected), "{expected}: {seen}");
    }
    stage.check(&[(&["respond"], 0, "REQUEST  ANSWER WITH  WHAT\n", "")]).await;
    stage.check(&[(&["interrupt", &session], 1, "", "cells: no turn runs in that session\n")]).await;
}

#[tokio::test]
async fn another_program_answers_and_interrupts() {
    let (stage, session) = scene().await;
    // A turn that nobody follows: its client died.
    let start = async |prompt: &str| {
        let mut send = stage.cells(&["send", "--session", &session, prompt, "--json", "--approve", "yes"]);
        let mut send = send.spawn().unwrap();
        let mut told = BufReader::new(send.stdout.take().unwrap()).lines();
        loop {
            let line: Value = serde_json::from_str(&told.next_line().await.unwrap().unwrap()).unwrap();
            if line["type"] == "message" && line["text"] == "ready" {
                break;
            }
        }
        send.kill().await.unwrap();
    };
    start("say ready\nrun while [ ! -e go ]; do sleep 0.05; done\nask Which? | red | blue\nwait").await;
    stage.write("go", "");
    let request = loop {
        let waiting = stage.json(&["respond"]).await;
        let Some(request) = waiting["requests"].as_array().unwrap().first() else { continue };
        let id = request["id"].as_str().unwrap().to_owned();
        if request["kind"] == "input" {
            break id;
        }
        // Its client died before it answered.
        assert_eq!(stage.run(&["respond", &id, "--decision", "accept"]).await.code, Some(0));
    };
    stage
        .check(&[
            (&["respond"], 0, &format!("REQUEST*\n{request}  --answer *Which?*\n"), ""),
            (&["respond", &request], 2, "", "cells: that has 1 questions: give --answer 1 times\n"),
            (&["respond", "none", "--answer", "x"], 4, "", "cells: no such request waits for an answer\n"),
            (&["respond", &request, "--answer", "red"], 0, "", ""),
            (&["interrupt", &session, "--turn", "other"], 1, "", "cells: *HARNESS_TURN_NOT_ACTIVE*\n"),
        ])
        .await;
    let interrupted = stage.run(&["interrupt", &session]).await;
    assert_eq!(interrupted.code, Some(0));
    let ended = loop {
        let shown = stage.json(&["sessions", "show", &session]).await;
        if shown["session"]["activeTurnId"].is_null() {
            break shown;
        }
    };
    assert_eq!(ended["session"]["lastTurnId"].as_str().unwrap(), interrupted.stdout().trim());
    let text = ended["turns"].to_string();
    assert!(text.contains("You answered: red"), "{text}");
}
