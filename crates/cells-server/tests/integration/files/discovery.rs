//! `files-http.md` §3.

use cells_protocol::capabilities::{Exports, ServerCapabilities};
use cells_protocol::ids::ServerId;
use cells_server::{Execution, ServeConfig};
use serde_json::json;

use crate::support::{Reply, TestNode};

#[tokio::test]
async fn capabilities_describe_the_node() {
    let change = |config: &mut ServeConfig| {
        config.server_id = Some(ServerId::new("desk-1").unwrap());
        config.execution = Execution::Off;
    };
    let node = TestNode::start_with(change).await;
    let reply = Reply::of(node.get("/v1/capabilities")).await;
    let mut document = reply.json();
    let epoch = document["processEpoch"].take();
    let epoch = epoch.as_str().unwrap();
    assert!(epoch.len() == 64 && epoch.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{epoch}");
    assert_eq!(
        document,
        json!({
            "version": 1,
            "serverId": "desk-1",
            "processEpoch": null,
            "files": { "read": true, "write": true, "seq": { "version": 1, "sqlite": true, "transactionScope": "file" }, "receipts": { "version": 1, "durable": true } },
            "sync": { "push": false, "protocolVersion": null, "discovery": null },
            "process": { "exec": false },
            "terminal": { "pty": false },
            "harness": { "enabled": true, "protocolVersion": "2026-07-28", "endpoint": "/mcp" },
            "executionModel": "none",
            "workspaceConsistency": "none",
            "readOnlyEnforcement": "none",
            "pathModel": "none",
        })
    );
    ServerCapabilities::parse(&reply.body).unwrap();

    let other = TestNode::start().await;
    let other_epoch = Reply::of(other.get("/v1/capabilities")).await.json()["processEpoch"].take();
    assert_ne!(other_epoch, epoch, "new at every start");
}

#[tokio::test]
async fn writing_is_announced_only_with_a_writable_export() {
    let read_only = |config: &mut ServeConfig| config.exports.retain(|export| export.alias.as_str() == "ro");
    let node = TestNode::start_with(read_only).await;
    let document = Reply::of(node.get("/v1/capabilities")).await.json();
    assert_eq!(
        document["files"],
        json!({ "read": true, "write": false, "seq": { "version": 1, "sqlite": true, "transactionScope": "file" }, "receipts": { "version": 1, "durable": true } })
    );
}

#[tokio::test]
async fn exports_are_sorted_and_hide_where_they_are() {
    let node = TestNode::start().await;
    let reply = Reply::of(node.get("/v1/exports")).await;
    assert_eq!(
        reply.json(),
        json!({ "version": 1, "exports": [
            { "alias": "ro", "access": "ro", "nameSemantics": "source", "strongRevision": false },
            { "alias": "rw", "access": "rw", "nameSemantics": "source", "strongRevision": true },
        ]})
    );
    Exports::parse(&reply.body).unwrap();
}
