//! A platform in memory: scripted replies, a virtual clock, counted requests.
//!
//! ```
//! use cells_driver::{Connection, OperationOptions};
//! use cells_testkit::fake_host::{FakeHost, FakeReply};
//!
//! let host = FakeHost::new(|_| FakeReply::json(&serde_json::json!({"version": 1, "exports": []})));
//! let client = host.client(Default::default());
//! let connection = Connection::anonymous("http://node");
//! let exports = host.block_on(client.exports(&connection, OperationOptions::default())).unwrap();
//! assert_eq!((exports.exports.len(), host.requests().len()), (0, 1));
//! ```

mod clock;
mod reply;

use std::any::Any;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use bytes::{Bytes, BytesMut};
use cells_driver::host::{
    Host, HostError, HostFuture, HttpRequest, HttpResponse, MaybeSend, Method, PlatformContent, RequestBody,
};
use cells_driver::{Client, ClientConfig, Run};
use futures::StreamExt;
use serde_json::Value;

use clock::Clock;
pub use reply::FakeReply;

/// A [`Host`] in memory. Clones are the same host.
///
/// Time stands still while anything can run, and jumps to the next timer when nothing can. Random bytes count up, so that
/// every run is the same.
#[derive(Clone)]
pub struct FakeHost(Arc<Shared>);

struct Shared {
    clock: Clock,
    handler: Mutex<Handler>,
    requests: Mutex<Vec<FakeRequest>>,
    run: Mutex<Option<Pin<Box<Run>>>>,
    random: AtomicU8,
    has_randomness: AtomicBool,
    takes_all: AtomicBool,
    is_paused: AtomicBool,
    streams_requests: AtomicBool,
}

/// Answers requests.
#[cfg(not(target_family = "wasm"))]
type Handler = Box<dyn FnMut(&FakeRequest) -> FakeReply + Send>;
/// Answers requests.
#[cfg(target_family = "wasm")]
type Handler = Box<dyn FnMut(&FakeRequest) -> FakeReply>;

impl FakeHost {
    /// A host whose requests are answered by `handler`.
    pub fn new(handler: impl FnMut(&FakeRequest) -> FakeReply + MaybeSend + 'static) -> Self {
        Self(Arc::new(Shared {
            clock: Clock::default(),
            handler: Mutex::new(Box::new(handler)),
            requests: Mutex::default(),
            run: Mutex::default(),
            random: AtomicU8::new(0),
            has_randomness: AtomicBool::new(true),
            takes_all: AtomicBool::new(false),
            is_paused: AtomicBool::new(false),
            streams_requests: AtomicBool::new(true),
        }))
    }

    /// A client on this host. [`block_on`](Self::block_on) drives it.
    pub fn client(&self, config: ClientConfig) -> Client {
        let (client, run) = Client::new(self.clone(), config);
        *lock(&self.0.run) = Some(Box::pin(run));
        client
    }

    /// Drops the future that drives the client.
    pub fn drop_run(&self) {
        drop(lock(&self.0.run).take());
    }

    /// From now on the future that drives the client stands still, or not.
    pub fn pause(&self, is_paused: bool) {
        self.0.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// Whether the future that drives the client has ended or was dropped.
    pub fn run_ended(&self) -> bool {
        lock(&self.0.run).is_none()
    }

    /// From now on there is no randomness.
    pub fn without_randomness(&self) {
        self.0.has_randomness.store(false, Ordering::Relaxed);
    }

    /// From now on bodies can be taken whole.
    pub fn takes_all(&self) {
        self.0.takes_all.store(true, Ordering::Relaxed);
    }

    /// From now on bodies of requests cannot be streamed, as in browsers.
    pub fn refuses_streams(&self) {
        self.0.streams_requests.store(false, Ordering::Relaxed);
    }

    /// The virtual time, in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.0.clock.now_ms()
    }

    /// Every request so far, in order.
    pub fn requests(&self) -> Vec<FakeRequest> {
        lock(&self.0.requests).clone()
    }

    /// Runs `future`, and what drives the client, until `future` is done.
    ///
    /// # Panics
    /// When nothing can run and no timer is left, or when there is no end to it.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut n_timers = 0;
        loop {
            if let Some(result) = self.step(|context| future.as_mut().poll(context)) {
                return result;
            }
            assert!(self.0.clock.advance_to_next_timer(), "everything waits, and no timer is left");
            n_timers += 1;
            assert!(n_timers < STEPS_MAX, "timers follow each other without end");
        }
    }

    /// Runs what drives the client for `duration_ms` of virtual time, and then everything that needs no more of it.
    pub fn run_for(&self, duration_ms: u64) {
        self.block_on(self.0.clock.sleep(duration_ms));
        self.step::<()>(|_| Poll::Pending);
    }

    /// Polls `poll` and the driving future until both only wait for time. Gives the result of `poll` once it has one.
    fn step<T>(&self, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&flag));
        let mut context = Context::from_waker(&waker);
        let mut n_polls = 0;
        loop {
            n_polls += 1;
            assert!(n_polls < STEPS_MAX, "something wakes itself without end");
            if !flag.0.swap(false, Ordering::Relaxed) && !self.0.clock.end_turn() {
                return None;
            }
            if let Poll::Ready(result) = poll(&mut context) {
                return Some(result);
            }
            if self.0.is_paused.load(Ordering::Relaxed) {
                continue;
            }
            let run = lock(&self.0.run).take();
            if let Some(mut run) = run
                && run.as_mut().poll(&mut context).is_pending()
            {
                *lock(&self.0.run) = Some(run);
            }
        }
    }
}

