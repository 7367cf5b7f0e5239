//! [`WebHost`], the driver's platform in JavaScript, alone and below a client. The same cases run in Node and in Chromium;
//! they need no server, because `fetch` is injected.
#![cfg(target_family = "wasm")]
#![allow(clippy::unwrap_used, reason = "clippy knows only `#[test]`")]

mod fetch;

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use cells_driver::host::{Host, HostError, HttpRequest, HttpResponse, Method, RequestBody};
use cells_driver::{Client, ClientConfig, Connection, ErrorKind, FileConnection, OperationOptions, Secret};
use cells_wasm::WebHost;
use futures::FutureExt;
use futures::future::{join_all, poll_immediate};
use js_sys::{JsString, Promise};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;
use wasm_bindgen_test::wasm_bindgen_test;

use fetch::{Fetch, broken_stream, response, stream_of};

#[wasm_bindgen_test]
async fn status_headers_and_body_of_a_response_arrive() {
    let fetch =
        Fetch::answering(|_, _| Ok(response(201, &[("X-One", "1"), ("x-two", "2")], &stream_of(&["ab", "", "c"]))));
    let mut reply = send(&fetch).await.unwrap();
    assert_eq!(reply.status, 201);
    assert_eq!((reply.header("x-one"), reply.header("x-two")), (Some("1"), Some("2")));
    let mut pieces = Vec::new();
    while let Some(piece) = reply.body.next_chunk().await.unwrap() {
        pieces.push(piece);
    }
    assert_eq!(pieces, ["ab", "c"]);
    assert_eq!(reply.body.next_chunk().await, Ok(None));
    assert!(!fetch.signal().aborted());

    let mut reply = send(&fetch).await.unwrap();
    assert_eq!(reply.body.take_all().unwrap().await, Ok(Bytes::from("abc")));
    assert!(reply.body.take_all().is_none());
}

#[wasm_bindgen_test]
async fn a_request_is_sent_as_it_is_and_refuses_caches_cookies_and_redirects() {
    let fetch = Fetch::answering(|_, _| Ok(response(204, &[], &JsValue::NULL)));
    let mut reply = send(&fetch).await.unwrap();
    assert_eq!(reply.body.next_chunk().await, Ok(None));
    assert_eq!(fetch.url(), "http://node.test/path");
    let init = fetch.init();
    let text = |name: &str| member(&init, name).as_string().unwrap_or_default();
    assert_eq!(text("method"), "POST");
    assert_eq!([text("cache"), text("credentials"), text("redirect")], ["no-store", "omit", "manual"]);
    assert_eq!(member(&member(&init, "headers"), "x-test").as_string().unwrap(), "value");
    assert_eq!(js_sys::Uint8Array::new(&member(&init, "body")).to_vec(), b"body");
}

#[wasm_bindgen_test]
async fn dropping_a_request_or_its_body_ends_the_transfer() {
    let pending = Fetch::answering(|_, _| Ok(Promise::new(&mut |_, _| {}).into()));
    let mut sending = Box::pin(send(&pending));
    assert!(poll_immediate(&mut sending).await.is_none());
    assert!(!pending.signal().aborted());
    drop(sending);
    assert!(pending.signal().aborted());

    let fetch = Fetch::answering(|_, _| Ok(response(200, &[], &stream_of(&["some", "more"]))));
    let mut reply = send(&fetch).await.unwrap();
    reply.body.next_chunk().await.unwrap();
    assert!(!fetch.signal().aborted());
    drop(reply);
    assert!(fetch.signal().aborted());
}

#[wasm_bindgen_test]
async fn a_read_that_ends_after_its_body_was_dropped_harms_nothing() {
    let late = Rc::new(RefCell::new(None));
    let kept = Rc::clone(&late);
    let read = fetch::method(move || Promise::new(&mut |resolve, _| drop(kept.replace(Some(resolve)))).into());
    let reader = object(&[("read", read)]);
    let body = object(&[("getReader", fetch::method(move || reader.clone()))]);
    let fetch = Fetch::answering(move |_, _| Ok(object(&[("status", 200.into()), ("body", body.clone())])));
    let mut reply = send(&fetch).await.unwrap();
    assert!(poll_immediate(reply.body.next_chunk()).await.is_none());
    // A future that is dropped leaves its read to the next one.
    assert!(poll_immediate(reply.body.next_chunk()).await.is_none());
    drop(reply);
    late.take().unwrap().call1(&JsValue::UNDEFINED, &object(&[("done", true.into())])).unwrap();
    WebHost::new(None).sleep(1).await;
}

