//! The one seam to the platform: a [`Host`] does one plain call, and nothing else.
//!
//! Retry, deadlines, budgets, redirect refusal and error mapping live above this trait and are the same code on every
//! platform. Futures are boxed, so that clients are plain types; on wasm they need not be [`Send`], because a page has
//! one thread.

use bytes::Bytes;

pub use crate::body::{ByteStream, PlatformContent, RequestBody};
pub use crate::chunk::{Chunk, PlatformBytes};

/// A boxed future a [`Host`] returns.
#[cfg(not(target_family = "wasm"))]
pub type HostFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// A boxed future a [`Host`] returns.
#[cfg(target_family = "wasm")]
pub type HostFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + 'a>>;

/// `Send + Sync` where threads exist, nothing on wasm.
#[cfg(not(target_family = "wasm"))]
pub trait MaybeSendSync: Send + Sync {}
#[cfg(not(target_family = "wasm"))]
impl<T: Send + Sync> MaybeSendSync for T {}
/// `Send + Sync` where threads exist, nothing on wasm.
#[cfg(target_family = "wasm")]
pub trait MaybeSendSync {}
#[cfg(target_family = "wasm")]
impl<T> MaybeSendSync for T {}

/// `Send` where threads exist, nothing on wasm.
#[cfg(not(target_family = "wasm"))]
pub trait MaybeSend: Send {}
#[cfg(not(target_family = "wasm"))]
impl<T: Send> MaybeSend for T {}
/// `Send` where threads exist, nothing on wasm.
#[cfg(target_family = "wasm")]
pub trait MaybeSend {}
#[cfg(target_family = "wasm")]
impl<T> MaybeSend for T {}

/// A function that is called once, from the task that drives the client.
#[cfg(not(target_family = "wasm"))]
pub type Callback<A> = Box<dyn FnOnce(A) + Send>;
/// A function that is called once, from the task that drives the client.
#[cfg(target_family = "wasm")]
pub type Callback<A> = Box<dyn FnOnce(A)>;

/// A function that is told how many bytes are done, and how many there are in all.
#[cfg(not(target_family = "wasm"))]
pub type Progress = Box<dyn FnMut(u64, u64) + Send>;
/// A function that is told how many bytes are done, and how many there are in all.
#[cfg(target_family = "wasm")]
pub type Progress = Box<dyn FnMut(u64, u64)>;

/// Everything the driver needs from the platform it runs on.
pub trait Host: MaybeSendSync + 'static {
    /// Sends one request and resolves when the head of the response is there. Dropping the future, or the body of the
    /// response, aborts the request. Redirects must be refused, cookies and caches not used.
    ///
    /// # Errors
    /// [`HostError`], without secrets and addresses in its text. A status is never an error.
    fn send(&self, request: HttpRequest) -> HostFuture<'static, Result<HttpResponse, HostError>>;

    /// Whether [`send`](Self::send) takes [`RequestBody::Stream`]. Default: true. Browsers refuse it.
    fn streams_requests(&self) -> bool {
        true
    }

    /// Resolves after `duration_ms` milliseconds.
    fn sleep(&self, duration_ms: u64) -> HostFuture<'static, ()>;

    /// Resolves when everything that is ready to run now has run: at the end of the current microtask batch in
    /// JavaScript, after the ready tasks natively. Calls made until then share a batch.
    fn turn_end(&self) -> HostFuture<'static, ()>;

    /// The time in Unix milliseconds.
    fn now_ms(&self) -> u64;

    /// Fills `buffer` with bytes from a cryptographic source.
    ///
    /// # Errors
    /// [`HostError::NoRandomness`] when the platform has none; the driver then starts no mutation.
    fn fill_random(&self, buffer: &mut [u8]) -> Result<(), HostError>;
}

/// HTTP method of a [`HttpRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET
    Get,
    /// POST
    Post,
    /// PUT
    Put,
}

impl Method {
    /// The method as it stands in a request line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
        }
    }
}

/// One request. `Debug` leaves the headers and the body out: they hold credentials and content.
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// Absolute address.
    pub url: String,
    /// Lower-case names.
    pub headers: Vec<(&'static str, String)>,
    /// The body, if the request has one.
    pub body: Option<RequestBody>,
}

impl std::fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method.as_str(), self.url)
    }
}

impl HttpRequest {
    /// What is left of a request whose parts were taken.
    pub(crate) fn empty() -> Self {
        Self { method: Method::Get, url: String::new(), headers: Vec::new(), body: None }
    }
}

/// The head of a response, and its body to be read.
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// Lower-case names. A name may stand more than once.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Box<dyn HttpBody>,
}

impl HttpResponse {
    /// The first header called `name` (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

impl std::fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HTTP {}", self.status)
    }
}

/// The body of a response. Dropping it aborts the transfer.
pub trait HttpBody: MaybeSend {
    /// The next bytes, never empty; `None` at the end.
    ///
    /// # Errors
    /// [`HostError::Network`] when the transfer broke: an end that comes too early is never `None`.
    fn next_chunk(&mut self) -> HostFuture<'_, Result<Option<Bytes>, HostError>>;

    /// As [`HttpBody::next_chunk`], for bytes that are handed on and not looked at. A platform that has them in a memory of
    /// its own leaves them there.
    fn next_unread(&mut self) -> HostFuture<'_, Result<Option<Chunk>, HostError>> {
        let chunk = self.next_chunk();
        Box::pin(async { Ok(chunk.await?.map(Chunk::from)) })
    }

    /// All remaining bytes at once, where the platform has a cheaper way than chunk by chunk. The caller knows from
    /// `Content-Length` that they fit its budget. `None` = no such way; use [`HttpBody::next_chunk`].
    fn take_all(&mut self) -> Option<HostFuture<'_, Result<Bytes, HostError>>> {
        None
    }
}

/// Why the platform could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// No connection, or it broke. The text is the platform's, without addresses, headers or bodies.
    #[error("{0}")]
    Network(String),
    /// There is no connection, and the platform is sure that nothing was sent. The text is as that of
    /// [`Network`](Self::Network). Platforms that cannot tell never give this.
    #[error("{0}")]
    Unreachable(String),
    /// The server answered with a redirect, which is refused.
    #[error("the server answered with a redirect, which is refused")]
    Redirect,
    /// The request cannot be sent by this platform, for example because of a header. Nothing was sent.
    #[error("{0}")]
    Unsendable(String),
    /// The platform has no cryptographic randomness.
    #[error("this platform offers no cryptographic randomness")]
    NoRandomness,
}
