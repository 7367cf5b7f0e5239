//! Search, digests and branches: what is sent, what is refused before, what comes back.

use std::collections::VecDeque;
use std::sync::Mutex;

use cells_driver::{
    BranchOptions, DigestOptions, DigestRevision, Error, ErrorKind, HarnessSearchMode, HarnessSearchQuery, ListOptions,
    OperationOptions, Session,
};
use cells_testkit::fake_host::{FakeHost, FakeReply};
use serde_json::{Value, json};

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{document, harness, host, profile, sent, session};

const SEARCH: &str = "harness_session_search";
const DIGEST: &str = "harness_session_digest";

/// A node that announces `features` and answers calls of `tool` with one of `values` after the other.
fn node(tool: &'static str, features: Value, values: impl Into<Vec<Value>>) -> FakeHost {
    let values = Mutex::new(VecDeque::from(values.into()));
    host(move |request| {
        if request.header("mcp-method") == Some("server/discover") {
            let mut document = document();
            for (name, value) in features.as_object().unwrap() {
                document[name.as_str()] = value.clone();
            }
            return Some(FakeReply::rpc(request, &json!({"_meta": {"itookit/cells": document}})));
        }
        if request.tool().as_deref() != Some(tool) {
            return None;
        }
        Some(match values.lock().unwrap().pop_front() {
            Some(Value::String(code)) => FakeReply::tool_error(request, &code),
            Some(value) => FakeReply::tool(request, &value),
            None => FakeReply::network_error(),
        })
    })
}

fn found() -> Value {
    json!({
        "matches": [
            {"sessionId": "s-1", "title": "Fix build", "summary": "Fix build", "updatedAt": 1_791_458_565},
            {"sessionId": "s-2", "title": "", "summary": "…the build", "updatedAt": null, "turnId": "t-1", "itemId": "i-1"},
        ],
        "truncated": false, "nextCursor": null,
    })
}

fn query(query: &str, mode: HarnessSearchMode) -> HarnessSearchQuery {
    HarnessSearchQuery { query: query.to_owned(), mode, archived: false }
}

fn refused(error: &Error, kind: ErrorKind, host: &FakeHost, tool: &str) {
    assert_eq!((error.kind(), error.outcome()), (kind, None), "{error}");
    assert_eq!(sent(host, tool).len(), 0, "{error}: nothing is sent");
}

#[test]
fn a_search_gives_its_matches() {
    let host = node(SEARCH, json!({}), [found()]);
    let query = HarnessSearchQuery { archived: true, ..query("build", HarnessSearchMode::Content) };
    let result = host.block_on(harness(&host).search(&profile(), &query, OperationOptions::default())).unwrap();
    let mut expected = found();
    expected["matches"][0]["updatedAt"] = json!(1_791_458_565_000_u64);
    assert_eq!(serde_json::to_value(&result).unwrap(), expected);
    let arguments = sent(&host, SEARCH)[0].arguments();
    assert_eq!(arguments, json!({"profileId": "main", "query": "build", "mode": "content", "archived": true}));
    assert_eq!(
        host.requests().iter().filter(|request| request.header("mcp-method") == Some("server/discover")).count(),
        0
    );
}

#[test]
fn words_are_keywords_only_where_a_node_says_so() {
    let many: Vec<String> = (0..17).map(|number| format!("w{number}")).collect();
    let (many, some) = (many.join(" "), many[..16].join(" ") + "  W1\tw2 ");
    let lines = many.replace(' ', "\n");
    for (keywords, query_text, literal) in [
        (true, "fix", Some(false)),
        (false, "fix", Some(false)),
        (true, "fix build", Some(false)),
        (false, "fix build", Some(true)),
        (false, "fix\tbuild", Some(true)),
        (false, "fix\nbuild", Some(false)),
        (true, some.as_str(), Some(false)),
        (true, many.as_str(), None),
        (false, many.as_str(), Some(true)),
        (true, lines.as_str(), Some(false)),
    ] {
        let host = node(SEARCH, json!({"searchKeywords": keywords}), [found()]);
        let query = query(query_text, HarnessSearchMode::Title);
        match host.block_on(harness(&host).search(&profile(), &query, OperationOptions::default())) {
            Ok(result) => {
                assert_eq!(Some(result.literal), literal, "{keywords} {query_text:?}");
                assert_eq!(sent(&host, SEARCH)[0].arguments()["query"], json!(query_text), "it is sent as it is");
            }
            Err(error) => {
                assert_eq!(literal, None, "{keywords} {query_text:?}: {error}");
                refused(&error, ErrorKind::Invalid, &host, SEARCH);
            }
        }
    }
}

