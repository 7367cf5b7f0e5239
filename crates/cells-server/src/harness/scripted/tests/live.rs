//! Models, steering, usage, metrics, and what is known of a process that died.

use std::fs::File;

use cells_protocol::harness::{HarnessMetrics, HarnessModelCatalog, HarnessUsage, Session};
use cells_protocol::ids::NativeId;
use cells_protocol::json::Json;

use super::*;
use crate::harness::scripted::runtime::lock_for_writing;

async fn turn_with(
    agent: &Agent,
    session: &str,
    turn: &str,
    prompt: &str,
    selection: Value,
) -> Result<Value, ToolError> {
    let arguments = json!({"sessionId": session, "prompt": prompt, "selection": selection});
    agent.driver.check("harness_turn", arguments.as_object().unwrap())?;
    agent.execute("harness_turn", turn, arguments).await
}

async fn steer(agent: &Agent, session: &str, turn: &str, prompt: &str) -> Result<Value, ToolError> {
    let request_id = format!("steer-{}", prompt.len());
    agent.execute("harness_steer", &request_id, json!({"sessionId": session, "turnId": turn, "prompt": prompt})).await
}

async fn usage(agent: &Agent, session: &str) -> HarnessUsage {
    let reply = agent.read("harness_usage", json!({"sessionId": session})).await.unwrap();
    let session = NativeId::new(session).unwrap();
    HarnessUsage::read(&mut Json::of(&reply["usage"]).object("the usage").unwrap(), &session).unwrap()
}

fn read(info: &Value) -> Session {
    Session::read(&mut Json::of(info).object("the session").unwrap()).unwrap()
}

#[tokio::test]
async fn the_model_that_was_chosen_is_used_and_remembered() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let catalog = async |agent: &Agent, arguments: Value| {
        let reply = agent.read("harness_models", arguments).await.unwrap();
        HarnessModelCatalog::read(&mut Json::of(&reply).object("the models").unwrap()).unwrap()
    };
    let all = catalog(&agent, json!({})).await;
    assert_eq!((all.models.len(), &all.current), (2, &None));
    let of_session = json!({"sessionId": session});
    assert_eq!(catalog(&agent, of_session.clone()).await.current, all.default);
    for selection in [
        json!({"modelId": "none"}),
        json!({"modelId": "scripted-fast", "reasoningEffort": "low"}),
        json!({"modelId": "scripted-large", "reasoningEffort": "most"}),
        json!({}),
        json!("scripted-fast"),
        json!([]),
    ] {
        let refused = Err(ToolError("HARNESS_SELECTION_INVALID"));
        assert_eq!(turn_with(&agent, &session, "bad", "say x", selection.clone()).await, refused, "{selection}");
        // The agent checks again: a node in between may not know the models.
        let arguments = json!({"sessionId": session, "prompt": "say x", "selection": selection});
        assert_eq!(agent.execute("harness_turn", "bad", arguments).await, refused);
    }
    turn_with(&agent, &session, "a", "say x", json!({"modelId": "scripted-fast"})).await.unwrap();
    agent.turn_end("a").await;
    agent.turn_to_end(&session, "b", "say y").await;
    turn_with(&agent, &session, "c", "say z", json!({"modelId": "scripted-large", "reasoningEffort": "high"}))
        .await
        .unwrap();
    agent.turn_end("c").await;
    let again = place.start();
    let current = catalog(&again, of_session).await.current.unwrap();
    assert_eq!((current.model_id.as_str(), current.reasoning_effort.as_deref()), ("scripted-large", Some("high")));
    let models: Vec<_> = usage(&again, &session).await.entries.into_iter().map(|entry| entry.model_id).collect();
    assert_eq!(models, [Some("scripted-fast".to_owned()), Some("scripted-large".to_owned())]);
    let action = json!({"sessionId": session, "name": "echo", "args": "x", "selection": {"modelId": "scripted-fast"}});
    assert_eq!(agent.execute("harness_command", "d", action).await, Err(ToolError("EINVAL")));
}

#[tokio::test]
async fn tokens_are_counted_and_sums_hold() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    assert_eq!(usage(&agent, &session).await.entries, []);
    // 20 bytes in: 5 tokens. "abcde" thought: 2, said: 2.
    agent.turn_to_end(&session, "a", "think abcde\nsay abcde").await;
    let first = usage(&agent, &session).await;
    let counts = first.totals.counts;
    assert_eq!((counts.input_tokens, counts.output_tokens, counts.reasoning_tokens), (6, 4, 2));
    assert_eq!((counts.cache_read_tokens, first.totals.total_tokens), (0, 10));
    agent.turn_to_end(&session, "b", "say abcde").await;
    let second = usage(&agent, &session).await;
    assert_eq!((second.totals.counts.cache_read_tokens, second.totals.counts.input_tokens), (10, 9));
    let again = place.start();
    assert_eq!(usage(&again, &session).await, second);
    assert_eq!(read(&again.info(&session).await).usage, Some(second.clone()));
    assert_eq!(read(&again.page(&session, &Value::Null).await["session"]).usage, Some(second));
    let metrics = again.read("harness_metrics", json!({"sessionId": session})).await.unwrap();
    let mut metrics = Json::of(&metrics["metrics"]).object("the metrics").unwrap();
    let metrics = HarnessMetrics::read(&mut metrics, &NativeId::new(session).unwrap()).unwrap();
    assert_eq!(metrics.context.unwrap().used_tokens, Some(15));
}

