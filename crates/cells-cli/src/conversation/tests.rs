#![allow(clippy::needless_pass_by_value, reason = "the helpers are given literals")]

use serde_json::json;

use super::*;

const SESSION: &str = "s-1";
const REQUEST: &str = "r-1";

fn conversation() -> Conversation {
    let mut conversation = Conversation::new(NativeId::new(SESSION).unwrap());
    conversation.dispatched(RequestId::new(REQUEST).unwrap());
    conversation
}

/// An event of the session; `params` without the session.
fn event(method: &str, mut params: Value) -> NativeMessage {
    params["threadId"] = SESSION.into();
    NativeMessage { id: None, method: method.to_owned(), params }
}

fn started(turn: &str) -> NativeMessage {
    event("turn/started", json!({"turn": {"id": turn}}))
}

fn delta(turn: &str, item: &str, delta: &str) -> NativeMessage {
    event("item/agentMessage/delta", json!({"turnId": turn, "itemId": item, "delta": delta}))
}

fn completed(turn: &str, item: Value) -> NativeMessage {
    event("item/completed", json!({"turnId": turn, "item": item}))
}

fn message(id: &str, text: &str) -> Value {
    json!({"type": "agentMessage", "id": id, "text": text})
}

fn ended(turn: Value) -> NativeMessage {
    event("turn/completed", json!({"turn": turn}))
}

/// What is shown, in short: `+text` grows, `=text` is the rest of a complete message, `*type` is an item.
fn shown(conversation: &mut Conversation, events: &[NativeMessage]) -> Vec<String> {
    events.iter().flat_map(|event| conversation.handle_event(event)).map(short).collect()
}

fn short(shown: Shown) -> String {
    match shown {
        Shown::Text { delta, .. } => format!("+{delta}"),
        Shown::Message { missing, .. } => format!("={missing}"),
        Shown::Item { item, .. } => format!("*{}", text(&item, "type").unwrap_or_default()),
        Shown::Command(result) => format!("/{}", result.name),
        Shown::Ended(end) => format!("{end:?}"),
    }
}

#[test]
fn text_is_shown_once_whatever_the_order() {
    let text = |events: &[NativeMessage]| {
        let mut conversation = conversation();
        let mut all = vec![started(REQUEST)];
        all.extend_from_slice(events);
        shown(&mut conversation, &all)
    };
    let whole = completed(REQUEST, message("a", "Hello"));
    for (events, expected) in [
        (vec![delta(REQUEST, "a", "Hel"), delta(REQUEST, "a", "lo"), whole.clone()], vec!["+Hel", "+lo", "="]),
        (vec![delta(REQUEST, "a", "Hel"), whole.clone()], vec!["+Hel", "=lo"]),
        (vec![whole.clone()], vec!["=Hello"]),
        (vec![whole.clone(), delta(REQUEST, "a", "late"), whole.clone()], vec!["=Hello"]),
        (vec![delta(REQUEST, "a", "elo"), whole.clone()], vec!["+elo", "=\nHello"]),
        (
            vec![
                event("item/agentMessage/delta", json!({"turnId": REQUEST, "delta": "Hel"})),
                event("item/agentMessage/delta", json!({"delta": "l"})),
                whole,
            ],
            vec!["+Hel", "+l", "=o"],
        ),
        (
            vec![
                event("item/plan/delta", json!({"itemId": "p", "delta": "1."})),
                completed(REQUEST, json!({"type": "plan", "id": "p", "text": "1. Go"})),
            ],
            vec!["+1.", "= Go"],
        ),
    ] {
        assert_eq!(text(&events), expected, "{events:?}");
    }
}