#[test]
fn prompts_are_searched_only_where_a_node_says_so() {
    for announced in [json!({}), json!({"searchPrompts": false}), json!({"searchPrompts": true})] {
        let offered = announced == json!({"searchPrompts": true});
        let host = node(SEARCH, announced, [found()]);
        let query = query("build", HarnessSearchMode::Prompt);
        let harness = harness(&host);
        match host.block_on(harness.search(&profile(), &query, OperationOptions::default())) {
            Ok(_) => assert!(offered),
            Err(error) => {
                assert!(!offered);
                refused(&error, ErrorKind::Unsupported, &host, SEARCH);
            }
        }
    }
}

#[test]
fn a_bad_query_is_refused_before_anything_is_sent() {
    for text in ["", " \t\n", "a\0b", &"é".repeat(513)] {
        let host = node(SEARCH, json!({}), [found()]);
        let query = query(text, HarnessSearchMode::Title);
        let error = host.block_on(harness(&host).search(&profile(), &query, OperationOptions::default())).unwrap_err();
        refused(&error, ErrorKind::Invalid, &host, SEARCH);
        assert!(host.requests().is_empty());
    }
    for limit in [0, 101] {
        let host = node("harness_sessions", json!({}), []);
        let options = ListOptions { limit: Some(limit), ..ListOptions::default() };
        let error = host.block_on(harness(&host).list(&profile(), options)).unwrap_err();
        refused(&error, ErrorKind::Invalid, &host, "harness_sessions");
    }
}

#[test]
fn a_search_result_that_breaks_a_rule_is_refused() {
    let one = found()["matches"][0].clone();
    let with = |name: &str, value: Value| {
        let mut result = found();
        result[name] = value;
        result
    };
    for bad in [
        with("matches", json!(vec![one; 101])),
        with("nextCursor", json!("1")),
        with("truncated", json!(null)),
        with("matches", json!([{"sessionId": "", "title": "x", "summary": "x"}])),
        with("matches", json!([{"sessionId": "s-1", "title": "x"}])),
        with("matches", json!({})),
        json!([]),
    ] {
        let host = node(SEARCH, json!({}), [bad]);
        let query = query("build", HarnessSearchMode::Title);
        let error = host.block_on(harness(&host).search(&profile(), &query, OperationOptions::default())).unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Io, "protocol"), "{error}");
    }
}

/// A page of the digest of `s-1`.
fn page(revision: &str, ids: &[&str], next_cursor: Option<&str>) -> Value {
    let entries = ids.iter().map(|id| {
        json!({"id": id, "role": "user", "turnId": "t-1", "timestamp": 1_791_458_565_123_u64, "text": "fix it", "truncated": false})
    });
    json!({
        "version": 1, "sessionId": "s-1", "revision": revision, "title": "Fix build", "createdAt": 1_791_458_500_000_u64,
        "updatedAt": null, "entries": entries.collect::<Vec<_>>(), "omittedUnclassified": 0, "nextCursor": next_cursor,
    })
}

