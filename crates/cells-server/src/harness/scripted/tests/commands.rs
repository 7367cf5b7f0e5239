//! Slash commands.

use super::*;

#[tokio::test]
async fn the_catalog_is_that_of_a_session() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let catalog = agent.read("harness_commands", json!({"sessionId": session})).await.unwrap();
    let names: Vec<_> =
        catalog["commands"].as_array().unwrap().iter().map(|command| string(&command["name"])).collect();
    assert_eq!(names, ["help", "status", "echo", "output", "fail", "plan", "do"]);
    let unknown = agent.read("harness_commands", json!({"sessionId": "session-x"})).await;
    assert_eq!(unknown, Err(ToolError("ENOENT")));
}

#[tokio::test]
async fn an_action_gives_its_whole_output_and_leaves_a_record() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let result = agent.command(&session, "c-1", "echo", "one\ntwo").await;
    let expected =
        json!({"commandId": "c-1", "name": "echo", "state": "completed", "turnId": null, "output": "one\ntwo"});
    assert_eq!(result, Ok(expected));
    let event = agent.event(|event| event["method"] == "item/completed").await;
    let item = &event["params"]["item"];
    for (member, expected) in [
        ("type", json!("commandResult")),
        ("commandId", json!("c-1")),
        ("name", json!("echo")),
        ("state", json!("completed")),
        ("preview", json!("one\ntwo")),
        ("truncated", json!(false)),
        ("turnId", Value::Null),
    ] {
        assert_eq!(item[member], expected, "{member}");
    }
    let page = agent.page(&session, &Value::Null).await;
    assert_eq!(page["turns"], json!([{"id": null, "items": [item]}]));
    assert_eq!(place.start().items(&session).await, std::slice::from_ref(item));
}

#[tokio::test]
async fn output_is_megabytes_and_its_record_a_preview() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let result = agent.command(&session, "c", "output", "3000001 seed").await.unwrap();
    let output = string(&result["output"]);
    assert_eq!(output.len(), 3_000_001);
    assert!(output.starts_with("0000000000 seed naïve"));
    let items = agent.items(&session).await;
    let preview = string(&items[0]["preview"]);
    assert!(output.starts_with(&preview) && preview.len() <= 65_536 && preview.len() > 65_532);
    assert_eq!(items[0]["truncated"], true);
}

#[tokio::test]
async fn a_failed_action_ran_all_the_same() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let result = agent.command(&session, "c", "fail", "EFBIG").await.unwrap();
    assert_eq!((&result["state"], &result["error"]), (&json!("failed"), &json!({"code": "EFBIG"})));
    assert_eq!(agent.items(&session).await[0]["state"], "failed");
}

#[tokio::test]
async fn prompt_commands_start_a_turn() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let result = agent.command(&session, "c-1", "plan", "run touch made\nsay done").await;
    assert_eq!(result, Ok(json!({"commandId": "c-1", "name": "plan", "state": "running", "turnId": "c-1"})));
    assert_eq!(agent.turn_end("c-1").await["status"], "completed");
    let items = agent.items(&session).await;
    assert_eq!(items[0]["content"][0]["text"], "/plan run touch made\nsay done");
    assert_eq!(items[0]["contentItemKinds"], json!(["command"]));
    assert_eq!(item_of_type(&items, "plan")["text"], "1. Ask for approval, then run `touch made`.\n2. Say `done`.");
    assert!(!place.file("made").exists());

    agent.command(&session, "c-2", "do", "wait").await.unwrap();
    assert_eq!(agent.command(&session, "c-3", "do", "say hi").await, Err(ToolError("EBUSY")));
    let status = agent.command(&session, "c-4", "status", "").await.unwrap();
    assert!(string(&status["output"]).contains("Running turn: c-2\nLast turn: c-1 completed\n"));
    assert_eq!(agent.command(&session, "c-5", "do", "reject EACCES").await, Err(ToolError("EACCES")));
    agent.interrupt(&session, "c-2").await.unwrap();
    assert_eq!(agent.turn_end("c-2").await["status"], "interrupted");
}

#[tokio::test]
async fn commands_that_cannot_run_are_refused() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let selection = json!({"modelId": "m"});
    for (arguments, code) in [
        (json!({"sessionId": session, "name": "nothing", "args": ""}), "HARNESS_COMMAND_UNKNOWN"),
        (json!({"sessionId": session, "name": "echo"}), "EINVAL"),
        (json!({"sessionId": session, "name": "echo", "args": "a\0b"}), "EINVAL"),
        (json!({"sessionId": session, "name": "echo", "args": "x".repeat(131_073)}), "EINVAL"),
        (json!({"sessionId": session, "name": "", "args": ""}), "EINVAL"),
        (json!({"sessionId": "session-x", "name": "echo", "args": ""}), "ENOENT"),
        (json!({"sessionId": session, "name": "echo", "args": "", "selection": selection}), "EINVAL"),
        (
            json!({"sessionId": session, "name": "do", "args": "wait", "selection": selection}),
            "HARNESS_SELECTION_INVALID",
        ),
    ] {
        let result = agent.execute("harness_command", "c", arguments.clone()).await;
        assert_eq!(result, Err(ToolError(code)), "{arguments:.100}");
    }
    assert!(agent.items(&session).await.is_empty());
}
