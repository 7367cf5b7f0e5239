//! How processes end, and that nothing of them stays.

use std::time::Duration;

use cells_server::Execution;
use serde_json::json;

use super::support::{ProcessNode, marked, models, running_with, unique_word};

#[tokio::test]
async fn a_status_tells_code_and_output() {
    for model in models().await {
        let node = ProcessNode::start(model).await;
        let in_sandbox = model == Execution::Sandbox;
        // A shell and bubblewrap report 128 + signal.
        let signalled = if in_sandbox { json!(137) } else { json!(null) };
        for (script, code, stdout, stderr) in [
            ("echo out; echo err >&2", json!(0), "out\n", "err\n"),
            ("exit 3", json!(3), "", ""),
            ("kill -9 $$", signalled, "", ""),
            ("cat", json!(0), "", ""),
            (r"printf 'ma\303\261ana \377'", json!(0), "mañana \u{FFFD}", ""),
        ] {
            let expected = json!({ "state": "exited", "stdout": stdout, "stderr": stderr, "code": code,
                "error": null, "truncated": false });
            assert_eq!(node.run(&node.shell(script)).await, expected, "{model:?} {script}");
        }
        let mut missing = node.shell("");
        missing["command"] = json!("no-such-command-here");
        let status = node.run(&missing).await;
        assert!(status["code"] != 0 && status["state"] != "running", "{model:?} {status}");
    }
}

#[tokio::test]
async fn the_environment_is_cleared() {
    for model in models().await {
        let node = ProcessNode::start(model).await;
        let environment = node.stdout("env").await;
        let shell_makes = ["PWD", "OLDPWD", "SHLVL", "_"];
        let marks = ["PATH", "HOME", "LANG", "CELLS_PROCESS"];
        for name in environment.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name) {
            assert!(marks.contains(&name) || shell_makes.contains(&name), "{model:?} {name}");
        }
        assert!(environment.contains("PATH=/usr/local/bin:/usr/bin:/bin\n"), "{environment}");
        assert!(environment.contains("LANG=C.UTF-8\n"), "{environment}");
    }
}

/// Ways to stay alive; each prints `ready` when it does, and sleeps for `WORD` seconds.
const STUBBORN: &[(&str, &str)] = &[
    ("waits", "echo ready; sleep WORD"),
    ("ignores signals", "trap '' TERM INT HUP QUIT; echo ready; while :; do sleep WORD; done"),
    ("left a session", "setsid sh -c 'sleep WORD' & echo ready; sleep WORD"),
    ("is a daemon", "(setsid sh -c 'sleep WORD & echo ready') & sleep WORD"),
    ("closed its pipes", "(sleep WORD >&- 2>&- &); echo ready; exec >&- 2>&-; sleep WORD"),
];

#[tokio::test]
async fn a_cancel_ends_everything_that_a_command_started() {
    for model in models().await {
        let node = ProcessNode::start(model).await;
        for (what, script) in STUBBORN {
            let word = unique_word();
            let id = node.begin(&node.shell(&script.replace("WORD", &word))).await;
            node.wait_for(&id, "ready").await;
            assert!(!running_with(&word).is_empty(), "{what}");
            let at_once = node.cancel(&id).await;
            assert!(["running", "cancelled"].contains(&at_once["state"].as_str().unwrap()), "{at_once}");
            let status = node.end(&id).await;
            assert_eq!((&status["state"], &status["code"]), (&json!("cancelled"), &json!(null)), "{model:?} {what}");
            assert_eq!(running_with(&word), [].into(), "{model:?} {what}");
            assert_eq!(node.cancel(&id).await, status, "a cancel after the end changes nothing");
        }
    }
}

#[tokio::test]
async fn a_cancel_at_any_moment_of_the_start_leaves_nothing() {
    for model in models().await {
        let node = ProcessNode::start(model).await;
        for pause_us in (0..40_u64).map(|at| at * 250) {
            let id = node.begin(&node.shell("sleep 60")).await;
            tokio::time::sleep(Duration::from_micros(pause_us)).await;
            node.cancel(&id).await;
            assert_eq!(node.end(&id).await["state"], "cancelled", "{model:?} {pause_us}");
            assert_eq!(marked(&node), [].into(), "{model:?} {pause_us}");
        }
    }
}

#[tokio::test]
async fn a_time_limit_ends_everything_that_a_command_started() {
    for model in models().await {
        let node = ProcessNode::start(model).await;
        for (what, script) in STUBBORN {
            let word = unique_word();
            let mut start = node.shell(&script.replace("WORD", &word));
            start["timeoutMs"] = json!(300);
            let status = node.run(&start).await;
            assert_eq!((&status["state"], &status["code"]), (&json!("timed-out"), &json!(null)), "{model:?} {what}");
            assert_eq!(running_with(&word), [].into(), "{model:?} {what}");
        }
    }
}

#[tokio::test]
async fn what_is_left_in_the_background_ends_with_its_command() {
    for model in models().await {
        let node = ProcessNode::start(model).await;
        for script in
            ["sleep WORD & echo done", "setsid sleep WORD & sleep 0.1; echo done", "sleep WORD >&- 2>&- & echo done"]
        {
            let word = unique_word();
            assert_eq!(node.stdout(&script.replace("WORD", &word)).await, "done\n", "{model:?} {script}");
            assert_eq!(running_with(&word), [].into(), "{model:?} {script}");
        }
    }
}

#[tokio::test]
async fn a_pipe_that_stays_open_costs_its_stream_only() {
    // Without its mark a daemon cannot be found; a sandbox needs none.
    let node = ProcessNode::start(Execution::Host).await;
    // It lives as long as the file `keep`, which goes away with the test, however that ends.
    std::fs::write(node.node.path("rw/keep"), "").unwrap();
    let script = "env -i setsid sh -c 'exec 2>/dev/null; : >ready; while [ -e keep ]; do sleep 0.05; done' & \
                  while [ ! -e ready ]; do sleep 0.01; done; echo lost; echo kept >&2";
    let status = node.run(&node.shell(script)).await;
    let expected = json!({ "state": "exited", "stdout": "", "stderr": "kept\n", "code": 0, "error": null,
        "truncated": true });
    assert_eq!(status, expected);
}

#[tokio::test]
async fn the_stop_of_the_node_ends_its_processes() {
    for model in models().await {
        let node = ProcessNode::start(model).await;
        let mut words = Vec::new();
        for (_, script) in STUBBORN {
            let word = unique_word();
            let id = node.begin(&node.shell(&script.replace("WORD", &word))).await;
            node.wait_for(&id, "ready").await;
            words.push(word);
        }
        node.node.stop().await.unwrap();
        for word in words {
            assert_eq!(running_with(&word), [].into(), "{model:?}");
        }
    }
}
