//! Each bound of a reply: the largest that is accepted, and one more.

use cells_protocol::commands::{CommandCatalog, CommandResult};
use cells_protocol::discovery::CellsDescriptor;
use cells_protocol::endpoint::Endpoint;
use cells_protocol::events::Frame;
use cells_protocol::files::{EntriesPage, parse_stat_reply};
use cells_protocol::ids::{CommandName, Epoch, RequestId};
use cells_protocol::json::{Malformed, Object, to_vec};
use cells_protocol::limits::{
    COMMAND_DESCRIPTION_MAX_BYTES, COMMAND_HINT_MAX_BYTES, COMMAND_PREVIEW_MAX_BYTES, COMMANDS_MAX, COMMANDS_MAX_BYTES,
    DISCOVERY_MAX_BYTES, ENTRIES_PAGE_MAX, EVENTS_PER_FRAME_MAX, HEARTBEAT_MAX_MS, HEARTBEAT_MIN_MS, OUTPUT_MAX_BYTES,
    SAFE_INTEGER_MAX,
};
use serde_json::{Value, json};

/// `accepts` must hold at `bound` and not one step beyond it.
fn check(what: &str, bound: u64, beyond: u64, accepts: impl Fn(u64) -> bool) {
    assert!(accepts(bound), "{what} of {bound}");
    assert!(!accepts(beyond), "{what} of {beyond}");
}

fn check_up_to(what: &str, bound: usize, accepts: impl Fn(usize) -> bool) {
    check(what, bound as u64, bound as u64 + 1, |size| accepts(size as usize));
}

#[test]
fn files() {
    let entry = |n: usize| json!({"name": format!("{n:04}"), "stat": {"kind": "file"}});
    let page = |n| json!({"entries": (0..n).map(entry).collect::<Vec<_>>(), "nextCursor": null, "warnings": []});
    check_up_to("entries", ENTRIES_PAGE_MAX, |n| EntriesPage::parse(&to_vec(&page(n))).is_ok());
    let stat = |size: u64| to_vec(&json!({"results": [{"stat": {"kind": "file", "size": size}}]}));
    check("size", SAFE_INTEGER_MAX, SAFE_INTEGER_MAX + 1, |size| parse_stat_reply(&stat(size), 1).is_ok());
}

#[test]
fn discovery() {
    let mcp = Endpoint::parse("http://node/mcp").unwrap();
    let document = |padding: usize| {
        json!({
            "version": 1, "httpEndpoint": "./", "serverId": null, "fileProtocol": "fs-agent-http-v1", "harness": true,
            "padding": "x".repeat(padding),
        })
    };
    let overhead = to_vec(&document(0)).len();
    check_up_to("bytes", DISCOVERY_MAX_BYTES, |size| {
        CellsDescriptor::from_document(&document(size - overhead), &mcp, false).is_ok()
    });
}

fn read_catalog(bytes: &[u8]) -> Result<CommandCatalog, Malformed> {
    CommandCatalog::read(&mut Object::parse("the command catalog", bytes)?)
}

#[test]
fn commands() {
    let catalog = |commands: Vec<Value>| to_vec(&json!({"commands": commands}));
    let command = |n: usize| json!({"name": format!("c{n}"), "kind": "action"});
    check_up_to("commands", COMMANDS_MAX, |n| read_catalog(&catalog((0..n).map(command).collect())).is_ok());
    for (member, bound) in [("description", COMMAND_DESCRIPTION_MAX_BYTES), ("argumentHint", COMMAND_HINT_MAX_BYTES)] {
        check_up_to(member, bound, |size| {
            let mut command = command(0);
            command[member] = "x".repeat(size).into();
            read_catalog(&catalog(vec![command])).is_ok()
        });
    }
    let padded = |padding: usize| to_vec(&json!({"commands": [], "padding": "x".repeat(padding)}));
    let overhead = padded(0).len();
    check_up_to("catalog bytes", COMMANDS_MAX_BYTES, |size| read_catalog(&padded(size - overhead)).is_ok());
    check_up_to("name", 64, |size| CommandName::new("x".repeat(size)).is_ok());

    let (request_id, epoch) = (RequestId::new("r1").unwrap(), Epoch::new("e".repeat(64)).unwrap());
    let name = CommandName::new("status").unwrap();
    let accepts = |member: &str, value: Value| {
        let mut result = json!({"commandId": "r1", "name": "status", "state": "completed", "turnId": null});
        result[member] = value;
        CommandResult::from_receipt(&result, &request_id, &epoch, &name).is_ok()
    };
    check_up_to("preview", COMMAND_PREVIEW_MAX_BYTES, |size| accepts("preview", "x".repeat(size).into()));
    let reference = |bytes: u64| {
        json!({
            "version": 1, "epoch": epoch, "requestId": "r1", "bytes": bytes, "sha256": "0".repeat(64),
            "mimeType": "text/plain",
        })
    };
    check("output", OUTPUT_MAX_BYTES, OUTPUT_MAX_BYTES + 1, |bytes| accepts("outputRef", reference(bytes)));
    check("output", 1, 0, |bytes| accepts("outputRef", reference(bytes)));
}

#[test]
fn events() {
    let ready = |heartbeat_ms: u64| {
        to_vec(&json!({
            "version": 1, "streamId": "0".repeat(32), "heartbeatMs": heartbeat_ms, "serverId": null,
            "harnessEpoch": null, "processEpoch": "",
        }))
    };
    let accepts_heartbeat = |heartbeat_ms| Frame::parse("ready", &ready(heartbeat_ms)).is_ok();
    check("heartbeat", HEARTBEAT_MIN_MS, HEARTBEAT_MIN_MS - 1, accepts_heartbeat);
    check("heartbeat", HEARTBEAT_MAX_MS, HEARTBEAT_MAX_MS + 1, accepts_heartbeat);
    let frame = |from: u64, n: u64| {
        let events: Vec<Value> = (1..=n).map(|n| json!({"seq": from + n, "message": {"method": "m"}})).collect();
        let epoch = "e".repeat(32);
        to_vec(&json!({"topic": "h", "eventEpoch": epoch, "from": from, "to": from + n, "events": events}))
    };
    check_up_to("events", EVENTS_PER_FRAME_MAX, |n| Frame::parse("events", &frame(0, n as u64)).is_ok());
    check("position", SAFE_INTEGER_MAX - 1, SAFE_INTEGER_MAX, |from| Frame::parse("events", &frame(from, 1)).is_ok());
}
