//! The tools as `tools/list` shows them.

use std::sync::Arc;

use cells_protocol::discovery::CAPABILITY_TOOLS;
use cells_protocol::limits::{
    FORK_NAME_MAX_CHARS, NATIVE_ID_MAX_BYTES, OUTPUT_PAGE_MAX_BYTES, PROMPT_MAX_BYTES, SEARCH_QUERY_MAX_BYTES,
    SESSION_NAME_MAX_BYTES,
};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::harness::tools::{TOOLS, Tool as HarnessTool};

/// Every tool, in the order of the list.
pub(super) fn listed() -> Vec<Tool> {
    let capability = |name: &&'static str| {
        let schema = schema_of(&[], &[], |_| Value::Null);
        listing(name, "Describes this node: what it offers, and where.", schema, true)
    };
    let harness = |tool: &HarnessTool| {
        let schema = schema_of(tool.required, tool.optional, |property| property_of(tool.name, property));
        listing(tool.name, tool.description, schema, tool.kind.is_read_only())
    };
    CAPABILITY_TOOLS.iter().map(capability).chain(TOOLS.iter().map(harness)).collect()
}

fn listing(name: &'static str, description: &'static str, schema: Map<String, Value>, read_only: bool) -> Tool {
    let annotations = ToolAnnotations::new().read_only(read_only).open_world(true);
    Tool::new(name, description, Arc::new(schema)).with_annotations(annotations)
}

fn schema_of(required: &[&str], optional: &[&str], property: impl Fn(&str) -> Value) -> Map<String, Value> {
    let names = required.iter().chain(optional);
    let properties: Map<String, Value> = names.map(|name| ((*name).to_owned(), property(name))).collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.into());
    schema.insert("required".to_owned(), required.into());
    schema
}

