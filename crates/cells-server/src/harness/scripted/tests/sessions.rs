//! Who controls a session, and what survives.

use super::*;

#[tokio::test]
async fn a_new_session_is_owned_idle_and_empty() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let info = agent.info(&session).await;
    for (member, expected) in [
        ("title", json!("")),
        ("cwd", json!(place.workspace.path())),
        ("status", json!("idle")),
        ("owned", json!(true)),
        ("resumable", json!(true)),
        ("archived", json!(false)),
        ("activeTurnId", Value::Null),
    ] {
        assert_eq!(info[member], expected, "{member}");
    }
    assert_eq!((info.get("lastTurnId"), info.get("lastTurnResult")), (None, None));
    let page = agent.page(&session, &Value::Null).await;
    assert_eq!((&page["turns"], &page["nextCursor"]), (&json!([]), &Value::Null));
    assert_eq!(agent.execute("harness_create", "c", json!({"workspaceId": "other"})).await, Err(ToolError("EACCES")));
    assert_eq!(agent.execute("harness_create", "c", json!({})).await, Err(ToolError("EINVAL")));
}

#[tokio::test]
async fn a_session_tells_of_its_turns() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let mut revisions = vec![agent.info(&session).await["historyRevision"].clone()];
    agent.turn_to_end(&session, "a", "  \nsay  one\u{7} thing").await;
    let info = agent.info(&session).await;
    assert_eq!((&info["title"], &info["lastTurnId"]), (&json!("say  one  thing"), &json!("a")));
    revisions.push(info["historyRevision"].clone());
    agent.turn(&session, "b", "wait").await.unwrap();
    let info = agent.info(&session).await;
    assert_eq!((&info["activeTurnId"], &info["lastTurnId"]), (&json!("b"), &json!("a")));
    assert_eq!((&info["title"], &info["lastTurnResult"]), (&json!("say  one  thing"), &json!("completed")));
    revisions.push(info["historyRevision"].clone());
    agent.interrupt(&session, "b").await.unwrap();
    agent.turn_end("b").await;
    let info = agent.info(&session).await;
    assert_eq!((&info["lastTurnId"], &info["lastTurnResult"]), (&json!("b"), &json!("cancelled")));
    revisions.push(info["historyRevision"].clone());
    revisions.dedup();
    assert_eq!(revisions.len(), 4);
}