#[test]
fn only_the_turn_that_was_sent_is_shown() {
    let mut other_session = delta(REQUEST, "a", "foreign");
    other_session.params["threadId"] = "s-2".into();
    let events = [
        delta("earlier", "a", "before the turn is known"),
        started(REQUEST),
        started("later"),
        other_session,
        delta("later", "a", "another turn"),
        delta(REQUEST, "b", "mine"),
        ended(json!({"id": "later", "status": "completed"})),
        event("unknown/method", json!({"turnId": REQUEST})),
        ended(json!({"id": REQUEST, "status": "completed"})),
        delta(REQUEST, "b", "after the end"),
    ];
    let mut conversation = conversation();
    assert_eq!(shown(&mut conversation, &events), ["+mine", "Completed"]);
    assert!(conversation.is_proven());
}

#[test]
fn a_turn_with_a_name_of_its_own_is_proven_by_the_receipt() {
    let turn = |id: &str| NativeId::new(id).unwrap();
    let mut surprised = conversation();
    let mut conversation = conversation();
    assert_eq!(shown(&mut conversation, &[started("t-1"), delta("t-1", "a", "x")]), ["+x"]);
    assert_eq!((conversation.turn_id(), conversation.is_proven()), (Some("t-1"), false));
    assert!(!conversation.prove(&turn("t-1")));
    assert!(conversation.is_proven());

    let other = [started("t-1"), ended(json!({"id": "t-1", "status": "completed"}))];
    assert_eq!(shown(&mut surprised, &other), ["Completed"]);
    assert!(surprised.prove(&turn("t-2")), "the events were those of another turn");
    let own = [started("t-2"), delta("t-2", "a", "mine"), ended(json!({"id": "t-2", "status": "failed"}))];
    let expected = ["+mine".to_owned(), format!("Failed({NO_REASON:?})")];
    assert_eq!(shown(&mut surprised, &own), expected);
}

#[test]
fn nothing_that_started_before_the_request_was_sent_is_its_turn() {
    let mut conversation = Conversation::new(NativeId::new(SESSION).unwrap());
    assert_eq!(shown(&mut conversation, &[started("t-1"), delta("t-1", "a", "x")]), [""; 0]);
    assert_eq!(conversation.turn_id(), None);
}

#[test]
fn a_request_may_be_the_first_that_is_heard_of_a_turn() {
    let request = |session: &str, turn: Value| NativeMessage {
        id: Some(json!(7)),
        method: "item/commandExecution/requestApproval".to_owned(),
        params: json!({"threadId": session, "turnId": turn}),
    };
    let mut unsent = Conversation::new(NativeId::new(SESSION).unwrap());
    assert!(!unsent.takes_request(&request(SESSION, "t-1".into())), "nothing was sent yet");
    let mut conversation = conversation();
    assert!(!conversation.takes_request(&request("s-2", "t-1".into())), "another session");
    assert!(conversation.takes_request(&request(SESSION, Value::Null)));
    assert_eq!(conversation.turn_id(), None);
    assert!(conversation.takes_request(&request(SESSION, "t-1".into())));
    assert_eq!(conversation.turn_id(), Some("t-1"));
    assert!(!conversation.takes_request(&request(SESSION, "t-2".into())), "another turn");
    assert!(!conversation.is_proven());
}

#[test]
fn every_end_is_told() {
    for (event, expected) in [
        (ended(json!({"id": REQUEST, "status": "completed"})), "Completed"),
        (ended(json!({"id": REQUEST, "status": "failed", "error": {"message": "no"}})), "Failed(\"no\")"),
        (ended(json!({"id": REQUEST, "status": "failed", "error": "no"})), "Failed(\"no\")"),
        (ended(json!({"id": REQUEST, "status": "interrupted"})), "Cancelled"),
        (ended(json!({"id": REQUEST, "status": "cancelled"})), "Cancelled"),
        (ended(json!({"id": REQUEST, "status": "new"})), "Untold"),
        (ended(json!({"id": REQUEST})), "Untold"),
        (event("harness/disconnected", json!({})), "AgentDied"),
    ] {
        let mut conversation = conversation();
        assert_eq!(shown(&mut conversation, &[started(REQUEST), event.clone()]), [expected], "{event:?}");
        assert_eq!(shown(&mut conversation, &[event]), [""; 0], "there is one end");
    }
}

