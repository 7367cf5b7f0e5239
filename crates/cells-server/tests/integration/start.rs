//! What a node checks before it serves, what it leaves behind, and how it stops.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::Path;

use cells_protocol::capabilities::Access;
use cells_protocol::ids::{Alias, PrincipalId, ProfileId, ServerId, WorkspaceId};
use cells_server::{Credential, HarnessConfig, Node, PrincipalConfig, Secret, ServeConfig, TlsFiles};
use tempfile::TempDir;

use crate::support::{KEY, Reply, TestNode, client, config};

async fn refused(config: ServeConfig) -> String {
    match Node::bind(config).await {
        Ok(_) => panic!("the node started"),
        Err(error) => {
            let line = error.to_string();
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(!line.contains('\n'), "{line}");
            line
        }
    }
}

#[tokio::test]
async fn mistakes_give_one_line_and_create_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let harness = |id: &str, path: &Path| HarnessConfig {
        id: ProfileId::new(id).unwrap(),
        kind: "scripted".into(),
        home: None,
        workspaces: vec![(WorkspaceId::new("w").unwrap(), path.to_owned())],
    };
    let guest = |id: &str| PrincipalConfig {
        id: PrincipalId::new(id).unwrap(),
        credential: Credential::ApiKey(Some(Secret::new("a-key-that-every-guest-has"))),
        exports: BTreeMap::new(),
        harnesses: vec![],
        process: false,
    };
    let with_key =
        |key: Option<&str>| PrincipalConfig { credential: Credential::ApiKey(key.map(Secret::new)), ..guest("g") };
    let granted =
        |alias: &str, access| PrincipalConfig { exports: [(Alias::new(alias).unwrap(), access)].into(), ..guest("g") };
    type Change<'a> = Box<dyn Fn(&mut ServeConfig, &Path) + 'a>;
    let export = |text: String| text.parse().unwrap();
    let cases: Vec<(&str, Change<'_>)> = vec![
        ("choose another with --listen", Box::new(|config, _| config.listen = taken)),
        (
            "export gone: ",
            Box::new(|config, at| config.exports.push(export(format!("gone={}", at.join("gone").display())))),
        ),
        (
            "not a directory",
            Box::new(|config, at| {
                fs::write(at.join("file"), "").unwrap();
                config.exports.push(export(format!("file={}", at.join("file").display())));
            }),
        ),
        (
            "its directory is that of export",
            Box::new(|config, at| {
                config.exports.push(export(format!("again={}", at.join("ro").display())));
            }),
        ),
        (
            "its directory contains that of export",
            Box::new(|config, at| {
                config.exports.push(export(format!("parent={}", at.display())));
            }),
        ),
        (
            "its directory lies in that of export",
            Box::new(|config, at| {
                fs::create_dir(at.join("rw/sub")).unwrap();
                config.exports.push(export(format!("sub={}", at.join("rw/sub").display())));
            }),
        ),
        (
            "its directory is that of export",
            Box::new(|config, at| {
                std::os::unix::fs::symlink(at.join("ro"), at.join("link")).unwrap();
                config.exports.push(export(format!("link={}", at.join("link").display())));
            }),
        ),
        (
            "the name is given twice",
            Box::new(|config, at| {
                fs::create_dir(at.join("third")).unwrap();
                config.exports.push(export(format!("ro={}", at.join("third").display())));
            }),
        ),
        ("nothing to serve", Box::new(|config, _| config.exports.clear())),
        ("lies in export rw", Box::new(|config, at| config.state = Some(at.join("rw/state/deep")))),
        (
            "at least 24 bytes",
            Box::new(|config, _| {
                config.credential = Credential::ApiKey(Some(Secret::new("too-short")));
            }),
        ),
        ("--new-key", Box::new(|config, _| config.new_key = true)),
        ("allowed origin", Box::new(|config, _| config.allowed_origins = vec!["app.example".into()])),
        ("--insecure-http", Box::new(|config, _| config.listen = ([0, 0, 0, 0], 0).into())),
        (
            "no PEM certificate",
            Box::new(|config, at| {
                config.tls = Some(TlsFiles { cert: at.join("gone"), key: at.join("gone") });
            }),
        ),
        (
            "not an existing absolute directory",
            Box::new(|config, at| {
                config.harnesses = vec![harness("main", &at.join("gone"))];
            }),
        ),
        (
            "harness main: the id is given twice",
            Box::new(|config, at| {
                config.harnesses = vec![harness("main", at), harness("main", at)];
            }),
        ),
        ("principal owner: the name has a fixed", Box::new(|config, _| config.principals = vec![guest("owner")])),
        ("principal anonymous: the name", Box::new(|config, _| config.principals = vec![guest("anonymous")])),
        ("principal g: the id is given twice", Box::new(|config, _| config.principals = vec![guest("g"), guest("g")])),
        ("principal g: it needs an API key", Box::new(|config, _| config.principals = vec![with_key(None)])),
        (
            "principal g: the API key must have",
            Box::new(|config, _| config.principals = vec![with_key(Some("too-short"))]),
        ),
        ("principals owner and g have the same", Box::new(|config, _| config.principals = vec![with_key(Some(KEY))])),
        (
            "principals g and h have the same API key",
            Box::new(|config, _| config.principals = vec![guest("g"), guest("h")]),
        ),
        (
            "principals g and h have the same API key or user name",
            Box::new(|config, _| {
                let same = |id: &str, word: &str| PrincipalConfig {
                    credential: Credential::Password { username: "me".into(), password: Secret::new(word) },
                    ..guest(id)
                };
                config.principals = vec![same("g", "one password"), same("h", "another password")];
            }),
        ),
        (
            "principal g: `api_key_sha256` must be",
            Box::new(|config, _| {
                let credential = Credential::ApiKeySha256("too-short".into());
                config.principals = vec![PrincipalConfig { credential, ..guest("g") }];
            }),
        ),
        (
            "principal g: export gone is not served",
            Box::new(|config, _| config.principals = vec![granted("gone", Access::Ro)]),
        ),
        (
            "principal g: export ro is served read-only",
            Box::new(|config, _| config.principals = vec![granted("ro", Access::Rw)]),
        ),
        (
            "principal g: there is no harness other",
            Box::new(|config, _| {
                let harnesses = vec![ProfileId::new("other").unwrap()];
                config.principals = vec![PrincipalConfig { harnesses, ..guest("g") }];
            }),
        ),
    ];
    for (expected, change) in cases {
        let directory = tempfile::tempdir().unwrap();
        let mut config = config(&directory);
        change(&mut config, directory.path());
        let state = config.state.clone().unwrap();
        let line = refused(config).await;
        assert!(line.contains(expected), "{expected}: {line}");
        assert!(!line.contains("too-short"), "{line}");
        assert!(!state.exists(), "{expected}: the state directory was created");
    }
}

