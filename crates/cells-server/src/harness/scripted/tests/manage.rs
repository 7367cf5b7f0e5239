//! Sessions as wholes: fork, rename, archive, delete, search, digest, and what turns prove.

use cells_protocol::harness::HarnessAttachment;
use sha2::{Digest, Sha256};

use super::*;

/// Ids of the listed sessions.
async fn listed(agent: &Agent, archived: bool) -> Vec<String> {
    let page = agent.read("harness_sessions", json!({"archived": archived, "limit": 100})).await.unwrap();
    page["sessions"].as_array().unwrap().iter().map(|session| string(&session["id"])).collect()
}

async fn manage(agent: &Agent, tool: &str, session: &str, more: Value) -> Result<Value, ToolError> {
    let mut arguments = json!({"sessionId": session});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    agent.execute(tool, "manage", arguments).await
}

async fn fork(agent: &Agent, session: &str, more: Value) -> Value {
    manage(agent, "harness_fork", session, more).await.unwrap()["session"].clone()
}

/// The elements of all pages, oldest first.
async fn turns(agent: &Agent, session: &str) -> Vec<Value> {
    let mut turns = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = agent.page(session, &cursor).await;
        turns.splice(0..0, page["turns"].as_array().unwrap().clone());
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            return turns;
        }
    }
}

/// Adds items to the history of a session, as another program might.
fn append(place: &Place, session: &str, items: &[Value]) {
    let mut text = std::fs::read_to_string(place.history_file(session)).unwrap();
    text.extend(items.iter().map(|item| format!("{}\n", json!({"record": "item", "item": item}))));
    std::fs::write(place.history_file(session), text).unwrap();
}

#[tokio::test]
async fn a_fork_is_an_owned_copy_that_lives_on_its_own() {
    let place = Place::new();
    let agent = place.start();
    let source = agent.create().await;
    agent.turn_to_end(&source, "a", "say one").await;
    for (more, name) in [
        (json!({"name": " try 2 "}), json!("try 2")),
        (json!({}), Value::Null),
        (json!({"name": "  "}), Value::Null),
        (json!({"name": "x".repeat(257)}), Value::Null),
        (json!({"name": "a\nb"}), Value::Null),
        (json!({"name": 7}), Value::Null),
    ] {
        let session = fork(&agent, &source, more.clone()).await;
        assert_eq!(session["parentSessionId"], json!(source));
        assert_eq!(session.get("branchName").unwrap_or(&Value::Null), &name, "{more}");
        assert_eq!(session["title"], if name.is_null() { json!("say one") } else { name }, "{more}");
        assert_eq!((&session["owned"], &session["status"]), (&json!(true), &json!("idle")));
        assert_eq!(agent.items(session["id"].as_str().unwrap()).await, agent.items(&source).await);
    }
    let copy = string(&fork(&agent, &source, json!({})).await["id"]);
    agent.turn_to_end(&copy, "b", "say two").await;
    agent.turn_to_end(&source, "c", "say three").await;
    assert_eq!(messages(&agent.items(&copy).await), ["one", "two"]);
    assert_eq!(messages(&agent.items(&source).await), ["one", "three"]);
    let empty = agent.create().await;
    assert!(agent.items(&string(&fork(&agent, &empty, json!({})).await["id"])).await.is_empty());
    agent.turn(&source, "d", "wait").await.unwrap();
    assert_eq!(manage(&agent, "harness_fork", &source, json!({})).await, Err(ToolError("EBUSY")));
    // All of it is still there after a restart, and a turn that died is over in its fork.
    let again = place.start();
    assert_eq!(messages(&again.items(&copy).await), ["one", "two"]);
    assert_eq!(again.info(&copy).await["parentSessionId"], json!(source));
    let late = fork(&again, &source, json!({})).await;
    assert_eq!((&late["lastTurnId"], &late["lastTurnResult"]), (&json!("d"), &json!("cancelled")));
}