#[tokio::test]
async fn lists_are_paged_newest_first() {
    let place = Place::new();
    let agent = place.start();
    let mut sessions = Vec::new();
    for _ in 0..5 {
        sessions.push(agent.create().await);
    }
    agent.turn_to_end(&sessions[0], "t", "sleep 5").await;
    let mut listed = Vec::new();
    let mut cursor = Value::Null;
    let mut pages = 0;
    loop {
        let page = agent.read("harness_sessions", json!({"limit": 2, "cursor": cursor})).await.unwrap();
        listed.extend(page["sessions"].as_array().unwrap().iter().map(|session| string(&session["id"])));
        pages += 1;
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!((pages, listed[0].as_str()), (3, sessions[0].as_str()));
    listed.sort();
    sessions.sort();
    assert_eq!(listed, sessions);

    let archived = agent.read("harness_sessions", json!({"archived": true})).await;
    assert_eq!(archived, Ok(json!({"sessions": [], "nextCursor": null})));
    for cursor in [json!("x"), json!("5"), json!(5), json!("x.y")] {
        assert_eq!(agent.read("harness_sessions", json!({"cursor": cursor})).await, Err(ToolError("EINVAL")));
    }
    let odd = agent.read("harness_sessions", json!({"limit": "many", "archived": "no"})).await.unwrap();
    assert_eq!(odd["sessions"].as_array().unwrap().len(), 5);
}

/// Runs `first`, then kills everything the agent runs, as the death of the node does, then runs `second`.
fn across_a_restart<T>(first: impl AsyncFnOnce(Agent) -> T, second: impl AsyncFnOnce(Agent, T)) {
    let place = Place::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let memory = runtime.block_on(async { first(place.start()).await });
    drop(runtime);
    tokio::runtime::Runtime::new().unwrap().block_on(async { second(place.start(), memory).await });
}

#[test]
fn a_restarted_agent_lists_and_reads_old_sessions_and_resumes_them() {
    across_a_restart(
        async |agent| {
            let session = agent.create().await;
            agent.turn_to_end(&session, "t", "say one").await;
            (session.clone(), agent.info(&session).await, agent.items(&session).await)
        },
        async |agent, (session, info, items)| {
            let list = agent.read("harness_sessions", json!({})).await.unwrap();
            let listed = &list["sessions"][0];
            for member in
                ["id", "title", "cwd", "createdAt", "updatedAt", "lastTurnId", "lastTurnResult", "historyRevision"]
            {
                assert_eq!(listed[member], info[member], "{member}");
            }
            assert_eq!((&listed["status"], &listed["owned"]), (&json!("notLoaded"), &json!(false)));
            assert_eq!(agent.items(&session).await, items);
            assert!(agent.events().is_empty());

            let not_owned = Err(ToolError("HARNESS_SESSION_NOT_OWNED"));
            assert_eq!(agent.turn(&session, "u", "say two").await, not_owned);
            assert_eq!(agent.interrupt(&session, "t").await, not_owned);
            assert_eq!(agent.command(&session, "c", "status", "").await, not_owned);
            let resumed = agent.execute("harness_resume", "r", json!({"sessionId": session})).await.unwrap();
            assert_eq!((&resumed["session"]["owned"], &resumed["session"]["status"]), (&json!(true), &json!("idle")));
            let again = agent.execute("harness_resume", "s", json!({"sessionId": session})).await.unwrap();
            assert_eq!(again, resumed);
            assert_eq!(agent.turn_to_end(&session, "u", "say two").await["status"], "completed");
            assert_eq!(messages(&agent.items(&session).await), ["one", "two"]);
            assert_eq!(agent.info(&session).await["title"], "say one");
        },
    );
}

#[test]
fn a_turn_that_ran_when_the_process_died_reads_as_interrupted() {
    across_a_restart(
        async |agent| {
            let session = agent.create().await;
            agent.turn(&session, "t", "say done\nrun echo $$; exec sleep 1000").await.unwrap();
            let request = agent.request("t").await;
            agent.respond(&request["id"], json!({"decision": "accept"})).await.unwrap();
            let delta = agent.event(|event| event["method"] == "item/commandExecution/outputDelta").await;
            (session, string(&delta["params"]["delta"]).trim().to_owned())
        },
        async |agent, (session, pid)| {
            gone(&pid).await;
            let info = agent.info(&session).await;
            assert_eq!((&info["lastTurnId"], &info["lastTurnResult"]), (&json!("t"), &json!("cancelled")));
            assert_eq!((&info["activeTurnId"], &info["status"]), (&Value::Null, &json!("notLoaded")));
            let page = agent.page(&session, &Value::Null).await;
            assert_eq!((&page["turns"][0]["id"], &page["turns"][0]["status"]), (&json!("t"), &json!("interrupted")));
            assert_eq!(messages(&page_items(&page)), ["done"]);

            agent.execute("harness_resume", "r", json!({"sessionId": session})).await.unwrap();
            agent.turn_to_end(&session, "u", "say next").await;
            let page = agent.page(&session, &Value::Null).await;
            let turns: Vec<_> =
                page["turns"].as_array().unwrap().iter().map(|turn| (&turn["id"], &turn["status"])).collect();
            let expected = [("t", "interrupted"), ("u", "completed")].map(|(id, status)| (json!(id), json!(status)));
            assert_eq!(turns, expected.iter().map(|(id, status)| (id, status)).collect::<Vec<_>>());
        },
    );
}

#[tokio::test]
async fn a_session_of_a_workspace_that_is_gone_is_hidden() {
    let place = Place::new();
    let session = place.start().create().await;
    let other = tempfile::tempdir().unwrap();
    let mut profile = place.profile();
    profile.workspaces[0].1 = other.path().to_owned();
    let agent = place.start_with(&profile);
    let list = agent.read("harness_sessions", json!({})).await.unwrap();
    assert_eq!(list["sessions"], json!([]));
    let arguments = json!({"sessionId": session});
    for tool in ["harness_session_info", "harness_session_read", "harness_commands"] {
        assert_eq!(agent.read(tool, arguments.clone()).await, Err(ToolError("EACCES")), "{tool}");
    }
    assert_eq!(agent.execute("harness_resume", "r", arguments).await, Err(ToolError("EACCES")));
}

#[tokio::test]
async fn session_files_are_private_and_links_among_them_ignored() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let place = Place::new();
    let session = place.start().create().await;
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = place.history_file(&session);
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    symlink(&file, place.history_file("session-link")).unwrap();
    std::fs::write(place.history_file("session-empty"), "").unwrap();
    std::fs::write(place.history_file("session-foreign"), "{\"record\":\"item\",\"item\":{}}\n").unwrap();
    std::fs::copy(&file, place.history_file("session-copy")).unwrap();
    let list = place.start().read("harness_sessions", json!({})).await.unwrap();
    let ids: Vec<_> = list["sessions"].as_array().unwrap().iter().map(|session| session["id"].clone()).collect();
    assert_eq!(ids, [json!(session)]);
}

#[tokio::test]
async fn a_process_that_dies_answers_nothing_any_more() {
    let place = Place::new();
    let agent = place.start();
    let (first, second) = (agent.create().await, agent.create().await);
    agent.turn(&first, "a", "ask Well?").await.unwrap();
    let request = agent.request("a").await;
    agent.turn(&second, "b", "say last words\ndie\nsay never").await.unwrap();
    agent.event(|event| event["method"] == "harness/disconnected" && event["params"] == json!({})).await;
    let dead = Err(ToolError("EIO"));
    assert_eq!(agent.read("harness_sessions", json!({})).await, dead);
    assert_eq!(agent.turn(&first, "c", "say hi").await, dead);
    assert_eq!(agent.respond(&request["id"], json!({"decision": "accept"})).await, dead);
    agent.driver.drain().await;
    assert!(!outline(&agent.events()).contains(&"turn/completed".to_owned()));
    assert_eq!(agent.outstanding(), 1);

    let restarted = place.start();
    for (session, turn) in [(&first, "a"), (&second, "b")] {
        let info = restarted.info(session).await;
        assert_eq!((&info["lastTurnId"], &info["lastTurnResult"]), (&json!(turn), &json!("cancelled")));
    }
    assert_eq!(messages(&restarted.items(&second).await), ["last words"]);
}

