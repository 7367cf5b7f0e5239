//! One HTTP exchange above [`Host`](crate::host::Host): headers, retries, size budgets and error mapping (`files-http.md`
//! §9.1–9.2). The same code on every platform.

use bytes::{Bytes, BytesMut};
use cells_machines::backoff::{get_retry_delay_ms, parse_retry_after};
use cells_protocol::error::{ErrorKind, code_of_body, kind_of_reply};
use cells_protocol::files::digits;
use cells_protocol::limits::ERROR_BODY_MAX_BYTES;

use crate::budget::Budget;
use crate::error::{CONNECT, Error, Result, Retry};
use crate::host::{HostError, HttpBody, HttpRequest, HttpResponse, Method};
use crate::node::{AUTHORIZATION_CHANGED, Link, authorization_changed};

/// A request before the headers that every request gets.
pub(crate) struct Call {
    /// Name of the call in errors.
    pub(crate) operation: &'static str,
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Option<Bytes>,
    /// Carries the headers of the connection's authorization, if it has one. False only for discovery.
    pub(crate) pinned: bool,
    /// Tells the node how much of the budget is left.
    pub(crate) sends_deadline: bool,
    /// Which responses are handed to the caller; the others are errors. Default: 2xx.
    pub(crate) is_accepted: fn(u16) -> bool,
}

impl Call {
    /// A GET of `url` that accepts JSON.
    pub(crate) fn get(operation: &'static str, url: String) -> Self {
        let headers = vec![("accept", JSON.to_owned())];
        Self::new(operation, Method::Get, url, headers, None)
    }

    /// A POST of a JSON body to `url`.
    pub(crate) fn post(operation: &'static str, url: String, accept: &str, body: Vec<u8>) -> Self {
        let headers = vec![("accept", accept.to_owned()), ("content-type", JSON.to_owned())];
        Self::new(operation, Method::Post, url, headers, Some(body.into()))
    }

    fn new(
        operation: &'static str,
        method: Method,
        url: String,
        headers: Vec<(&'static str, String)>,
        body: Option<Bytes>,
    ) -> Self {
        Self { operation, method, url, headers, body, pinned: true, sends_deadline: true, is_accepted: is_success }
    }
}

impl Link {
    /// Sends `call` and gives its response if it is accepted. A GET that is answered 429, 502, 503 or 504 is sent up to twice more.
    pub(crate) async fn open(&self, call: &Call, budget: &Budget) -> Result<HttpResponse> {
        let mut n_retries = 0;
        loop {
            let request = self.prepare(call, budget).await?;
            let response = self.send(call.operation, request).await?;
            if (call.is_accepted)(response.status) {
                return Ok(response);
            }
            let Some(delay_ms) = self.retry_delay_ms(call, &response, n_retries, budget) else {
                return Err(self.failure(call.operation, response).await);
            };
            drop(response);
            self.core.host.sleep(delay_ms).await;
            n_retries += 1;
        }
    }

    /// Sends `call` and gives the body of its 2xx response, of at most `max_bytes`.
    pub(crate) async fn fetch(&self, call: &Call, max_bytes: u64, budget: &Budget) -> Result<Bytes> {
        let response = self.open(call, budget).await?;
        read_all(call.operation, response, max_bytes).await
    }

    /// Adds the headers that every request gets. Asks for the credential anew, so that a changed one is used at once.
    pub(crate) async fn prepare(&self, call: &Call, budget: &Budget) -> Result<HttpRequest> {
        let mut headers = call.headers.clone();
        if let Some(authorization) =
            self.core.credentials.authorization(&self.node.binding.identity, self.draft.as_ref()).await?
        {
            headers.push(("authorization", authorization));
        }
        if let Some(snapshot) = self.node.binding.authorization.as_ref().filter(|_| call.pinned) {
            headers.extend(snapshot.headers());
        }
        if call.sends_deadline {
            headers.push(("x-timeout-ms", budget.remaining_ms().max(1).to_string()));
        }
        Ok(HttpRequest { method: call.method, url: call.url.clone(), headers, body: call.body.clone().map(Into::into) })
    }

    /// Sends one request, once.
    pub(crate) async fn send(&self, operation: &'static str, request: HttpRequest) -> Result<HttpResponse> {
        let sent = self.core.host.send(request).await;
        let response = sent.map_err(|error| match &error {
            HostError::Network(problem) | HostError::Unreachable(problem) => {
                let origin = self.node.binding.endpoint.origin();
                let message = format!("{operation} could not reach the node at {origin}: {problem}");
                Error::new(ErrorKind::Io, CONNECT, message).with_source(error)
            }
            _ => host_error(operation, error),
        })?;
        if (300..400).contains(&response.status) {
            return Err(host_error(operation, HostError::Redirect));
        }
        Ok(response)
    }

    fn retry_delay_ms(&self, call: &Call, response: &HttpResponse, n_retries: u32, budget: &Budget) -> Option<u64> {
        if call.method != Method::Get {
            return None;
        }
        let remaining_ms = budget.remaining_ms();
        get_retry_delay_ms(response.status, n_retries, retry_after_ms(response), remaining_ms, self.core.jitter())
    }

    /// The error that a failing response stands for.
    pub(crate) async fn failure(&self, operation: &'static str, response: HttpResponse) -> Error {
        let status = response.status;
        let retry_after_ms = retry_after_ms(&response);
        // A body that is too large, cut off or not JSON leaves the status, which is enough.
        let body = read_all(operation, response, ERROR_BODY_MAX_BYTES).await.unwrap_or_default();
        self.error_of(operation, status, &body, retry_after_ms)
    }