#[tokio::test]
async fn a_name_stays_and_is_told() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    for name in [json!(""), json!("  "), json!("a\tb"), json!("x".repeat(513)), json!(1), Value::Null] {
        let renamed = manage(&agent, "harness_rename", &session, json!({"name": name})).await;
        assert_eq!(renamed, Err(ToolError("EINVAL")), "{name}");
    }
    let renamed = manage(&agent, "harness_rename", &session, json!({"name": "  <b>Höhe</b> "})).await.unwrap();
    assert_eq!(renamed["session"]["title"], "<b>Höhe</b>");
    agent.turn_to_end(&session, "a", "say other").await;
    assert_eq!(agent.info(&session).await["title"], "<b>Höhe</b>");
    agent
        .event(|event| event["method"] == "thread/name/updated" && event["params"]["threadName"] == "<b>Höhe</b>")
        .await;
    // Also without control, and during a turn.
    agent.turn(&session, "b", "wait").await.unwrap();
    manage(&agent, "harness_rename", &session, json!({"name": "during"})).await.unwrap();
    let again = place.start();
    assert_eq!(again.info(&session).await["title"], "during");
    let max = "ä".repeat(256);
    let renamed = manage(&again, "harness_rename", &session, json!({"name": max})).await.unwrap();
    assert_eq!((&renamed["session"]["title"], &renamed["session"]["owned"]), (&json!(max), &json!(false)));
}

#[tokio::test]
async fn archived_sessions_are_put_away_and_come_back_without_control() {
    let place = Place::new();
    let agent = place.start();
    let (session, other) = (agent.create().await, agent.create().await);
    agent.turn(&session, "a", "wait").await.unwrap();
    assert_eq!(agent.info(&session).await["archiveAllowed"], false);
    assert_eq!(manage(&agent, "harness_archive", &session, json!({})).await, Err(ToolError("EBUSY")));
    agent.interrupt(&session, "a").await.unwrap();
    agent.turn_end("a").await;
    assert_eq!(agent.info(&session).await["archiveAllowed"], true);
    let archived = manage(&agent, "harness_archive", &session, json!({})).await.unwrap()["session"].clone();
    for (member, expected) in [
        ("archived", json!(true)),
        ("owned", json!(false)),
        ("status", json!("idle")),
        ("archiveAllowed", json!(false)),
        ("resumable", json!(false)),
    ] {
        assert_eq!(archived[member], expected, "{member}");
    }
    assert_eq!(agent.info(&session).await["status"], "notLoaded");
    assert_eq!((listed(&agent, true).await, listed(&agent, false).await), (vec![session.clone()], vec![other.clone()]));
    assert_eq!(manage(&agent, "harness_resume", &session, json!({})).await, Err(ToolError("EINVAL")));
    assert_eq!(agent.turn(&session, "b", "say x").await, Err(ToolError("HARNESS_SESSION_NOT_OWNED")));
    let again = place.start();
    assert_eq!(listed(&again, true).await, [session.as_str()]);
    let back = manage(&again, "harness_unarchive", &session, json!({})).await.unwrap()["session"].clone();
    assert_eq!((&back["archived"], &back["owned"], &back["resumable"]), (&json!(false), &json!(false), &json!(true)));
    manage(&again, "harness_resume", &session, json!({})).await.unwrap();
    assert_eq!(again.turn_to_end(&session, "b", "say x").await["status"], "completed");
    let methods: Vec<_> = outline(&again.events()).into_iter().filter(|line| line.contains("archived")).collect();
    assert_eq!(methods, ["thread/unarchived"]);
}

