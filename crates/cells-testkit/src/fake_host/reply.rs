//! Scripted replies.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::{Bytes, BytesMut};
use cells_driver::host::{HostError, HostFuture, HttpBody, HttpResponse};
use serde_json::{Value, json};

use super::clock::Clock;
use super::{ABORTED, ENDED, FakeRequest, OPEN};

/// What comes of a request. Without [`without_length`](Self::without_length) and [`header`](Self::header) the reply has
/// the `content-length` of its pieces.
pub struct FakeReply {
    delay_ms: u64,
    head: Result<u16, HostError>,
    headers: Vec<(String, String)>,
    says_length: bool,
    pieces: VecDeque<Piece>,
}

enum Piece {
    Data(Bytes),
    Wait(u64),
    Break(HostError),
}

impl FakeReply {
    /// Status 200 with a JSON body.
    pub fn json(value: &Value) -> Self {
        Self::status(200, value)
    }

    /// A status with a JSON body.
    pub fn status(status: u16, value: &Value) -> Self {
        Self::bytes(status, value.to_string()).header("content-type", "application/json")
    }

    /// A status with a body.
    pub fn bytes(status: u16, body: impl Into<Bytes>) -> Self {
        let mut reply =
            Self { delay_ms: 0, head: Ok(status), headers: Vec::new(), says_length: true, pieces: VecDeque::new() };
        let body = body.into();
        if !body.is_empty() {
            reply.pieces.push_back(Piece::Data(body));
        }
        reply
    }

    /// A tool result: `value` as `structuredContent`.
    pub fn tool(request: &FakeRequest, value: &Value) -> Self {
        Self::rpc(
            request,
            &json!({"resultType": "complete", "isError": false, "structuredContent": value, "content": []}),
        )
    }

    /// A failed tool.
    pub fn tool_error(request: &FakeRequest, code: &str) -> Self {
        let value = json!({"code": code, "outcome": "not-committed"});
        Self::rpc(
            request,
            &json!({"resultType": "complete", "isError": true, "structuredContent": value, "content": []}),
        )
    }

    /// A JSON-RPC result for `request`.
    pub fn rpc(request: &FakeRequest, result: &Value) -> Self {
        Self::json(&json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": result}))
    }

    /// An event stream of `text`, which stays open.
    pub fn events(text: impl Into<Bytes>) -> Self {
        Self::bytes(200, text).header("content-type", "text/event-stream").without_length().wait(u64::MAX)
    }

    /// No reply, but this failure.
    pub fn error(error: HostError) -> Self {
        Self { head: Err(error), ..Self::bytes(0, "") }
    }

    /// The network fails.
    pub fn network_error() -> Self {
        Self::error(HostError::Network("connection refused".to_owned()))
    }

    /// No reply at all.
    pub fn never() -> Self {
        Self::network_error().delay(u64::MAX)
    }

    /// The head arrives after `delay_ms`.
    #[must_use]
    pub fn delay(mut self, delay_ms: u64) -> Self {
        self.delay_ms = delay_ms;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Leaves `content-length` out.
    #[must_use]
    pub fn without_length(mut self) -> Self {
        self.says_length = false;
        self
    }

    /// More of the body, as a chunk of its own.
    #[must_use]
    pub fn chunk(mut self, data: impl Into<Bytes>) -> Self {
        self.pieces.push_back(Piece::Data(data.into()));
        self
    }

    /// The body pauses.
    #[must_use]
    pub fn wait(mut self, duration_ms: u64) -> Self {
        self.pieces.push_back(Piece::Wait(duration_ms));
        self
    }

    /// The transfer breaks off.
    #[must_use]
    pub fn broken(mut self) -> Self {
        self.pieces.push_back(Piece::Break(HostError::Network("connection reset".to_owned())));
        self
    }

    pub(super) fn into_response(
        self,
        clock: &Clock,
        guard: Guard,
        takes_all: bool,
    ) -> HostFuture<'static, Result<HttpResponse, HostError>> {
        let Self { delay_ms, head, mut headers, says_length, pieces } = self;
        let clock = clock.clone();
        Box::pin(async move {
            if delay_ms > 0 {
                clock.sleep(delay_ms).await;
            }
            let status = match head {
                Ok(status) => status,
                Err(error) => {
                    guard.end();
                    return Err(error);
                }
            };
            if says_length && !headers.iter().any(|(name, _)| name == "content-length") {
                let length: usize = pieces.iter().map(Piece::len).sum();
                headers.push(("content-length".to_owned(), length.to_string()));
            }
            let body = FakeBody { clock, pieces, guard, takes_all };
            Ok(HttpResponse { status, headers, body: Box::new(body) })
        })
    }
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            Self::Wait(_) | Self::Break(_) => 0,
        }
    }
}

struct FakeBody {
    clock: Clock,
    pieces: VecDeque<Piece>,
    guard: Guard,
    takes_all: bool,
}

impl HttpBody for FakeBody {
    fn next_chunk(&mut self) -> HostFuture<'_, Result<Option<Bytes>, HostError>> {
        Box::pin(async move {
            loop {
                match self.pieces.pop_front() {
                    Some(Piece::Data(data)) => return Ok(Some(data)),
                    Some(Piece::Wait(duration_ms)) => self.clock.sleep(duration_ms).await,
                    Some(Piece::Break(error)) => {
                        self.guard.end();
                        return Err(error);
                    }
                    None => {
                        self.guard.end();
                        return Ok(None);
                    }
                }
            }
        })
    }

    fn take_all(&mut self) -> Option<HostFuture<'_, Result<Bytes, HostError>>> {
        self.takes_all.then(|| -> HostFuture<'_, _> {
            Box::pin(async move {
                let mut all = BytesMut::new();
                while let Some(chunk) = self.next_chunk().await? {
                    all.extend_from_slice(&chunk);
                }
                Ok(all.freeze())
            })
        })
    }
}

/// Notes how a request ended.
pub(super) struct Guard(Arc<AtomicU8>);

impl Guard {
    pub(super) fn new(state: Arc<AtomicU8>) -> Self {
        Self(state)
    }

    pub(super) fn end(&self) {
        self.0.store(ENDED, Ordering::Relaxed);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.compare_exchange(OPEN, ABORTED, Ordering::Relaxed, Ordering::Relaxed);
    }
}
