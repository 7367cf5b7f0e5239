//! The fault proxy between a plain HTTP client and a small node-like server.

#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that cannot be")]

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    routing::{get, post},
};
use cells_testkit::fault_proxy::{Fault, FaultProxy, Plan, Rule, control::Control};
use futures::{StreamExt as _, channel::mpsc};
use tokio::net::TcpListener;

const BODY: &str = "0123456789abcdef";

/// An upstream that counts the requests it has read to their end.
struct Upstream {
    address: SocketAddr,
    got: Arc<AtomicU64>,
}

impl Upstream {
    async fn start() -> Upstream {
        let got = Arc::new(AtomicU64::new(0));
        let routes = Router::new()
            .route("/fixed", post(fixed).get(fixed))
            .route("/streamed", post(streamed))
            .with_state(got.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async { axum::serve(listener, routes).await });
        Upstream { address, got }
    }
}

async fn fixed(State(got): State<Arc<AtomicU64>>, _request: Bytes) -> &'static str {
    got.fetch_add(1, Ordering::SeqCst);
    BODY
}

/// The same body without a length, one byte a chunk.
async fn streamed(State(got): State<Arc<AtomicU64>>, _request: Bytes) -> Body {
    got.fetch_add(1, Ordering::SeqCst);
    Body::from_stream(futures::stream::iter(BODY.bytes().map(|byte| Ok::<_, Infallible>(Bytes::from(vec![byte])))))
}

fn http() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// What a client sees of one request: the bytes that arrived, and how it ended.
#[derive(Debug, PartialEq, Eq)]
struct Saw {
    bytes: Vec<u8>,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    Refused,
    Reset,
    Broken,
}

async fn ask(url: &str) -> Saw {
    let mut bytes = Vec::new();
    let end = match http().post(url).body("question").send().await {
        Err(error) => end_of(&error),
        Ok(reply) => {
            let mut stream = reply.bytes_stream();
            loop {
                match stream.next().await {
                    None => break End::Complete,
                    Some(Ok(part)) => bytes.extend_from_slice(&part),
                    Some(Err(error)) => break end_of(&error),
                }
            }
        }
    };
    Saw { bytes, end }
}

fn end_of(error: &(dyn std::error::Error + 'static)) -> End {
    let mut cause = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
            Some(std::io::ErrorKind::ConnectionRefused) => return End::Refused,
            Some(std::io::ErrorKind::ConnectionReset) => return End::Reset,
            Some(_) | None => cause = error.source(),
        }
    }
    End::Broken
}

#[tokio::test]
async fn each_fault_is_what_the_client_sees_and_what_the_node_gets() {
    let corrupted = |at: usize, xor: u8| {
        let mut bytes = BODY.as_bytes().to_vec();
        bytes[at] ^= xor;
        bytes
    };
    let all = || BODY.as_bytes().to_vec();
    for (fault, bytes, end, node_got) in [
        (Fault::Refuse, vec![], End::Reset, 0),
        (Fault::ResetBefore, vec![], End::Reset, 0),
        (Fault::ResetWithin { at: 8 }, all(), End::Complete, 1),
        (Fault::ResetAfter, vec![], End::Reset, 1),
        (Fault::Truncate { at: 0 }, vec![], End::Broken, 1),
        (Fault::Truncate { at: 5 }, b"01234".to_vec(), End::Broken, 1),
        (Fault::Truncate { at: 100 }, all(), End::Complete, 1),
        (Fault::Corrupt { at: 0, xor: 1 }, corrupted(0, 1), End::Complete, 1),
        (Fault::Corrupt { at: 15, xor: 255 }, corrupted(15, 255), End::Complete, 1),
        (Fault::Corrupt { at: 16, xor: 255 }, all(), End::Complete, 1),
        (Fault::DelayRequest { ms: 1 }, all(), End::Complete, 1),
        (Fault::DelayReply { ms: 1 }, all(), End::Complete, 1),
    ] {
        for path in ["/fixed", "/streamed"] {
            let upstream = Upstream::start().await;
            let proxy = FaultProxy::start(upstream.address).await.unwrap();
            proxy.set_plan(Plan::new([Rule::any(fault).nth(1)]));
            let saw = ask(&format!("{}{path}", proxy.url())).await;
            assert_eq!(saw, Saw { bytes: bytes.clone(), end }, "{fault:?} {path}");
            assert_eq!(upstream.got.load(Ordering::SeqCst), node_got, "{fault:?} {path}");
            assert_eq!((proxy.counts().requests, proxy.counts().forwarded), (1, node_got), "{fault:?} {path}");
        }
    }
}