#[tokio::test]
async fn a_session_is_deleted_with_those_it_spawned_or_not_at_all() {
    let place = Place::new();
    let agent = place.start();
    let (root, other) = (agent.create().await, agent.create().await);
    agent.turn_to_end(&root, "a", "spawn say deep\nspawn write x y").await;
    let items = agent.items(&root).await;
    let spawned: Vec<String> = items
        .iter()
        .filter(|item| item["type"] == "collabAgentToolCall")
        .map(|item| string(&item["receiverThreadIds"][0]))
        .collect();
    assert_eq!(messages(&agent.items(&spawned[0]).await), ["1. Say `deep`."]);
    assert_eq!(listed(&agent, false).await.len(), 4);
    agent.turn_to_end(&spawned[1], "b", "spawn say deeper").await;
    let grandchild =
        string(&item_of_type(&agent.items(&spawned[1]).await, "collabAgentToolCall")["receiverThreadIds"][0]);
    // One that runs holds all of them.
    agent.turn(&grandchild, "c", "wait").await.unwrap();
    assert_eq!(manage(&agent, "harness_delete", &root, json!({})).await, Err(ToolError("EBUSY")));
    assert_eq!(manage(&agent, "harness_archive", &root, json!({})).await, Err(ToolError("EBUSY")));
    // One that nobody controls must be archived first.
    let again = place.start();
    assert_eq!(manage(&again, "harness_delete", &root, json!({})).await, Err(ToolError("EBUSY")));
    manage(&again, "harness_archive", &root, json!({})).await.unwrap();
    assert_eq!(listed(&again, true).await.len(), 4);
    let deleted = manage(&again, "harness_delete", &root, json!({})).await.unwrap();
    let mut ids: Vec<String> = deleted["deletedSessionIds"].as_array().unwrap().iter().map(string).collect();
    assert_eq!(ids[0], root);
    let mut expected = vec![root.clone(), spawned[0].clone(), spawned[1].clone(), grandchild];
    expected.sort_unstable();
    ids.sort_unstable();
    assert_eq!(ids, expected);
    assert_eq!((listed(&again, false).await, listed(&again, true).await), (vec![other.clone()], vec![]));
    let gone = again.read("harness_session_read", json!({"sessionId": root})).await;
    assert_eq!(gone, Err(ToolError("ENOENT")));
    let deletions = outline(&again.events()).into_iter().filter(|line| line == "thread/deleted").count();
    assert_eq!(deletions, 4);
    assert_eq!(listed(&place.start(), false).await, [other]);
    assert!(
        std::fs::read_dir(place.home.path().join("sessions")).unwrap().count() <= 2,
        "files of deleted sessions stay"
    );
}

#[tokio::test]
async fn a_descendant_of_another_workspace_is_not_touched() {
    let place = Place::new();
    let agent = place.start();
    let root = agent.create().await;
    agent.turn_to_end(&root, "a", "spawn say deep").await;
    let child = string(&item_of_type(&agent.items(&root).await, "collabAgentToolCall")["receiverThreadIds"][0]);
    let text = std::fs::read_to_string(place.history_file(&child)).unwrap();
    std::fs::write(place.history_file(&child), text.replacen("\"demo\"", "\"gone\"", 1)).unwrap();
    let again = place.start();
    for tool in ["harness_archive", "harness_delete"] {
        assert_eq!(manage(&again, tool, &root, json!({})).await, Err(ToolError("EACCES")), "{tool}");
    }
    assert_eq!(listed(&again, false).await, [root]);
    assert!(place.history_file(&child).exists());
}

#[tokio::test]
async fn titles_messages_and_prompts_are_found() {
    let place = Place::new();
    let agent = place.start();
    let (first, second) = (agent.create().await, agent.create().await);
    agent.turn_to_end(&first, "a", "say The quick fox").await;
    agent.turn(&second, "b", "think quick thoughts\nrun echo quick tool\nsay slow").await.unwrap();
    let approval = agent.request("b").await["id"].clone();
    agent.respond(&approval, json!({"decision": "accept"})).await.unwrap();
    agent.turn_end("b").await;
    let find = async |query: Value| agent.read("harness_session_search", query).await;
    let hits = async |query: &str, mode: &str| {
        let found = find(json!({"query": query, "mode": mode})).await.unwrap();
        assert_eq!((&found["truncated"], &found["nextCursor"]), (&json!(false), &Value::Null));
        let hits = found["matches"].as_array().unwrap().clone();
        hits.into_iter()
            .map(|hit| (string(&hit["sessionId"]), hit["itemId"].as_str().map(str::to_owned)))
            .collect::<Vec<_>>()
    };
    let hit = |session: &str, item: &str| (session.to_owned(), Some(item.to_owned()));
    assert_eq!(hits("FOX the", "content").await, [hit(&first, "a-2"), hit(&first, "a-1")]);
    assert_eq!(hits("fox quick", "prompt").await, [hit(&first, "a-1")]);
    assert_eq!(hits("quick fox", "title").await, [(first.clone(), None)]);
    assert_eq!(hits("tool\nsay", "prompt").await, [hit(&second, "b-1")]);
    assert_eq!(hits("nothing", "content").await, []);
    // What tools printed and what was only thought is not searched: the hits are the prompt.
    assert_eq!(hits("thoughts", "content").await, [hit(&second, "b-1")]);
    for query in [
        json!({"query": " ", "mode": "content"}),
        json!({"query": "x".repeat(1025), "mode": "content"}),
        json!({"query": "a\u{0}b", "mode": "content"}),
        json!({"query": "a", "mode": "path"}),
        json!({"query": "a"}),
        json!({"mode": "title"}),
        json!({"query": (0..17).map(|n| format!("w{n} ")).collect::<String>(), "mode": "title"}),
    ] {
        assert_eq!(find(query.clone()).await, Err(ToolError("EINVAL")), "{query:.80}");
    }
    manage(&agent, "harness_archive", &first, json!({})).await.unwrap();
    assert_eq!(hits("fox", "content").await, []);
    let found = find(json!({"query": "fox", "mode": "content", "archived": true})).await.unwrap();
    assert_eq!(found["matches"].as_array().unwrap().len(), 2);
    // More than a hundred hits are cut.
    agent.turn_to_end(&second, "c", &"say needle\n".repeat(120)).await;
    let found = find(json!({"query": "needle", "mode": "content"})).await.unwrap();
    assert_eq!((found["matches"].as_array().unwrap().len(), &found["truncated"]), (100, &json!(true)));
}

