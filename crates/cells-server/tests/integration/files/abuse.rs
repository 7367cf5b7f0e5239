//! Clients that send too much, too little, nonsense, or everything at once.

use std::collections::BTreeSet;
use std::fs;

use bytes::Bytes;
use futures::future::join_all;
use futures::stream;
use reqwest::header::HeaderValue;
use reqwest::{Body, Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{KEY, Reply, TestNode, query_value, refusal};

const LIMIT: usize = 256 * 1024 * 1024;

fn create(node: &TestNode, path: &str, id: &str) -> RequestBuilder {
    node.anonymous(Method::PUT, &format!("/v1/fs/rw/content?path={}", query_value(path)))
        .bearer_auth(KEY)
        .header("x-operation-id", id)
        .header("if-none-match", "*")
}

fn post(node: &TestNode, route: &str, id: &str, body: &Value) -> RequestBuilder {
    let request = node.anonymous(Method::POST, &format!("/v1/fs/rw/{route}")).bearer_auth(KEY);
    request.header("x-operation-id", id).header("content-type", "application/json").body(body.to_string())
}

/// Names in the writable export, staging files included.
fn names(node: &TestNode) -> BTreeSet<String> {
    let entries = fs::read_dir(node.path("rw")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn code(reply: &Reply) -> (u16, Value) {
    (reply.status, reply.json()["code"].clone())
}

#[tokio::test]
async fn an_upload_may_have_the_whole_limit_and_not_a_byte_more() {
    let node = TestNode::start().await;
    // Without a length: the node has to count.
    let chunk = Bytes::from(vec![7; 1 << 20]);
    let chunks = |last: &'static [u8]| {
        let whole = std::iter::repeat_n(chunk.clone(), LIMIT / chunk.len()).chain([Bytes::from_static(last)]);
        Body::wrap_stream(stream::iter(whole.map(Ok::<_, std::io::Error>)))
    };
    let reply = Reply::of(create(&node, "more", "more").body(chunks(b"!"))).await;
    assert_eq!(code(&reply), (413, json!("UPLOAD_LIMIT")));
    assert_eq!(names(&node), BTreeSet::new());
    let reply = Reply::of(create(&node, "whole", "whole").body(chunks(b""))).await;
    assert_eq!((reply.status, &reply.json()["result"]["size"]), (200, &json!(LIMIT)));
    assert_eq!(fs::metadata(node.path("rw/whole")).unwrap().len(), LIMIT as u64);
}

#[tokio::test]
async fn names_and_paths_may_be_as_long_as_the_rules_say() {
    let node = TestNode::start().await;
    let long = "n".repeat(255);
    assert_eq!(Reply::of(create(&node, &long, "name").body("x")).await.status, 200);
    assert_eq!(Reply::of(node.content("rw", &long)).await.status, 200);
    let renamed = json!({ "action": "rename", "path": long, "to": "m".repeat(255) });
    assert_eq!(Reply::of(post(&node, "mutate", "rename", &renamed)).await.status, 200);
    let reply = Reply::of(create(&node, &"n".repeat(256), "longer").body("x")).await;
    assert_eq!(code(&reply), (400, json!("EINVAL")));

    // 4,096 bytes: one more than the kernel takes at once.
    let folder = "f".repeat(200);
    let mut path = String::new();
    while 4096 - path.len() > 255 {
        path += &folder;
        let mkdir = json!({ "action": "mkdir", "path": path });
        assert_eq!(Reply::of(post(&node, "mutate", &format!("mkdir-{}", path.len()), &mkdir)).await.status, 200);
        path.push('/');
    }
    let longest = format!("{path}{}", "l".repeat(4096 - path.len()));
    assert_eq!(longest.len(), 4096);
    let made = Reply::of(create(&node, &longest, "longest").body("deep")).await;
    assert_eq!(made.status, 200, "{made:?}");
    assert_eq!(Reply::of(node.content("rw", &longest)).await.body, "deep");
    let stat = Reply::of(node.stat("rw", &[longest.as_str()])).await.json();
    assert_eq!(stat["results"][0]["stat"]["size"], 4);
    let listed = Reply::of(node.entries("rw", path.trim_end_matches('/'), None)).await.json();
    assert_eq!(listed["entries"][0]["stat"]["size"], 4);
    let remove = json!({ "action": "remove", "path": longest });
    assert_eq!(Reply::of(post(&node, "mutate", "remove", &remove)).await.status, 200);
    let reply = Reply::of(create(&node, &format!("{longest}l"), "too-long").body("x")).await;
    assert_eq!(reply.refusal(), refusal(400, "EINVAL"));
}

#[tokio::test]
async fn headers_that_make_no_sense_are_refused_before_anything_is_claimed() {
    let node = TestNode::start().await;
    let bytes = |bytes: &'static [u8]| HeaderValue::from_bytes(bytes).unwrap();
    let long = HeaderValue::from_str(&"a".repeat(129)).unwrap();
    let (invalid, required) = (refusal(400, "EINVAL"), refusal(428, "REVISION_REQUIRED"));
    for (name, values, expected) in [
        ("x-operation-id", vec![], &invalid),
        ("x-operation-id", vec![bytes(b"")], &invalid),
        ("x-operation-id", vec![bytes(b"a\xffb")], &invalid),
        ("x-operation-id", vec![bytes(b"a b")], &invalid),
        ("x-operation-id", vec![bytes("\u{e9}".as_bytes())], &invalid),
        ("x-operation-id", vec![long], &invalid),
        ("x-operation-id", vec![bytes(b"one"), bytes(b"two")], &invalid),
        ("x-operation-id", vec![bytes(b"same"), bytes(b"same")], &invalid),
        ("x-timeout-ms", vec![bytes(b"\xff")], &invalid),
        ("x-timeout-ms", vec![bytes(b"1e3")], &invalid),
        ("x-timeout-ms", vec![bytes(b"1000"), bytes(b"2000")], &invalid),
        ("if-none-match", vec![bytes(b"*"), bytes(b"*")], &required),
        ("if-none-match", vec![bytes(b"\xff")], &required),
        ("if-match", vec![bytes(b"\"a\"")], &required),
        ("if-match", vec![bytes(b"\"a\""), bytes(b"\"b\"")], &required),
    ] {
        let mut request = create(&node, "new", "free").body("x").build().unwrap();
        request.headers_mut().remove(name);
        for value in &values {
            request.headers_mut().append(name, value.clone());
        }
        let reply = Reply::of(RequestBuilder::from_parts(crate::support::client(|builder| builder), request)).await;
        assert_eq!(reply.refusal(), *expected, "{name} {values:?}");
    }
    // A revision that is no text is equal to none.
    let request = create(&node, "new", "garbage").body("x").build().unwrap();
    let mut request = request;
    request.headers_mut().remove("if-none-match");
    request.headers_mut().insert("if-match", bytes(b"\xff\xfe"));
    let reply = Reply::of(RequestBuilder::from_parts(crate::support::client(|builder| builder), request)).await;
    assert_eq!(code(&reply), (412, json!("ECONFLICT")));
    assert_eq!(Reply::of(create(&node, "new", "free").body("x")).await.status, 200);
}

#[tokio::test]
async fn requests_that_are_no_http_or_stop_in_the_middle_hurt_nobody() {
    let node = TestNode::start().await;
    let address = node.endpoint().trim_start_matches("http://").to_owned();
    let put = format!(
        "PUT /v1/fs/rw/content?path=new HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\nif-none-match: *\r\n"
    );
    for (what, sent) in [
        ("nothing", String::new()),
        ("noise", "\u{0}\u{1}\u{2}\r\n\r\n".to_owned()),
        ("half a head", "GET /v1/exports HT".to_owned()),
        ("a version that does not exist", "GET / HTTP/7.9\r\n\r\n".to_owned()),
        ("two lengths", format!("{put}x-operation-id: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx")),
        ("a length that is none", format!("{put}x-operation-id: b\r\ncontent-length: -1\r\n\r\nx")),
        (
            "a length and chunks",
            format!("{put}x-operation-id: c\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\nzz"),
        ),
        ("a chunk that is none", format!("{put}x-operation-id: d\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")),
        ("less than announced", format!("{put}x-operation-id: e\r\ncontent-length: 1000\r\n\r\nx")),
        ("a very long header", format!("{put}x-operation-id: f\r\nx-junk: {}\r\n\r\n", "j".repeat(1 << 20))),
        ("very many headers", format!("{put}{}\r\n", "x-junk: j\r\n".repeat(1000))),
    ] {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        // The node may close before it has read all of it.
        let _ = stream.write_all(sent.as_bytes()).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.is_empty() || !answer.starts_with("HTTP/1.1 200"), "{what}: {answer}");
        assert!(!answer.starts_with("HTTP/1.1 5"), "{what}: {answer}");
        let alive = Reply::of(node.get("/v1/exports")).await;
        assert_eq!(alive.status, 200, "{what}");
    }
    // A broken upload ends by itself, and leaves nothing.
    while !names(&node).is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn uploads_that_hardly_move_keep_nobody_from_the_files() {
    let node = TestNode::start().await;
    fs::write(node.path("rw/file"), "content").unwrap();
    // Far more than the node has workers.
    let slow = (0..60).map(|at| {
        let (sender, body) = futures::channel::mpsc::channel::<Result<Bytes, std::io::Error>>(1);
        let request = create(&node, &format!("slow-{at}"), &format!("slow-{at}")).body(Body::wrap_stream(body));
        (sender, tokio::spawn(Reply::of(request)))
    });
    let (mut senders, replies): (Vec<_>, Vec<_>) = slow.unzip();
    for sender in &mut senders {
        sender.try_send(Ok(Bytes::from_static(b"a"))).unwrap();
    }
    while names(&node).len() < 61 {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    for _ in 0..3 {
        let reads = join_all((0..20).map(|_| Reply::of(node.content("rw", "file")))).await;
        assert!(reads.iter().all(|reply| reply.body == "content"));
    }
    assert_eq!(Reply::of(create(&node, "quick", "quick").body("x")).await.status, 200);
    for sender in &mut senders {
        while sender.try_send(Ok(Bytes::from_static(b"b"))).is_err() {
            tokio::task::yield_now().await;
        }
    }
    drop(senders);
    for reply in join_all(replies).await {
        assert_eq!(reply.unwrap().json()["result"]["size"], 2);
    }
    assert_eq!(names(&node).len(), 62);
}

#[tokio::test]
async fn a_cancel_that_races_with_its_write_tells_the_same_outcome() {
    let node = TestNode::start().await;
    let (mut done, mut undone) = (0, 0);
    for round in 0..150 {
        let (path, id) = (format!("file-{round}"), format!("id-{round}"));
        let cancel = node.anonymous(Method::POST, &format!("/v1/fs/rw/operations/{id}/cancel")).bearer_auth(KEY);
        let write = create(&node, &path, &id).body(vec![b'x'; round * 997]);
        let (write, cancel) = if round % 2 == 0 {
            tokio::join!(Reply::of(write), Reply::of(cancel))
        } else {
            let (cancel, write) = tokio::join!(Reply::of(cancel), Reply::of(write));
            (write, cancel)
        };
        assert_eq!(cancel.status, 200, "{round}");
        let receipt = Reply::of(node.get(&format!("/v1/fs/rw/operations/{id}"))).await.json();
        match write.status {
            200 => {
                assert_eq!(receipt, write.json(), "{round}");
                done += 1;
            }
            408 => assert_eq!(receipt, write.json(), "{round}"),
            409 => assert_eq!(write.refusal(), refusal(409, "OPERATION_ID_REUSED"), "{round}"),
            status => panic!("{round}: {status} {:?}", write.body),
        }
        if write.status != 200 {
            assert_eq!(receipt, json!({ "outcome": "not-committed", "code": "ECANCELLED" }), "{round}");
            undone += 1;
        }
        assert_eq!(node.path("rw").join(&path).exists(), write.status == 200, "{round}");
    }
    assert_eq!(done + undone, 150);
    // A piece that was being written when its upload was cancelled holds its staging file a moment longer.
    while names(&node).iter().any(|name| name.starts_with('.')) {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn two_views_that_write_at_once_lose_nothing_that_was_committed() {
    let node = TestNode::start().await;
    fs::write(node.path("rw/shared"), "").unwrap();
    // Each view appends its lines: it reads, changes and writes on condition, until that was in time.
    let view = async |name: char| {
        for line in 0..25 {
            for attempt in 0.. {
                let read = Reply::of(node.content("rw", "shared")).await;
                assert_eq!(read.status, 200);
                let revision = read.header("etag").unwrap().to_owned();
                let mut content = read.body.to_vec();
                content.extend(format!("{name}{line}\n").as_bytes());
                let write = node
                    .anonymous(Method::PUT, "/v1/fs/rw/content?path=shared")
                    .bearer_auth(KEY)
                    .header("x-operation-id", format!("{name}-{line}-{attempt}"))
                    .header("if-match", revision);
                let reply = Reply::of(write.body(content)).await;
                match reply.status {
                    200 => break,
                    412 => assert_eq!(reply.json()["code"], "ECONFLICT"),
                    status => panic!("{status} {:?}", reply.body),
                }
            }
        }
    };
    tokio::join!(view('a'), view('b'), view('c'));
    let content = fs::read_to_string(node.path("rw/shared")).unwrap();
    assert_eq!(content.lines().count(), 75);
    for name in ['a', 'b', 'c'] {
        let lines: Vec<_> = content.lines().filter(|line| line.starts_with(name)).collect();
        assert_eq!(lines, (0..25).map(|line| format!("{name}{line}")).collect::<Vec<_>>(), "in order, each once");
    }
}

#[tokio::test]
async fn any_mix_of_writes_leaves_a_directory_that_agrees_with_the_receipts() {
    let node = TestNode::start().await;
    let write = |worker: usize, step: usize| {
        let (node, id) = (&node, format!("{worker}-{step}"));
        // A few names, so that the writes meet.
        let name = |at: usize| format!("name-{}", (worker * 7 + step * 3 + at) % 5);
        let request = match (worker + step) % 5 {
            0 => create(node, &name(0), &id).body(id.clone()),
            1 => post(node, "mutate", &id, &json!({ "action": "mkdir", "path": name(1) })),
            2 => post(node, "mutate", &id, &json!({ "action": "rename", "path": name(2), "to": name(3) })),
            3 => post(node, "mutate", &id, &json!({ "action": "remove", "path": name(4) })),
            _ => {
                let changes = json!([{ "action": "set", "key": "k", "value": id }]);
                let path = format!("{}.seq", name(0));
                post(
                    node,
                    "seq/transaction",
                    &id,
                    &json!({ "path": path, "expectedRevision": null, "changes": changes }),
                )
            }
        };
        async move { (id, Reply::of(request).await) }
    };
    let worker = async |worker: usize| {
        for step in 0..40 {
            let (id, reply) = write(worker, step).await;
            let receipt = reply.json();
            let expected = if reply.status == 200 { "committed" } else { "not-committed" };
            assert_eq!(receipt["outcome"], expected, "{id}: {receipt}");
            assert!(matches!(reply.status, 200 | 400 | 404 | 409 | 412), "{id}: {} {receipt}", reply.status);
            let kept = Reply::of(node.get(&format!("/v1/fs/rw/operations/{id}"))).await.json();
            assert_eq!(kept, receipt, "{id}");
        }
    };
    join_all((0..8).map(worker)).await;
    let listed = Reply::of(node.entries("rw", "", None)).await.json();
    let listed: BTreeSet<String> =
        listed["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(listed, names(&node), "no staging file is left");
}

#[tokio::test]
async fn far_more_listings_than_are_kept_are_all_right() {
    let node = TestNode::start_with(|config| crate::support::make_files(&config.exports[0].path, 0..600)).await;
    let listing = async |at: usize| {
        let (mut cursor, mut found) = (None::<String>, Vec::new());
        loop {
            let reply = Reply::of(node.entries("rw", "", cursor.as_deref())).await;
            assert_eq!(reply.status, 200, "{at} {:?}", reply.body);
            let page = reply.json();
            let names = page["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap());
            found.extend(names.map(str::to_owned));
            match page["nextCursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => break,
            }
        }
        let in_order: BTreeSet<&String> = found.iter().collect();
        assert_eq!((found.len(), in_order.len()), (600, 600), "{at}");
    };
    // Many more than are kept: most are read again for their next page.
    for _ in 0..4 {
        join_all((0..40).map(listing)).await;
    }
}