#[tokio::test]
async fn a_request_that_is_cut_reaches_the_node_in_part() {
    for at in [0, 1, 7] {
        let (arrived, mut parts) = mpsc::unbounded();
        let take = |body: Body| async move {
            let mut stream = body.into_data_stream();
            while let Some(Ok(part)) = stream.next().await {
                arrived.unbounded_send(part).unwrap();
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = FaultProxy::start(listener.local_addr().unwrap()).await.unwrap();
        tokio::spawn(async { axum::serve(listener, Router::new().route("/", post(take))).await });
        proxy.set_plan(Plan::new([Rule::any(Fault::ResetWithin { at })]));
        let saw = ask(&proxy.url()).await;
        assert_eq!(saw, Saw { bytes: vec![], end: End::Reset }, "{at}");
        let mut got = Vec::new();
        // The node notices the end only with the connection.
        while got.len() < usize::try_from(at).unwrap() {
            got.extend_from_slice(&parts.next().await.unwrap());
        }
        assert_eq!(got, b"question"[..got.len()], "{at}");
        let counts = proxy.counts();
        assert_eq!((counts.requests, counts.forwarded, counts.faults), (1, 1, 1), "{at}");
    }
}

#[tokio::test]
async fn only_faults_that_took_effect_are_counted() {
    for (fault, took) in [
        (Fault::ResetBefore, 1),
        (Fault::ResetWithin { at: 7 }, 1),
        (Fault::ResetWithin { at: 8 }, 0),
        (Fault::ResetAfter, 1),
        (Fault::Truncate { at: 15 }, 1),
        (Fault::Truncate { at: 16 }, 0),
        (Fault::Corrupt { at: 15, xor: 1 }, 1),
        (Fault::Corrupt { at: 16, xor: 1 }, 0),
        (Fault::DelayReply { ms: 1 }, 1),
    ] {
        let upstream = Upstream::start().await;
        let proxy = FaultProxy::start(upstream.address).await.unwrap();
        proxy.set_plan(Plan::new([Rule::any(fault)]));
        ask(&format!("{}/fixed", proxy.url())).await;
        assert_eq!(proxy.counts().faults, took, "{fault:?}");
    }
}

#[tokio::test]
async fn a_refusing_port_refuses_until_it_listens_again() {
    let upstream = Upstream::start().await;
    let proxy = FaultProxy::start(upstream.address).await.unwrap();
    let url = format!("{}/fixed", proxy.url());
    proxy.set_plan(Plan::new([Rule::any(Fault::Refuse).nth(1)]));
    assert_eq!(ask(&url).await.end, End::Reset);
    // The port closes right after the reset; nothing else in between can answer.
    while ask(&url).await.end != End::Refused {}
    assert_eq!(ask(&url).await.end, End::Refused);
    assert_eq!(upstream.got.load(Ordering::SeqCst), 0);
    proxy.listen().await;
    assert_eq!(ask(&url).await.end, End::Complete);
    proxy.refuse().await;
    assert_eq!(ask(&url).await.end, End::Refused);
}

#[tokio::test]
async fn requests_are_counted_by_path_and_by_tool() {
    let upstream = Upstream::start().await;
    let proxy = FaultProxy::start(upstream.address).await.unwrap();
    let client = http();
    for tool in ["harness_turn", "harness_turn", "harness_create"] {
        client.post(format!("{}/fixed?q=1", proxy.url())).header("mcp-name", tool).send().await.unwrap();
    }
    client.get(format!("{}/fixed", proxy.url())).send().await.unwrap();
    let counts = proxy.counts();
    assert_eq!((counts.requests, counts.forwarded), (4, 4));
    assert_eq!(counts.paths, [("GET /fixed".into(), 1), ("POST /fixed".into(), 3)].into());
    assert_eq!(counts.tools, [("harness_create".into(), 1), ("harness_turn".into(), 2)].into());
    proxy.reset_counts();
    assert_eq!(proxy.counts(), Default::default());
}

#[tokio::test]
async fn an_endless_reply_is_passed_on_as_it_comes_and_ended_when_the_client_leaves() {
    let (mut events, stream) = mpsc::channel::<Bytes>(0);
    let stream = Arc::new(std::sync::Mutex::new(Some(stream)));
    let routes = Router::new().route(
        "/events",
        get(move || {
            let stream = stream.lock().unwrap().take().unwrap();
            async { Body::from_stream(stream.map(Ok::<_, Infallible>)) }
        }),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap()).await.unwrap();
    tokio::spawn(async { axum::serve(listener, routes).await });

    let reply = http().get(format!("{}/events", proxy.url())).send().await.unwrap();
    let mut received = reply.bytes_stream();
    for n in 0..3 {
        // Each is sent only after the one before arrived: a proxy that buffers would stop here for ever.
        let event = Bytes::from(format!("data: {n}\n\n"));
        futures::SinkExt::send(&mut events, event.clone()).await.unwrap();
        assert_eq!(received.next().await.unwrap().unwrap(), event);
    }
    drop(received);
    while futures::SinkExt::send(&mut events, Bytes::from_static(b": still there\n\n")).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_node_that_is_gone_breaks_the_connection() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let proxy = FaultProxy::start(gone).await.unwrap();
    assert_eq!(ask(&format!("{}/fixed", proxy.url())).await, Saw { bytes: vec![], end: End::Reset });
}

#[tokio::test]
async fn the_control_port_sets_plans_and_reads_counts() {
    let upstream = Upstream::start().await;
    let proxy = Arc::new(FaultProxy::start(upstream.address).await.unwrap());
    let control = Control::bind(proxy.clone()).await.unwrap();
    let at = format!("http://{}", control.address().unwrap());
    tokio::spawn(control.run());
    let client = http();

    let plan = r#"{"rules":[{"path":"/fixed","fault":{"kind":"reset-before"}}]}"#;
    let put = |body| client.put(format!("{at}/plan")).header("content-type", "application/json").body(body).send();
    assert!(put(plan).await.unwrap().status().is_success());
    assert!(put(r#"{"rules":1}"#).await.unwrap().status().is_client_error());
    assert_eq!(ask(&format!("{}/fixed", proxy.url())).await.end, End::Reset);
    let counts = client.get(format!("{at}/counts")).send().await.unwrap().text().await.unwrap();
    assert_eq!(counts, r#"{"requests":1,"forwarded":0,"faults":1,"paths":{"POST /fixed":1},"tools":{}}"#);
    client.delete(format!("{at}/counts")).send().await.unwrap();
    assert_eq!(proxy.counts().requests, 0);
    client.post(format!("{at}/refuse")).send().await.unwrap();
    assert_eq!(ask(&format!("{}/fixed", proxy.url())).await.end, End::Refused);
    client.post(format!("{at}/listen")).send().await.unwrap();
    assert_eq!(ask(&format!("{}/streamed", proxy.url())).await.end, End::Complete);
}
