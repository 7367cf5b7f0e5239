//! The network side of a topic: one stream, connected again when it breaks (`cells-0.4.md` §2.2–2.6).

use std::sync::Arc;

use bytes::Bytes;
use cells_machines::backoff::Backoff;
use cells_machines::event_topic::{EventTopic, TopicAction, TopicState};
use cells_protocol::error::ErrorKind;
use cells_protocol::events::{EventsRequest, Frame, TopicKind, TopicRequest};
use cells_protocol::ids::{ClientId, TopicId};
use cells_protocol::json::to_vec;
use cells_protocol::limits::{DEFAULT_TIMEOUT_MS, EVENT_FRAME_MAX_BYTES, STREAM_SILENCE_MIN_MS};
use futures::future::{Either, select};

use super::topic::Topic;
use crate::budget::disposed as disposed_error;
use crate::cancellation::{Cancellation, OperationOptions};
use crate::error::{CONNECT, CREDENTIAL, Error, Result, Retry};
use crate::host::HttpBody;
use crate::node::{AUTHORIZATION_CHANGED, Link, authorization_changed};
use crate::run::stopped;
use crate::sse::SseDecoder;
use crate::transport::{Call, host_error, is_success};

/// Feeds `topic` until `stopped`.
pub(super) fn start(link: &Link, topic: &Arc<Topic>, stopped: Cancellation) -> Result<()> {
    link.check_open(SUBSCRIBE)?;
    let random: [u8; 16] = link.core.random(SUBSCRIBE)?;
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let invalid = |error| Error::invalid(SUBSCRIBE, error);
    let stream = Stream {
        link: link.clone(),
        topic: Arc::clone(topic),
        client_id: ClientId::new(hex).map_err(invalid)?,
        topic_id: TopicId::new(TOPIC_ID).map_err(invalid)?,
    };
    link.core.spawner.spawn(SUBSCRIBE, Box::pin(feed(stream, stopped)))
}

/// Runs the stream until it ends or is ended.
async fn feed(stream: Stream, stopped: Cancellation) {
    let mut guard = Guard { topic: Arc::clone(&stream.topic), has_ended: false };
    let disposed = stream.link.core.disposal.cancelled();
    let revoked = stream.link.node.revoked.cancelled();
    let ended = select(disposed, select(revoked, stopped.cancelled()));
    // Boxed: the state of a stream is large.
    let run = Box::pin(stream.run());
    match select(run, ended).await {
        Either::Left(_) | Either::Right((Either::Right((Either::Right(_), _)), _)) => {}
        Either::Right((Either::Left(_), _)) => stream.fail(disposed_error(SUBSCRIBE)),
        Either::Right((Either::Right((Either::Left(_), _)), _)) => stream.fail(authorization_changed(SUBSCRIBE)),
    }
    guard.has_ended = true;
}

/// Fails the topic if its stream is dropped with [`Run`](crate::Run).
struct Guard {
    topic: Arc<Topic>,
    has_ended: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.has_ended {
            self.topic.update(|topic| topic.handle_failed(stopped(SUBSCRIBE)));
        }
    }
}

struct Stream {
    link: Link,
    topic: Arc<Topic>,
    client_id: ClientId,
    topic_id: TopicId,
}

/// Why a stream ended.
enum End {
    /// Time does not heal it.
    Failed(Error),
    /// It is established anew, not before this many milliseconds.
    Broken(Error, Option<u64>),
    /// The topic asks to be opened anew.
    Reestablish,
    /// The node refused the topic for good; it knows.
    TopicFailed,
}

impl Stream {
    async fn run(&self) {
        let host = &self.link.core.host;
        let mut backoff = Backoff::new();
        loop {
            // From before the secret is used, so that no change is missed.
            let renewed = self.link.core.credentials.renewed(&self.link.node.binding.identity);
            let (error, retry_after_ms) = match self.connect(&mut backoff).await {
                End::Failed(error) if is_about_credential(&error) => {
                    self.fail(error);
                    renewed.await;
                    self.topic.update(EventTopic::start_open);
                    continue;
                }
                End::Failed(error) => return self.fail(error),
                End::TopicFailed => return,
                End::Reestablish => continue,
                End::Broken(error, retry_after_ms) => (error, retry_after_ms),
            };
            self.topic.update(|topic| topic.handle_offline(error));
            host.sleep(backoff.handle_end(host.now_ms(), retry_after_ms, self.link.core.jitter())).await;
        }
    }

