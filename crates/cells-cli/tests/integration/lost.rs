//! Lost replies and lost nodes.

use cells_testkit::fault_proxy::{Fault, Plan, Rule};

use crate::stage::Stage;

#[tokio::test]
async fn a_lost_reply_is_settled_by_the_receipt_and_nothing_is_sent_twice() {
    let stage = Stage::new().await;
    for (tool, arguments, expected) in [
        ("harness_turn", &["send", "say once"][..], "once\n"),
        ("harness_command", &["send", "--command", "echo", "once"], "once"),
    ] {
        stage.proxy.reset_counts();
        stage.proxy.set_plan(Plan::new([Rule::tool(tool, Fault::ResetAfter)]));
        let ran = stage.run(arguments).await;
        assert_eq!((ran.code, ran.stdout()), (Some(0), expected), "{ran:?}");
        assert_eq!(stage.proxy.counts().tools[tool], 1);
    }
}

#[tokio::test]
async fn a_request_that_never_arrived_stays_unknown_until_it_is_asked_for() {
    let stage = Stage::new().await;
    stage.proxy.set_plan(Plan::new([Rule::tool("harness_turn", Fault::ResetBefore)]));
    let ran = stage.run(&["send", "say never"]).await;
    let ask = format!(
        "cells receipt {} {} --profile scripted --url {}",
        ran.named("epoch"),
        ran.named("request"),
        stage.proxy.url()
    );
    let expected = format!("session *\ncells: *; whether it happened is unknown; ask again with: {ask}\n");
    ran.check("a request that never arrived", 3, "", &expected);
    assert_eq!(stage.proxy.counts().tools["harness_turn"], 1);
    let words: Vec<&str> = ask.split(' ').skip(1).collect();
    stage.check(&[(&words, 4, "", "cells: the node has no receipt of *; it may still arrive\n")]).await;
}

#[tokio::test]
async fn an_answer_that_was_lost_is_no_reason_to_ask_twice() {
    let stage = Stage::new().await;
    stage.proxy.set_plan(Plan::new([Rule::tool("harness_respond", Fault::ResetAfter)]));
    let ran = stage.run(&["send", "run echo done", "--approve", "yes"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(stage.proxy.counts().tools["harness_respond"], 1);
}

#[tokio::test]
async fn a_node_that_does_not_come_back_leaves_the_end_unknown() {
    let mut stage = Stage::new().await;
    let mut started = stage.start(&["send", "run echo hi\nwait", "--approve", "yes", "--reconnect", "1"]);
    started.line("cells: the agent asks to run").await;
    stage.kill_node().await;
    let ran = started.finish().await;
    let ask = format!("cells receipt {} {} --profile scripted *", ran.named("epoch"), ran.named("request"));
    let expected = format!(
        "*cells: the connection to the node is lost; trying again\n*cells: *the node did not answer for 1 s; how the turn ends is not known; ask again with: {ask}\n"
    );
    ran.check("a node that does not come back", 3, "*", &expected);
}

#[tokio::test]
async fn a_turn_that_died_with_its_node_is_told_when_the_node_is_back() {
    let mut stage = Stage::new().await;
    let mut started = stage.start(&["send", "think about it\nsay before\nrun true\nwait", "--approve", "yes"]);
    started.line("cells: the agent asks to run").await;
    stage.kill_node().await;
    stage.start_node().await;
    let ran = started.finish().await;
    ran.check(
        "a node that comes back",
        1,
        "before\n*",
        "*cells: the connection to the node is lost; trying again\n*cells: connected again\n*cells: the turn was interrupted\n",
    );
}

#[tokio::test]
async fn an_agent_that_dies_ends_its_turn() {
    let stage = Stage::new().await;
    stage
        .check(&[
            (&["send", "say so\nrestart"], 1, "so\n", "session *cells: the *\n"),
            (
                &["send", "say so\ndie"],
                1,
                "so\n",
                "session *cells: the process of the agent has ended, and the turn with it\n",
            ),
        ])
        .await;
}

#[tokio::test]
async fn an_agent_that_starts_again_before_the_receipt_comes_ends_its_turn() {
    let stage = Stage::new().await;
    stage.proxy.set_plan(Plan::new([Rule::tool("harness_turn", Fault::DelayReply { ms: 700 })]));
    stage.check(&[(&["send", "say so\nrestart"], 1, "so\n", "session *cells: the *\n")]).await;
}

#[tokio::test]
async fn a_broken_event_stream_is_taken_up_again() {
    let stage = Stage::new().await;
    stage.proxy.set_plan(Plan::new([Rule::path("/v1/events", Fault::Truncate { at: 2000 }).nth(1)]));
    let ran = stage.run(&["send", "pace 5\nstream 200"]).await;
    let expected: String = (1..=200).map(|number| format!("{number} ")).collect();
    assert_eq!((ran.code, ran.stdout()), (Some(0), format!("{expected}\n").as_str()), "{}", ran.stderr);
    assert!(
        ran.stderr.ends_with("cells: the connection to the node is lost; trying again\ncells: connected again\n"),
        "{}",
        ran.stderr
    );
}
