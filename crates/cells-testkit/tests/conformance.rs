//! The conformance list against the local node and against the old node.

#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that cannot be")]

use std::{fs, future};

use cells_server::{Credential, Node, Secret, ServeConfig};
use cells_testkit::{
    conformance::{Sum, Target, run},
    fault_proxy::{Fault, FaultProxy, Plan, Rule},
    old_node::{OldCredential, OldExport, OldNode, OldNodeOptions},
};
use tempfile::TempDir;
use tokio::sync::oneshot;

const KEY: &str = "a-key-that-only-tests-know";

/// The list against the node at `url`: the sum and every line.
async fn judge(url: &str, username: Option<&str>, alias: Option<&str>) -> (Sum, Vec<String>) {
    let target = Target {
        url: url.to_owned(),
        username: username.map(str::to_owned),
        secret: KEY.to_owned(),
        alias: alias.map(str::to_owned),
    };
    let mut lines = Vec::new();
    let sum = run(&target, |line| lines.push(line.to_owned()), future::pending()).await.unwrap();
    (sum, lines)
}

fn skipped(lines: &[String]) -> Vec<&str> {
    lines.iter().filter(|line| line.starts_with("skipped")).map(String::as_str).collect()
}

/// Whether nothing was left out for another reason.
fn skipped_for(lines: &[String], reasons: &[&str]) -> bool {
    skipped(lines).iter().all(|line| reasons.iter().any(|reason| line.ends_with(reason)))
}

fn failed(lines: &[String]) -> Vec<&str> {
    lines.iter().filter(|line| line.starts_with("failed")).map(String::as_str).collect()
}

/// Directories `work` and `library`.
fn directories() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for name in ["work", "library"] {
        fs::create_dir(root.path().join(name)).unwrap();
        fs::write(root.path().join(name).join("mine"), "stays").unwrap();
    }
    root
}

/// The list leaves what it found, and nothing else.
fn assert_untouched(root: &TempDir) {
    for name in ["work", "library"] {
        let left: Vec<_> =
            fs::read_dir(root.path().join(name)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["mine"], "{name}");
        assert_eq!(fs::read(root.path().join(name).join("mine")).unwrap(), b"stays");
    }
}

async fn old_node(root: &TempDir, change: impl FnOnce(&mut OldNodeOptions)) -> OldNode {
    let export = |alias: &str, writable| OldExport { alias: alias.into(), path: root.path().join(alias), writable };
    let exports = [export("work", true), export("library", false)];
    let mut options = OldNodeOptions::new(OldCredential::Token { token: KEY.into() }, exports);
    change(&mut options);
    OldNode::start(options).await.unwrap()
}

#[tokio::test]
async fn the_old_node_passes_all_that_it_declares() {
    let root = directories();
    let node = old_node(&root, |_| {}).await;
    let (sum, lines) = judge(&node.endpoint(), None, Some("work")).await;
    assert_eq!(failed(&lines), [""; 0]);
    assert!(sum.passed >= 100, "{sum}");
    let reasons = ["no live output (process.output)", "no MCP endpoint", "no agent"];
    assert!(skipped_for(&lines, &reasons), "{lines:#?}");
    assert_untouched(&root);
}

#[tokio::test]
async fn a_still_older_node_is_judged_by_its_files() {
    let root = directories();
    let password = OldCredential::Password { username: "me".into(), password: KEY.into() };
    let node = old_node(&root, |options| {
        options.capabilities = false;
        options.credential = password;
    })
    .await;
    let (sum, lines) = judge(&node.endpoint(), Some("me"), Some("work")).await;
    assert_eq!(failed(&lines), [""; 0]);
    assert!(sum.passed >= 60, "{sum}");
    assert!(skipped(&lines).iter().any(|line| line.ends_with("the node has no /v1/capabilities")), "{lines:#?}");
    assert_untouched(&root);
}

