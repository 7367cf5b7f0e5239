//! `files-http.md` §1.1 and `cells-0.4.md` §1.4.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use cells_server::{Credential, Secret};
use reqwest::Method;
use reqwest::header::HeaderValue;

use crate::support::{KEY, Reply, TestNode, refusal};

/// Sends each `Authorization` header; the flag says whether it is the right one.
async fn check(node: &TestNode, cases: &[(&str, bool)]) {
    for (authorization, right) in cases {
        for route in ["/v1/capabilities", "/v1/exports", "/v1/fs/rw/entries?path=", "/v1/fs/rw/content?path=x"] {
            let request = node.anonymous(Method::GET, route);
            let value = HeaderValue::from_bytes(authorization.as_bytes()).unwrap();
            let reply = Reply::of(request.header("authorization", value)).await;
            let what = format!("{authorization:?} {route}");
            if *right {
                assert_ne!(reply.status, 401, "{what}");
            } else {
                assert_eq!(reply.refusal(), refusal(401, "EACCES"), "{what}");
                assert_eq!(reply.header("www-authenticate"), None, "{what}: a browser would open a dialog");
            }
        }
    }
}

#[tokio::test]
async fn a_key_node_takes_its_key_as_bearer_only() {
    let node = TestNode::start().await;
    let basic = format!("Basic {}", STANDARD.encode(format!("me:{KEY}")));
    check(
        &node,
        &[
            (&format!("Bearer {KEY}"), true),
            (&format!("bearer {KEY}"), true),
            (&format!("BEARER {KEY}"), true),
            (&format!("Bearer  {KEY}"), false),
            (&format!("Bearer\t{KEY}"), false),
            (&format!("Bearer {KEY}x"), false),
            (&format!("Bearer {}", &KEY[1..]), false),
            (&format!("Bearer {}", KEY.to_uppercase()), false),
            (&format!("Token {KEY}"), false),
            ("Bearer", false),
            ("Bearer ", false),
            (KEY, false),
            ("", false),
            ("Bearer \u{fffd}", false),
            (&basic, false),
        ],
    )
    .await;
    let without = Reply::of(node.anonymous(Method::GET, "/v1/exports")).await;
    assert_eq!(without.refusal(), refusal(401, "EACCES"));
}

#[tokio::test]
async fn a_password_node_takes_user_and_password_only() {
    let node = TestNode::start_with(|config| {
        let password = Secret::new("pass:wörds");
        config.credential = Credential::Password { username: "jürgen".into(), password };
    })
    .await;
    let pair = |pair: &str| STANDARD.encode(pair);
    check(
        &node,
        &[
            (&format!("Basic {}", pair("jürgen:pass:wörds")), true),
            (&format!("basic {}", pair("jürgen:pass:wörds")), true),
            (&format!("Basic {}", pair("jürgen:pass")), false),
            (&format!("Basic {}", pair("other:pass:wörds")), false),
            (&format!("Basic {}", pair("jürgen")), false),
            (&format!("Basic {}", pair(":pass:wörds")), false),
            (&format!("Basic {}", pair("")), false),
            (&format!("Basic {}", STANDARD_NO_PAD.encode("jürgen:pass:wörds")), false),
            (&format!("Basic {}", STANDARD.encode(b"j\xfcrgen:pass:w\xf6rds")), false),
            ("Basic ***", false),
            ("Bearer pass:word", false),
            (&format!("Bearer {}", pair("jürgen:pass:wörds")), false),
        ],
    )
    .await;
}

#[tokio::test]
async fn unknown_aliases_look_like_forbidden_ones() {
    let node = TestNode::start().await;
    for alias in ["missing", "RW", "r%77x", "a%2Fb", "%20", "rw."] {
        let route = |last: &str| format!("/v1/fs/{alias}/{last}");
        let denied = refusal(403, "EACCES");
        assert_eq!(Reply::of(node.get(&route("entries?path="))).await.refusal(), denied, "{alias}");
        assert_eq!(Reply::of(node.get(&route("content?path=x"))).await.refusal(), denied, "{alias}");
        assert_eq!(Reply::of(node.stat(alias, &["x"])).await.refusal(), denied, "{alias}");
        let without_key = Reply::of(node.anonymous(Method::GET, &route("entries?path="))).await;
        assert_eq!(without_key.refusal(), refusal(401, "EACCES"), "{alias}");
    }
    assert_eq!(Reply::of(node.get("/v1/fs/%72w/entries?path=")).await.status, 200, "a percent-encoded alias");
}

#[tokio::test]
async fn a_pinned_request_is_answered_only_for_the_same_principal_and_grants() {
    let node = TestNode::start().await;
    let changed = Err(refusal(409, "AUTHORIZATION_CHANGED"));
    let invalid = Err(refusal(400, "EINVAL"));
    // SHA-256 over the lines `export ro ro`, `export rw rw`, `harness scripted` and `process`, first half.
    let current = "3a03d7b1b6d7c216a69ce47e587c1535";
    let long = "x".repeat(129);
    for (principal, revision, expected) in [
        (None, None, Ok(())),
        (None, Some("other"), Ok(())),
        (Some("owner"), Some(current), Ok(())),
        (Some("owner"), Some("3f1c9a7e0b52"), changed.clone()),
        (Some("owner"), Some("7"), changed.clone()),
        (Some("guest"), Some(current), changed.clone()),
        (Some("OWNER"), Some(current), changed.clone()),
        (Some(""), Some(current), changed),
        (Some("owner"), None, invalid.clone()),
        (Some("guest"), None, invalid.clone()),
        (Some("owner"), Some(""), invalid.clone()),
        (Some("owner"), Some("a b"), invalid.clone()),
        (Some("owner"), Some(long.as_str()), invalid),
    ] {
        for request in [
            node.get("/v1/capabilities"),
            node.get("/v1/exports"),
            node.entries("rw", "", None),
            node.stat("rw", &[""]),
        ] {
            let request = principal.iter().fold(request, |request, id| request.header("x-fsagent-principal", *id));
            let request =
                revision.iter().fold(request, |request, text| request.header("x-fsagent-principal-revision", *text));
            let reply = Reply::of(request).await;
            let outcome = if reply.status == 200 { Ok(()) } else { Err(reply.refusal()) };
            assert_eq!(outcome, expected, "{principal:?} {revision:?}");
        }
    }
    let pinned = |request: reqwest::RequestBuilder| {
        request.header("x-fsagent-principal", "guest").header("x-fsagent-principal-revision", "1")
    };
    let unauthenticated = Reply::of(pinned(node.anonymous(Method::GET, "/v1/exports"))).await;
    assert_eq!(unauthenticated.refusal(), refusal(401, "EACCES"), "authentication comes first");
    let unknown_alias = Reply::of(pinned(node.entries("missing", "", None))).await;
    assert_eq!(unknown_alias.refusal(), refusal(409, "AUTHORIZATION_CHANGED"), "the pin comes before the alias");
}