#[test]
fn tools_are_told_of_and_remembered_by_what_they_do() {
    let item = |status: &str| json!({"type": "commandExecution", "id": "c", "commandPreview": "ls", "status": status, "turnId": REQUEST});
    let events = [
        started(REQUEST),
        event("item/started", json!({"item": item("inProgress")})),
        event("item/completed", json!({"item": item("completed")})),
        completed(REQUEST, json!({"type": "userMessage", "id": "u", "content": []})),
    ];
    let mut conversation = conversation();
    assert_eq!(shown(&mut conversation, &events), ["*commandExecution", "*commandExecution", "*userMessage"]);
    assert_eq!(conversation.note_of("c"), Some("$ ls"));
    assert_eq!(conversation.note_of("u"), None);
}

#[test]
fn the_result_of_the_own_command_is_taken_and_no_other() {
    let result = |id: &str, state: &str, turn: Value| {
        completed(
            "",
            json!({"type": "commandResult", "id": "x", "commandId": id, "name": "status", "state": state, "turnId": turn}),
        )
    };
    let mut conversation = conversation();
    let events = [
        result("r-2", "completed", Value::Null),
        result(REQUEST, "running", Value::Null),
        result(REQUEST, "completed", REQUEST.into()),
        result(REQUEST, "failed", Value::Null),
    ];
    assert_eq!(shown(&mut conversation, &events), ["/status"]);
}

fn history(active: Option<&str>, turns: Value, last: Option<(&str, &str)>) -> HistoryPage {
    let mut session = json!({"id": SESSION, "activeTurnId": active});
    if let Some((turn, result)) = last {
        (session["lastTurnId"], session["lastTurnResult"]) = (turn.into(), result.into());
    }
    serde_json::from_value(json!({"session": session, "turns": turns})).unwrap()
}

#[test]
fn history_fills_what_the_events_missed() {
    let mut conversation = conversation();
    assert_eq!(shown(&mut conversation, &[started(REQUEST), delta(REQUEST, "a", "Hel")]), ["+Hel"]);
    let of_turn = |id: &str, text: &str| json!({"type": "agentMessage", "id": id, "text": text, "turnId": REQUEST});
    let mut live = of_turn("b", "Next");
    live["status"] = "inProgress".into();
    let foreign = json!({"type": "agentMessage", "id": "f", "text": "foreign", "turnId": "t-0"});
    let items = [foreign, of_turn("a", "Hello"), live];
    let page = history(Some(REQUEST), json!([]), None);
    let show: Vec<String> = conversation.handle_history(&items, &page).into_iter().map(short).collect();
    assert_eq!(show, ["=lo", "+Next"]);
    let rest = [delta(REQUEST, "b", "!"), completed(REQUEST, message("b", "Next!")), delta(REQUEST, "a", "late")];
    assert_eq!(shown(&mut conversation, &rest), ["+!", "="]);
}

#[test]
fn history_tells_how_a_turn_ended() {
    let turn = |status: &str| json!([{"id": REQUEST, "status": status, "items": []}]);
    for (page, expected) in [
        (history(Some(REQUEST), turn("inProgress"), None), vec![]),
        (history(None, turn("inProgress"), None), vec![]),
        (history(None, turn("completed"), None), vec!["Completed"]),
        (history(Some("t-9"), turn("interrupted"), None), vec!["Cancelled"]),
        (history(None, turn("failed"), None), vec!["Failed(\"the agent gave no reason\")"]),
        (history(None, json!([]), Some((REQUEST, "interrupted"))), vec!["Cancelled"]),
        (history(None, json!([]), Some((REQUEST, "completed"))), vec!["Completed"]),
        (history(None, json!([]), Some(("t-9", "completed"))), vec!["Untold"]),
        (history(None, json!([]), None), vec!["Untold"]),
    ] {
        let mut conversation = conversation();
        assert_eq!(shown(&mut conversation, &[started(REQUEST)]), [""; 0]);
        let show: Vec<String> = conversation.handle_history(&[], &page).into_iter().map(short).collect();
        assert_eq!(show, expected, "{page:?}");
    }
}