#[tokio::test]
async fn a_running_turn_takes_what_the_user_adds() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    assert_eq!(steer(&agent, &session, "a", "x").await, Err(ToolError("HARNESS_TURN_NOT_ACTIVE")));
    agent.turn(&session, "a", "listen\nlisten\nsay over").await.unwrap();
    let done = json!({"turnId": "a", "targetTurnId": "a"});
    assert_eq!(steer(&agent, &session, "a", "be quick").await, Ok(done.clone()));
    assert_eq!(steer(&agent, &session, "other", "x").await, Err(ToolError("HARNESS_TURN_NOT_ACTIVE")));
    for bad in
        [json!({"prompt": ""}), json!({"prompt": "x", "attachments": [7]}), json!({"prompt": "x", "selection": {}})]
    {
        let mut arguments = json!({"sessionId": session, "turnId": "a"});
        arguments.as_object_mut().unwrap().extend(bad.as_object().unwrap().clone());
        assert_eq!(agent.execute("harness_steer", "bad", arguments).await, Err(ToolError("EINVAL")), "{bad}");
    }
    assert_eq!(steer(&agent, &session, "a", "and good").await, Ok(done));
    assert_eq!(agent.turn_end("a").await["status"], "completed");
    let items = agent.items(&session).await;
    assert_eq!(messages(&items), ["You added: be quick", "You added: and good", "over"]);
    assert_eq!(items.iter().filter(|item| item["type"] == "userMessage").count(), 3);
    assert!(items.iter().all(|item| item["turnId"] == "a"));
    // What started the turn is what it proves.
    let page = agent.page(&session, &Value::Null).await;
    assert_eq!(page["turns"][0]["submissionEvidence"]["requestId"], "a");
    assert_eq!(steer(&agent, &session, "a", "late").await, Err(ToolError("HARNESS_TURN_NOT_ACTIVE")));
    let stored = place.start();
    assert_eq!(steer(&stored, &session, "a", "x").await, Err(ToolError("HARNESS_SESSION_NOT_OWNED")));
}

#[tokio::test]
async fn what_ran_a_session_is_told_by_evidence() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let state = async |agent: &Agent| {
        let info = agent.info(&session).await;
        let evidence = info["executionRecovery"].clone();
        let seen = read(&info).execution_recovery.unwrap();
        assert_eq!(json!(seen), evidence, "what the node says holds for the client");
        (string(&evidence["state"]), string(&evidence["lock"]), evidence["turnId"].clone(), evidence["pid"].clone())
    };
    let text = |text: &str| text.to_owned();
    assert_eq!(state(&agent).await, (text("unknown"), text("not-held"), Value::Null, Value::Null));
    agent.turn(&session, "a", "wait").await.unwrap();
    let pid = json!(std::process::id());
    assert_eq!(state(&agent).await, (text("running"), text("held"), json!("a"), pid.clone()));
    // Another node on the same files neither runs a turn nor takes the session over.
    let other = place.start();
    assert_eq!(state(&other).await, (text("running"), text("held"), json!("a"), pid.clone()));
    let resumed = other.execute("harness_resume", "r", json!({"sessionId": session})).await;
    assert_eq!(resumed, Err(ToolError("HARNESS_SESSION_BUSY")));
    agent.driver.stop();
    agent.driver.drain().await;
    let third = place.start();
    assert_eq!(state(&third).await, (text("detached"), text("not-held"), Value::Null, Value::Null));
    // A turn without end, whose process is gone.
    let line = json!({"record": "item", "item": {"id": "b-1", "type": "userMessage", "turnId": "b", "timestamp": 5},
        "runtime": {"pid": 4_000_000, "runtimeId": "gone", "startedAt": 4}});
    let mut history = std::fs::read_to_string(place.history_file(&session)).unwrap();
    history.push_str(&format!("{line}\n"));
    std::fs::write(place.history_file(&session), history).unwrap();
    let last = place.start();
    assert_eq!(state(&last).await, (text("detached"), text("not-held"), json!("b"), json!(4_000_000)));
    // One that holds the lock lives, whatever its number says.
    let lock = lock_for_writing(File::open(place.history_file(&session)).unwrap()).unwrap();
    assert!(lock.is_some());
    assert_eq!(state(&last).await.0, "running");
    drop(lock);
    last.execute("harness_resume", "r", json!({"sessionId": session})).await.unwrap();
    assert_eq!(state(&last).await.0, "unknown");
    assert_eq!(last.info(&session).await["lastTurnResult"], "cancelled");
}