#[tokio::test]
async fn a_receipt_that_was_not_given_before_the_death_is_unknown() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    assert_eq!(agent.turn(&session, "t", "slow-receipt 3600000\ndie").await, Err(ToolError("EIO")));
}

#[tokio::test]
async fn a_process_that_is_started_again_owns_nothing() {
    let place = Place::new();
    let mut agent = place.start();
    let (first, second) = (agent.create().await, agent.create().await);
    agent.turn(&first, "a", "run sleep 1000").await.unwrap();
    agent.request("a").await;
    let epoch = agent.ring.newest().event_epoch;
    assert_eq!(agent.turn(&second, "b", "slow-receipt end\nrestart").await, Err(ToolError("EIO")));
    assert_ne!(agent.ring.newest().event_epoch, epoch);
    assert_eq!(agent.outstanding(), 0);
    agent.start = agent.ring.newest();
    for session in [&first, &second] {
        let info = agent.info(session).await;
        assert_eq!((&info["status"], &info["owned"]), (&json!("notLoaded"), &json!(false)));
        assert_eq!(info["lastTurnResult"], "cancelled");
    }
    agent.execute("harness_resume", "r", json!({"sessionId": first})).await.unwrap();
    assert_eq!(agent.turn_to_end(&first, "c", "say back").await["status"], "completed");
    assert_eq!(messages(&agent.items(&first).await), ["back"]);
}

#[tokio::test]
async fn draining_interrupts_turns_and_kills_commands() {
    let place = Place::new();
    let agent = place.start();
    let (first, second) = (agent.create().await, agent.create().await);
    agent.turn(&first, "a", "run echo $$; exec sleep 1000").await.unwrap();
    let request = agent.request("a").await;
    agent.respond(&request["id"], json!({"decision": "accept"})).await.unwrap();
    let delta = agent.event(|event| event["method"] == "item/commandExecution/outputDelta").await;
    let pid = string(&delta["params"]["delta"]).trim().to_owned();
    let receipt = tokio::spawn({
        let agent = agent.clone();
        async move { agent.turn(&second, "b", "slow-receipt 3600000\nwait").await }
    });
    agent.event(|event| event["params"]["turn"]["id"] == "b").await;

    agent.driver.stop();
    assert_eq!(agent.turn(&first, "c", "say hi").await, Err(ToolError("EIO")));
    agent.driver.drain().await;
    assert!(!runs(&pid));
    assert_eq!(agent.turn_end("a").await["status"], "interrupted");
    assert_eq!(agent.turn_end("b").await["status"], "interrupted");
    assert_eq!(receipt.await.unwrap(), Ok(json!({"turnId": "b"})));
    assert_eq!(agent.read("harness_sessions", json!({})).await, Err(ToolError("EIO")));
}

#[tokio::test]
async fn the_descriptor_declares_what_works_and_other_tools_do_not() {
    let place = Place::new();
    let agent = place.start();
    let descriptor = json!(agent.driver.descriptor());
    assert_eq!((&descriptor["id"], &descriptor["kind"]), (&json!("scripted"), &json!("scripted")));
    assert_eq!(descriptor["workspaces"], json!([{"id": "demo"}]));
    let capabilities = descriptor["capabilities"].as_object().unwrap();
    let declared: Vec<_> =
        capabilities.iter().filter(|(_, value)| **value == json!(true)).map(|(name, _)| name).collect();
    let expected = [
        "archive",
        "commandOutputs",
        "create",
        "delete",
        "executionRecovery",
        "fork",
        "history",
        "interactions",
        "interrupt",
        "metrics",
        "models",
        "rename",
        "resume",
        "search",
        "sessionDigest",
        "slashCommands",
        "steer",
        "unarchive",
        "usage",
    ];
    assert_eq!(declared, expected);
    assert_eq!(capabilities["attachments"], json!(["text", "image"]));
    let unknown = Err(ToolError("ECAPABILITY"));
    assert_eq!(agent.execute("harness_none", "f", json!({"sessionId": "s"})).await, unknown);
    assert_eq!(agent.read("harness_none", json!({})).await, unknown);
}

#[test]
fn a_profile_without_a_workspace_is_refused() {
    let place = Place::new();
    let mut profile = place.profile();
    assert_eq!(ScriptedPlugin.validate(&profile), Ok(()));
    profile.workspaces.clear();
    assert!(ScriptedPlugin.validate(&profile).unwrap_err().contains("at least one workspace"));
}
