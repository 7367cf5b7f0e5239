//! `files-http.md` §1.7: what cannot be read is refused before authentication, in plain text.

use reqwest::Method;

use crate::support::{KEY, Reply, TestNode};

#[tokio::test]
async fn requests_that_cannot_be_read_are_refused_before_authentication() {
    let node = TestNode::start().await;
    let json = Some("application/json");
    let large = format!("{{\"paths\":[\"{}\"]}}", "x".repeat(512 * 1024));
    let stat = "/v1/fs/rw/stat";
    for (method, route, content_type, body, status) in [
        ("GET", "/v1/fs/rw/entries", None, "", 400),
        ("GET", "/v1/fs/rw/entries?cursor=x", None, "", 400),
        ("GET", "/v1/fs/rw/entries?path=a&path=b", None, "", 400),
        ("GET", "/v1/fs/rw/entries?path=a&secret-word=1", None, "", 400),
        ("GET", "/v1/fs/rw/content", None, "", 400),
        ("GET", "/v1/fs/rw/content?path=a&path=a", None, "", 400),
        ("GET", "/v1/fs/rw/content?path=a&cursor=x", None, "", 400),
        ("GET", "/v1/fs/%FF/content?path=a", None, "", 400),
        ("POST", stat, json, "", 400),
        ("POST", stat, json, "{", 400),
        ("POST", stat, json, "{\"paths\":[\"a\"]", 400),
        ("POST", stat, json, "{\"paths\":[\"a\"]} x", 400),
        ("POST", stat, json, "[]", 422),
        ("POST", stat, json, "{}", 422),
        ("POST", stat, json, "{\"paths\":\"secret-word\"}", 422),
        ("POST", stat, json, "{\"paths\":[1]}", 422),
        ("POST", stat, json, "{\"paths\":[null]}", 422),
        ("POST", stat, json, "{\"paths\":[],\"secret-word\":1}", 422),
        ("POST", stat, json, "{\"paths\":[],\"paths\":[]}", 422),
        ("POST", stat, None, "{\"paths\":[]}", 415),
        ("POST", stat, Some("text/plain"), "{\"paths\":[]}", 415),
        ("POST", stat, json, &large, 413),
    ] {
        let mut request = node.anonymous(Method::from_bytes(method.as_bytes()).unwrap(), route).body(body.to_owned());
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let reply = Reply::of(request).await;
        let what = format!("{method} {route} {content_type:?} {body:.60}");
        assert_eq!(reply.status, status, "{what}");
        assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"), "{what}");
        let text = std::str::from_utf8(&reply.body).unwrap();
        assert!(!text.is_empty() && !text.contains('\n') && !text.contains("secret-word"), "{what}: {text}");
    }
}

#[tokio::test]
async fn other_media_type_parameters_are_accepted() {
    let node = TestNode::start().await;
    let request = node.anonymous(Method::POST, "/v1/fs/rw/stat").bearer_auth(KEY);
    let request = request.header("content-type", "Application/JSON; charset=utf-8").body("{\"paths\":[]}");
    let reply = Reply::of(request).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn unknown_routes_and_methods_get_an_empty_reply() {
    let node = TestNode::start().await;
    for (method, route, status) in [
        ("GET", "/", 404),
        ("GET", "/v1", 404),
        ("GET", "/v1/exports/", 404),
        ("GET", "/v1/fs/rw", 404),
        ("GET", "/v1/fs/rw/other?path=", 404),
        ("GET", "/v1/fs/rw/../../exports/x", 404),
        ("POST", "/v1/exports", 405),
        ("GET", "/v1/fs/rw/stat", 405),
        ("POST", "/v1/fs/rw/entries?path=", 405),
        ("DELETE", "/v1/fs/rw/content?path=x", 405),
    ] {
        let reply = Reply::of(node.anonymous(Method::from_bytes(method.as_bytes()).unwrap(), route)).await;
        assert_eq!((reply.status, reply.body.len()), (status, 0), "{method} {route}");
    }
}
