//! Pages of history.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};

use super::*;

/// A session file of a session that nobody runs, with `items` items of `bytes` bytes of text in turns of ten.
fn stored_session(place: &Place, items: usize, bytes: usize) -> String {
    let session = "session-stored";
    let header = json!({
        "record": "session", "id": session, "workspaceId": "demo", "cwd": place.workspace.path(), "createdAt": 1,
    });
    let mut lines = format!("{header}\n");
    for number in 0..items {
        let (turn, kind) = (number / 10, if number % 10 == 0 { "userMessage" } else { "agentMessage" });
        let item = json!({
            "id": format!("item-{number}"), "type": kind, "turnId": format!("turn-{turn}"), "timestamp": number,
            "text": "x".repeat(bytes), "content": [{"type": "text", "text": "a prompt"}],
        });
        lines.push_str(&format!("{}\n", json!({"record": "item", "item": item})));
        if number % 10 == 9 {
            let end = json!({"turnId": format!("turn-{turn}"), "status": "completed", "timestamp": number});
            let mut record = json!({"record": "turnEnd"});
            record.as_object_mut().unwrap().extend(end.as_object().unwrap().clone());
            lines.push_str(&format!("{record}\n"));
        }
    }
    std::fs::create_dir_all(place.home.path().join("sessions")).unwrap();
    std::fs::write(place.history_file(session), lines).unwrap();
    session.to_owned()
}

async fn pages(agent: &Agent, session: &str) -> Vec<Value> {
    let mut pages = vec![agent.page(session, &Value::Null).await];
    while let Some(cursor) = pages.last().map(|page| page["nextCursor"].clone()).filter(|cursor| !cursor.is_null()) {
        pages.push(agent.page(session, &cursor).await);
    }
    pages
}

#[tokio::test]
async fn pages_hold_a_hundred_items_and_together_all_of_them_once() {
    let place = Place::new();
    let session = stored_session(&place, 10_000, 10);
    let agent = place.start();
    let pages = pages(&agent, &session).await;
    assert_eq!(pages.len(), 100);
    let items: Vec<_> = pages.iter().rev().flat_map(page_items).map(|item| string(&item["id"])).collect();
    assert_eq!(items, (0..10_000).map(|number| format!("item-{number}")).collect::<Vec<_>>());
    for page in &pages {
        assert_eq!(page_items(page).len(), 100);
        assert_eq!(page.get("eventCursor").is_some(), std::ptr::eq(page, &pages[0]));
        let turns = page["turns"].as_array().unwrap();
        assert_eq!(turns.len(), 10);
        assert!(
            turns.iter().all(|turn| turn["status"] == "completed" && turn["items"].as_array().unwrap().len() == 10)
        );
    }
}

#[tokio::test]
async fn a_turn_that_spans_pages_stands_on_each_under_its_id() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    let prompt = (0..183).map(|number| format!("say {number}\n")).collect::<String>();
    agent.turn_to_end(&session, "t", &prompt).await;
    let pages = pages(&agent, &session).await;
    let sizes: Vec<_> = pages.iter().map(|page| page_items(page).len()).collect();
    assert_eq!(sizes, [100, 84]);
    assert!(pages.iter().all(|page| page["turns"].as_array().unwrap().len() == 1 && page["turns"][0]["id"] == "t"));
    assert_eq!(pages[0]["turns"][0]["status"], "completed");
    let items = agent.items(&session).await;
    let ids: BTreeSet<_> = items.iter().map(|item| string(&item["id"])).collect();
    assert_eq!(ids.len(), 184);
    assert_eq!(messages(&items), (0..183).map(|number| number.to_string()).collect::<Vec<_>>());
    assert!(items.iter().all(|item| item["turnId"] == "t" && item["timestamp"].is_u64()));
}

#[tokio::test]
async fn pages_hold_two_mebibytes() {
    let place = Place::new();
    let session = stored_session(&place, 30, 300_000);
    let agent = place.start();
    let pages = pages(&agent, &session).await;
    assert_eq!(pages.iter().map(|page| page_items(page).len()).collect::<Vec<_>>(), [6, 6, 6, 6, 6]);
    assert!(pages.iter().all(|page| page["turns"].to_string().len() <= 2 * 1024 * 1024));
}

#[tokio::test]
async fn items_and_records_beyond_their_bounds_are_named() {
    for (bytes, code) in
        [(2 * 1024 * 1024, "HARNESS_HISTORY_ITEM_TOO_LARGE"), (8 * 1024 * 1024, "HARNESS_HISTORY_RECORD_TOO_LARGE")]
    {
        let place = Place::new();
        let session = stored_session(&place, 2, 10);
        let mut file = OpenOptions::new().append(true).open(place.history_file(&session)).unwrap();
        let item = json!({"record": "item", "item": {"id": "large", "turnId": null, "text": "x".repeat(bytes)}});
        let small = json!({"record": "item", "item": {"id": "small", "turnId": "turn-1"}});
        writeln!(file, "{item}\n{small}").unwrap();
        let agent = place.start();
        let page = agent.page(&session, &Value::Null).await;
        let read = |cursor: Value| agent.read("harness_session_read", json!({"sessionId": session, "cursor": cursor}));
        assert_eq!(page_items(&page).len(), 1);
        assert_eq!(read(page["nextCursor"].clone()).await, Err(ToolError(code)));
    }
}

