//! One HTTP call through `fetch`.

use std::any::Any;
use std::borrow::Cow;

use cells_driver::host::{HostError, HttpRequest, HttpResponse, PlatformContent, RequestBody};
use cells_driver::json::Json;
use js_sys::{Array, Function, JSON, Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortController, AbortSignal, RequestCache, RequestCredentials, RequestInit, RequestRedirect};

use super::body::FetchBody;

/// Sends `request` with `fetch`, or with the global function of that name.
pub(super) async fn send(fetch: Option<Function>, request: HttpRequest) -> Result<HttpResponse, HostError> {
    let abort = AbortOnDrop::new()?;
    let init = request_init(&request, abort.signal().as_ref())?;
    let answer = match &fetch {
        Some(fetch) => fetch.call2(&JsValue::UNDEFINED, &JsValue::from_str(&request.url), &init),
        None => global_fetch(&request.url, &init),
    };
    let answer = match answer {
        Ok(promise) => JsFuture::from(Promise::resolve(&promise)).await,
        Err(error) => Err(error),
    };
    let response = answer.map_err(|error| match network_error(&error) {
        // A function of the host may have sent the request before it tried again.
        HostError::Network(message) if fetch.is_none() && never_connected(&error) => HostError::Unreachable(message),
        error => error,
    })?;
    read_head(&response, abort)
}

/// Whether a failed `fetch` says that there was no connection, which only Node does: it tells the system call that failed.
/// With several addresses, all of them must have failed so.
fn never_connected(error: &JsValue) -> bool {
    let failed_to_connect = |error: &JsValue| {
        let syscall = get(error, "syscall").and_then(|syscall| syscall.as_string());
        matches!(syscall.as_deref(), Some("connect" | "getaddrinfo"))
    };
    let Some(cause) = get(error, "cause") else { return false };
    match get(&cause, "errors") {
        Some(errors) => Array::is_array(&errors) && Array::from(&errors).iter().all(|error| failed_to_connect(&error)),
        None => failed_to_connect(&cause),
    }
}

/// Aborts its request when it goes away, which ends a transfer that nobody reads to the end.
pub(super) struct AbortOnDrop(Option<AbortController>);

impl AbortOnDrop {
    fn new() -> Result<Self, HostError> {
        AbortController::new()
            .map(|controller| Self(Some(controller)))
            .map_err(|_| HostError::Unsendable("this platform has no AbortController".into()))
    }
}

impl AbortOnDrop {
    /// The transfer has ended; there is nothing left to abort.
    pub(super) fn disarm(&mut self) {
        self.0 = None;
    }

    fn signal(&self) -> Option<AbortSignal> {
        self.0.as_ref().map(AbortController::signal)
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(controller) = self.0.take() {
            controller.abort();
        }
    }
}

/// What a failed `fetch` or a broken body means. Only an error code is quoted: messages of platforms name addresses.
pub(super) fn network_error(error: &JsValue) -> HostError {
    let code_of = |value: &JsValue| {
        let code = get(value, "code")?.as_string()?;
        let plain = code.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        (plain && !code.is_empty()).then_some(code)
    };
    let code = get(error, "cause").as_ref().and_then(code_of).or_else(|| code_of(error));
    HostError::Network(match code {
        Some(code) => format!("the connection failed ({code})"),
        None => "the connection failed: the node may be down, or may not allow this origin".into(),
    })
}

/// The member `name` of an object; `None` when there is none, or reading it fails.
pub(super) fn get(object: &JsValue, name: &str) -> Option<JsValue> {
    Reflect::get(object, &JsValue::from_str(name)).ok().filter(|value| !value.is_undefined() && !value.is_null())
}

fn request_init(request: &HttpRequest, signal: Option<&AbortSignal>) -> Result<RequestInit, HostError> {
    let headers = Object::new();
    for (name, value) in &request.headers {
        if !value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
            return Err(HostError::Unsendable(format!("the header {name} holds a character that cannot be sent")));
        }
        let _ = Reflect::set(&headers, &JsValue::from_str(name), &JsValue::from_str(value));
    }
    let init = RequestInit::new();
    init.set_method(request.method.as_str());
    init.set_headers_record_from_str_to_str(&headers);
    match &request.body {
        None => {}
        Some(RequestBody::Bytes(bytes)) => init.set_body_opt_u8_array(Some(&Uint8Array::from(bytes.as_ref()))),
        Some(RequestBody::Platform(content)) => {
            let Some(JsContent { object, .. }) = content.as_any().downcast_ref() else { return Err(not_sendable()) };
            init.set_body(object);
            if get(object, "getReader").is_some() {
                // Platforms that stream bodies want to be told that the reply may come before the body has ended.
                let _ = Reflect::set(&init, &"duplex".into(), &"half".into());
            }
        }
        Some(RequestBody::Stream { .. }) => return Err(not_sendable()),
    }
    init.set_signal(signal);
    // `manual` refuses redirects like `error` does, but tells them from a broken connection.
    init.set_redirect(RequestRedirect::Manual);
    init.set_cache(RequestCache::NoStore);
    init.set_credentials(RequestCredentials::Omit);
    Ok(init)
}

fn not_sendable() -> HostError {
    HostError::Unsendable("its body is not an object of this platform; pass a Blob, bytes or a ReadableStream".into())
}

/// Content in an object that `fetch` sends as it is: a `Blob`, bytes, or a `ReadableStream` where the platform sends those.
pub(crate) struct JsContent {
    pub(crate) object: JsValue,
    pub(crate) size: Option<u64>,
}

impl PlatformContent for JsContent {
    fn size(&self) -> Option<u64> {
        self.size
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Reads status and headers of what `fetch` gave, which may be a response of another library, or nonsense.
fn read_head(response: &JsValue, abort: AbortOnDrop) -> Result<HttpResponse, HostError> {
    let status = get(response, "status").and_then(|status| status.as_f64());
    let redirected = get(response, "redirected").is_some_and(|flag| flag.is_truthy());
    let opaque = get(response, "type").is_some_and(|kind| kind == "opaqueredirect");
    match status {
        _ if redirected || opaque => Err(HostError::Redirect),
        Some(status) if (100.0..600.0).contains(&status) && status.fract() == 0.0 => {
            let status = status as u16;
            if (300..400).contains(&status) && status != 304 {
                return Err(HostError::Redirect);
            }
            Ok(HttpResponse {
                status,
                headers: read_headers(response),
                body: Box::new(FetchBody::new(response, abort)),
            })
        }
        _ => Err(HostError::Network("the fetch function gave no response".into())),
    }
}

/// All headers cross in one text, which costs less than one call for each of them.
fn read_headers(response: &JsValue) -> Vec<(String, String)> {
    let object = get(response, "headers").and_then(|headers| Object::from_entries(&headers).ok());
    let text = object.and_then(|object| JSON::stringify(&object).ok()).map(String::from).unwrap_or_default();
    let Ok(Json::Object(headers)) = Json::parse("the headers", text.as_bytes()) else { return Vec::new() };
    let pair = |(name, value): (Cow<'_, str>, Json<'_>)| match value {
        Json::String(value) => Some((name.to_ascii_lowercase(), value.into_owned())),
        _ => None,
    };
    headers.into_iter().filter_map(pair).collect()
}

#[wasm_bindgen]
extern "C" {
    // The binding of the global function works in windows, workers and Node alike.
    #[wasm_bindgen(catch, js_name = fetch)]
    fn global_fetch(url: &str, init: &RequestInit) -> Result<JsValue, JsValue>;
}