#[tokio::test]
async fn a_digest_holds_prompts_and_answers_of_one_revision() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    agent.turn_to_end(&session, "a", "think hm\nsay one").await;
    agent.command(&session, "b", "do", "say hidden").await.unwrap();
    agent.turn_end("b").await;
    let said = |number: usize| {
        let (user, agent) = (format!("{number}-1"), format!("{number}-2"));
        let content = json!([{"type": "text", "text": format!("p {number}")}]);
        let prompt = json!({"id": user, "type": "userMessage", "turnId": user, "content": content, "contentItemKinds": ["prompt"]});
        [prompt, json!({"id": agent, "type": "agentMessage", "turnId": user, "text": format!("a {number}")})]
    };
    append(&place, &session, &(0..150).flat_map(said).collect::<Vec<_>>());
    let agent = place.start();
    let digest = async |more: Value| {
        let mut arguments = json!({"sessionId": session});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        agent.read("harness_session_digest", arguments).await
    };
    let first = digest(json!({})).await.unwrap();
    let revision = first["revision"].clone();
    let entries = first["entries"].as_array().unwrap();
    assert_eq!((entries.len(), &first["omittedUnclassified"]), (200, &json!(0)));
    let line = |entry: &Value| format!("{} {}", string(&entry["role"]), string(&entry["text"]));
    assert_eq!(line(&entries[0]), "user think hm\nsay one");
    assert_eq!(line(&entries[1]), "assistant one");
    // Of a slash command only the answer is something that was said.
    assert_eq!(line(&entries[2]), "assistant hidden");
    let cursor = first["nextCursor"].clone();
    assert_eq!(digest(json!({"cursor": cursor})).await, Err(ToolError("EINVAL")));
    let second = digest(json!({"cursor": cursor, "expectedRevision": revision})).await.unwrap();
    assert_eq!(second["entries"].as_array().unwrap().len(), 103);
    assert_eq!((&second["revision"], &second["nextCursor"]), (&revision, &Value::Null));
    let metadata = digest(json!({"metadataOnly": true})).await.unwrap();
    assert_eq!((&metadata["entries"], &metadata["omittedUnclassified"]), (&json!([]), &Value::Null));
    for cursor in ["1", "999999999", "x", "-1"] {
        let bad = digest(json!({"cursor": cursor, "expectedRevision": revision})).await;
        assert_eq!(bad, Err(ToolError("EINVAL")), "{cursor}");
    }
    manage(&agent, "harness_resume", &session, json!({})).await.unwrap();
    let changed = digest(json!({"cursor": cursor, "expectedRevision": revision})).await;
    assert_eq!(changed, Err(ToolError("HARNESS_DIGEST_CHANGED")));
    // A message that does not tell its origin is counted; one that is too long is cut.
    let items = [
        json!({"id": "old-1", "type": "userMessage", "turnId": "old", "content": [{"type": "text", "text": "who?"}]}),
        json!({"id": "old-2", "type": "agentMessage", "turnId": "old", "text": "ä".repeat(200_000)}),
    ];
    append(&place, &session, &items);
    let again = place.start();
    let first = again.read("harness_session_digest", json!({"sessionId": session})).await.unwrap();
    let last = json!({"sessionId": session, "cursor": first["nextCursor"], "expectedRevision": first["revision"]});
    let last = again.read("harness_session_digest", last).await.unwrap();
    assert_eq!(last["omittedUnclassified"], 1);
    let entry = last["entries"].as_array().unwrap().last().unwrap();
    assert_eq!((entry["truncated"].clone(), entry["text"].as_str().unwrap().len()), (json!(true), 256 * 1024));
}

