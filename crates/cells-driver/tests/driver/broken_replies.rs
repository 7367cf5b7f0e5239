//! Replies that were broken anywhere: an error or a value, never a panic, never a second request.

use cells_driver::{ErrorKind, MutationOptions, OperationOptions, Outcome};
use cells_testkit::fake_host::{FakeReply, FakeRequest};
use cells_testkit::fixtures::Mutator;
use serde_json::{Value, json};

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{files, harness, host, profile, profiles, sent, session};

/// The broken reply to a tool, as JSON or as an event stream.
fn reply(request: &FakeRequest, value: &Value, is_stream: bool, seed: u64) -> FakeReply {
    let result = json!({"resultType": "complete", "isError": false, "structuredContent": value, "content": []});
    let message = json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": result}).to_string();
    let broken = Mutator::new(seed).mutate(message.as_bytes());
    if is_stream {
        let text = [b"event: message\ndata: ", broken.as_slice(), b"\n\n"].concat();
        FakeReply::bytes(200, text).header("content-type", "text/event-stream")
    } else {
        FakeReply::bytes(200, broken).header("content-type", "application/json")
    }
}

#[test]
fn a_mutation_keeps_its_identity() {
    for seed in 0..600 {
        let host = host(move |request| {
            let id = request.arguments()["requestId"].clone();
            let receipt = json!({"outcome": "committed", "requestId": id, "result": {"turnId": "t-9"}});
            (request.tool().as_deref() == Some("harness_turn")).then(|| reply(request, &receipt, seed % 2 == 0, seed))
        });
        let result = host.block_on(harness(&host).turn(&profile(), &session(), "do it", MutationOptions::default()));
        let calls = sent(&host, "harness_turn");
        assert_eq!(calls.len(), 1, "seed {seed}");
        let id = calls[0].arguments()["requestId"].clone();
        match result {
            Ok(committed) => assert_eq!(json!(committed.recovery.request_id), id, "seed {seed}"),
            Err(error) => {
                // A reply that turned into a refusal is believed; nothing else settles the outcome.
                let is_refusal = error.operation() == "harness_turn";
                let may_have_happened = matches!(error.outcome(), Some(Outcome::Unknown | Outcome::Committed));
                assert!(may_have_happened || is_refusal, "seed {seed}: {error}");
                assert_eq!(json!(error.request_id()), id, "seed {seed}");
            }
        }
    }
}

#[test]
fn a_read_is_a_value_or_an_error_that_names_it() {
    for seed in 0..600 {
        let host = host(move |request| {
            (request.tool().as_deref() == Some("harness_profiles"))
                .then(|| reply(request, &profiles(), seed % 2 == 0, seed))
        });
        if let Err(error) = host.block_on(harness(&host).profiles(OperationOptions::default())) {
            assert!(error.to_string().contains("harness_profiles"), "seed {seed}: {error}");
        }
        assert_eq!(sent(&host, "harness_profiles").len(), 1, "seed {seed}");
    }
}

#[test]
fn files_are_never_missing_by_accident() {
    let stat = json!({"results": [{"stat": {"kind": "file", "size": 3, "modifiedAt": 1, "createdAt": 1}}]}).to_string();
    let entries = json!({"entries": [], "nextCursor": null, "warnings": []}).to_string();
    for seed in 0..600 {
        let (stat, entries) = (stat.clone(), entries.clone());
        let host = host(move |request| {
            let body = if request.path().ends_with("/stat") { &stat } else { &entries };
            let broken = || FakeReply::bytes(200, Mutator::new(seed).mutate(body.as_bytes()));
            request.path().starts_with("/v1/fs").then(broken)
        });
        let files = files(&host);
        for error in [
            host.block_on(files.stat("a", OperationOptions::default())).err(),
            host.block_on(files.list("", None, OperationOptions::default())).err(),
        ] {
            assert_ne!(error.map(|error| error.kind()), Some(ErrorKind::NotFound), "seed {seed}");
        }
    }
}