impl FakeHost {
    /// Notes a request that is complete, and answers it.
    fn answer(&self, seen: &FakeRequest, guard: reply::Guard) -> HostFuture<'static, Result<HttpResponse, HostError>> {
        lock(&self.0.requests).push(seen.clone());
        self.reply(seen, guard)
    }

    fn reply(&self, seen: &FakeRequest, guard: reply::Guard) -> HostFuture<'static, Result<HttpResponse, HostError>> {
        let reply = (lock(&self.0.handler))(seen);
        reply.into_response(&self.0.clock, guard, self.0.takes_all.load(Ordering::Relaxed))
    }
}

impl Host for FakeHost {
    fn send(&self, request: HttpRequest) -> HostFuture<'static, Result<HttpResponse, HostError>> {
        let headers = request.headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let state = Arc::new(AtomicU8::new(OPEN));
        let guard = reply::Guard::new(Arc::clone(&state));
        let mut seen =
            FakeRequest { method: request.method, url: request.url, headers, body: Bytes::new(), upload: None, state };
        let (size, pieces) = match request.body {
            None => return self.answer(&seen, guard),
            Some(RequestBody::Bytes(body)) => {
                seen.body = body;
                return self.answer(&seen, guard);
            }
            Some(RequestBody::Platform(content)) => {
                seen.upload = Some(FakeUpload::Platform);
                seen.body =
                    content.as_any().downcast_ref::<FakeContent>().map(|content| content.0.clone()).unwrap_or_default();
                return self.answer(&seen, guard);
            }
            Some(RequestBody::Stream { size, pieces }) => (size, pieces),
        };
        seen.upload = Some(FakeUpload::Stream { size });
        let host = self.clone();
        let index = {
            let mut requests = lock(&self.0.requests);
            requests.push(seen.clone());
            requests.len() - 1
        };
        Box::pin(async move {
            let mut pieces = pieces;
            let mut body = BytesMut::new();
            while let Some(piece) = pieces.next().await {
                match piece {
                    Ok(piece) => body.extend_from_slice(&piece),
                    Err(error) => {
                        guard.end();
                        return Err(HostError::Network(error.to_string()));
                    }
                }
            }
            seen.body = body.freeze();
            lock(&host.0.requests)[index] = seen.clone();
            host.reply(&seen, guard).await
        })
    }

    fn streams_requests(&self) -> bool {
        self.0.streams_requests.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration_ms: u64) -> HostFuture<'static, ()> {
        Box::pin(self.0.clock.sleep(duration_ms))
    }

    fn turn_end(&self) -> HostFuture<'static, ()> {
        Box::pin(self.0.clock.turn_end())
    }

    fn now_ms(&self) -> u64 {
        self.0.clock.now_ms()
    }

    fn fill_random(&self, buffer: &mut [u8]) -> Result<(), HostError> {
        if !self.0.has_randomness.load(Ordering::Relaxed) {
            return Err(HostError::NoRandomness);
        }
        buffer.fill_with(|| self.0.random.fetch_add(1, Ordering::Relaxed));
        Ok(())
    }
}

/// A request that was sent.
#[derive(Clone)]
pub struct FakeRequest {
    /// Its method.
    pub method: Method,
    /// Its address.
    pub url: String,
    /// Its headers, in order.
    pub headers: Vec<(String, String)>,
    /// Its body, empty if it has none. That of a stream is there once all of it was taken.
    pub body: Bytes,
    /// How the body came, if it was not in memory.
    pub upload: Option<FakeUpload>,
    state: Arc<AtomicU8>,
}

/// How the body of a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FakeUpload {
    /// Piece by piece.
    Stream {
        /// The size that was announced.
        size: Option<u64>,
    },
    /// As an object of the platform, that is a [`FakeContent`].
    Platform,
}

/// Content in an object of this platform.
#[derive(Debug, Clone)]
pub struct FakeContent(pub Bytes);

impl PlatformContent for FakeContent {
    fn size(&self) -> Option<u64> {
        Some(self.0.len() as u64)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl FakeRequest {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// The path and the query.
    pub fn path(&self) -> &str {
        let after_scheme = self.url.find("://").map_or(0, |at| at + 3);
        self.url[after_scheme..].find('/').map_or("/", |at| &self.url[after_scheme + at..])
    }

    /// The body as JSON, null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The tool that is called, if the request calls one.
    pub fn tool(&self) -> Option<String> {
        let name = (self.header("mcp-method") == Some("tools/call")).then(|| self.json()["params"]["name"].take());
        name.and_then(|name| name.as_str().map(str::to_owned))
    }

    /// The arguments of the tool that is called.
    pub fn arguments(&self) -> Value {
        self.json()["params"]["arguments"].take()
    }

    /// Whether it was aborted: its reply, or the rest of it, is not wanted.
    pub fn is_aborted(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ABORTED
    }
}

impl std::fmt::Debug for FakeRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method.as_str(), self.path())?;
        self.tool().map_or(Ok(()), |tool| write!(f, " {tool}"))
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const OPEN: u8 = 0;
const ENDED: u8 = 1;
const ABORTED: u8 = 2;

/// More than any test needs.
const STEPS_MAX: usize = 1_000_000;
