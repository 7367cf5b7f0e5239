//! Agents: sessions, receipts, management, search, models, metrics (`harness.md` §2–6, `cells-0.4.md` §3–8, §12).

use serde_json::{Value, json};

use super::mcp::tool;
use crate::conformance::{
    case::{Case, Step, post},
    check::Check,
    declared::Need,
    http::Reply,
};

pub(super) fn cases() -> Vec<Case> {
    [reading(), receipts(), managing(), talking(), streaming()].into_iter().flatten().collect()
}

const OUTCOME: &str = "/result/structuredContent/outcome";
const CODE: &str = "/result/structuredContent/code";
const SESSION: &str = "/result/structuredContent/result/session/id";

/// A read of the profile.
fn read(name: &str, mut arguments: Value) -> Step {
    arguments["profileId"] = "{profile}".into();
    tool(name, arguments)
}

/// A mutation with a fresh request id.
fn mutate(name: &str, mut arguments: Value) -> Step {
    arguments["epoch"] = "{harness}".into();
    if arguments.get("requestId").is_none() {
        arguments["requestId"] = "{fresh}".into();
    }
    read(name, arguments)
}

fn committed(step: Step) -> Step {
    step.status(&[200]).json("/result/isError", false).json(OUTCOME, "committed")
}

fn rejected(step: Step, codes: &'static [&'static str]) -> Step {
    step.status(&[200]).json("/result/isError", false).json(OUTCOME, "not-committed").check(Check::OneOf(CODE, codes))
}

/// Makes the session `{session}`.
fn create() -> Step {
    committed(mutate("harness_create", json!({"workspaceId": "{workspace}"}))).keep("session", SESSION)
}

fn at(name: &str, more: Value) -> Step {
    let mut arguments = json!({"sessionId": "{session}"});
    for (name, value) in more.as_object().into_iter().flatten() {
        arguments[name.as_str()] = value.clone();
    }
    if name.starts_with("harness_session_")
        || matches!(name, "harness_usage" | "harness_metrics" | "harness_models" | "harness_commands")
    {
        read(name, arguments)
    } else {
        mutate(name, arguments)
    }
}

/// Runs a turn to its end.
fn run(prompt: &str) -> [Step; 2] {
    [
        committed(at("harness_turn", json!({"prompt": prompt})))
            .keep("turn", "/result/structuredContent/result/turnId"),
        at("harness_session_info", json!({})).while_value("/result/structuredContent/session/status", "active"),
    ]
}

fn delete() -> Step {
    committed(at("harness_delete", json!({}))).json("/result/structuredContent/result/deletedSessionIds/0", "{session}")
}

/// The steps, with a session before and its deletion after them.
fn within_session(steps: Vec<Step>) -> Vec<Step> {
    std::iter::once(create()).chain(steps).chain([delete()]).collect()
}

