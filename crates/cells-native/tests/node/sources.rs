//! Sources of a running node.

use cells_driver::{
    ErrorKind, FileConnection, FileMutationOptions, OperationOptions, Outcome, ReadOptions, ReplaceCondition, Secret,
    Upload,
};

use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handles_share_one_source_from_open_to_the_last_dispose() {
    let stage = Stage::new().await;
    let connection = FileConnection::new(stage.connection(), "work");
    for round in 1..=3 {
        let calls: Vec<_> = (0..50)
            .map(|_| {
                let (client, connection) = (stage.client.clone(), connection.clone());
                tokio::spawn(async move { client.open(&connection, OperationOptions::default()).await })
            })
            .collect();
        let mut sources = Vec::new();
        for call in calls {
            sources.push(call.await.unwrap().unwrap());
        }
        assert_eq!(stage.proxy.counts().paths["GET /v1/exports"], round);
        let last = sources.pop().unwrap();
        drop(sources);
        assert!(last.fs().stat("/", OperationOptions::default()).await.unwrap().is_some());
        last.dispose();
        let error = last.fs().stat("/", OperationOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    }
}

#[tokio::test]
async fn a_source_is_read_and_written_under_virtual_paths() {
    let stage = Stage::new().await;
    let open = |alias: &str| {
        let connection = FileConnection::new(stage.connection(), alias);
        let client = stage.client.clone();
        async move { client.open(&connection, OperationOptions::default()).await.unwrap() }
    };
    let options = FileMutationOptions::default;
    let source = open("work").await;
    let fs = source.fs();
    fs.mkdir("/notes", options()).await.unwrap();
    let new = ReplaceCondition::CreateOnly;
    let first = fs.replace("/notes/a.md", Upload::bytes("one"), new, options()).await.unwrap().value;
    let read = fs.read("/notes/a.md", ReadOptions::default()).await.unwrap();
    assert_eq!((&read.data[..], &read.revision), (&b"one"[..], &first.revision));
    let same = ReplaceCondition::Match(first.revision.clone().unwrap());
    fs.replace("/notes/a.md", Upload::bytes("two"), same, options()).await.unwrap();
    let stale = ReplaceCondition::Match(first.revision.unwrap());
    let error = fs.replace("/notes/a.md", Upload::bytes("three"), stale, options()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Conflict, Some(Outcome::NotCommitted)), "{error}");
    fs.rename("/notes/a.md", "/notes/b.md", options()).await.unwrap();
    let names: Vec<_> = fs.list("/notes", OperationOptions::default()).await.unwrap();
    assert_eq!(names.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["b.md"]);
    assert_eq!(std::fs::read(stage.path("work", "notes/b.md")).unwrap(), b"two");
    fs.delete("/notes/b.md", options()).await.unwrap();
    assert_eq!(fs.stat_type("/notes/b.md", OperationOptions::default()).await.unwrap(), None);

    let library = open("library").await;
    let error = library.fs().mkdir("/x", options()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::ReadOnly, Some(Outcome::NotStarted)), "{error}");
}

#[tokio::test]
async fn a_node_is_checked_and_browsed_before_anything_is_opened() {
    let stage = Stage::new().await;
    for directory in ["b/c", "a"] {
        std::fs::create_dir_all(stage.path("work", directory)).unwrap();
    }
    stage.write("file", b"x");
    let (client, connection) = (&stage.client, stage.connection());
    let options = OperationOptions::default;
    client.check(&connection, options()).await.unwrap();
    client.check_draft(&connection, None, options()).await.unwrap();
    let wrong = Some(Secret::new("wrong-key-0123456789abcdef"));
    let error = client.check_draft(&connection, wrong, options()).await.unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::AccessDenied, Some(401)), "{error}");
    client.check(&connection, options()).await.unwrap();
    for (parent, children) in
        [("", ["library", "work"].as_slice()), ("/work", &["a", "b"]), (&["", "work", "b"].join("/"), &["c"])]
    {
        let path = if parent.is_empty() { "/" } else { parent };
        let page = client.browse(&connection, path, None, options()).await.unwrap();
        let expected: Vec<_> = children.iter().map(|child| format!("{parent}/{child}")).collect();
        assert_eq!((page.paths, page.next_cursor), (expected, None), "{path}");
    }
}
