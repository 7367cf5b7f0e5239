//! Grants that change from one start to the next, and what everyone may read.

use super::*;

/// A request to every door that needs a name, all with this pin. None of them would be refused for anything else.
fn named_doors(node: &TestNode, who: Who, pin: Option<(&str, &str)>, id: &str) -> Vec<(&'static str, RequestBuilder)> {
    let authorization = who.authorization();
    let ask = |method, route: &str, body: Option<&Value>| {
        let request = node.ask(authorization.as_deref(), method, route, body).header("x-operation-id", id);
        match pin {
            None => request,
            Some((principal, revision)) => {
                request.header("x-fsagent-principal", principal).header("x-fsagent-principal-revision", revision)
            }
        }
    };
    let mkdir = json!({"action": "mkdir", "path": format!("made-{id}")});
    let seq = json!({"path": format!("{id}.seq"), "changes": [], "expectedRevision": null});
    let start = json!({"serverId": "x", "epoch": "x", "requestId": "x", "command": "x", "args": [], "cwd": "/w",
        "timeoutMs": 1, "mounts": [{"alias": "rw", "path": "", "at": "/w", "access": "rw"}]});
    let create = ask(Method::PUT, &format!("/v1/fs/rw/content?path=put-{id}"), None).header("if-none-match", "*");
    vec![
        ("PUT", create.body("x")),
        ("mutate", ask(Method::POST, "/v1/fs/rw/mutate", Some(&mkdir))),
        ("seq transaction", ask(Method::POST, "/v1/fs/rw/seq/transaction", Some(&seq))),
        ("seq snapshot", ask(Method::POST, "/v1/fs/rw/seq/snapshot", Some(&json!({"path": "none.seq"})))),
        ("operation", ask(Method::GET, &format!("/v1/fs/rw/operations/{id}"), None)),
        ("cancel", ask(Method::POST, &format!("/v1/fs/rw/operations/{id}/cancel"), None)),
        ("process start", ask(Method::POST, "/v1/processes", Some(&start))),
        ("process query", ask(Method::GET, "/v1/processes/x/x", None)),
        ("process cancel", ask(Method::POST, "/v1/processes/x/x/cancel", None)),
        ("process output", ask(Method::GET, "/v1/processes/x/x/output?stdout=0&stderr=0", None)),
    ]
}

