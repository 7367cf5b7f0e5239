//! The platform: HTTP by reqwest, time by tokio, randomness by the operating system. No policy: redirects, retries,
//! deadlines and budgets are decided by the driver.

use std::error::Error as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use cells_driver::host::{Host, HostError, HostFuture, HttpBody, HttpRequest, HttpResponse, Method, RequestBody};
use cells_driver::{Error, ErrorKind};

/// A [`Host`] on reqwest and tokio. Its futures need a tokio runtime with I/O and time.
#[derive(Debug, Clone)]
pub struct NativeHost {
    http: reqwest::Client,
    /// What [`Host::now_ms`] counts on from.
    started: Instant,
    started_ms: u64,
}

impl NativeHost {
    /// A host with connections of its own: kept alive, without Nagle's delay, without cookies, redirects or proxies; TLS
    /// by rustls, trusting what the platform trusts. The environment is not looked at: use
    /// [`with_http_client`](Self::with_http_client) for a proxy.
    ///
    /// On a platform that has no trusted certificates only plain HTTP works; HTTPS fails when it is used.
    ///
    /// # Errors
    /// `EIO` when the platform can make no HTTP client.
    pub fn new() -> Result<Self, Error> {
        // A provider that the program installed before stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .no_proxy()
                .tcp_nodelay(true)
        };
        // Without trusted certificates the first attempt fails, though a node on this machine needs none.
        let client = builder().build().or_else(|_| builder().tls_certs_only([]).build());
        client.map(Self::with_http_client).map_err(|error| {
            Error::new(ErrorKind::Io, "client", format!("no HTTP client can be made: {}", innermost(&error)))
        })
    }

    /// A host on a client that you made, for example with a proxy or a private certificate authority. It must not follow
    /// redirects, repeat requests, keep cookies or decompress.
    pub fn with_http_client(http: reqwest::Client) -> Self {
        Self { http, started: Instant::now(), started_ms: unix_ms() }
    }
}

impl Host for NativeHost {
    fn send(&self, request: HttpRequest) -> HostFuture<'static, Result<HttpResponse, HostError>> {
        let method = match request.method {
            Method::Get => reqwest::Method::GET,
            Method::Post => reqwest::Method::POST,
            Method::Put => reqwest::Method::PUT,
        };
        let mut builder = self.http.request(method, request.url);
        for (name, value) in request.headers {
            builder = builder.header(name, value);
        }
        builder = match request.body {
            Some(RequestBody::Bytes(bytes)) => builder.body(bytes),
            Some(RequestBody::Stream { size, pieces }) => {
                if let Some(size) = size {
                    builder = builder.header(reqwest::header::CONTENT_LENGTH, size);
                }
                builder.body(reqwest::Body::wrap_stream(pieces))
            }
            Some(RequestBody::Platform(_)) => {
                let problem = "this platform has no content of its own; pass bytes or a stream".to_owned();
                return Box::pin(async { Err(HostError::Unsendable(problem)) });
            }
            None => builder,
        };
        Box::pin(async move {
            let response = builder.send().await.map_err(|error| network(&error))?;
            let headers = response.headers().iter().filter_map(|(name, value)| {
                // No header that the driver reads has other text.
                let value = value.to_str().ok()?;
                Some((name.as_str().to_owned(), value.to_owned()))
            });
            let headers = headers.collect();
            Ok(HttpResponse { status: response.status().as_u16(), headers, body: Box::new(Body(Some(response))) })
        })
    }

    fn sleep(&self, duration_ms: u64) -> HostFuture<'static, ()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(duration_ms)))
    }

    /// Yields a few times: tasks that are ready now run first, and those that they wake.
    fn turn_end(&self) -> HostFuture<'static, ()> {
        Box::pin(async {
            for _ in 0..TURN_YIELDS {
                tokio::task::yield_now().await;
            }
        })
    }

    /// Wall time can be set back, and an [`Instant`] may stand still while the machine sleeps: neither may make a deadline
    /// come late, or what was sent seem younger than it is.
    fn now_ms(&self) -> u64 {
        let counted = self.started_ms.saturating_add(milliseconds(self.started.elapsed()));
        counted.max(unix_ms())
    }

    fn fill_random(&self, buffer: &mut [u8]) -> Result<(), HostError> {
        getrandom::fill(buffer).map_err(|_| HostError::NoRandomness)
    }
}

/// The body of a response; `None` once all of it was taken.
struct Body(Option<reqwest::Response>);

impl HttpBody for Body {
    fn next_chunk(&mut self) -> HostFuture<'_, Result<Option<Bytes>, HostError>> {
        Box::pin(async {
            let Some(response) = &mut self.0 else { return Ok(None) };
            loop {
                match response.chunk().await.map_err(|error| network(&error))? {
                    Some(chunk) if chunk.is_empty() => {}
                    other => return Ok(other),
                }
            }
        })
    }

    fn take_all(&mut self) -> Option<HostFuture<'_, Result<Bytes, HostError>>> {
        let response = self.0.take()?;
        Some(Box::pin(async { response.bytes().await.map_err(|error| network(&error)) }))
    }
}

/// The failure in words without addresses: reqwest's own text names the URL.
fn network(error: &reqwest::Error) -> HostError {
    if error.is_builder() {
        return HostError::Unsendable("it has a header or an address that HTTP does not allow".to_owned());
    }
    if error.is_redirect() {
        return HostError::Redirect;
    }
    if error.is_connect() {
        return HostError::Unreachable(innermost(error));
    }
    HostError::Network(innermost(error))
}

/// The text of the first cause.
fn innermost(error: &reqwest::Error) -> String {
    let Some(mut cause) = error.source() else {
        return if error.is_connect() { "no connection" } else { "the request failed" }.to_owned();
    };
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn unix_ms() -> u64 {
    milliseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How often a turn lets other tasks run.
const TURN_YIELDS: usize = 4;