fn reading() -> Vec<Case> {
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

fn receipts() -> Vec<Case> {
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

fn managing() -> Vec<Case> {
    let case = |can: &'static [Need], name, steps: Vec<Step>| Case::steps("agents", can, name, steps);
    const FORK: &[Need] = &[Need::AgentWrite("delete"), Need::AgentWrite("fork")];
    const RENAME: &[Need] = &[Need::AgentWrite("delete"), Need::AgentWrite("rename")];
    const ARCHIVE: &[Need] = &[Need::AgentWrite("delete"), Need::AgentWrite("archive"), Need::AgentWrite("unarchive")];
    const SEARCH: &[Need] = &[Need::AgentWrite("delete"), Need::AgentWrite("search"), Need::AgentWrite("rename")];
    vec![
        case(
            FORK,
            "a fork is another session that knows where it comes from",
            within_session(vec![
                committed(at("harness_fork", json!({"name": "branch"})))
                    .json("/result/structuredContent/result/session/parentSessionId", "{session}")
                    .json("/result/structuredContent/result/session/branchName", "branch")
                    .json("/result/structuredContent/result/session/owned", true)
                    .keep("fork", SESSION),
                committed(mutate("harness_delete", json!({"sessionId": "{fork}"}))),
            ]),
        ),
        case(
            FORK,
            "a fork that cannot be named is one all the same",
            within_session(vec![
                committed(at("harness_fork", json!({"name": "  "})))
                    .json("/result/structuredContent/result/session/parentSessionId", "{session}")
                    .keep("fork", SESSION),
                committed(mutate("harness_delete", json!({"sessionId": "{fork}"}))),
            ]),
        ),
        case(
            RENAME,
            "a name is trimmed and stays",
            within_session(vec![
                committed(at("harness_rename", json!({"name": "  <i>one</i> "})))
                    .json("/result/structuredContent/result/session/title", "<i>one</i>"),
                at("harness_session_info", json!({})).json("/result/structuredContent/session/title", "<i>one</i>"),
            ]),
        ),
        case(
            RENAME,
            "a name is 1 to 512 bytes without control characters",
            within_session(vec![
                rejected(at("harness_rename", json!({"name": " "})), &["EINVAL"]),
                rejected(at("harness_rename", json!({"name": "a\nb"})), &["EINVAL"]),
                rejected(at("harness_rename", json!({"name": "x".repeat(513)})), &["EINVAL"]),
                committed(at("harness_rename", json!({"name": "x".repeat(512)}))),
            ]),
        ),
        case(
            ARCHIVE,
            "an archived session is released, and listed only among the archived",
            vec![
                create(),
                committed(at("harness_archive", json!({})))
                    .json("/result/structuredContent/result/session/archived", true)
                    .json("/result/structuredContent/result/session/owned", false),
                read("harness_sessions", json!({"archived": true, "limit": 1}))
                    .json("/result/structuredContent/sessions/0/id", "{session}"),
                rejected(
                    at("harness_turn", json!({"prompt": "x"})),
                    &["HARNESS_SESSION_NOT_OWNED", "HARNESS_NOT_OWNED"],
                ),
                delete(),
            ],
        ),
        case(
            ARCHIVE,
            "taking a session out of the archive takes no control of it",
            vec![
                create(),
                committed(at("harness_archive", json!({}))),
                committed(at("harness_unarchive", json!({})))
                    .json("/result/structuredContent/result/session/archived", false)
                    .json("/result/structuredContent/result/session/owned", false),
                rejected(
                    at("harness_turn", json!({"prompt": "x"})),
                    &["HARNESS_SESSION_NOT_OWNED", "HARNESS_NOT_OWNED"],
                ),
                rejected(at("harness_delete", json!({})), &["EBUSY", "HARNESS_SESSION_NOT_OWNED"]),
                committed(at("harness_resume", json!({}))).json("/result/structuredContent/result/session/owned", true),
                delete(),
            ],
        ),
        case(
            &[Need::AgentWrite("delete")],
            "a deleted session is gone, and its receipt is not",
            vec![
                create(),
                delete(),
                at("harness_session_info", json!({})).check(Check::OneOf(CODE, &["ENOENT", "EACCES"])),
                rejected(at("harness_delete", json!({})), &["ENOENT", "EACCES"]),
            ],
        ),
        case(
            SEARCH,
            "titles are found in any case",
            within_session(vec![
                committed(at("harness_rename", json!({"name": "Needle {one}"}))),
                read("harness_session_search", json!({"query": "NEEDLE {one}", "mode": "title"}))
                    .json("/result/structuredContent/matches/0/sessionId", "{session}")
                    .json("/result/structuredContent/truncated", false)
                    .json("/result/structuredContent/nextCursor", Value::Null),
                read("harness_session_search", json!({"query": "{two}", "mode": "title"}))
                    .json("/result/structuredContent/matches", json!([])),
            ]),
        ),
        case(
            SEARCH,
            "a query is not blank, at most 1024 bytes, without NUL, and has a mode",
            vec![
                read("harness_session_search", json!({"query": " ", "mode": "title"})).call_error("EINVAL"),
                read("harness_session_search", json!({"query": "x".repeat(1025), "mode": "title"}))
                    .call_error("EINVAL"),
                read("harness_session_search", json!({"query": "a\u{0}", "mode": "title"})).call_error("EINVAL"),
                read("harness_session_search", json!({"query": "a", "mode": "path"})).call_error("EINVAL"),
                read("harness_session_search", json!({"query": "a"})).call_error("EINVAL"),
            ],
        ),
    ]
}

fn talking() -> Vec<Case> {
    let case = |can: &'static [Need], name, steps: Vec<Step>| Case::steps("agents", can, name, steps);
    const TURN: &[Need] = &[Need::AgentWrite("delete"), Need::Scripted];
    const PROMPTS: &[Need] = &[Need::AgentWrite("search"), Need::Scripted];
    let said = |steps: Vec<Step>| within_session(run("say badger {one}").into_iter().chain(steps).collect());
    vec![
        case(
            TURN,
            "a turn stands in the history with its prompt, its answer and its end",
            said(vec![
                at("harness_session_read", json!({"toolDetail": "summary"}))
                    .json("/result/structuredContent/turns/0/id", "{turn}")
                    .json("/result/structuredContent/turns/0/status", "completed")
                    .json("/result/structuredContent/turns/0/items/0/content/0/text", "say badger {one}")
                    .json("/result/structuredContent/turns/0/items/0/contentItemKinds", json!(["prompt"]))
                    .json("/result/structuredContent/turns/0/items/1/text", "badger {one}")
                    .json("/result/structuredContent/session/lastTurnResult", "completed")
                    .json("/result/structuredContent/session/lastTurnId", "{turn}"),
            ]),
        ),
        case(
            TURN,
            "a turn proves the request that started it",
            said(vec![at("harness_session_read", json!({})).check(Check::Holds("valid evidence", evidence))]),
        ),
        case(
            TURN,
            "the first page has an event cursor, and later ones have none",
            said(vec![
                at("harness_session_read", json!({})).check(Check::Holds("an event cursor", |reply| {
                    let cursor = &reply.json["result"]["structuredContent"]["eventCursor"];
                    cursor["after"].is_u64() && cursor["eventEpoch"].as_str().is_some_and(|epoch| epoch.len() == 32)
                })),
                at("harness_session_read", json!({"cursor": "x"})).call_error("EINVAL"),
                at("harness_session_read", json!({"cursor": "999999999999"})).call_error("EINVAL"),
            ]),
        ),
        case(
            TURN,
            "a prompt is 1 to 131072 bytes",
            within_session(vec![
                rejected(at("harness_turn", json!({"prompt": ""})), &["EINVAL"]),
                rejected(at("harness_turn", json!({})), &["EINVAL"]),
                rejected(at("harness_turn", json!({"prompt": "x".repeat(131_073)})), &["EINVAL"]),
            ]),
        ),
        case(
            TURN,
            "one turn runs at a time and ends by an interrupt",
            within_session(vec![
                committed(at("harness_turn", json!({"prompt": "wait"})))
                    .keep("turn", "/result/structuredContent/result/turnId"),
                rejected(at("harness_turn", json!({"prompt": "say x"})), &["EBUSY"]),
                rejected(at("harness_delete", json!({})), &["EBUSY"]),
                rejected(at("harness_interrupt", json!({"turnId": "other"})), &["HARNESS_TURN_NOT_ACTIVE", "EINVAL"]),
                committed(at("harness_interrupt", json!({"turnId": "{turn}"}))),
                at("harness_session_info", json!({})).while_value("/result/structuredContent/session/status", "active"),
                at("harness_session_info", json!({}))
                    .json("/result/structuredContent/session/lastTurnResult", "cancelled"),
                rejected(at("harness_interrupt", json!({"turnId": "{turn}"})), &["HARNESS_TURN_NOT_ACTIVE", "EINVAL"]),
            ]),
        ),
        case(
            TURN,
            "a request that nobody made is not answered",
            vec![
                rejected(
                    mutate("harness_respond", json!({"nativeRequestId": "none", "response": {"decision": "accept"}})),
                    &["ENOENT", "EINVAL"],
                ),
                rejected(
                    mutate("harness_respond", json!({"nativeRequestId": "none", "response": "yes"})),
                    &["EINVAL", "ENOENT"],
                ),
            ],
        ),
        case(
            PROMPTS,
            "messages and prompts are found, prompts only where they were typed",
            said(vec![
                read("harness_session_search", json!({"query": "BADGER {one}", "mode": "content"}))
                    .check(Check::Holds("two hits", |reply| hits(reply) == 2))
                    .json("/result/structuredContent/matches/0/sessionId", "{session}")
                    .json("/result/structuredContent/matches/0/turnId", "{turn}"),
                read("harness_session_search", json!({"query": "{one} badger", "mode": "prompt"}))
                    .check(Check::Holds("one hit", |reply| hits(reply) == 1)),
            ]),
        ),
        case(
            &[Need::AgentWrite("attachments"), Need::Scripted],
            "attachments follow their rules",
            within_session(vec![
                rejected(
                    at(
                        "harness_turn",
                        json!({"prompt": "say x", "attachments": [{"kind": "text", "name": "a/b", "content": "x"}]}),
                    ),
                    &["EINVAL"],
                ),
                rejected(
                    at(
                        "harness_turn",
                        json!({"prompt": "say x", "attachments": [{"kind": "text", "name": "a", "content": "x".repeat(65_537)}]}),
                    ),
                    &["EINVAL"],
                ),
                rejected(
                    at(
                        "harness_turn",
                        json!({"prompt": "say x", "attachments": [{"kind": "image", "name": "a", "mimeType": "image/png", "content": "data:image/png;base64,AAAA"}]}),
                    ),
                    &["EINVAL"],
                ),
                rejected(
                    at(
                        "harness_turn",
                        json!({"prompt": "say x", "attachments": vec![json!({"kind": "text", "name": "a", "content": "x"}); 6]}),
                    ),
                    &["EINVAL"],
                ),
                committed(at(
                    "harness_turn",
                    json!({"prompt": "say x", "attachments": [{"kind": "text", "name": "a", "content": "x"}]}),
                )),
                at("harness_session_info", json!({})).while_value("/result/structuredContent/session/status", "active"),
                at("harness_session_read", json!({}))
                    .json("/result/structuredContent/turns/0/items/0/contentItemKinds", json!(["prompt", "attachment"]))
                    .check(Check::Absent("/result/structuredContent/turns/0/submissionEvidence")),
            ]),
        ),
        case(
            &[Need::AgentWrite("models"), Need::Scripted],
            "a model is one of the catalog, and is used from then on",
            within_session(vec![
                read("harness_models", json!({})).json("/result/structuredContent/current", Value::Null),
                at("harness_models", json!({}))
                    .check(Check::Holds("a valid catalog", models))
                    .keep("model", "/result/structuredContent/models/1/id"),
                at("harness_turn", json!({"prompt": "say x", "selection": {"modelId": "no-such-model"}}))
                    .call_error("HARNESS_SELECTION_INVALID"),
                committed(at("harness_turn", json!({"prompt": "say x", "selection": {"modelId": "{model}"}}))),
                at("harness_session_info", json!({})).while_value("/result/structuredContent/session/status", "active"),
                at("harness_models", json!({})).json("/result/structuredContent/current/modelId", "{model}"),
            ]),
        ),
        case(
            &[Need::AgentWrite("usage"), Need::Scripted],
            "the sums of tokens hold",
            said(vec![at("harness_usage", json!({})).check(Check::Holds("sums", usage))]),
        ),
        case(
            &[Need::AgentWrite("metrics"), Need::Scripted],
            "metrics are those of the session",
            said(vec![
                at("harness_metrics", json!({}))
                    .json("/result/structuredContent/metrics/version", 1)
                    .json("/result/structuredContent/metrics/sessionId", "{session}"),
            ]),
        ),
        case(
            &[Need::AgentWrite("sessionDigest"), Need::Scripted],
            "a digest holds prompts and answers of one revision",
            said(vec![
                at("harness_session_digest", json!({}))
                    .json("/result/structuredContent/entries/0/role", "user")
                    .json("/result/structuredContent/entries/1/text", "badger {one}")
                    .json("/result/structuredContent/omittedUnclassified", 0)
                    .keep("revision", "/result/structuredContent/revision"),
                at("harness_session_digest", json!({"metadataOnly": true}))
                    .json("/result/structuredContent/entries", json!([]))
                    .json("/result/structuredContent/omittedUnclassified", Value::Null),
                at("harness_session_digest", json!({"cursor": "1"})).call_error("EINVAL"),
                at("harness_session_digest", json!({"expectedRevision": "other"})).call_error("HARNESS_DIGEST_CHANGED"),
                at("harness_session_digest", json!({"expectedRevision": "{revision}"}))
                    .json("/result/structuredContent/revision", "{revision}"),
            ]),
        ),
        case(
            &[Need::AgentWrite("steer"), Need::Scripted],
            "only a running turn takes a message",
            within_session(vec![
                rejected(at("harness_steer", json!({"turnId": "none", "prompt": "x"})), &["HARNESS_TURN_NOT_ACTIVE"]),
                committed(at("harness_turn", json!({"prompt": "listen"})))
                    .keep("turn", "/result/structuredContent/result/turnId"),
                rejected(at("harness_steer", json!({"turnId": "none", "prompt": "x"})), &["HARNESS_TURN_NOT_ACTIVE"]),
                rejected(at("harness_steer", json!({"turnId": "{turn}", "prompt": ""})), &["EINVAL"]),
                committed(at("harness_steer", json!({"turnId": "{turn}", "prompt": "go"})))
                    .json("/result/structuredContent/result/targetTurnId", "{turn}"),
                at("harness_session_info", json!({})).while_value("/result/structuredContent/session/status", "active"),
            ]),
        ),
        case(
            &[Need::AgentWrite("slashCommands"), Need::Scripted],
            "commands are those of the catalog, and their result names them",
            within_session(vec![
                at("harness_commands", json!({})).check(Check::Holds("unique names and kinds", catalog)),
                rejected(
                    at("harness_command", json!({"name": "no-such-command", "args": ""})),
                    &["HARNESS_COMMAND_UNKNOWN"],
                ),
                committed(at("harness_command", json!({"name": "echo", "args": "a  b", "requestId": "{one}"})))
                    .json("/result/structuredContent/result/commandId", "{one}")
                    .json("/result/structuredContent/result/state", "completed")
                    .json("/result/structuredContent/result/turnId", Value::Null)
                    .json("/result/structuredContent/result/output", "a  b"),
            ]),
        ),
        case(
            &[Need::AgentWrite("commandOutputs"), Need::Scripted],
            "output is kept behind a reference and read in pages",
            within_session(vec![
                committed(at(
                    "harness_command",
                    json!({"name": "echo", "args": "abcdef", "outputMode": "reference", "requestId": "{one}"}),
                ))
                .json("/result/structuredContent/result/outputRef/bytes", 6)
                .json("/result/structuredContent/result/outputRef/requestId", "{one}"),
                page("{one}", 0, 4)
                    .json("/result/structuredContent/data", "YWJjZA==")
                    .json("/result/structuredContent/nextOffset", 4),
                page("{one}", 4, 65_536)
                    .json("/result/structuredContent/data", "ZWY=")
                    .json("/result/structuredContent/nextOffset", Value::Null),
                page("{one}", 7, 1).call_error("EINVAL"),
                page("{one}", 0, 0).call_error("EINVAL"),
                page("{two}", 0, 1).call_error("ENOENT"),
            ]),
        ),
        case(
            &[Need::AgentWrite("executionRecovery"), Need::Scripted],
            "a session that this node runs is not detached",
            within_session(vec![
                committed(at("harness_turn", json!({"prompt": "wait"})))
                    .keep("turn", "/result/structuredContent/result/turnId"),
                at("harness_session_info", json!({}))
                    .json("/result/structuredContent/session/executionRecovery/state", "running")
                    .json("/result/structuredContent/session/executionRecovery/turnId", "{turn}"),
                committed(at("harness_interrupt", json!({"turnId": "{turn}"}))),
                at("harness_session_info", json!({}))
                    .while_value("/result/structuredContent/session/status", "active")
                    .check(Check::Differs(
                        "/result/structuredContent/session/executionRecovery/state",
                        json!("detached"),
                    )),
            ]),
        ),
    ]
}

fn streaming() -> Vec<Case> {
    let case = |name, steps: Vec<Step>| Case::steps("events", &[Need::Events], name, steps);
    let stream = |version: u64, topics: Value| {
        post("/v1/events", json!({"version": version, "clientId": "conformance", "topics": topics}))
    };
    let topic = |id: &str| json!({"id": id, "kind": "harness", "profileId": "{profile}"});
    vec![
        case("another version is ECAPABILITY", vec![stream(2, json!([topic("a")])).refused(&[422], "ECAPABILITY")]),
        case(
            "1 to 128 topics have different ids",
            vec![
                stream(1, json!([])).refused(&[400], "EINVAL"),
                stream(1, json!([topic("a"), topic("a")])).refused(&[400], "EINVAL"),
                stream(1, json!((0..129).map(|number| topic(&format!("t{number}"))).collect::<Vec<_>>()))
                    .refused(&[400], "EINVAL"),
                stream(1, json!([topic("no id!")])).refused(&[400], "EINVAL"),
            ],
        ),
        case(
            "a body of another kind is refused",
            vec![
                stream(1, json!([topic("a")])).bytes("{").status(&[400]),
                stream(1, json!([topic("a")])).header("content-type", "text/plain").status(&[415]),
                stream(1, json!([topic("a")])).bytes(vec![b' '; 64 * 1024 + 1]).status(&[413]),
            ],
        ),
        case(
            "a wrong credential opens no stream",
            vec![
                stream(1, json!([topic("a")]))
                    .anonymous()
                    .header("authorization", "Bearer no-secret-of-this-node-0000")
                    .refused(&[401], "EACCES"),
            ],
        ),
    ]
}

fn page(id: &str, offset: u64, limit: u64) -> Step {
    mutate("harness_command_output", json!({"requestId": id, "offset": offset, "limit": limit}))
}

fn hits(reply: &Reply) -> usize {
    reply.json["result"]["structuredContent"]["matches"].as_array().map_or(0, Vec::len)
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

fn evidence(reply: &Reply) -> bool {
    let turn = &reply.json["result"]["structuredContent"]["turns"][0];
    let evidence = &turn["submissionEvidence"];
    let (start, end) = (evidence["startSequence"].as_u64(), evidence["endSequence"].as_u64());
    evidence["version"] == 1
        && evidence["requestId"] == turn["id"]
        && evidence["promptSha256"].as_str().is_some_and(|hash| hash.len() == 64)
        && start.zip(end).is_some_and(|(start, end)| start >= 1 && start < end)
}

fn models(reply: &Reply) -> bool {
    let catalog = &reply.json["result"]["structuredContent"];
    let models = catalog["models"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut ids: Vec<&str> = models.iter().filter_map(|model| model["id"].as_str()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    count == models.len()
        && ids.len() == count
        && count > 1
        && ids.contains(&catalog["current"]["modelId"].as_str().unwrap_or_default())
}

fn usage(reply: &Reply) -> bool {
    let usage = &reply.json["result"]["structuredContent"]["usage"];
    let entries = usage["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    let sum = |name: &str| entries.iter().map(|entry| entry[name].as_u64().unwrap_or(u64::MAX / 128)).sum::<u64>();
    let names = ["inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens", "reasoningTokens"];
    let totals = &usage["totals"];
    let total: u64 = names.iter().take(4).filter_map(|name| totals[*name].as_u64()).sum();
    !entries.is_empty() && names.iter().all(|name| totals[*name] == sum(name)) && totals["totalTokens"] == total
}

fn catalog(reply: &Reply) -> bool {
    let commands =
        reply.json["result"]["structuredContent"]["commands"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut names: Vec<&str> = commands.iter().filter_map(|command| command["name"].as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.len() == commands.len()
        && commands.iter().all(|command| command["kind"] == "prompt" || command["kind"] == "action")
}