    fn fail(&self, error: Error) {
        self.topic.update(|topic| topic.handle_failed(error));
    }

    /// Opens one stream and reads it to its end.
    async fn connect(&self, backoff: &mut Backoff) -> End {
        let body = match self.open().await {
            Ok(body) => body,
            Err(error) => return self.end_of(error),
        };
        self.read(body, backoff).await
    }

    /// Sends the request and gives the body of the stream.
    async fn open(&self) -> Result<Box<dyn HttpBody>> {
        let budget = self.link.core.budget(&OperationOptions::default());
        budget
            .run(SUBSCRIBE, async {
                let descriptor = self.link.descriptor().await?;
                let Some(url) = descriptor.events_endpoint() else { return Err(self.upgrade_required()) };
                let cursor = self.topic.update(|topic| topic.cursor().cloned());
                let kind = TopicKind::Harness {
                    profile_id: self.topic.profile_id.clone(),
                    scope: None,
                    cursor,
                    tool_detail: Some("summary".to_owned()),
                };
                let topics = vec![TopicRequest { id: self.topic_id.clone(), kind }];
                let body = EventsRequest { version: 1, client_id: self.client_id.clone(), topics };
                let mut call = Call::post(SUBSCRIBE, url.to_owned(), EVENT_STREAM, to_vec(&body));
                call.sends_deadline = false;
                let request = self.link.prepare(&call, &budget).await?;
                let response = self.link.send(SUBSCRIBE, request).await?;
                if !is_success(response.status) {
                    return Err(self.link.failure(SUBSCRIBE, response).await);
                }
                let kind = response.header("content-type").unwrap_or_default();
                if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(EVENT_STREAM) {
                    return Err(Error::protocol(SUBSCRIBE, "it is not an event stream"));
                }
                Ok(response.body)
            })
            .await
    }

    /// Reads frames until the stream ends.
    async fn read(&self, mut body: Box<dyn HttpBody>, backoff: &mut Backoff) -> End {
        let host = &self.link.core.host;
        let broken = |error| End::Broken(error, None);
        let mut decoder = SseDecoder::new(EVENT_FRAME_MAX_BYTES);
        let mut silence_max_ms = DEFAULT_TIMEOUT_MS;
        let mut is_ready = false;
        let mut silent_since_ms = host.now_ms();
        loop {
            let chunk = match self.chunk(body.as_mut(), silent_since_ms, silence_max_ms).await {
                Ok(chunk) => chunk,
                Err(end) => return end,
            };
            silent_since_ms = host.now_ms();
            decoder.push(chunk);
            loop {
                let event = match decoder.next_event() {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(error) => return broken(Error::protocol(SUBSCRIBE, error)),
                };
                let frame = match Frame::parse(&event.name, event.data.as_bytes()) {
                    Ok(frame) => frame,
                    Err(error) => return broken(Error::protocol(SUBSCRIBE, error)),
                };
                match frame {
                    Frame::Ready(ready) if !is_ready => {
                        is_ready = true;
                        silence_max_ms = silence_max(ready.heartbeat_ms);
                        backoff.handle_ready(silent_since_ms);
                        let epoch = ready.harness_epoch.as_deref();
                        self.link.node.profiles.forget_if(|profiles| Some(profiles.epoch.as_str()) != epoch);
                    }
                    Frame::Closing(closing) => return self.closed(&closing.code, closing.retry_after_ms),
                    Frame::Unknown | Frame::Heartbeat => {}
                    _ if !is_ready => {
                        return broken(Error::protocol(SUBSCRIBE, "the event stream does not start with ready"));
                    }
                    frame => {
                        if let Some(end) = self.take(frame) {
                            return end;
                        }
                    }
                }
            }
        }
    }

