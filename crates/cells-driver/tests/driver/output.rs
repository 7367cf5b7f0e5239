//! Slash commands, and their output behind a reference.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cells_driver::{
    CommandName, CommandState, ErrorKind, MutationOptions, OperationOptions, Outcome, OutputLoadOptions,
    OutputReadOptions, OutputRef, ProfileId, Result,
};
use cells_testkit::fake_host::{FakeHost, FakeReply, FakeRequest};
use serde_json::{Value, json};

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{EPOCH, harness, host, profile, receipt, sent, session};

/// 200,000 bytes whose SHA-256 is [`SHA256`].
fn body() -> Vec<u8> {
    (0..200_000_u32).map(|n| b'a' + (n % 23) as u8).collect()
}

fn reference() -> OutputRef {
    serde_json::from_value(reference_json()).unwrap()
}

fn reference_json() -> Value {
    json!({"version": 1, "epoch": EPOCH, "requestId": "r-1", "bytes": 200_000, "sha256": SHA256, "mimeType": "text/plain"})
}

fn page(request: &FakeRequest, body: &[u8]) -> Value {
    let arguments = request.arguments();
    let offset = arguments["offset"].as_u64().unwrap() as usize;
    let limit = arguments["limit"].as_u64().unwrap() as usize;
    let end = (offset + limit).min(body.len());
    let mut page = reference_json();
    page["offset"] = json!(offset);
    page["data"] = json!(STANDARD.encode(&body[offset..end]));
    page["nextOffset"] = if end < body.len() { json!(end) } else { Value::Null };
    page
}

/// A node that has the output, with each page changed by `change`.
fn node(change: impl Fn(&mut Value, u64) + Send + 'static) -> FakeHost {
    host(move |request| {
        (request.tool().as_deref() == Some("harness_command_output")).then(|| {
            let mut page = page(request, &body());
            change(&mut page, request.arguments()["offset"].as_u64().unwrap());
            FakeReply::tool(request, &page)
        })
    })
}

fn load(host: &FakeHost, max_bytes: u64) -> Result<Vec<u8>> {
    let options = OutputLoadOptions { max_bytes, ..OutputLoadOptions::default() };
    host.block_on(harness(host).load_command_output(&profile(), &reference(), options))
}

#[test]
fn output_is_loaded_whole_and_verified() {
    let host = node(|_, _| {});
    let progress = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&progress);
    let options = OutputLoadOptions {
        on_progress: Some(Box::new(move |loaded, total| seen.lock().unwrap().push((loaded, total)))),
        ..OutputLoadOptions::default()
    };
    let output = host.block_on(harness(&host).load_command_output(&profile(), &reference(), options)).unwrap();
    assert!(output == body());
    assert_eq!(progress.lock().unwrap().last(), Some(&(200_000, 200_000)));
    let mut offsets: Vec<u64> = sent(&host, "harness_command_output")
        .iter()
        .map(|request| request.arguments()["offset"].as_u64().unwrap())
        .collect();
    offsets.sort_unstable();
    assert_eq!(offsets, [0, 65_536, 131_072, 196_608]);
}

#[test]
fn nothing_of_a_wrong_body_is_handed_out() {
    type Change = Box<dyn Fn(&mut Value, u64) + Send>;
    let cases: Vec<(&str, Change)> = vec![
        (
            "other bytes",
            Box::new(|page, offset| {
                if offset == 65_536 {
                    page["data"] = json!(STANDARD.encode(vec![b'x'; 65_536]));
                }
            }),
        ),
        ("other hash", Box::new(|page, _| page["sha256"] = json!("0".repeat(64)))),
        ("other size", Box::new(|page, _| page["bytes"] = json!(200_001))),
        ("other offset", Box::new(|page, offset| page["offset"] = json!(offset + 1))),
        ("not base64", Box::new(|page, _| page["data"] = json!("§"))),
        (
            "not canonical",
            Box::new(|page, offset| {
                if offset == 196_608 {
                    let data = page["data"].as_str().unwrap().trim_end_matches('=').to_owned();
                    page["data"] = json!(data);
                }
            }),
        ),
        ("empty page", Box::new(|page, _| page["data"] = json!(""))),
        ("next offset goes back", Box::new(|page, _| page["nextOffset"] = json!(0))),
        ("ends too early", Box::new(|page, _| page["nextOffset"] = Value::Null)),
    ];
    for (case, change) in cases {
        let host = node(change);
        let error = load(&host, 200_000).unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Io, "protocol"), "{case}: {error}");
    }
}

#[test]
fn short_pages_make_progress() {
    let host = node(|page, offset| {
        let data = STANDARD.decode(page["data"].as_str().unwrap()).unwrap();
        let half = data.len().div_ceil(2);
        page["data"] = json!(STANDARD.encode(&data[..half]));
        let end = offset + half as u64;
        page["nextOffset"] = if end < 200_000 { json!(end) } else { Value::Null };
    });
    assert!(load(&host, 200_000).unwrap() == body());
}

#[test]
fn budgets_and_failures_of_loading() {
    for (max_bytes, kind) in [(199_999, ErrorKind::TooLarge), (32 * 1024 * 1024 + 1, ErrorKind::Invalid)] {
        let host = node(|_, _| {});
        assert_eq!(load(&host, max_bytes).unwrap_err().kind(), kind);
        assert_eq!(host.requests().len(), 0, "before anything is asked");
    }
    for (code, kind) in [("ENOENT", ErrorKind::NotFound), ("HARNESS_EPOCH_CHANGED", ErrorKind::Conflict)] {
        let host = host(move |request| {
            (request.tool().as_deref() == Some("harness_command_output")).then(|| FakeReply::tool_error(request, code))
        });
        let error = load(&host, 200_000).unwrap_err();
        assert_eq!((error.kind(), error.remote_code(), error.outcome()), (kind, Some(code), None));
    }
}

