//! Ctrl-C while an agent works.

use cells_testkit::fault_proxy::{Fault, Plan, Rule};
use rustix::process::Signal;
use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn ctrl_c_interrupts_the_turn_also_before_its_receipt() {
    for prompt in ["say working\nwait", "slow-receipt end\nwait"] {
        let stage = Stage::new().await;
        let mut started = stage.start(&["send", prompt]);
        started.line("request ").await;
        started.signal(Signal::INT);
        let ran = started.finish().await;
        assert_eq!(ran.code, Some(130), "{prompt}: {ran:?}");
        assert!(ran.stderr.ends_with("cells: interrupting; press Ctrl-C again to leave at once\n"), "{}", ran.stderr);
        let session = &stage.json(&["sessions"]).await["sessions"][0];
        assert_eq!((&session["status"], &session["lastTurnResult"]), (&json!("idle"), &json!("cancelled")), "{prompt}");
        assert_eq!(stage.proxy.counts().tools["harness_interrupt"], 1);
    }
}

#[tokio::test]
async fn a_second_ctrl_c_leaves_at_once_and_the_turn_goes_on() {
    let stage = Stage::new().await;
    stage.proxy.set_plan(Plan::new([Rule::tool("harness_interrupt", Fault::DelayRequest { ms: 600_000 })]));
    let mut started = stage.start(&["send", "run true\nwait", "--approve", "yes"]);
    started.line("$ true").await;
    started.signal(Signal::INT);
    started.line("cells: interrupting").await;
    started.signal(Signal::INT);
    let ran = started.finish().await;
    assert_eq!(ran.code, Some(130));
    let ask = format!(
        "cells receipt {} {} --profile scripted --url {}",
        ran.named("epoch"),
        ran.named("request"),
        stage.proxy.url()
    );
    let left = format!("cells: left; what was sent may go on at the node; ask again with: {ask}");
    assert_eq!(ran.stderr.lines().last().unwrap(), left);
    assert_eq!(stage.json(&["sessions"]).await["sessions"][0]["status"], "active");
    let words: Vec<&str> = ask.split(' ').skip(1).collect();
    stage.check(&[(&words, 0, "outcome  committed\n*", "")]).await;
}

#[tokio::test]
async fn ctrl_c_before_anything_was_sent_only_ends_the_program() {
    let stage = Stage::new().await;
    stage.proxy.set_plan(Plan::new([Rule::tool("harness_profiles", Fault::DelayReply { ms: 600_000 })]));
    let started = stage.start(&["send", "say x"]);
    while !stage.proxy.counts().tools.contains_key("harness_profiles") {
        tokio::task::yield_now().await;
    }
    started.signal(Signal::INT);
    started.finish().await.check("before anything was sent", 130, "", "");
}
