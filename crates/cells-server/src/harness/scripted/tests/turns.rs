//! What a turn does and tells.

use super::*;

#[tokio::test]
async fn the_events_of_a_turn_come_in_order() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let receipt = agent.turn(&session, "turn-1", "say Hello dear world").await;
    assert_eq!(receipt, Ok(json!({"turnId": "turn-1"})));
    let end = agent.turn_end("turn-1").await;
    assert_eq!(end, json!({"id": "turn-1", "status": "completed", "error": null}));
    agent.event(|event| event["params"]["status"]["type"] == "idle").await;

    let events = agent.events();
    let expected = [
        "thread/started",
        "thread/status/changed",
        "thread/name/updated",
        "turn/started",
        "item/completed userMessage",
        "item/started agentMessage",
        "item/agentMessage/delta",
        "item/agentMessage/delta",
        "item/agentMessage/delta",
        "item/completed agentMessage",
        "turn/completed",
        "thread/status/changed",
    ];
    assert_eq!(outline(&events), expected);
    assert!(events.iter().all(|event| event["params"]["threadId"] == *session));
    assert_eq!(events[3]["params"]["turn"]["id"], "turn-1");
    let content = json!([{"type": "text", "text": "say Hello dear world"}]);
    assert_eq!(events[4]["params"]["item"]["content"], content);
    let deltas: Vec<_> = events[6..9].iter().map(|event| string(&event["params"]["delta"])).collect();
    assert_eq!(deltas, ["Hello ", "dear ", "world"]);
    let item = &events[9]["params"]["item"];
    assert_eq!((&item["text"], &item["status"]), (&json!("Hello dear world"), &json!("completed")));
    assert!(events[5..10].iter().all(|event| event["params"]["turnId"] == "turn-1"));
    assert!(events[6..9].iter().all(|event| event["params"]["itemId"] == item["id"]));
}

#[tokio::test]
async fn each_step_leaves_its_item() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let end = agent
        .turn_to_end(&session, "t", "think hm, so\nstream 3\nstream 2 ab\npace 1\nsay a b\nsleep 1\nfail no luck")
        .await;
    assert_eq!(end, json!({"id": "t", "status": "failed", "error": {"message": "no luck"}}));
    let items = agent.items(&session).await;
    assert_eq!(item_of_type(&items, "reasoning")["summary"], json!(["hm, so"]));
    assert_eq!(messages(&items), ["1 2 3 ", "ab ab ", "a b"]);
    let page = agent.page(&session, &Value::Null).await;
    assert_eq!(page["turns"][0]["status"], "failed");
    assert_eq!(page["turns"][0]["error"], json!({"message": "no luck"}));
}

#[tokio::test]
async fn ordinary_text_and_broken_scripts_are_answered() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    assert_eq!(agent.turn_to_end(&session, "a", "How are you?").await["status"], "completed");
    assert_eq!(agent.turn_to_end(&session, "b", "run touch made\n\nrnu ls").await["status"], "completed");
    let messages = messages(&agent.items(&session).await);
    assert!(messages[0].contains("How are you?") && messages[0].contains("`help`"), "{}", messages[0]);
    assert!(messages[1].contains("Line 3: `rnu` is not a directive"), "{}", messages[1]);
    assert!(!place.file("made").exists());
    assert_eq!(agent.info(&session).await["title"], "How are you?");
}

#[tokio::test]
async fn an_approved_command_really_runs_and_is_quoted_unchanged() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let command = "printf 'one\\ntwo ``` three\\n'; echo four >&2; echo made > made; pwd; exit 3";
    agent.turn(&session, "t", &format!("run {command}")).await.unwrap();
    let request = agent.request("t").await;
    assert_eq!(request["method"], "item/commandExecution/requestApproval");
    assert_eq!((&request["params"]["command"], &request["params"]["threadId"]), (&json!(command), &json!(session)));
    assert_eq!(request["params"]["cwd"], json!(place.workspace.path()));
    assert!(!place.file("made").exists());
    let flags = agent.info(&session).await["statusDetails"]["activeFlags"].clone();
    assert_eq!(flags, json!(["waitingOnApproval"]));

    assert_eq!(agent.respond(&request["id"], json!({"decision": "accept"})).await, Ok(json!({})));
    assert_eq!(agent.turn_end("t").await["status"], "completed");
    assert_eq!(std::fs::read_to_string(place.file("made")).unwrap(), "made\n");

    let output = format!("one\ntwo ``` three\nfour\n{}\n", place.workspace.path().canonicalize().unwrap().display());
    let items = agent.items(&session).await;
    let item = item_of_type(&items, "commandExecution");
    assert_eq!(item["aggregatedOutput"], json!(output));
    assert_eq!((&item["status"], &item["exitCode"], &item["command"]), (&json!("failed"), &json!(3), &json!(command)));
    assert_eq!(item["cwd"], json!(place.workspace.path()));
    assert!(item["durationMs"].is_u64());
    let closing = messages(&items).pop().unwrap();
    assert!(closing.ends_with(&format!(" exited with 3:\n````\n{output}````")), "{closing}");

    let deltas = agent.events().into_iter().filter(|event| event["method"] == "item/commandExecution/outputDelta");
    assert_eq!(deltas.map(|event| string(&event["params"]["delta"])).collect::<String>(), output);
}