#[tokio::test]
async fn a_state_directory_and_a_writable_export_have_one_node() {
    let node = TestNode::start().await;
    let other = tempfile::tempdir().unwrap();
    let same_state = ServeConfig { state: Some(node.path("state")), ..config(&other) };
    assert!(refused(same_state).await.contains("another node uses it"));

    let mut same_export = config(&other);
    same_export.exports[0].path = node.path("rw");
    assert!(refused(same_export).await.contains("another node serves it for writing"));

    let mut same_read_only = config(&other);
    same_read_only.exports[1].path = node.path("ro");
    assert!(Node::bind(same_read_only).await.is_ok(), "read-only exports are shared");
}

#[tokio::test]
async fn identity_and_key_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let start = async |change: &dyn Fn(&mut ServeConfig)| {
        let mut config = config(&directory);
        config.credential = Credential::ApiKey(None);
        change(&mut config);
        Node::bind(config).await
    };
    let first = start(&|_| {}).await.unwrap();
    let server_id = first.server_id().clone();
    let key = first.api_key().unwrap().to_owned();
    assert!(first.endpoint().starts_with("http://127.0.0.1:"), "{}", first.endpoint());
    assert_eq!(first.mcp_url(), format!("{}/mcp", first.endpoint()));
    assert!(!format!("{:?}", first.api_key().map(Secret::new)).contains(&key));
    drop(first);
    assert!(!holds(&directory.path().join("state"), &key), "the key itself is not kept");

    let second = start(&|_| {}).await.unwrap();
    assert_eq!((second.server_id(), second.api_key()), (&server_id, None));
    drop(second);

    let third = start(&|config| config.new_key = true).await.unwrap();
    assert_eq!(third.server_id(), &server_id);
    assert!(third.api_key().is_some_and(|new| new != key));
    drop(third);

    let configured = |id: &str| ServerId::new(id).unwrap();
    let mut other_id = config(&directory);
    other_id.server_id = Some(configured("another-node"));
    assert!(refused(other_id).await.contains("it belongs to server id"));
    let same_id = start(&|config| config.server_id = Some(server_id.clone())).await;
    assert!(same_id.is_ok());
}

