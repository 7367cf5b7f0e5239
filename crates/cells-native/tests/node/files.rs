//! Files of a running node.

use cells_driver::{
    Client, Connection, DiscoverOptions, ErrorKind, FileConnection, FileKind, OperationOptions, ReadOptions, Secret,
};
use cells_server::Credential;
use futures::future::join_all;

use crate::stage::{Stage, content, sha256};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_stats_on_threads_are_eight_requests() {
    let stage = Stage::new().await;
    for n in 0..2_000 {
        stage.write(&format!("dir/{n}"), &vec![b'x'; n % 7]);
    }
    let files = stage.files("work");
    let calls: Vec<_> =
        (0..10_000).map(|n| files.stat(&format!("dir/{}", n % 2_000), OperationOptions::default())).collect();
    for (n, result) in join_all(calls).await.into_iter().enumerate() {
        let stat = result.unwrap().unwrap();
        assert_eq!((stat.kind, stat.size), (FileKind::File, Some((n % 2_000 % 7) as u64)), "{n}");
        assert!(stat.revision.is_some() && stat.modified_at.is_some());
    }
    assert_eq!(stage.proxy.counts().paths["POST /v1/fs/work/stat"], 8);
}

#[tokio::test]
async fn one_stat_after_the_other_sees_what_changed() {
    let stage = Stage::new().await;
    let files = stage.files("work");
    let stat = |path| files.stat(path, OperationOptions::default());
    assert_eq!(stat("a").await.unwrap(), None);
    stage.write("a", b"one");
    assert_eq!(stat("a").await.unwrap().unwrap().size, Some(3));
    assert_eq!(stat("").await.unwrap().unwrap().kind, FileKind::Directory);
    std::os::unix::fs::symlink("a", stage.path("work", "link")).unwrap();
    assert_eq!(stat("link").await.unwrap().unwrap().kind, FileKind::Symlink);
}

#[tokio::test]
async fn a_directory_is_listed_page_by_page() {
    let stage = Stage::new().await;
    let names: Vec<String> = (0..1_200).map(|n| format!("file-{n:04} ü")).collect();
    for name in &names {
        stage.write(&format!("a b/{name}"), b"x");
    }
    let files = stage.files("library");
    let (mut seen, mut cursor, mut n_pages) = (Vec::new(), None::<String>, 0);
    loop {
        let page = files.list("a b", cursor.as_deref(), OperationOptions::default()).await.unwrap();
        seen.extend(page.entries.into_iter().map(|entry| entry.name));
        n_pages += 1;
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((seen, n_pages), (names, 3));
    for (path, kind) in [("none", ErrorKind::NotFound), ("a b/file-0000 ü", ErrorKind::NotADirectory)] {
        let error = files.list(path, None, OperationOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    let error = files.list("a b", Some("forged"), OperationOptions::default()).await.unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Invalid, Some(400)));
}

#[tokio::test]
async fn ranges_and_revisions() {
    let stage = Stage::new().await;
    let bytes = content(100_000);
    stage.write("data", &bytes);
    let files = stage.files("work");
    let read = |offset, length| files.read("data", ReadOptions { offset, length, ..ReadOptions::default() });
    let whole = read(0, None).await.unwrap();
    assert!(whole.data == bytes);
    for (offset, length, expected) in [
        (70_000, Some(1_000), 70_000..71_000),
        (99_000, Some(9_000), 99_000..100_000),
        (100_000, None, 0..0),
        (5, Some(0), 0..0),
    ] {
        assert!(read(offset, length).await.unwrap().data == bytes[expected], "{offset} {length:?}");
    }
    assert_eq!(read(100_001, Some(1)).await.unwrap_err().kind(), ErrorKind::Invalid);

    let if_revision = |revision: Option<String>| ReadOptions { if_revision: revision, ..ReadOptions::default() };
    assert!(files.read("data", if_revision(whole.revision.clone())).await.is_ok());
    stage.write("data", b"other bytes of another length");
    let error = files.read("data", if_revision(whole.revision)).await.unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Conflict, Some(412)), "{error}");
    for (path, kind) in [("none", ErrorKind::NotFound), ("", ErrorKind::Unsupported)] {
        assert_eq!(files.read(path, ReadOptions::default()).await.unwrap_err().kind(), kind, "{path}");
    }
    assert_eq!(stage.files("library").read("data", ReadOptions::default()).await.unwrap().revision, None);
}

#[tokio::test]
async fn a_large_file_arrives_as_a_stream() {
    let stage = Stage::new().await;
    let bytes = content(40 * 1024 * 1024);
    stage.write("large", &bytes);
    let files = stage.files("work");
    assert_eq!(files.read("large", ReadOptions::default()).await.unwrap_err().kind(), ErrorKind::TooLarge);
    let mut stream = files.read_stream("large", ReadOptions::default()).await.unwrap();
    assert_eq!((stream.size, stream.revision.is_some()), (bytes.len() as u64, true));
    let mut received = Vec::new();
    while let Some(piece) = stream.next().await.unwrap() {
        received.extend_from_slice(&piece);
    }
    assert_eq!(sha256(&received), sha256(&bytes));
}

