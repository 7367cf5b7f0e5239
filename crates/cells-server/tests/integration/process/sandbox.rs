//! What a command in a sandbox can see and do.

use cells_server::Execution;
use serde_json::json;

use super::support::{ProcessNode, exists, has_sandbox, marked};

#[tokio::test]
async fn a_sandbox_shows_the_mounts_and_the_system_and_nothing_else() {
    if !has_sandbox().await {
        return;
    }
    let node = ProcessNode::start(Execution::Sandbox).await;
    std::fs::create_dir_all(node.node.path("rw/project/inner")).unwrap();
    std::fs::write(node.node.path("rw/secret"), "x").unwrap();
    std::fs::write(node.node.path("ro/reference"), "read me").unwrap();
    let mut start = node.shell("");
    start["cwd"] = json!("/workspace/inner");
    start["mounts"] = json!([
        { "alias": "ro", "path": "", "at": "/workspace/reference", "access": "ro" },
        { "alias": "rw", "path": "project", "at": "/workspace", "access": "rw" },
    ]);
    let own = node.node.path("").display().to_string();
    for (script, expected) in [
        ("pwd", "/workspace/inner\n"),
        ("cat ../reference/reference", "read me"),
        ("echo x > made && cat made", "x\n"),
        ("touch ../reference/no 2>/dev/null || echo refused", "refused\n"),
        ("touch /no /usr/no /etc/no 2>/dev/null || echo refused", "refused\n"),
        ("touch /tmp/here && ls /tmp", "here\n"),
        ("ls /tmp", ""),
        ("ls /home /root /var 2>/dev/null; echo $?", "2\n"),
        (&format!("ls -d {own} 2>/dev/null || echo hidden"), "hidden\n"),
        ("cat ../../secret 2>/dev/null || echo hidden", "hidden\n"),
        ("grep -c : /proc/net/dev", "1\n"),
        ("grep CapEff /proc/self/status", "CapEff:\t0000000000000000\n"),
        ("ls /proc | grep -c '^[0-9]*$' | grep -q '^[1-6]$' && echo few", "few\n"),
        ("for fd in /proc/$$/fd/*; do [ -d $fd ] && readlink $fd; done", ""),
        ("echo $HOME $PATH $LANG", "/tmp /usr/local/bin:/usr/bin:/bin C.UTF-8\n"),
    ] {
        start["requestId"] = json!(super::support::fresh_id());
        start["args"] = json!(["-c", script]);
        let status = node.run(&start).await;
        assert_eq!(
            (status["stdout"].as_str(), &status["state"]),
            (Some(expected), &json!("exited")),
            "{script} {status}"
        );
    }
    assert!(exists(&node, "rw/project/inner/made") && !exists(&node, "ro/no"));

    // What finds the sandbox from outside is on bubblewrap, and not on the command.
    let id = node.begin(&node.shell("env; echo ready; sleep 60")).await;
    node.wait_for(&id, "ready").await;
    assert!(!marked(&node).is_empty());
    node.cancel(&id).await;
    assert!(!node.end(&id).await["stdout"].as_str().unwrap().contains("CELLS_PROCESS"));
    assert_eq!(marked(&node), [].into());
}
