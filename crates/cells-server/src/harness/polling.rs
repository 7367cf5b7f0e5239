//! `harness_events`: events for clients that ask again and again (`harness.md` §5.1). Newer ones read the event stream.

use cells_protocol::events::EventCursor;
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::plugin::ToolError;
use super::ring::EventRing;

/// The events after `after`, at most 128, and every outstanding request. Where the position cannot be continued, `gap` is true
/// and the events are the oldest ones that are kept.
pub(super) fn poll(ring: &EventRing, arguments: &Arguments) -> Result<Value, ToolError> {
    let newest = ring.newest();
    let asked = arguments.get("eventEpoch").and_then(Value::as_str);
    let other_epoch = asked.is_some_and(|epoch| epoch != newest.event_epoch.as_str());
    let after = arguments.get("after").and_then(Value::as_u64).unwrap_or_default();
    let cursor = EventCursor { after, event_epoch: newest.event_epoch };
    let (page, gap) = match ring.page(&cursor) {
        Ok(page) if !other_epoch => (page, false),
        // Between the two calls the oldest may have made room for newer ones, or the ring may have started anew.
        Ok(_) | Err(_) => {
            (ring.page(&ring.oldest()).or_else(|gap| ring.page(&gap.cursor)).map_err(|_| ToolError("EIO"))?, true)
        }
    };
    let summary = arguments.get("toolDetail").and_then(Value::as_str) == Some("summary");
    let mut events = Vec::with_capacity(page.events.len());
    for event in &page.events {
        let message = if summary { event.summary.as_deref() } else { Some(&*event.message) };
        if let Some(message) = message {
            events.push(json!({"seq": event.seq, "timestamp": event.timestamp, "message": value(message)?}));
        }
    }
    let requests: Vec<Value> = ring.outstanding().iter().map(|request| value(request)).collect::<Result<_, _>>()?;
    Ok(json!({"epoch": page.epoch, "cursor": page.to, "gap": gap, "events": events, "requests": requests}))
}

fn value(text: &str) -> Result<Value, ToolError> {
    serde_json::from_str(text).map_err(|_| ToolError("EIO"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(ring: &EventRing, arguments: Value) -> Value {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        poll(ring, &arguments).unwrap()
    }

    fn seqs(reply: &Value) -> Vec<u64> {
        reply["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect()
    }

    #[test]
    fn events_are_polled_in_pages_and_a_gap_starts_at_the_oldest() {
        let ring = EventRing::new([7; 16]);
        assert_eq!(ask(&ring, json!({}))["events"], json!([]));
        ring.add_request(json!("ask-1"), "item/tool/requestUserInput", json!({"threadId": "s"})).unwrap();
        for number in 2..=1025 {
            ring.push("turn/started", json!({"number": number})).unwrap();
        }
        let epoch = ring.newest().event_epoch.to_string();
        // 1,025 events: the first is gone, its request is not.
        let reply = ask(&ring, json!({}));
        assert_eq!((&reply["gap"], &reply["cursor"], seqs(&reply)[0]), (&json!(true), &json!(129), 2));
        assert_eq!((&reply["epoch"], &reply["requests"][0]["id"]), (&json!(epoch), &json!("ask-1")));
        for (arguments, gap, first, cursor) in [
            (json!({"after": 1, "eventEpoch": epoch}), false, Some(2), 129),
            (json!({"after": 1000}), false, Some(1001), 1025),
            (json!({"after": 1025, "eventEpoch": epoch}), false, None, 1025),
            (json!({"after": 1026}), true, Some(2), 129),
            (json!({"after": 1000, "eventEpoch": "0".repeat(32)}), true, Some(2), 129),
            (json!({"after": -1}), true, Some(2), 129),
            (json!({"after": "1000"}), true, Some(2), 129),
        ] {
            let reply = ask(&ring, arguments.clone());
            let seen = (reply["gap"].as_bool().unwrap(), seqs(&reply).first().copied(), &reply["cursor"]);
            assert_eq!(seen, (gap, first, &json!(cursor)), "{arguments}");
        }
    }

    #[test]
    fn summary_leaves_out_what_tools_print_and_moves_on() {
        let ring = EventRing::new([7; 16]);
        ring.push("item/commandExecution/outputDelta", json!({"delta": "x"})).unwrap();
        let reply = ask(&ring, json!({"toolDetail": "summary"}));
        assert_eq!((&reply["events"], &reply["cursor"]), (&json!([]), &json!(1)));
        assert_eq!(seqs(&ask(&ring, json!({}))), [1]);
    }
}