#[tokio::test]
async fn a_node_is_discovered_from_its_root_and_from_its_mcp_url() {
    let stage = Stage::new().await;
    for endpoint in [stage.direct.clone(), format!("{}/", stage.direct), format!("{}/mcp", stage.direct)] {
        let connection = Connection::new(endpoint.clone(), "home");
        let descriptor = stage.client.discover(&connection, DiscoverOptions::default()).await.unwrap();
        assert_eq!(descriptor.document.http_endpoint, stage.direct, "{endpoint}");
        assert_eq!(descriptor.mcp_endpoint, format!("{}/mcp", stage.direct), "{endpoint}");
        assert!(
            descriptor.document.harness && descriptor.has_durable_receipts() && descriptor.events_endpoint().is_some()
        );
        let exports = stage.client.exports(&connection, OperationOptions::default()).await.unwrap().exports;
        let aliases: Vec<_> = exports.iter().map(|export| (export.alias.as_str(), export.allows_writes())).collect();
        assert_eq!(aliases, [("library", false), ("work", true)]);

        let pinned = Connection { authorization: descriptor.document.authorization, ..connection };
        assert!(pinned.authorization.is_some());
        assert!(stage.client.exports(&pinned, OperationOptions::default()).await.is_ok());
        let mut stale = pinned;
        let snapshot = r#"{"principalId":"owner","anonymous":false,"revision":"of-yesterday"}"#;
        stale.authorization = Some(serde_json::from_str(snapshot).unwrap());
        let error = stage.client.exports(&stale, OperationOptions::default()).await.unwrap_err();
        assert_eq!((error.kind(), error.remote_code()), (ErrorKind::AccessDenied, Some("AUTHORIZATION_CHANGED")));
    }
}

#[tokio::test]
async fn who_may_not_is_told_so_in_one_line() {
    let stage = Stage::new().await;
    let client = &stage.client;
    let list = |connection: &FileConnection| client.files(connection).unwrap();
    client.set_credential("wrong", Secret::new("wrong-key-0123456789abcdef"));
    let connection = stage.connection();
    for (case, connection, kind, operation, status) in [
        (
            "wrong key",
            FileConnection::new(Connection::new(stage.direct.clone(), "wrong"), "work"),
            ErrorKind::AccessDenied,
            "list",
            Some(401),
        ),
        (
            "no key",
            FileConnection::new(Connection::new(stage.direct.clone(), "none"), "work"),
            ErrorKind::AccessDenied,
            "credential",
            None,
        ),
        (
            "anonymous",
            FileConnection::new(Connection::anonymous(stage.direct.clone()), "work"),
            ErrorKind::AccessDenied,
            "list",
            Some(401),
        ),
        ("alias", FileConnection::new(connection, "nothere"), ErrorKind::AccessDenied, "list", Some(403)),
        (
            "no node",
            FileConnection::new(Connection::new("http://127.0.0.1:1", "home"), "work"),
            ErrorKind::Io,
            "connect",
            None,
        ),
    ] {
        let error = list(&connection).list("", None, OperationOptions::default()).await.unwrap_err();
        assert_eq!((error.kind(), error.operation(), error.status()), (kind, operation, status), "{case}: {error}");
        let text = error.to_string();
        assert!(!text.contains("wrong-key") && !text.contains('\n'), "{text}");
    }
}

#[tokio::test]
async fn a_node_with_a_password_wants_the_user_name_too() {
    let password = cells_server::Secret::new("päss:word");
    let stage = Stage::with(Credential::Password { username: "jürgen".to_owned(), password }).await;
    stage.client.set_credential("home", Secret::new("päss:word"));
    let named = |username: &str| Connection { username: Some(username.to_owned()), ..stage.connection() };
    assert_eq!(n_exports(&stage.client, &named("jürgen")).await, Ok(2));
    assert_eq!(n_exports(&stage.client, &named("juergen")).await, Err((ErrorKind::AccessDenied, Some(401))));
    let key = Connection::new(stage.direct.clone(), "home");
    stage.client.set_credential("home", Secret::new("password"));
    assert_eq!(n_exports(&stage.client, &key).await, Err((ErrorKind::AccessDenied, Some(401))));
}

async fn n_exports(client: &Client, connection: &Connection) -> Result<usize, (ErrorKind, Option<u16>)> {
    let exports = client.exports(connection, OperationOptions::default()).await;
    exports.map(|exports| exports.exports.len()).map_err(|error| (error.kind(), error.status()))
}