#[wasm_bindgen_test]
async fn redirects_are_refused_in_whatever_way_the_platform_tells_them() {
    let opaque = |_: &str, _: &JsValue| Ok(object(&[("status", 0.into()), ("type", "opaqueredirect".into())]));
    let followed = |_: &str, _: &JsValue| Ok(object(&[("status", 200.into()), ("redirected", true.into())]));
    for fetch in [
        Fetch::answering(|_, _| Ok(response(307, &[("location", "/")], &JsValue::NULL))),
        Fetch::answering(opaque),
        Fetch::answering(followed),
    ] {
        assert_eq!(send(&fetch).await.unwrap_err(), HostError::Redirect);
    }
}

#[wasm_bindgen_test]
async fn a_failure_of_the_network_quotes_its_code_and_nothing_else() {
    let refused = || {
        let error = js_sys::Error::new("connect ECONNREFUSED 127.0.0.1:80");
        member_set(&error, "cause", &object(&[("code", "ECONNREFUSED".into())]));
        JsValue::from(error)
    };
    let thrown = move |_: &str, _: &JsValue| Err(refused());
    let rejected = move |_: &str, _: &JsValue| Ok(Promise::reject(&refused()).into());
    for (fetch, part) in [
        (Fetch::answering(thrown), "ECONNREFUSED"),
        (Fetch::answering(rejected), "ECONNREFUSED"),
        (Fetch::answering(|_, _| Err("http://secret.test".into())), "may not allow this origin"),
        (Fetch::answering(|_, _| Err(JsValue::NULL)), "may not allow this origin"),
        (Fetch::answering(|_, _| Ok(object(&[("code", "x y".into())]))), "no response"),
        (Fetch::answering(|_, _| Ok(JsValue::UNDEFINED)), "no response"),
        (Fetch::answering(|_, _| Ok(object(&[("status", 99.into())]))), "no response"),
        (Fetch::answering(|_, _| Ok(object(&[("status", "200".into())]))), "no response"),
    ] {
        let error = send(&fetch).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        assert!(!error.contains("127.0.0.1") & !error.contains("secret"), "{error}");
    }
}

#[wasm_bindgen_test]
async fn a_body_that_breaks_or_is_not_made_of_bytes_is_an_error() {
    for body in [broken_stream(), stream_of_strings(), object(&[])] {
        let fetch = Fetch::answering(move |_, _| Ok(object(&[("status", 200.into()), ("body", body.clone())])));
        let mut reply = send(&fetch).await.unwrap();
        let mut last = reply.body.next_chunk().await;
        while matches!(last, Ok(Some(_))) {
            last = reply.body.next_chunk().await;
        }
        assert!(matches!(last, Err(HostError::Network(_))), "{last:?}");
    }
}

#[wasm_bindgen_test]
async fn a_header_that_cannot_be_sent_is_told_before_anything_is() {
    let fetch = Fetch::answering(|_, _| Ok(response(200, &[], &JsValue::NULL)));
    for value in ["two\r\nlines", "nul\0", "snow ☃"] {
        let request = HttpRequest { headers: vec![("x-test", value.into())], ..request() };
        let error = WebHost::new(Some(fetch.function())).send(request).await.unwrap_err();
        assert!(matches!(&error, HostError::Unsendable(text) if text.contains("x-test")), "{error:?}");
    }
    assert_eq!(fetch.n_calls(), 0);
}

#[wasm_bindgen_test]
async fn without_an_injected_one_the_global_fetch_is_used() {
    let request = HttpRequest { method: Method::Get, url: "data:text/plain,hello".into(), headers: vec![], body: None };
    let mut reply = WebHost::new(None).send(request).await.unwrap();
    assert_eq!((reply.status, reply.body.take_all().unwrap().await), (200, Ok(Bytes::from("hello"))));
}

