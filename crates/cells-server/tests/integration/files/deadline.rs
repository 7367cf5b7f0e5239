//! `files-http.md` §1.4.

use std::convert::Infallible;
use std::fs;

use futures::{StreamExt, stream};
use reqwest::{Body, Method};

use crate::support::{Reply, TestNode, make_files, refusal};

#[tokio::test]
async fn deadlines_are_positive_decimal_integers() {
    let node = TestNode::start().await;
    fs::write(node.path("rw/file"), "").unwrap();
    for (value, accepted) in [
        ("1000", true),
        ("30000", true),
        ("999999999999999999999999", true),
        ("0", false),
        ("-1", false),
        ("1.5", false),
        ("soon", false),
        ("", false),
    ] {
        for request in [node.stat("rw", &[""]), node.entries("rw", "", None), node.content("rw", "file")] {
            let reply = Reply::of(request.header("x-timeout-ms", value)).await;
            if accepted {
                assert_eq!(reply.status, 200, "{value:?}");
            } else {
                assert_eq!(reply.refusal(), refusal(400, "EINVAL"), "{value:?}");
            }
        }
        for route in ["/v1/capabilities", "/v1/exports"] {
            assert_eq!(
                Reply::of(node.get(route).header("x-timeout-ms", value)).await.status,
                200,
                "{route} ignores it"
            );
        }
    }
}

#[tokio::test]
async fn a_listing_that_takes_longer_is_given_up() {
    let node = TestNode::start().await;
    make_files(&node.path("ro"), 0..20_000);
    let reply = Reply::of(node.entries("ro", "", None).header("x-timeout-ms", "1")).await;
    assert_eq!(reply.refusal(), refusal(504, "ETIMEDOUT"));
}

#[tokio::test]
async fn a_download_that_takes_longer_is_cut() {
    let node = TestNode::start().await;
    let size: u64 = 1 << 40; // a hole of 1 TiB, far more than can be sent in the time
    fs::File::create(node.path("ro/hole")).unwrap().set_len(size).unwrap();
    let mut response = node.content("ro", "hole").header("x-timeout-ms", "200").send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.content_length()), (200, Some(size)));
    let mut received = 0;
    let cut = loop {
        match response.chunk().await {
            Ok(Some(chunk)) => received += chunk.len() as u64,
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    assert!(cut && received < size, "{received}");
}

#[tokio::test]
async fn a_body_that_stops_half_way_is_given_up_at_the_deadline_without_any_credential() {
    let node = TestNode::start().await;
    for route in ["stat", "mutate", "seq/snapshot", "seq/transaction"] {
        let half = stream::iter([Ok::<_, Infallible>("{\"path")]).chain(stream::pending());
        let request = node.anonymous(Method::POST, &format!("/v1/fs/rw/{route}"));
        let request = request.header("content-type", "application/json").header("x-timeout-ms", "100");
        let reply = Reply::of(request.body(Body::wrap_stream(half))).await;
        assert_eq!(reply.refusal(), refusal(504, "ETIMEDOUT"), "{route}");
    }
}
