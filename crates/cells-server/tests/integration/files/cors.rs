//! `files-http.md` §1.2–1.3.

use std::collections::BTreeSet;

use reqwest::Method;

use crate::support::{Reply, TestNode};

fn words(header: Option<&str>) -> BTreeSet<String> {
    header.unwrap_or_default().split(',').map(|word| word.trim().to_ascii_lowercase()).collect()
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[tokio::test]
async fn browsers_of_allowed_origins_are_answered() {
    let listed = ["https://app.example", "tauri://localhost"];
    for (configured, origin, answered) in [
        (&listed[..], "https://app.example", Some("https://app.example")),
        (&listed[..], "tauri://localhost", Some("tauri://localhost")),
        (&listed[..], "https://other.example", None),
        (&listed[..], "null", None),
        (&["*"][..], "https://other.example", Some("*")),
        (&["https://app.example", "*"][..], "https://other.example", Some("*")),
        (&[][..], "https://app.example", None),
    ] {
        let node = TestNode::start_with(|config| {
            config.allowed_origins = configured.iter().map(|origin| (*origin).to_owned()).collect();
        })
        .await;
        let preflight = node.anonymous(Method::OPTIONS, "/v1/fs/rw/stat").header("origin", origin);
        let preflight = preflight.header("access-control-request-method", "POST");
        let preflight =
            Reply::of(preflight.header("access-control-request-headers", "authorization,content-type")).await;
        let what = format!("{configured:?} {origin}");
        assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (200, answered), "{what}");

        let reply = Reply::of(node.get("/v1/exports").header("origin", origin)).await;
        assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, answered), "{what}");
        let refused = Reply::of(node.anonymous(Method::GET, "/v1/exports").header("origin", origin)).await;
        assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, answered), "{what}");
        assert_eq!(reply.header("access-control-allow-credentials"), None, "{what}");
    }
}

#[tokio::test]
async fn preflights_name_every_method_and_header_and_replies_expose_three() {
    let node = TestNode::start_with(|config| config.allowed_origins = vec!["https://app.example".into()]).await;
    let preflight = node.anonymous(Method::OPTIONS, "/v1/fs/rw/content");
    let preflight = preflight.header("origin", "https://app.example").header("access-control-request-method", "PUT");
    let preflight = Reply::of(preflight).await;
    assert_eq!(words(preflight.header("access-control-allow-methods")), set(&["get", "post", "put", "options"]));
    assert_eq!(
        words(preflight.header("access-control-allow-headers")),
        set(&[
            "authorization",
            "content-type",
            "if-match",
            "if-none-match",
            "if-range",
            "mcp-method",
            "mcp-name",
            "mcp-protocol-version",
            "range",
            "x-fsagent-principal",
            "x-fsagent-principal-revision",
            "x-fsagent-project",
            "x-fsagent-project-readonly",
            "x-fsagent-project-revision",
            "x-operation-id",
            "x-sync-history-epoch",
            "x-timeout-ms",
        ])
    );
    let reply = Reply::of(node.get("/v1/exports").header("origin", "https://app.example")).await;
    assert_eq!(words(reply.header("access-control-expose-headers")), set(&["content-range", "etag", "retry-after"]));
}

#[tokio::test]
async fn no_reply_is_stored_or_compressed() {
    let node = TestNode::start().await;
    std::fs::write(node.path("rw/file"), "x".repeat(100_000)).unwrap();
    for (request, status) in [
        (node.get("/v1/capabilities"), 200),
        (node.content("rw", "file"), 200),
        (node.content("rw", "file").header("range", "bytes=0-9"), 206),
        (node.content("rw", "file").header("range", "bytes=100000-"), 416),
        (node.content("rw", "../file"), 400),
        (node.anonymous(Method::GET, "/v1/exports"), 401),
        (node.content("other", "file"), 403),
        (node.content("rw", "missing"), 404),
        (node.get("/v1/nothing"), 404),
        (node.anonymous(Method::DELETE, "/v1/exports"), 405),
        (node.anonymous(Method::POST, "/v1/fs/rw/stat"), 415),
        (node.anonymous(Method::OPTIONS, "/v1/exports"), 200),
    ] {
        let reply = Reply::of(request.header("accept-encoding", "gzip, br, zstd")).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{status}");
        assert_eq!(reply.header("content-encoding"), None, "{status}");
    }
}