#[test]
fn one_page_and_its_bounds() {
    let host = node(|_, _| {});
    let harness = harness(&host);
    let read = |offset, limit| {
        let options = OutputReadOptions { offset, limit, operation: OperationOptions::default() };
        host.block_on(harness.read_command_output(&profile(), &reference(), options))
    };
    let page = read(199_990, 65_536).unwrap();
    assert_eq!((page.offset, page.data.as_slice(), page.next_offset), (199_990, &body()[199_990..], None));
    let page = read(5, 3).unwrap();
    assert_eq!((page.data.as_slice(), page.next_offset), (&body()[5..8], Some(8)));
    let n = host.requests().len();
    for (offset, limit) in [(0, 0), (0, 65_537), (200_000, 1)] {
        assert_eq!(read(offset, limit).unwrap_err().kind(), ErrorKind::Invalid, "{offset} {limit}");
    }
    assert_eq!(host.requests().len(), n);
}

fn name() -> CommandName {
    CommandName::new("status").unwrap()
}

/// The receipt of a command, with its result changed by `change`.
fn ran(request: &FakeRequest, change: impl Fn(&mut Value)) -> FakeReply {
    let id = &request.arguments()["requestId"];
    let mut result = json!({"commandId": id, "name": "status", "state": "completed", "turnId": null});
    change(&mut result);
    receipt(request, "committed", &json!({"result": result}))
}

#[test]
fn commands_follow_what_the_profile_announces() {
    let host = host(|request| match request.tool()?.as_str() {
        "harness_commands" => {
            Some(FakeReply::tool(request, &json!({"commands": [{"name": "status", "kind": "action"}]})))
        }
        "harness_command" => Some(ran(request, |result| {
            let mut reference = reference_json();
            reference["requestId"] = result["commandId"].clone();
            result["outputRef"] = reference;
            result["preview"] = json!("ok");
        })),
        _ => None,
    });
    let harness = harness(&host);
    let catalog = host.block_on(harness.commands(&profile(), &session(), OperationOptions::default())).unwrap();
    assert_eq!(catalog.commands[0].name, name());
    let done = host.block_on(harness.command(&profile(), &session(), &name(), "", MutationOptions::default())).unwrap();
    assert_eq!(done.value.state, CommandState::Completed);
    assert_eq!(done.value.output_ref.map(|reference| reference.request_id), Some(done.recovery.request_id));
    assert_eq!(sent(&host, "harness_command")[0].arguments()["outputMode"], json!("reference"));

    let plain = ProfileId::new("plain").unwrap();
    let n = host.requests().len();
    let error = host.block_on(harness.commands(&plain, &session(), OperationOptions::default())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let error =
        host.block_on(harness.command(&plain, &session(), &name(), "", MutationOptions::default())).unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unsupported, Some(Outcome::NotStarted)));
    let error =
        host.block_on(harness.load_command_output(&plain, &reference(), OutputLoadOptions::default())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let unknown = ProfileId::new("unknown").unwrap();
    let error = host.block_on(harness.commands(&unknown, &session(), OperationOptions::default())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(host.requests().len(), n, "nothing is tried");
}

#[test]
fn a_result_that_cannot_be_read_does_not_change_the_outcome() {
    type Change = Box<dyn Fn(&mut Value) + Send>;
    let cases: Vec<(&str, Change)> = vec![
        ("other command", Box::new(|result| result["commandId"] = json!("other"))),
        ("other name", Box::new(|result| result["name"] = json!("stop"))),
        ("unknown state", Box::new(|result| result["state"] = json!("odd"))),
        ("foreign reference", Box::new(|result| result["outputRef"] = reference_json())),
        ("long preview", Box::new(|result| result["preview"] = json!("x".repeat(65_537)))),
        ("no object", Box::new(|result| *result = json!([]))),
    ];
    for (case, change) in cases {
        let host =
            host(move |request| (request.tool().as_deref() == Some("harness_command")).then(|| ran(request, &change)));
        let call = harness(&host);
        let error =
            host.block_on(call.command(&profile(), &session(), &name(), "", MutationOptions::default())).unwrap_err();
        let fields = (error.outcome(), error.reason(), error.kind());
        assert_eq!(fields, (Some(Outcome::Committed), Some("HARNESS_RESULT_INVALID"), ErrorKind::Io), "{case}");
        assert!(error.request_id().is_some());
    }
}

#[test]
fn a_catalog_with_one_wrong_entry_is_refused_whole() {
    let host = host(|request| {
        let commands = json!([{"name": "ok", "kind": "action"}, {"name": "/slash", "kind": "action"}]);
        (request.tool().as_deref() == Some("harness_commands"))
            .then(|| FakeReply::tool(request, &json!({"commands": commands})))
    });
    let error =
        host.block_on(harness(&host).commands(&profile(), &session(), OperationOptions::default())).unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Io, "protocol"));
}

const SHA256: &str = "042dbdb8652ca48996314b841605acdf48e8be29754afad6e1e7755261ccb03f";
