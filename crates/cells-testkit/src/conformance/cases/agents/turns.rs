//! Turns and what belongs to them: history, attachments, models, usage, digest, commands (`cells-0.4.md` §3–7).

use serde_json::{Value, json};

use super::{at, committed, mutate, read, rejected, run, within_session};
use crate::conformance::{
    case::{Case, Step},
    check::Check,
    declared::Need,
    http::Reply,
};

pub(super) fn talking() -> Vec<Case> {
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

fn page(id: &str, offset: u64, limit: u64) -> Step {
    mutate("harness_command_output", json!({"requestId": id, "offset": offset, "limit": limit}))
}

fn hits(reply: &Reply) -> usize {
    reply.json["result"]["structuredContent"]["matches"].as_array().map_or(0, Vec::len)
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