#[tokio::test]
async fn a_stale_pin_is_refused_at_every_door_that_changes_something() {
    let node = TestNode::start_with(shared).await;
    let current = node.document(Who::Owner).await["authorization"]["revision"].as_str().unwrap().to_owned();
    let before: Vec<_> = std::fs::read_dir(node.path("rw")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    for (pin, expected) in [
        (("owner", "0123456789abcdef0123456789abcdef"), refusal(409, "AUTHORIZATION_CHANGED")),
        (("writer", current.as_str()), refusal(409, "AUTHORIZATION_CHANGED")),
        (("owner", "not an id"), refusal(400, "EINVAL")),
    ] {
        for (door, request) in named_doors(&node, Who::Owner, Some(pin), "pinned") {
            assert_eq!(Reply::of(request).await.refusal(), expected, "{door} {pin:?}");
        }
    }
    let after: Vec<_> = std::fs::read_dir(node.path("rw")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(after, before);
    // Nothing was claimed: the id is free for the first of these.
    let (_, create) = named_doors(&node, Who::Owner, Some(("owner", &current)), "pinned").remove(0);
    assert_eq!(Reply::of(create).await.status, 200);
}

#[tokio::test]
async fn a_caller_whose_grants_changed_settles_its_writes_and_does_what_is_granted_from_then_on() {
    let directory = tempfile::tempdir().unwrap();
    let start = async |change: &dyn Fn(&mut PrincipalConfig)| {
        let mut config = config(&directory);
        shared(&mut config);
        change(&mut config.principals[0]);
        TestNode::start_with(|own| *own = config).await
    };
    let rw = || Alias::new("rw").unwrap();
    let revision = async |node: &TestNode| {
        node.document(Who::Writer).await["authorization"]["revision"].as_str().unwrap().to_owned()
    };
    let node = start(&|_| {}).await;
    let first = revision(&node).await;
    let (_, create) = named_doors(&node, Who::Writer, Some(("writer", &first)), "one").remove(0);
    let receipt = Reply::of(create).await.json();
    assert_eq!(receipt["outcome"], "committed");
    node.stop().await.unwrap();

    // Less than before.
    let node = start(&|writer| writer.exports = [(rw(), Access::Ro)].into()).await;
    let second = revision(&node).await;
    assert_ne!(first, second);
    for (door, request) in named_doors(&node, Who::Writer, Some(("writer", &first)), "one") {
        assert_eq!(Reply::of(request).await.refusal(), refusal(409, "AUTHORIZATION_CHANGED"), "{door}");
    }
    for (door, request) in named_doors(&node, Who::Writer, Some(("writer", &second)), "one") {
        let reply = Reply::of(request).await;
        match door {
            "operation" | "cancel" => assert_eq!(reply.json(), receipt, "{door}"),
            "seq snapshot" => assert_eq!(reply.status, 200),
            "PUT" | "mutate" | "seq transaction" => assert_eq!(reply.refusal(), refusal(403, "EROFS"), "{door}"),
            _ => assert_eq!(reply.refusal(), refusal(403, "EACCES"), "{door}"),
        }
    }
    node.stop().await.unwrap();

    // Nothing of the export: not even that there was a write.
    let node = start(&|writer| writer.exports.clear()).await;
    for (door, request) in named_doors(&node, Who::Writer, None, "one") {
        assert_eq!(Reply::of(request).await.refusal(), refusal(403, "EACCES"), "{door}");
    }
    node.stop().await.unwrap();

    // As at first: the pin of then is the pin of now, and the id is still used.
    let node = start(&|_| {}).await;
    assert_eq!(revision(&node).await, first);
    let mut doors = named_doors(&node, Who::Writer, Some(("writer", &first)), "one");
    assert_eq!(Reply::of(doors.remove(0).1).await.refusal(), refusal(409, "OPERATION_ID_REUSED"));
    node.stop().await.unwrap();
}

#[tokio::test]
async fn everyone_reads_the_seqfiles_of_a_public_export_and_only_the_granted_change_them() {
    let node = TestNode::start_with(shared).await;
    let ask = |who: Who, route: &str, body: &Value| {
        let request = node.ask(who.authorization().as_deref(), Method::POST, route, Some(body));
        request.header("x-operation-id", format!("{who:?}"))
    };
    let change = |revision: &Value| json!({"path": "a.seq", "expectedRevision": revision, "changes": [{"action": "set", "key": "k", "value": 1}]});
    let made = Reply::of(ask(Who::Owner, "/v1/fs/open/seq/transaction", &change(&Value::Null))).await.json();
    let revision = &made["result"]["revision"];
    for who in Who::ALL {
        let found = Reply::of(ask(who, "/v1/fs/open/seq/snapshot", &json!({"path": "a.seq"}))).await.json();
        assert_eq!(found, json!({"revision": revision, "entries": [{"key": "k", "value": 1}]}), "{who:?}");
        let expected = match who {
            Who::Owner => continue,
            Who::Nobody => refusal(403, "EACCES"),
            Who::Writer | Who::Reader | Who::Hashed => refusal(403, "EROFS"),
        };
        let reply = Reply::of(ask(who, "/v1/fs/open/seq/transaction", &change(revision))).await;
        assert_eq!(reply.refusal(), expected, "{who:?}");
    }
    for (alias, who, expected) in [
        ("rw", Who::Nobody, refusal(403, "EACCES")),
        ("ro", Who::Nobody, refusal(403, "EACCES")),
        ("rw", Who::Hashed, refusal(403, "EACCES")),
    ] {
        let reply = Reply::of(ask(who, &format!("/v1/fs/{alias}/seq/snapshot"), &json!({"path": "a.seq"}))).await;
        assert_eq!(reply.refusal(), expected, "{alias} {who:?}");
    }
}