#[test]
fn a_digest_is_read_page_by_page_and_whole() {
    let pages = [page("r1", &["a"], Some("1")), page("r1", &["b", "c"], None)];
    let host = node(DIGEST, json!({}), pages.clone());
    let whole = host.block_on(harness(&host).load_digest(&profile(), &session(), OperationOptions::default())).unwrap();
    assert_eq!(serde_json::to_value(&whole).unwrap(), page("r1", &["a", "b", "c"], None));
    assert!(whole.is_complete());
    let asked: Vec<Value> = sent(&host, DIGEST).iter().map(|request| request.arguments()).collect();
    let first = json!({"profileId": "main", "sessionId": "s-1"});
    let second = json!({"profileId": "main", "sessionId": "s-1", "cursor": "1", "expectedRevision": "r1"});
    assert_eq!(asked, [first, second.clone()]);

    let host = node(DIGEST, json!({}), pages[1..].to_vec());
    let options = DigestOptions {
        cursor: Some("1".to_owned()),
        expected_revision: Some(DigestRevision::new("r1").unwrap()),
        ..DigestOptions::default()
    };
    let read = host.block_on(harness(&host).digest(&profile(), &session(), options)).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), pages[1]);
    assert_eq!(sent(&host, DIGEST)[0].arguments(), second);

    let mut metadata = page("r1", &[], None);
    metadata["omittedUnclassified"] = json!(null);
    let host = node(DIGEST, json!({}), [metadata.clone()]);
    let options = DigestOptions { metadata_only: true, ..DigestOptions::default() };
    let read = host.block_on(harness(&host).digest(&profile(), &session(), options)).unwrap();
    assert_eq!((serde_json::to_value(&read).unwrap(), read.is_complete()), (metadata, false));
    assert_eq!(sent(&host, DIGEST)[0].arguments()["metadataOnly"], json!(true));
}

#[test]
fn digests_that_break_a_rule_are_refused() {
    let first = || page("r1", &["a"], Some("1"));
    let with = |name: &str, value: Value| {
        let mut page = page("r1", &["a"], None);
        page[name] = value;
        page
    };
    let entry = |name: &str, value: Value| {
        let mut page = page("r1", &["a"], None);
        page["entries"][0][name] = value;
        page
    };
    let many: Vec<String> = (0..201).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let large = json!([
        {"id": "a", "role": "user", "turnId": null, "timestamp": null, "text": "x".repeat(262_145), "truncated": false},
    ]);
    let cases: Vec<(Vec<Value>, ErrorKind, &str)> = vec![
        (vec![first(), page("r2", &["b"], None)], ErrorKind::Io, "protocol"),
        (vec![first(), page("r1", &["a"], None)], ErrorKind::Io, "protocol"),
        (vec![first(), page("r1", &["b"], Some("1"))], ErrorKind::Io, "protocol"),
        (vec![first(), json!("HARNESS_DIGEST_CHANGED")], ErrorKind::Conflict, DIGEST),
        (vec![with("sessionId", json!("s-2"))], ErrorKind::Io, "protocol"),
        (vec![with("version", json!(2))], ErrorKind::Io, "protocol"),
        (vec![with("revision", json!("r 1"))], ErrorKind::Io, "protocol"),
        (vec![with("omittedUnclassified", json!(null))], ErrorKind::Io, "protocol"),
        (vec![with("omittedUnclassified", json!(9_007_199_254_740_992_u64))], ErrorKind::Io, "protocol"),
        (vec![page("r1", &["a", "a"], None)], ErrorKind::Io, "protocol"),
        (vec![page("r1", &many, None)], ErrorKind::Io, "protocol"),
        (vec![with("entries", large)], ErrorKind::Io, "protocol"),
        (vec![entry("role", json!("system"))], ErrorKind::Io, "protocol"),
        (vec![entry("truncated", json!("no"))], ErrorKind::Io, "protocol"),
        (vec![entry("id", json!(""))], ErrorKind::Io, "protocol"),
    ];
    for (number, (pages, kind, operation)) in cases.into_iter().enumerate() {
        let n_pages = pages.len();
        let host = node(DIGEST, json!({}), pages);
        let error =
            host.block_on(harness(&host).load_digest(&profile(), &session(), OperationOptions::default())).unwrap_err();
        assert_eq!((error.kind(), error.operation()), (kind, operation), "case {number}: {error}");
        assert_eq!(sent(&host, DIGEST).len(), n_pages, "case {number}");
    }
    let host = node(DIGEST, json!({}), [page("r1", &["a"], None)]);
    let options = DigestOptions { metadata_only: true, ..DigestOptions::default() };
    let error = host.block_on(harness(&host).digest(&profile(), &session(), options)).unwrap_err();
    assert_eq!(error.operation(), "protocol", "entries that nobody asked for");
}

