//! Agents: what every case of them uses.

mod events;
mod receipts;
mod sessions;
mod turns;

use serde_json::{Value, json};

use super::mcp::tool;
use crate::conformance::{
    case::{Case, Step},
    check::Check,
};

/// The cases of agents and their events.
pub(super) fn cases() -> Vec<Case> {
    [receipts::reading(), receipts::receipts(), sessions::managing(), turns::talking(), events::streaming()]
        .into_iter()
        .flatten()
        .collect()
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

fn at(name: &str, more: impl Into<Value>) -> Step {
    let mut arguments = json!({"sessionId": "{session}"});
    for (name, value) in more.into().as_object().into_iter().flatten() {
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
