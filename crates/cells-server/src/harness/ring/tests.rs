use serde_json::json;

use super::*;

fn ring() -> EventRing {
    EventRing::new([1; 16])
}

fn cursor(ring: &EventRing, after: u64) -> EventCursor {
    EventCursor { after, ..ring.newest() }
}

fn seqs(page: &Page) -> Vec<u64> {
    page.events.iter().map(|event| event.seq).collect()
}

#[test]
fn pages_hold_128_events_and_follow_each_other() {
    let ring = ring();
    for number in 1..=200 {
        assert_eq!(ring.push("turn/started", json!({"number": number})).unwrap(), number);
    }
    let first = ring.page(&cursor(&ring, 0)).unwrap();
    assert_eq!((first.from, first.to, first.events.len()), (0, 128, 128));
    let second = ring.page(&cursor(&ring, first.to)).unwrap();
    assert_eq!(seqs(&second), (129..=200).collect::<Vec<_>>());
    let third = ring.page(&cursor(&ring, 200)).unwrap();
    assert_eq!((third.from, third.to, third.events.len()), (200, 200, 0));
}

#[test]
fn a_cursor_that_cannot_be_continued_says_why() {
    let ring = ring();
    for number in 0..1025 {
        ring.push("turn/started", json!({"number": number})).unwrap();
    }
    let reason = |cursor: &EventCursor| ring.page(cursor).map(|page| page.from).map_err(|gap| gap.reason);
    assert_eq!(reason(&cursor(&ring, 0)), Err(GapReason::Evicted));
    assert_eq!(reason(&cursor(&ring, 1)), Ok(1));
    assert_eq!(reason(&cursor(&ring, 1025)), Ok(1025));
    assert_eq!(reason(&cursor(&ring, 1026)), Err(GapReason::Ahead));
    let foreign = EventCursor { after: 1, event_epoch: EventEpoch::from_bytes([9; 16]) };
    assert_eq!(reason(&foreign), Err(GapReason::Epoch));
    assert_eq!(ring.page(&foreign).unwrap_err().cursor, ring.newest());
}

#[test]
fn eight_mebibytes_of_text_evict_the_oldest() {
    let ring = ring();
    let text = "x".repeat(3 * 1024 * 1024);
    for _ in 0..3 {
        ring.push("item/agentMessage/delta", json!({"delta": text})).unwrap();
    }
    assert_eq!(ring.page(&cursor(&ring, 0)).unwrap_err().reason, GapReason::Evicted);
    assert_eq!(seqs(&ring.page(&cursor(&ring, 1)).unwrap()), [2]);
    assert_eq!(seqs(&ring.page(&cursor(&ring, 2)).unwrap()), [3]);
    let too_large = ring.push("item/agentMessage/delta", json!({"delta": "x".repeat(EVENT_RING_MAX_BYTES)}));
    assert_eq!(too_large, Err(ToolError("EFBIG")));
    assert_eq!(ring.newest().after, 3);
}

#[test]
fn a_page_ends_before_half_a_mebibyte() {
    let ring = ring();
    for _ in 0..10 {
        ring.push("item/agentMessage/delta", json!({"delta": "x".repeat(100_000)})).unwrap();
    }
    let page = ring.page(&cursor(&ring, 0)).unwrap();
    assert_eq!((seqs(&page), page.is_newest), (vec![1, 2, 3, 4, 5], false));
    let page = ring.page(&cursor(&ring, page.to)).unwrap();
    assert_eq!((seqs(&page), page.is_newest), (vec![6, 7, 8, 9, 10], true));
}

#[test]
fn tool_output_has_no_summary_form() {
    let ring = ring();
    let item = json!({"id": "i", "type": "commandExecution", "command": "ls", "aggregatedOutput": "secret"});
    ring.push("item/commandExecution/outputDelta", json!({"delta": "secret"})).unwrap();
    ring.push("item/completed", json!({"threadId": "s", "item": item})).unwrap();
    let events = ring.page(&cursor(&ring, 0)).unwrap().events;
    assert!(events.iter().all(|event| event.message.contains("secret")));
    assert_eq!(events[0].summary, None);
    let summary = events[1].summary.as_deref().unwrap();
    assert!(summary.contains("\"commandPreview\":\"ls\"") && !summary.contains("secret"));
}

#[test]
fn requests_are_complete_as_of_the_end_of_the_page_that_changed_them() {
    let ring = ring();
    let ask = |id: Value| ring.add_request(id, "item/tool/requestUserInput", json!({"threadId": "s-1"})).unwrap();
    ask(json!("7"));
    for _ in 0..127 {
        ring.push("turn/started", json!({})).unwrap();
    }
    ask(json!(7));
    assert!(ring.resolve_request(&json!("7")).is_some());
    let texts = |requests: &[Arc<str>]| requests.iter().map(|text| text.contains("\"id\":7")).collect::<Vec<_>>();

    let first = ring.page(&cursor(&ring, 0)).unwrap();
    assert_eq!((first.to, first.requests_changed, texts(&first.requests)), (128, true, vec![false]));
    let second = ring.page(&cursor(&ring, 128)).unwrap();
    assert_eq!((second.to, second.requests_changed, texts(&second.requests)), (130, true, vec![true]));
    assert!(second.events[1].message.contains("serverRequest/resolved"));
    let last = ring.page(&cursor(&ring, 130)).unwrap();
    assert_eq!((last.requests_changed, texts(&last.requests)), (false, vec![true]));
}

#[test]
fn requests_survive_the_eviction_of_their_event_and_end_once() {
    let ring = ring();
    ring.add_request(json!("ask"), "item/tool/requestUserInput", json!({"threadId": "s-1"})).unwrap();
    for _ in 0..2000 {
        ring.push("turn/started", json!({})).unwrap();
    }
    assert_eq!(ring.page(&ring.newest()).unwrap().requests.len(), 1);
    assert_eq!(ring.request(&json!("ask")).unwrap().method, "item/tool/requestUserInput");
    assert!(ring.resolve_request(&json!("ask")).is_some());
    assert!(ring.resolve_request(&json!("ask")).is_none());
    assert!(ring.page(&ring.newest()).unwrap().requests.is_empty());
}

#[test]
fn at_most_128_requests_are_outstanding_and_their_ids_are_unique() {
    let ring = ring();
    let ask = |id: usize| ring.add_request(json!(id), "item/tool/requestUserInput", json!({}));
    for id in 0..128 {
        ask(id).unwrap();
    }
    assert_eq!(ask(128), Err(ToolError("HARNESS_REQUEST_LIMIT")));
    assert_eq!(ask(5), Err(ToolError("EINVAL")));
    ring.resolve_request(&json!(5));
    ask(5).unwrap();
}

#[test]
fn a_restart_gives_a_new_epoch_and_starts_at_one() {
    let ring = ring();
    let before = ring.newest();
    ring.add_request(json!(1), "item/tool/requestUserInput", json!({})).unwrap();
    ring.restart();
    assert_eq!(ring.page(&before).unwrap_err().reason, GapReason::Epoch);
    assert!(ring.page(&ring.newest()).unwrap().requests.is_empty());
    assert_eq!(ring.push("turn/started", json!({})).unwrap(), 1);
}

#[tokio::test]
async fn a_push_wakes_whoever_waits() {
    let ring = ring();
    let mut changed = ring.changed();
    ring.push("turn/started", json!({})).unwrap();
    changed.changed().await.unwrap();
}