#[test]
fn a_cursor_of_a_digest_needs_its_revision() {
    let cursor = Some("1".to_owned());
    let revision = Some(DigestRevision::new("r1").unwrap());
    for (expected_revision, metadata_only) in [(None, false), (revision, true)] {
        let host = node(DIGEST, json!({}), []);
        let options =
            DigestOptions { cursor: cursor.clone(), expected_revision, metadata_only, ..DigestOptions::default() };
        let error = host.block_on(harness(&host).digest(&profile(), &session(), options)).unwrap_err();
        refused(&error, ErrorKind::Invalid, &host, DIGEST);
    }
}

#[test]
fn what_a_profile_does_not_announce_is_not_asked() {
    let plain = cells_driver::ProfileId::new("plain").unwrap();
    let host = node(SEARCH, json!({}), []);
    let harness = harness(&host);
    let query = query("x", HarnessSearchMode::Title);
    let options = OperationOptions::default;
    refused(
        &host.block_on(harness.search(&plain, &query, options())).unwrap_err(),
        ErrorKind::Unsupported,
        &host,
        SEARCH,
    );
    let error = host.block_on(harness.digest(&plain, &session(), DigestOptions::default())).unwrap_err();
    refused(&error, ErrorKind::Unsupported, &host, DIGEST);
    let error = host.block_on(harness.load_digest(&plain, &session(), options())).unwrap_err();
    refused(&error, ErrorKind::Unsupported, &host, DIGEST);
}

fn listed(id: &str, parent: Option<&str>) -> Value {
    json!({"id": id, "title": id, "resumable": true, "archived": false, "activeTurnId": null, "parentSessionId": parent})
}

fn me() -> Session {
    serde_json::from_value::<cells_driver::SessionInfo>(json!({"session": listed("me", Some("mother"))}))
        .unwrap()
        .session
}

#[test]
fn branches_are_the_family_across_pages() {
    let pages = [
        json!({"sessions": [listed("niece", Some("sister")), listed("stranger", None)], "nextCursor": "1"}),
        json!({"sessions": [listed("me", Some("mother")), listed("sister", Some("mother"))], "nextCursor": null}),
        json!({"sessions": [listed("mother", None)], "nextCursor": null}),
    ];
    for (archived, family) in [(false, vec!["niece", "me", "sister"]), (true, vec!["niece", "me", "sister", "mother"])]
    {
        let host = node("harness_sessions", json!({}), pages.clone());
        let options = BranchOptions { archived, ..BranchOptions::default() };
        let found = host.block_on(harness(&host).conversation_branches(&profile(), &me(), options)).unwrap();
        assert_eq!(found.iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), family);
        let asked: Vec<Value> = sent(&host, "harness_sessions").iter().map(|request| request.arguments()).collect();
        assert_eq!(asked[0], json!({"profileId": "main", "limit": 100}));
        assert_eq!(asked[1], json!({"profileId": "main", "limit": 100, "cursor": "1"}));
        assert_eq!(asked.len(), if archived { 3 } else { 2 });
    }
}

#[test]
fn branches_of_a_list_without_end_are_refused() {
    let page = |cursor: &str| json!({"sessions": [listed("me", None)], "nextCursor": cursor});
    let host = node("harness_sessions", json!({}), [page("1"), page("2"), page("1"), page("3")]);
    let error =
        host.block_on(harness(&host).conversation_branches(&profile(), &me(), BranchOptions::default())).unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Io, "protocol"), "{error}");
    assert_eq!(sent(&host, "harness_sessions").len(), 3);
}