#[tokio::test]
async fn turns_prove_which_request_started_them_at_every_page_border() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    agent.turn_to_end(&session, "a", "say one\nsay two").await;
    agent.command(&session, "c", "echo", "x").await.unwrap();
    agent.turn_to_end(&session, "b", &"say many\n".repeat(130)).await;
    agent.command(&session, "d", "do", "say x").await.unwrap();
    agent.turn_end("d").await;
    let with =
        json!({"sessionId": session, "prompt": "quote a.txt", "attachments": [HarnessAttachment::text("a.txt", "q")]});
    agent.execute("harness_turn", "e", with).await.unwrap();
    agent.turn_end("e").await;
    let proved = |turns: &[Value]| {
        let proved = turns.iter().filter_map(|turn| {
            let evidence = turn.get("submissionEvidence")?;
            Some((string(&turn["id"]), evidence.clone()))
        });
        proved.collect::<Vec<_>>()
    };
    let sha = |prompt: &str| Sha256::digest(prompt).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let evidence = |id: &str, prompt: &str, start: u64, end: u64| {
        let sequences = json!({"version": 1, "requestId": id, "promptSha256": sha(prompt), "startSequence": start, "endSequence": end});
        (id.to_owned(), sequences)
    };
    // The header is record 1; turn b spans pages and stands on its last one.
    let expected = [evidence("a", "say one\nsay two", 2, 5), evidence("b", &"say many\n".repeat(130), 7, 138)];
    assert_eq!(proved(&turns(&agent, &session).await), expected);
    let again = place.start();
    assert_eq!(proved(&turns(&again, &session).await), expected);
    // A turn that died has ended when its session is taken over; a copy proves only its own.
    // Its receipt is lost with the process, or just not.
    let _ = agent.turn(&session, "f", "restart").await;
    agent.turn_gone(&session).await;
    let again = place.start();
    manage(&again, "harness_resume", &session, json!({})).await.unwrap();
    let found = proved(&turns(&again, &session).await);
    assert_eq!(found[2].0, "f");
    let (start, end) = (&found[2].1["startSequence"], &found[2].1["endSequence"]);
    assert_eq!(start.as_u64().unwrap() + 1, end.as_u64().unwrap());
    let copy = string(&fork(&again, &session, json!({})).await["id"]);
    again.turn_to_end(&copy, "g", "say mine").await;
    assert_eq!(proved(&turns(&again, &copy).await).into_iter().map(|(id, _)| id).collect::<Vec<_>>(), ["g"]);
}

#[tokio::test]
async fn attachments_stand_in_the_message_and_can_be_quoted() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let image = HarnessAttachment::image("b.png", "image/png", b"\x89PNG\r\n\x1a\n");
    let attachments = json!([HarnessAttachment::text("a.txt", "one\ttwo"), image]);
    let arguments =
        json!({"sessionId": session, "prompt": "quote a.txt\nquote b.png\nquote c", "attachments": attachments});
    agent.execute("harness_turn", "a", arguments).await.unwrap();
    agent.turn_end("a").await;
    let items = agent.items(&session).await;
    assert_eq!(items[0]["contentItemKinds"], json!(["prompt", "attachment", "attachment", "attachment"]));
    assert_eq!(items[0]["content"][1]["text"], "Attachment: a.txt\none\ttwo");
    assert_eq!(
        messages(&items),
        ["one\ttwo", "`b.png` is an image/png of 34 characters.", "There is no attachment `c`."]
    );
    for bad in [
        json!([{"kind": "text", "name": "../a", "content": "x"}]),
        json!([{"kind": "text", "name": "a", "content": "x\u{1b}"}]),
        json!([{"kind": "text", "name": "a", "content": "x".repeat(65_537)}]),
        json!([{"kind": "image", "name": "a", "mimeType": "image/png", "content": "https://example.invalid/a.png"}]),
        json!([{"kind": "file", "name": "a", "content": "x"}]),
        json!(vec![json!({"kind": "text", "name": "a", "content": "x"}); 6]),
    ] {
        let arguments = json!({"sessionId": session, "prompt": "say x", "attachments": bad});
        assert_eq!(agent.execute("harness_turn", "b", arguments).await, Err(ToolError("EINVAL")), "{bad:.80}");
    }
}