#[tokio::test]
async fn a_start_that_fails_makes_no_key_that_nobody_saw() {
    let directory = tempfile::tempdir().unwrap();
    let without_key = || ServeConfig { credential: Credential::ApiKey(None), ..config(&directory) };
    fs::create_dir(directory.path().join("state")).unwrap();
    fs::write(directory.path().join("state/lock"), "").unwrap();
    fs::write(directory.path().join("state/receipts.sqlite"), "not a database").unwrap();
    assert!(Node::bind(without_key()).await.is_err());
    fs::remove_file(directory.path().join("state/receipts.sqlite")).unwrap();
    assert!(Node::bind(without_key()).await.unwrap().api_key().is_some());
}

/// Whether any file below `directory` holds `text`.
fn holds(directory: &Path, text: &str) -> bool {
    fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            holds(&path, text)
        } else {
            String::from_utf8_lossy(&fs::read(path).unwrap()).contains(text)
        }
    })
}

#[tokio::test]
async fn revisions_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let config = || config(&directory);
    let revision = async || {
        let node = Node::bind(config()).await.unwrap();
        fs::write(directory.path().join("rw/new"), "x").unwrap();
        let url = format!("{}/v1/fs/rw/content?path=file", node.endpoint());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let running = tokio::spawn(node.run(async {
            let _ = stopped.await;
        }));
        let reply = Reply::of(client(|builder| builder).get(url).bearer_auth(KEY)).await;
        stop.send(()).unwrap();
        running.await.unwrap().unwrap();
        reply.header("etag").unwrap().to_owned()
    };
    config();
    fs::write(directory.path().join("rw/file"), "x").unwrap();
    assert_eq!(revision().await, revision().await);
}

#[tokio::test]
async fn an_idle_node_stops_at_once_and_frees_port_and_state() {
    let node = TestNode::start().await;
    let address = node.endpoint().trim_start_matches("http://").to_owned();
    assert_eq!(Reply::of(node.get("/v1/exports")).await.status, 200);
    node.stop().await.unwrap();
    TcpListener::bind(address).unwrap();
}

#[tokio::test]
async fn a_download_that_runs_when_the_node_stops_is_finished() {
    let node = TestNode::start().await;
    let size: u64 = 64 * 1024 * 1024;
    fs::File::create(node.path("rw/large")).unwrap().set_len(size).unwrap();
    let mut response = node.content("rw", "large").send().await.unwrap();
    let mut received = response.chunk().await.unwrap().unwrap().len() as u64;
    let ended = node.begin_stop();
    while let Some(chunk) = response.chunk().await.unwrap() {
        received += chunk.len() as u64;
    }
    assert_eq!(received, size);
    ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn https_is_served_with_the_given_certificate() {
    let pem = TempDir::new().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles { cert: pem.path().join("cert.pem"), key: pem.path().join("key.pem") };
    fs::write(&files.cert, made.cert.pem()).unwrap();
    fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    let node = TestNode::start_with(|config| config.tls = Some(files.clone())).await;
    let port = node.endpoint().strip_prefix("https://127.0.0.1:").unwrap();

    let trusted = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    let trusting = client(|builder| builder.tls_certs_only([trusted]));
    let url = format!("https://localhost:{port}/v1/exports");
    let reply = Reply::of(trusting.get(&url).bearer_auth(KEY)).await;
    assert_eq!(reply.json()["version"], 1);
    assert!(client(|builder| builder).get(&url).send().await.is_err(), "an unknown certificate");

    let plain = format!("http://127.0.0.1:{port}/v1/exports");
    assert!(client(|builder| builder).get(plain).send().await.is_err(), "plain HTTP on the port of HTTPS");
}