#[tokio::test]
async fn a_declined_command_does_not_run_and_the_turn_goes_on() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    agent.turn(&session, "t", "run touch made\nsay next").await.unwrap();
    let request = agent.request("t").await;
    agent.respond(&request["id"], json!({"decision": "decline"})).await.unwrap();
    assert_eq!(agent.turn_end("t").await["status"], "completed");
    let items = agent.items(&session).await;
    assert_eq!(item_of_type(&items, "commandExecution")["status"], "declined");
    assert_eq!(messages(&items), ["next", "Command `touch made` was declined."]);
    assert!(!place.file("made").exists());
}

#[tokio::test]
async fn cancelling_an_approval_interrupts_the_turn() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    agent.turn(&session, "t", "run touch made\nsay next").await.unwrap();
    let request = agent.request("t").await;
    agent.respond(&request["id"], json!({"decision": "cancel"})).await.unwrap();
    assert_eq!(agent.turn_end("t").await["status"], "interrupted");
    let items = agent.items(&session).await;
    assert_eq!(item_of_type(&items, "commandExecution")["status"], "declined");
    assert!(messages(&items).is_empty() && !place.file("made").exists());
    assert_eq!(agent.info(&session).await["lastTurnResult"], "cancelled");
}

#[tokio::test]
async fn accepting_for_the_session_is_asked_once_for_each_kind() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    agent.turn(&session, "a", "run echo 1\nrun echo 2").await.unwrap();
    let request = agent.request("a").await;
    agent.respond(&request["id"], json!({"decision": "acceptForSession"})).await.unwrap();
    assert_eq!(agent.turn_end("a").await["status"], "completed");
    agent.turn(&session, "b", "run echo 3\nwrite file.txt text").await.unwrap();
    let request = agent.request("b").await;
    assert_eq!(request["method"], "item/fileChange/requestApproval");
    agent.respond(&request["id"], json!({"decision": "decline"})).await.unwrap();
    assert_eq!(agent.turn_end("b").await["status"], "completed");
}

#[tokio::test]
async fn an_approved_file_change_is_made_and_never_outside_the_workspace() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    agent.turn(&session, "a", "write notes/a.txt\n  one\n  two").await.unwrap();
    let request = agent.request("a").await;
    assert_eq!(request["params"]["path"], "notes/a.txt");
    assert!(!place.file("notes").exists());
    agent.respond(&request["id"], json!({"decision": "accept"})).await.unwrap();
    agent.turn_end("a").await;
    assert_eq!(std::fs::read_to_string(place.file("notes/a.txt")).unwrap(), "one\ntwo\n");
    let items = agent.items(&session).await;
    let item = item_of_type(&items, "fileChange");
    let change = json!({"path": "notes/a.txt", "kind": {"type": "add"}, "diff": "@@ -0,0 +1,2 @@\n+one\n+two\n"});
    assert_eq!((&item["status"], &item["changes"]), (&json!("completed"), &json!([change])));
    assert_eq!(messages(&items), ["File `notes/a.txt` was written: 8 bytes."]);

    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), place.file("link")).unwrap();
    assert_eq!(agent.turn_to_end(&session, "b", "write link/b.txt text").await["status"], "completed");
    let items = agent.items(&session).await;
    assert_eq!(items.iter().rfind(|item| item["type"] == "fileChange").unwrap()["status"], "failed");
    assert!(messages(&items).pop().unwrap().contains("was not written: a part of its path is a link"));
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_question_takes_one_answer_and_repeats_it() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    agent.turn(&session, "t", "ask Which colour? | red | blue").await.unwrap();
    let request = agent.request("t").await;
    let question = &request["params"]["questions"][0];
    assert_eq!((&question["id"], &question["question"]), (&json!("answer"), &json!("Which colour?")));
    let labels = json!([{"label": "red", "description": ""}, {"label": "blue", "description": ""}]);
    assert_eq!(question["options"], labels);
    assert_eq!(agent.info(&session).await["statusDetails"]["activeFlags"], json!(["waitingOnUserInput"]));

    let answer = json!({"answers": {"answer": {"answers": ["green"]}}});
    for (id, response, code) in [
        (json!("request-other"), answer.clone(), "ENOENT"),
        (json!(7), answer.clone(), "ENOENT"),
        (Value::Null, answer.clone(), "EINVAL"),
        (request["id"].clone(), json!({"decision": "accept"}), "EINVAL"),
        (request["id"].clone(), json!("green"), "EINVAL"),
    ] {
        assert_eq!(agent.respond(&id, response).await, Err(ToolError(code)), "{id}");
    }
    assert_eq!(agent.respond(&request["id"], answer.clone()).await, Ok(json!({})));
    assert_eq!(agent.respond(&request["id"], answer).await, Err(ToolError("ENOENT")));
    assert_eq!(agent.turn_end("t").await["status"], "completed");
    assert_eq!(messages(&agent.items(&session).await), ["You answered: green"]);
    let resolved = agent.event(|event| event["method"] == "serverRequest/resolved").await;
    assert_eq!((&resolved["params"]["requestId"], &resolved["params"]["threadId"]), (&request["id"], &json!(session)));
}