#[tokio::test]
async fn a_page_reads_no_more_of_the_file_than_it_shows() {
    let place = Place::new();
    let session = stored_session(&place, 10, 10);
    // A hole of a tebibyte: whoever reads through it never comes back.
    let mut file = OpenOptions::new().write(true).open(place.history_file(&session)).unwrap();
    file.seek(SeekFrom::Start(1 << 40)).unwrap();
    writeln!(file).unwrap();
    for number in 0..150 {
        let item = json!({"id": format!("late-{number}"), "type": "agentMessage", "turnId": "late", "timestamp": 5});
        writeln!(file, "{}", json!({"record": "item", "item": item})).unwrap();
    }
    let agent = place.start();
    let first = agent.page(&session, &Value::Null).await;
    assert_eq!(page_items(&first).len(), 100);
    assert_eq!(page_items(&first)[99]["id"], "late-149");
}

#[tokio::test]
async fn a_cursor_that_is_none_is_refused() {
    let place = Place::new();
    let session = stored_session(&place, 10, 10);
    let agent = place.start();
    let end: u64 = agent.info(&session).await["historyRevision"].as_str().unwrap().parse().unwrap();
    for cursor in [json!(5), json!(""), json!("-1"), json!("1x"), json!("+1"), json!((end + 1).to_string()), json!("7")]
    {
        let read = agent.read("harness_session_read", json!({"sessionId": session, "cursor": cursor})).await;
        assert_eq!(read, Err(ToolError("EINVAL")), "{cursor}");
    }
    assert_eq!(page_items(&agent.page(&session, &json!(end.to_string())).await).len(), 10);
    let beginning = agent.page(&session, &json!("0")).await;
    assert_eq!((&beginning["turns"], &beginning["nextCursor"]), (&json!([]), &Value::Null));
}

#[tokio::test]
async fn a_torn_last_line_is_ignored_and_cut_off_by_the_next_record() {
    let place = Place::new();
    let session = stored_session(&place, 10, 10);
    let file = place.history_file(&session);
    let whole = std::fs::read(&file).unwrap();
    OpenOptions::new()
        .append(true)
        .open(&file)
        .unwrap()
        .write_all(b"{\"record\":\"item\",\"item\":{\"id\":\"torn")
        .unwrap();
    let agent = place.start();
    assert_eq!(agent.items(&session).await.len(), 10);
    assert_eq!(agent.info(&session).await["lastTurnResult"], "completed");
    agent.execute("harness_resume", "r", json!({"sessionId": session})).await.unwrap();
    agent.turn_to_end(&session, "t", "say hi").await;
    let now = std::fs::read(&file).unwrap();
    assert_eq!(now[..whole.len()], whole);
    assert!(String::from_utf8(now).unwrap().lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert_eq!(place.start().items(&session).await.len(), 12);
}

#[tokio::test]
async fn a_line_that_is_no_record_hides_no_other() {
    let place = Place::new();
    let session = stored_session(&place, 10, 10);
    let mut file = OpenOptions::new().append(true).open(place.history_file(&session)).unwrap();
    file.write_all(b"not json\n\n{\"record\":\"later\",\"new\":1}\n\xff\n").unwrap();
    let agent = place.start();
    assert_eq!(agent.items(&session).await.len(), 10);
    assert_eq!(agent.info(&session).await["lastTurnId"], "turn-0");
}

#[tokio::test]
async fn the_event_cursor_says_exactly_how_much_a_page_contains() {
    let place = Place::new();
    let agent = place.start();
    let session = agent.create().await;
    agent.turn(&session, "t", "pace 1\nstream 100\nrun echo one; exec sleep 1000").await.unwrap();
    let reads = async {
        loop {
            check_cursor(&agent, &session).await;
        }
    };
    let until_output = async {
        let request = agent.request("t").await;
        agent.respond(&request["id"], json!({"decision": "accept"})).await.unwrap();
        agent.event(|event| event["method"] == "item/commandExecution/outputDelta").await
    };
    tokio::select! {
        _ = reads => {}
        _ = until_output => {}
    }
    let unfinished = check_cursor(&agent, &session).await;
    assert_eq!(unfinished.map(|item| item["aggregatedOutput"].clone()), Some(json!("one\n")));
    agent.interrupt(&session, "t").await.unwrap();
    agent.turn_end("t").await;
    assert_eq!(check_cursor(&agent, &session).await, None);
}

/// Reads the newest page, compares it with the events up to its cursor, and gives its unfinished item.
async fn check_cursor(agent: &Agent, session: &str) -> Option<Value> {
    let page = agent.page(session, &Value::Null).await;
    assert_eq!(page["eventCursor"]["eventEpoch"], json!(agent.ring.newest().event_epoch));
    let after = usize::try_from(page["eventCursor"]["after"].as_u64().unwrap()).unwrap();
    let events = &agent.events()[..after];
    let (unfinished, finished): (Vec<_>, Vec<_>) =
        page_items(&page).into_iter().partition(|item| item["status"] == "inProgress");
    let completed = events.iter().filter(|event| event["method"] == "item/completed").count();
    assert_eq!(finished.len(), completed);
    assert!(unfinished.len() <= 1);
    for item in &unfinished {
        let of_item = |event: &&Value| event["params"]["itemId"] == item["id"] && event["params"]["delta"].is_string();
        let text: String = events.iter().filter(of_item).map(|event| string(&event["params"]["delta"])).collect();
        let member = if item["type"] == "agentMessage" { "text" } else { "aggregatedOutput" };
        assert_eq!(item[member], json!(text));
        assert_eq!(page["turns"][0]["status"], "inProgress");
    }
    unfinished.into_iter().next()
}