#[wasm_bindgen_test]
async fn time_passes_and_a_turn_ends_before_any_timer() {
    let host = WebHost::new(None);
    let before = host.now_ms();
    assert!(before > 1_600_000_000_000);
    host.sleep(20).await;
    assert!(host.now_ms() >= before + 19);

    let mut timer = host.sleep(0);
    assert!(poll_immediate(&mut timer).await.is_none());
    host.turn_end().await;
    assert!(timer.now_or_never().is_none());
    // Longer than a JavaScript timer can be: it must not fire at once.
    let mut long = host.sleep(u64::MAX);
    assert!(poll_immediate(&mut long).await.is_none());
    host.sleep(5).await;
    assert!(poll_immediate(&mut long).await.is_none());
}

#[wasm_bindgen_test]
fn random_bytes_fill_buffers_of_any_size() {
    let host = WebHost::new(None);
    let mut buffers = [vec![0; 200_000], vec![0; 200_000]];
    for buffer in &mut buffers {
        host.fill_random(buffer).unwrap();
        assert!(buffer.chunks(1000).all(|part| part.iter().any(|byte| *byte != 0)));
    }
    assert_ne!(buffers[0], buffers[1]);
    host.fill_random(&mut []).unwrap();
}

#[wasm_bindgen_test]
async fn a_client_on_this_host_shares_requests_and_tells_typed_errors() {
    let fetch = Fetch::answering(|url, init| {
        if url.ends_with("/exports") {
            return Ok(response(401, &[], &"{\"code\":\"EACCES\"}".into()));
        }
        let text = String::from_utf8(js_sys::Uint8Array::new(&member(init, "body")).to_vec()).unwrap();
        let results = vec!["{\"stat\":{\"kind\":\"file\",\"size\":7}}"; text.matches(".txt").count()].join(",");
        Ok(response(200, &[("content-type", "application/json")], &format!("{{\"results\":[{results}]}}").into()))
    });
    let (client, run) = Client::new(WebHost::new(Some(fetch.function())), ClientConfig::default());
    spawn_local(run);
    client.set_credential("key", Secret::new("secret"));
    let connection = Connection::new("http://node.test", "key");
    let files = client.files(&FileConnection::new(connection.clone(), "home")).unwrap();
    let stats = (0..600).map(|n| files.stat(&format!("{}.txt", n % 300), OperationOptions::default()));
    let stats = join_all(stats.collect::<Vec<_>>()).await;
    assert!(stats.into_iter().all(|stat| stat.unwrap().unwrap().size == Some(7)));
    assert_eq!(fetch.n_calls(), 2);

    let error = client.exports(&connection, OperationOptions::default()).await.unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::AccessDenied, Some(401)));
    client.dispose();
}

fn request() -> HttpRequest {
    HttpRequest {
        method: Method::Post,
        url: "http://node.test/path".into(),
        headers: vec![("x-test", "value".into())],
        body: Some(RequestBody::Bytes(Bytes::from("body"))),
    }
}

async fn send(fetch: &Fetch) -> Result<HttpResponse, HostError> {
    WebHost::new(Some(fetch.function())).send(request()).await
}

fn object(members: &[(&str, JsValue)]) -> JsValue {
    let object = js_sys::Object::new();
    for (name, value) in members {
        member_set(&object, name, value);
    }
    object.into()
}

fn member(object: &JsValue, name: &str) -> JsValue {
    js_sys::Reflect::get(object, &name.into()).unwrap()
}

fn member_set(object: &JsValue, name: &str, value: &JsValue) {
    js_sys::Reflect::set(object, &name.into(), value).unwrap();
}

fn stream_of_strings() -> JsValue {
    let read = fetch::method(|| {
        let step = object(&[("done", false.into()), ("value", JsString::from("text").into())]);
        Promise::resolve(&step).into()
    });
    let reader = object(&[("read", read)]);
    object(&[("getReader", fetch::method(move || reader.clone()))])
}