/// The schema of one argument. Unknown names stay open, so that a new argument is never refused by a client.
fn property_of(tool: &str, name: &str) -> Value {
    const ID: &str = "^[A-Za-z0-9_-]{1,128}$";
    let native_id =
        |what: &str| json!({"type": "string", "minLength": 1, "maxLength": NATIVE_ID_MAX_BYTES, "description": what});
    match (tool, name) {
        (_, "profileId") => json!({"type": "string", "pattern": ID, "description": "An agent, from harness_profiles."}),
        (_, "epoch") => {
            json!({"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "The epoch of harness_profiles in which the mutation is or was sent."})
        }
        (_, "requestId") => {
            json!({"type": "string", "pattern": ID, "description": "Identity of the mutation: random, made by the caller, never used again."})
        }
        (_, "workspaceId") => json!({"type": "string", "pattern": ID, "description": "A workspace of the agent."}),
        (_, "sessionId") => native_id("A session of the agent."),
        (_, "turnId") => native_id("The running turn."),
        (_, "prompt") => json!({"type": "string", "minLength": 1, "maxLength": PROMPT_MAX_BYTES}),
        ("harness_command", "name") => {
            json!({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_:.-]{0,63}$", "description": "A command of harness_commands, without the slash."})
        }
        (_, "args") => {
            json!({"type": "string", "maxLength": PROMPT_MAX_BYTES, "description": "The text after the name; may be empty."})
        }
        ("harness_rename", "name") => {
            json!({"type": "string", "minLength": 1, "maxLength": SESSION_NAME_MAX_BYTES, "description": "The new name, without control characters."})
        }
        ("harness_fork", "name") => {
            json!({"type": "string", "maxLength": FORK_NAME_MAX_CHARS, "description": "Name of the copy; one that cannot be used is left out."})
        }
        (_, "query") => {
            json!({"type": "string", "minLength": 1, "maxLength": SEARCH_QUERY_MAX_BYTES, "description": "At most 16 words, or several lines that are found as they stand."})
        }
        (_, "mode") => json!({"type": "string", "enum": ["title", "content", "prompt"]}),
        (_, "expectedRevision") => {
            json!({"type": "string", "pattern": ID, "description": "The revision of the page before; a cursor needs it."})
        }
        (_, "metadataOnly") => json!({"type": "boolean", "description": "Read no history."}),
        ("harness_session_search", "archived") => {
            json!({"type": "boolean", "description": "Search archived sessions, and only them."})
        }
        (_, "archived") => json!({"type": "boolean", "description": "List archived sessions, and only them."}),
        (_, "cursor") => json!({"type": "string", "description": "The nextCursor of the page before."}),
        ("harness_command_output", "limit") => {
            json!({"type": "integer", "minimum": 1, "maximum": OUTPUT_PAGE_MAX_BYTES, "description": "Bytes of the page."})
        }
        (_, "limit") => json!({"type": "integer", "minimum": 1, "maximum": 100}),
        (_, "after") => {
            json!({"type": "integer", "minimum": 0, "description": "The cursor of the page before; default 0."})
        }
        (_, "eventEpoch") => {
            json!({"type": "string", "pattern": "^[0-9a-f]{32}$", "description": "The epoch of the page before."})
        }
        (_, "offset") => json!({"type": "integer", "minimum": 0, "description": "First byte of the page."}),
        (_, "toolDetail") => {
            json!({"type": "string", "enum": ["summary"], "description": "Leave out what tools printed."})
        }
        (_, "outputMode") => {
            json!({"type": "string", "enum": ["reference"], "description": "Keep the output on the node and give a preview."})
        }
        (_, "selection") => json!({
            "type": "object",
            "properties": {"modelId": {"type": "string"}, "reasoningEffort": {"type": "string"}},
            "required": ["modelId"],
            "description": "A model of harness_models.",
        }),
        (_, "nativeRequestId") => {
            json!({"type": ["string", "integer"], "description": "The id of the agent's request, exactly as it came."})
        }
        (_, "response") => json!({"type": "object", "description": "For example {\"decision\":\"accept\"}."}),
        (_, "attachments") => json!({"type": "array", "maxItems": 5, "items": {
            "type": "object",
            "properties": {
                "kind": {"type": "string", "enum": ["text", "image"]},
                "name": {"type": "string", "minLength": 1, "maxLength": 256},
                "content": {"type": "string", "maxLength": 524_288},
                "mimeType": {"type": "string", "enum": ["image/png", "image/jpeg", "image/webp"]},
            },
            "required": ["kind", "name", "content"],
        }}),
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_stand_in_the_order_of_the_specification() {
        let tools = listed();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        let expected = [
            "cells_capabilities",
            "piagent_capabilities",
            "fsagent_capabilities",
            "harness_profiles",
            "harness_sessions",
            "harness_session_read",
            "harness_session_info",
            "harness_session_search",
            "harness_rename",
            "harness_archive",
            "harness_delete",
            "harness_unarchive",
            "harness_fork",
            "harness_events",
            "harness_operation",
            "harness_create",
            "harness_resume",
            "harness_turn",
            "harness_interrupt",
            "harness_respond",
            "harness_models",
            "harness_commands",
            "harness_command",
            "harness_command_output",
            "harness_steer",
            "harness_usage",
            "harness_metrics",
            "harness_session_digest",
            "harness_seal",
        ];
        assert_eq!(names, expected);
        let read_only: Vec<&str> = tools
            .iter()
            .filter(|tool| tool.annotations.as_ref().unwrap().read_only_hint == Some(true))
            .map(|tool| tool.name.as_ref())
            .collect();
        let mut reads = expected[..8].to_vec();
        reads.extend([
            "harness_events",
            "harness_operation",
            "harness_models",
            "harness_commands",
            "harness_command_output",
            "harness_usage",
            "harness_metrics",
            "harness_session_digest",
        ]);
        assert_eq!(read_only, reads);
    }

    #[test]
    fn every_argument_has_a_schema() {
        for tool in listed() {
            let schema = Value::Object((*tool.input_schema).clone());
            assert_eq!(schema["type"], "object", "{}", tool.name);
            for (name, property) in schema["properties"].as_object().unwrap() {
                assert!(property.get("type").is_some(), "{} {name}", tool.name);
            }
            for name in schema["required"].as_array().unwrap() {
                assert!(schema["properties"].get(name.as_str().unwrap()).is_some(), "{} {name}", tool.name);
            }
        }
    }
}