#[tokio::test]
async fn an_interrupt_kills_the_command_and_ends_the_turn() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    agent.turn(&session, "t", "run sleep 1000 & echo $!; wait\nsay never").await.unwrap();
    let request = agent.request("t").await;
    agent.respond(&request["id"], json!({"decision": "accept"})).await.unwrap();
    let delta = agent.event(|event| event["method"] == "item/commandExecution/outputDelta").await;
    let pid = string(&delta["params"]["delta"]).trim().to_owned();
    assert!(runs(&pid));
    assert_eq!(agent.interrupt(&session, "t").await, Ok(json!({})));
    assert_eq!(agent.turn_end("t").await["status"], "interrupted");
    gone(&pid).await;
    let items = agent.items(&session).await;
    let item = item_of_type(&items, "commandExecution");
    assert_eq!((&item["status"], &item["exitCode"]), (&json!("failed"), &Value::Null));
    assert_eq!(item["aggregatedOutput"], json!(format!("{pid}\n")));
    assert!(messages(&items).is_empty());
}

#[tokio::test]
async fn an_interrupt_ends_every_wait_and_takes_requests_back() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    for (turn, prompt, waits) in [
        ("a", "wait", "turn/started"),
        ("b", "sleep 3600000", "turn/started"),
        ("c", "ask Well?", "item/tool/requestUserInput"),
        ("d", "pace 3600000\nsay never", "item/started"),
    ] {
        agent.turn(&session, turn, prompt).await.unwrap();
        let of_turn = |event: &Value| event["params"]["turnId"] == turn || event["params"]["turn"]["id"] == turn;
        agent.event(|event| event["method"] == waits && of_turn(event)).await;
        agent.interrupt(&session, turn).await.unwrap();
        assert_eq!(agent.turn_end(turn).await["status"], "interrupted", "{prompt}");
        assert_eq!(agent.outstanding(), 0, "{prompt}");
    }
    assert_eq!(agent.info(&session).await["status"], "idle");
}

#[tokio::test]
async fn only_the_running_turn_can_be_interrupted() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    assert_eq!(agent.interrupt(&session, "t").await, Err(ToolError("HARNESS_TURN_NOT_ACTIVE")));
    agent.turn(&session, "t", "wait").await.unwrap();
    assert_eq!(agent.interrupt(&session, "other").await, Err(ToolError("HARNESS_TURN_NOT_ACTIVE")));
    assert_eq!(agent.interrupt("session-x", "t").await, Err(ToolError("ENOENT")));
    agent.interrupt(&session, "t").await.unwrap();
    agent.turn_end("t").await;
    assert_eq!(agent.interrupt(&session, "t").await, Err(ToolError("HARNESS_TURN_NOT_ACTIVE")));
}

#[tokio::test]
async fn one_turn_runs_at_a_time_in_a_session_and_sessions_do_not_wait_for_each_other() {
    let place = Place::new();
    let agent = place.start();
    let (first, second) = (agent.create().await, agent.create().await);
    agent.turn(&first, "a", "wait").await.unwrap();
    assert_eq!(agent.turn(&first, "b", "say hi").await, Err(ToolError("EBUSY")));
    assert_eq!(agent.turn_to_end(&second, "c", "say hi").await["status"], "completed");
    let info = agent.info(&first).await;
    assert_eq!((&info["status"], &info["activeTurnId"]), (&json!("active"), &json!("a")));
    agent.interrupt(&first, "a").await.unwrap();
    agent.turn_end("a").await;
    assert_eq!(agent.turn_to_end(&first, "b", "say hi").await["status"], "completed");
}