    /// The next bytes of the stream, or its end. Keeps the time of the topic meanwhile.
    async fn chunk(&self, body: &mut dyn HttpBody, silent_since_ms: u64, silence_max_ms: u64) -> Result<Bytes, End> {
        let host = &self.link.core.host;
        let broken = |error| Err(End::Broken(error, None));
        let silent_until_ms = silent_since_ms.saturating_add(silence_max_ms);
        // Waited for to its end: bytes may be lost with it.
        let mut chunk = body.next_chunk();
        loop {
            let due_ms = self.topic.update(|topic| topic.poll_timeout());
            let wake_ms = due_ms.map_or(silent_until_ms, |due_ms| due_ms.min(silent_until_ms));
            let sleep = host.sleep(wake_ms.saturating_sub(host.now_ms()));
            match select(&mut chunk, sleep).await {
                Either::Left((Ok(Some(chunk)), _)) => return Ok(chunk),
                Either::Left((Ok(None), _)) => return broken(Error::protocol(SUBSCRIBE, "the event stream ended")),
                Either::Left((Err(error), _)) => return broken(host_error(SUBSCRIBE, error)),
                Either::Right(_) if due_ms == Some(wake_ms) => {
                    let action = self.topic.update(|topic| {
                        topic.handle_timeout(wake_ms.max(host.now_ms()));
                        topic.poll_action()
                    });
                    match action {
                        Some(TopicAction::Reestablish) => return Err(End::Reestablish),
                        None => {}
                    }
                }
                Either::Right(_) => {
                    let message = format!("subscribe heard nothing from the node for {silence_max_ms} ms");
                    return broken(Error::new(ErrorKind::Io, CONNECT, message));
                }
            }
        }
    }

    /// Gives a frame to its topic.
    fn take(&self, frame: Frame) -> Option<End> {
        let topic_id = match &frame {
            Frame::Open { topic, .. } | Frame::Gap { topic, .. } => topic,
            Frame::Events(frame) => &frame.topic,
            Frame::Requests(frame) => &frame.topic,
            Frame::TopicError(error) => &error.topic,
            Frame::Ready(_) | Frame::Heartbeat | Frame::Closing(_) | Frame::Unknown => return None,
        };
        if *topic_id != self.topic_id {
            return None;
        }
        let now_ms = self.link.core.host.now_ms();
        self.topic.update(|topic| match topic.handle_frame(now_ms, frame) {
            Err(violation) => Some(End::Broken(Error::protocol(SUBSCRIBE, violation), None)),
            Ok(()) => matches!(topic.state(), TopicState::Failed(_)).then_some(End::TopicFailed),
        })
    }

    /// What a `closing` frame means.
    fn closed(&self, code: &str, retry_after_ms: Option<u64>) -> End {
        if code == AUTHORIZATION_CHANGED {
            self.link.revoke();
            return End::Failed(authorization_changed(SUBSCRIBE));
        }
        let message = format!("the node ended the event stream with code {code}");
        let error = Error::new(ErrorKind::Io, SUBSCRIBE, message).with_remote_code(code);
        if code == SUPERSEDED { End::Failed(error) } else { End::Broken(error, retry_after_ms) }
    }

    /// What a stream that could not be opened means.
    fn end_of(&self, error: Error) -> End {
        let retry_after_ms = match error.retry() {
            Retry::After(wait_ms) => Some(wait_ms),
            Retry::Never | Retry::Now => None,
        };
        match error.status() {
            Some(404 | 405 | 422) => {
                self.link.node.descriptor.forget_if(|_| true);
                End::Failed(self.upgrade_required())
            }
            Some(408 | 429 | 500..) => End::Broken(error, retry_after_ms),
            Some(400 | 413 | 415) => End::Failed(Error::protocol(SUBSCRIBE, error.message()).with_source(error)),
            Some(_) => End::Failed(error),
            None if matches!(error.kind(), ErrorKind::Io | ErrorKind::TimedOut) && error.reason().is_none() => {
                End::Broken(error, None)
            }
            None => End::Failed(error),
        }
    }

    fn upgrade_required(&self) -> Error {
        let message = format!(
            "the node at {} offers no event stream of version 1; upgrade it to Cells 0.4 or newer",
            self.link.node.binding.endpoint
        );
        Error::new(ErrorKind::Unsupported, SUBSCRIBE, message).with_reason(NODE_UPGRADE_REQUIRED)
    }
}

/// Whether another secret may help.
fn is_about_credential(error: &Error) -> bool {
    matches!(error.status(), Some(401 | 403)) || error.operation() == CREDENTIAL
}

/// The longest silence of a living stream.
fn silence_max(heartbeat_ms: u64) -> u64 {
    heartbeat_ms.saturating_mul(3).max(STREAM_SILENCE_MIN_MS)
}

pub(super) const SUBSCRIBE: &str = "subscribe";

const EVENT_STREAM: &str = "text/event-stream";
/// A stream has one topic.
const TOPIC_ID: &str = "h1";
/// The node's code for a stream that a newer one of this client replaced.
const SUPERSEDED: &str = "SUPERSEDED";
/// Reason of a feature that the node is too old for.
const NODE_UPGRADE_REQUIRED: &str = "NODE_UPGRADE_REQUIRED";