    /// The error that a status and a body stand for.
    pub(crate) fn error_of(
        &self,
        operation: &'static str,
        status: u16,
        body: &[u8],
        retry_after_ms: Option<u64>,
    ) -> Error {
        let code = code_of_body(body);
        if code.as_deref() == Some(AUTHORIZATION_CHANGED) {
            self.revoke();
            return authorization_changed(operation).with_status(status);
        }
        let kind = kind_of_reply(code.as_deref(), status);
        let advice = advice(status);
        let message = match &code {
            Some(code) => format!("the node answered with status {status} and code {code}{advice}"),
            None => format!("the node answered with status {status}{advice}"),
        };
        let mut error = Error::new(kind, operation, message).with_status(status);
        if let Some(code) = code {
            error = error.with_remote_code(code);
        }
        if let Some(wait_ms) = retry_after_ms {
            error = error.with_retry(Retry::After(wait_ms));
        }
        error
    }
}

/// The whole body of `response`, of at most `max_bytes`. Decided by `Content-Length` where it counts the bytes that
/// arrive, else by counting.
pub(crate) async fn read_all(operation: &'static str, mut response: HttpResponse, max_bytes: u64) -> Result<Bytes> {
    let announced = content_length(&response);
    let too_large = || {
        let message = format!("the reply is larger than the {max_bytes} bytes allowed");
        Error::new(ErrorKind::TooLarge, operation, message)
    };
    if announced.is_some_and(|length| length > max_bytes) {
        return Err(too_large());
    }
    let body = gather(operation, response.body.as_mut(), announced.is_some(), max_bytes).await?;
    let body = body.ok_or_else(too_large)?;
    match announced {
        Some(length) if length != body.len() as u64 => Err(cut_off(operation, body.len() as u64, length)),
        _ => Ok(body),
    }
}

/// The bytes of `body`; `None` when there are more than `max_bytes`.
async fn gather(
    operation: &'static str,
    body: &mut dyn HttpBody,
    is_size_known: bool,
    max_bytes: u64,
) -> Result<Option<Bytes>> {
    let failed = |error| host_error(operation, error);
    if is_size_known && let Some(all) = body.take_all() {
        return all.await.map(Some).map_err(failed);
    }
    let mut gathered = Gather::default();
    while let Some(chunk) = body.next_chunk().await.map_err(failed)? {
        if gathered.len() as u64 + chunk.len() as u64 > max_bytes {
            return Ok(None);
        }
        gathered.push(chunk);
    }
    Ok(Some(gathered.finish()))
}

/// The number of bytes that the body of `response` has, if it says so.
pub(crate) fn content_length(response: &HttpResponse) -> Option<u64> {
    if response.header("content-encoding").is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        return None;
    }
    response.header("content-length").and_then(digits)
}

/// Whether the platform is sure that no byte of the request has left.
pub(crate) fn was_not_sent(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<HostError>());
    matches!(source, Some(HostError::Unsendable(_) | HostError::Unreachable(_)))
}

/// Whether `status` says that it worked.
pub(crate) fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// The error that a failure of the platform stands for. Never `ENOENT`: a network that fails says nothing of files.
pub(crate) fn host_error(operation: &'static str, error: HostError) -> Error {
    match &error {
        HostError::Network(problem) | HostError::Unreachable(problem) => {
            let message = format!("{operation} lost the connection to the node: {problem}");
            Error::new(ErrorKind::Io, CONNECT, message)
        }
        HostError::Redirect => Error::protocol(operation, &error),
        HostError::Unsendable(problem) => {
            Error::new(ErrorKind::Invalid, operation, format!("the request cannot be sent: {problem}"))
        }
        HostError::NoRandomness => Error::new(ErrorKind::Unsupported, operation, error.to_string()),
    }
    .with_source(error)
}

/// What a caller can do about a status, as the end of a sentence.
fn advice(status: u16) -> &'static str {
    match status {
        401 => "; check the credential",
        403 => "; check the alias, and what this credential may do",
        404 => "; check the path",
        429 | 503 => "; try again later",
        _ => "",
    }
}

/// The error of a body that ended before it was complete.
pub(crate) fn cut_off(operation: &'static str, received: u64, expected: u64) -> Error {
    Error::protocol(operation, format!("it has {received} bytes, but {expected} were announced"))
}

/// Collects chunks without copying when there is only one.
#[derive(Default)]
pub(crate) struct Gather {
    first: Bytes,
    all: BytesMut,
}

impl Gather {
    pub(crate) fn len(&self) -> usize {
        if self.all.is_empty() { self.first.len() } else { self.all.len() }
    }

    pub(crate) fn push(&mut self, chunk: Bytes) {
        if self.len() == 0 {
            self.first = chunk;
            return;
        }
        if self.all.is_empty() {
            self.all.extend_from_slice(&self.first);
        }
        self.all.extend_from_slice(&chunk);
    }

    pub(crate) fn finish(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.freeze() }
    }
}

/// How long the node asks to be left alone, at most 30 s.
pub(crate) fn retry_after_ms(response: &HttpResponse) -> Option<u64> {
    response.header("retry-after").and_then(parse_retry_after)
}

/// What is sent and accepted unless said otherwise.
pub(crate) const JSON: &str = "application/json";