#[tokio::test]
async fn bad_arguments_are_refused_before_anything_happens() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let turn = |arguments: Value| agent.execute("harness_turn", "t", arguments);
    for (arguments, code) in [
        (json!({"prompt": "say hi"}), "EINVAL"),
        (json!({"sessionId": "", "prompt": "say hi"}), "EINVAL"),
        (json!({"sessionId": 7, "prompt": "say hi"}), "EINVAL"),
        (json!({"sessionId": "session-x", "prompt": "say hi"}), "ENOENT"),
        (json!({"sessionId": "../x", "prompt": "say hi"}), "ENOENT"),
        (json!({"sessionId": session, "prompt": ""}), "EINVAL"),
        (json!({"sessionId": session, "prompt": "x".repeat(131_073)}), "EINVAL"),
        (json!({"sessionId": session, "prompt": "hi", "selection": {"modelId": "m"}}), "HARNESS_SELECTION_INVALID"),
        (json!({"sessionId": session, "prompt": "hi", "attachments": [{}]}), "EINVAL"),
        (json!({"sessionId": session, "prompt": "hi", "attachments": {}}), "EINVAL"),
    ] {
        assert_eq!(turn(arguments.clone()).await, Err(ToolError(code)), "{arguments:.100}");
    }
    assert_eq!(outline(&agent.events()), ["thread/started"]);
    let fine = json!({"sessionId": session, "prompt": "say hi", "attachments": [], "selection": null});
    assert!(turn(fine).await.is_ok());
}

#[tokio::test]
async fn a_receipt_can_come_after_the_approval_and_the_end_of_its_turn() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let receipt = tokio::spawn({
        let (agent, session) = (agent.clone(), session.clone());
        async move { agent.turn(&session, "t", "slow-receipt end\nrun echo hi").await }
    });
    let request = agent.request("t").await;
    assert!(!receipt.is_finished());
    agent.respond(&request["id"], json!({"decision": "accept"})).await.unwrap();
    assert_eq!(receipt.await.unwrap(), Ok(json!({"turnId": "t"})));
    assert!(outline(&agent.events()).contains(&"turn/completed".to_owned()));
}

#[tokio::test]
async fn a_receipt_can_be_late() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let before = std::time::Instant::now();
    agent.turn(&session, "t", "slow-receipt 40\nsay hi").await.unwrap();
    assert!(before.elapsed() >= Duration::from_millis(40));
    let before = std::time::Instant::now();
    let refused = agent.turn(&session, "u", "slow-receipt 30\nreject EBUSY\nsay hi").await;
    assert_eq!(refused, Err(ToolError("EBUSY")));
    assert!(before.elapsed() >= Duration::from_millis(30));
}

#[tokio::test]
async fn a_rejected_turn_leaves_no_trace() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let revision = async || agent.info(&session).await["historyRevision"].clone();
    let before = revision().await;
    for code in ["EBUSY", "EIO", "HARNESS_RPC_ERROR"] {
        assert_eq!(agent.turn(&session, code, &format!("reject {code}")).await, Err(ToolError(code)));
    }
    assert_eq!(revision().await, before);
    assert_eq!(agent.info(&session).await["title"], "");
    assert_eq!(outline(&agent.events()), ["thread/started"]);
}

#[tokio::test]
async fn the_129th_waiting_request_fails_its_turn() {
    let place = Place::new();
    let mut agent = place.start();
    for number in 0..128 {
        agent.start = agent.ring.newest();
        let session = agent.create().await;
        agent.turn(&session, &format!("t{number}"), "ask Well?").await.unwrap();
        agent.request(&format!("t{number}")).await;
    }
    let session = agent.create().await;
    let end = agent.turn_to_end(&session, "last", "ask Well?").await;
    assert_eq!(end["error"]["message"], "too many requests wait for an answer");
}

#[tokio::test]
async fn many_deltas_do_not_hold_others_up() {
    let place = Place::new();
    let agent = place.start();
    let (first, second) = (agent.create().await, agent.create().await);
    agent.turn(&first, "a", "stream 100000").await.unwrap();
    agent.turn(&second, "b", "say hi").await.unwrap();
    agent.interrupt(&first, "a").await.unwrap();
    loop {
        let info = agent.info(&first).await;
        if info["status"] == "idle" {
            break assert_eq!(info["lastTurnResult"], "cancelled");
        }
        tokio::task::yield_now().await;
    }
}
