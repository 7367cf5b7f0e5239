//! Forks, names, archive, deletion and search (`harness.md` §6).

use serde_json::{Value, json};

use super::{CODE, SESSION, at, committed, create, delete, mutate, read, rejected, within_session};
use crate::conformance::{
    case::{Case, Step},
    check::Check,
    declared::Need,
};

pub(super) fn managing() -> Vec<Case> {
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
