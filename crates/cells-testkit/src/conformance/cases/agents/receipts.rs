//! Profiles, lists, polled events, and receipts (`harness.md` §2–3, §5, `cells-0.4.md` §12).

use serde_json::{Value, json};

use super::{CODE, OUTCOME, SESSION, at, committed, delete, mutate, read, rejected, within_session};
use crate::conformance::{
    case::{Case, Step},
    cases::mcp::tool,
    check::Check,
    declared::Need,
    http::Reply,
};

pub(super) fn reading() -> Vec<Case> {
    let case = |name, steps: Vec<Step>| Case::steps("agents", &[Need::Agent], name, steps);
    vec![
        case(
            "profiles are sorted and have an epoch",
            vec![
                tool("harness_profiles", json!({})).check(Check::Holds("sorted profiles and 64 hex digits", profiles)),
            ],
        ),
        case(
            "the epoch stays for one run of the node",
            vec![tool("harness_profiles", json!({})).json("/result/structuredContent/epoch", "{harness}")],
        ),
        case(
            "a list of sessions is a page",
            vec![
                read("harness_sessions", json!({"limit": 1})).check(Check::Holds("at most one session", |reply| {
                    let page = &reply.json["result"]["structuredContent"];
                    page["sessions"].as_array().is_some_and(|sessions| sessions.len() <= 1)
                        && (page["nextCursor"].is_null() || page["nextCursor"].is_string())
                })),
                read("harness_sessions", json!({"limit": "x", "archived": "x"})).json("/result/isError", false),
            ],
        ),
        case(
            "a session that does not exist is an error",
            vec![
                read("harness_session_info", json!({"sessionId": "no-such-session"}))
                    .check(Check::OneOf(CODE, &["ENOENT", "EACCES", "EINVAL"])),
                read("harness_session_info", json!({})).call_error("EINVAL"),
                read("harness_session_read", json!({"sessionId": "no-such-session"}))
                    .check(Check::OneOf(CODE, &["ENOENT", "EACCES", "EINVAL"])),
            ],
        ),
        case(
            "events can be polled, and a position of another ring is a gap",
            vec![
                read("harness_events", json!({})).check(Check::Holds("a page of events", |reply| {
                    let page = &reply.json["result"]["structuredContent"];
                    page["epoch"].as_str().is_some_and(|epoch| epoch.len() == 32)
                        && page["cursor"].is_u64()
                        && page["events"].as_array().is_some_and(|events| events.len() <= 128)
                        && page["requests"].is_array()
                })),
                read("harness_events", json!({"eventEpoch": "0".repeat(32)}))
                    .json("/result/structuredContent/gap", true),
                read("harness_events", json!({"after": 9_007_199_254_740_991_u64}))
                    .json("/result/structuredContent/gap", true),
            ],
        ),
    ]
}

pub(super) fn receipts() -> Vec<Case> {
    let case = |name, steps: Vec<Step>| Case::steps("agents", &[Need::AgentWrite("delete")], name, steps);
    let create_as = |id: &str| mutate("harness_create", json!({"workspaceId": "{workspace}", "requestId": id}));
    let operation = |id: &str| mutate("harness_operation", json!({"requestId": id}));
    vec![
        case(
            "a new session is owned, idle, listed and empty",
            within_session(vec![
                at("harness_session_info", json!({}))
                    .json("/result/structuredContent/session/owned", true)
                    .json("/result/structuredContent/session/status", "idle")
                    .json("/result/structuredContent/session/archived", false),
                read("harness_sessions", json!({"limit": 100}))
                    .json("/result/structuredContent/sessions/0/id", "{session}"),
                at("harness_session_read", json!({}))
                    .json("/result/structuredContent/turns", json!([]))
                    .json("/result/structuredContent/nextCursor", Value::Null),
            ]),
        ),
        case(
            "a workspace that does not exist makes no session",
            vec![rejected(mutate("harness_create", json!({"workspaceId": "no-such-place"})), &["EACCES", "EINVAL"])],
        ),
        case(
            "a mutation needs the epoch of this run",
            vec![
                read(
                    "harness_create",
                    json!({"workspaceId": "{workspace}", "epoch": "0".repeat(64), "requestId": "{fresh}"}),
                )
                .call_error("HARNESS_EPOCH_CHANGED"),
                read("harness_create", json!({"workspaceId": "{workspace}", "requestId": "{fresh}"}))
                    .call_error("EINVAL"),
            ],
        ),
        case(
            "a request id is 1 to 128 letters, digits, _ and -",
            vec![
                create_as("no id!").call_error("EINVAL"),
                create_as("").call_error("EINVAL"),
                create_as(&"x".repeat(129)).call_error("EINVAL"),
            ],
        ),
        case(
            "the same mutation again gives the same receipt and does nothing",
            vec![
                committed(create_as("{one}")).keep("session", SESSION),
                committed(create_as("{one}")).json(SESSION, "{session}"),
                committed(operation("{one}")).json(SESSION, "{session}"),
                delete(),
            ],
        ),
        case(
            "an id belongs to one mutation",
            vec![
                committed(create_as("{one}")).keep("session", SESSION),
                mutate("harness_create", json!({"workspaceId": "{workspace}", "requestId": "{one}", "more": 1}))
                    .call_error("HARNESS_REQUEST_REUSED"),
                at("harness_delete", json!({"requestId": "{one}"})).call_error("HARNESS_REQUEST_REUSED"),
                delete(),
            ],
        ),
        case(
            "the id of a failed mutation is used, too",
            vec![
                rejected(
                    mutate("harness_create", json!({"workspaceId": "no-such-place", "requestId": "{one}"})),
                    &["EACCES", "EINVAL"],
                ),
                rejected(operation("{one}"), &["EACCES", "EINVAL"]),
                create_as("{one}").call_error("HARNESS_REQUEST_REUSED"),
            ],
        ),
        case(
            "an operation that nobody sent is unknown",
            vec![
                operation("{one}").call_error("ENOENT"),
                read("harness_operation", json!({"epoch": "0".repeat(64), "requestId": "{one}"}))
                    .call_error("HARNESS_EPOCH_CHANGED"),
            ],
        ),
        Case::steps(
            "agents",
            &[Need::AgentWrite("delete"), Need::DurableReceipts],
            "a seal keeps a mutation that has not arrived from ever running",
            vec![
                mutate("harness_seal", json!({"requestId": "{one}"}))
                    .json(OUTCOME, "not-committed")
                    .json(CODE, "ECANCELLED"),
                create_as("{one}").call_error("HARNESS_REQUEST_REUSED"),
                rejected(operation("{one}"), &["ECANCELLED"]),
                committed(create_as("{two}")).keep("session", SESSION),
                mutate("harness_seal", json!({"requestId": "{two}"}))
                    .json(OUTCOME, "committed")
                    .json(SESSION, "{session}"),
                delete(),
            ],
        ),
    ]
}

fn profiles(reply: &Reply) -> bool {
    let found = &reply.json["result"]["structuredContent"];
    let ids: Vec<&str> =
        found["profiles"].as_array().into_iter().flatten().filter_map(|one| one["id"].as_str()).collect();
    let is_hex = |text: &str| {
        text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    ids.is_sorted() && !ids.is_empty() && found["epoch"].as_str().is_some_and(is_hex)
}