#[tokio::test]
async fn the_local_node_passes_all_that_it_declares() {
    let root = directories();
    fs::create_dir(root.path().join("state")).unwrap();
    let path = |name: &str| root.path().join(name).display().to_string();
    let config = ServeConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        state: Some(root.path().join("state")),
        exports: vec![
            format!("work={}:rw", path("work")).parse().unwrap(),
            format!("library={}", path("library")).parse().unwrap(),
        ],
        credential: Credential::ApiKey(Some(Secret::new(KEY))),
        ..ServeConfig::default()
    };
    let node = Node::bind(config).await.unwrap();
    let endpoint = node.endpoint().to_owned();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(node.run(async {
        let _ = stopped.await;
    }));
    let (sum, lines) = judge(&endpoint, None, Some("work")).await;
    assert_eq!(failed(&lines), [""; 0]);
    assert_eq!(skipped(&lines), [""; 0]);
    assert!(sum.passed >= 180, "{sum}");
    assert_untouched(&root);
    drop(stop);
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn without_an_alias_nothing_is_changed() {
    let root = directories();
    let node = old_node(&root, |_| {}).await;
    let (sum, lines) = judge(&node.endpoint(), None, None).await;
    assert_eq!(failed(&lines), [""; 0]);
    assert!(sum.passed >= 20, "{sum}");
    assert!(skipped_for(&lines, &["no alias given", "no MCP endpoint", "no agent"]), "{lines:#?}");
    assert_untouched(&root);
}

#[tokio::test]
async fn a_node_that_answers_wrongly_fails_and_nothing_is_left() {
    let root = directories();
    let node = old_node(&root, |_| {}).await;
    let proxy = FaultProxy::start(node.address()).await.unwrap();
    let wrong = |method: &str, path: &str, fault| Rule { method: Some(method.into()), ..Rule::path(path, fault) };
    proxy.set_plan(Plan::new([
        wrong("GET", "/v1/fs/work/content", Fault::Corrupt { at: 0, xor: 1 }),
        wrong("POST", "/v1/fs/work/seq/transaction", Fault::Truncate { at: 9 }),
    ]));
    let (sum, lines) = judge(&proxy.url(), None, Some("work")).await;
    let failed = failed(&lines);
    for name in ["a range gives its bytes", "create-only refuses what exists", "values are any JSON"] {
        assert!(failed.iter().any(|line| line.contains(name)), "{name}: {failed:#?}");
    }
    assert!(sum.failed < sum.passed && sum.failed == failed.len(), "{sum}");
    assert_untouched(&root);
}

#[tokio::test]
async fn a_node_that_cannot_be_judged_is_one_line() {
    let root = directories();
    let node = old_node(&root, |_| {}).await;
    let ask = |url: String, secret: &str, alias: Option<&str>| {
        let target = Target { url, username: None, secret: secret.into(), alias: alias.map(str::to_owned) };
        async move { run(&target, |_| {}, future::pending()).await.unwrap_err() }
    };
    assert_eq!(ask(node.endpoint(), "another", None).await, "the node refuses the credential (401)");
    assert_eq!(ask(node.endpoint(), KEY, Some("x")).await, "the node serves no export `x` to this caller");
    assert!(ask("nowhere".into(), KEY, None).await.starts_with("the URL of the node is none"));
    assert!(ask("http://127.0.0.1:1".into(), KEY, None).await.starts_with("the node: "));
}

#[tokio::test]
async fn an_interrupt_leaves_nothing_behind() {
    let root = directories();
    let node = old_node(&root, |_| {}).await;
    let target = Target { url: node.endpoint(), username: None, secret: KEY.into(), alias: Some("work".into()) };
    let (stop, stopped) = oneshot::channel::<()>();
    let mut stop = Some(stop);
    let line = |line: &str| {
        if line.contains("names are any text") {
            drop(stop.take());
        }
    };
    let sum = run(&target, line, async { drop(stopped.await) }).await.unwrap();
    assert!(sum.passed > 20 && sum.passed < 80, "{sum}");
    assert_untouched(&root);
}
