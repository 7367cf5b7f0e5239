//! One connection of the shared event stream (`cells-0.4.md` §2.2–2.6).

use bytes::Bytes;
use cells_machines::event_hub::{StreamEnd, StreamFault};
use cells_protocol::error::ErrorKind;
use cells_protocol::events::{EventsRequest, Frame, TopicRequest};
use cells_protocol::json::to_vec;
use cells_protocol::limits::EVENT_FRAME_MAX_BYTES;

use super::SUBSCRIBE;
use crate::cancellation::OperationOptions;
use crate::error::{CONNECT, CREDENTIAL, Error, Result, Retry};
use crate::host::HttpBody;
use crate::node::{AUTHORIZATION_CHANGED, Link, authorization_changed};
use crate::sse::SseDecoder;
use crate::transport::{Call, host_error, is_success};

/// Opens a stream for `topics`, and gives what it sends to the hub of the node until it ends. Silence is the hub's matter.
pub(super) async fn run(link: Link, attempt: u64, topics: Vec<TopicRequest>) {
    let stream = Stream { attempt, random: link.core.jitter(), link };
    let end = match stream.open(topics).await {
        Ok(body) => stream.read(body).await,
        Err(error) => Some(stream.end_of(error)),
    };
    let Some(end) = end else { return };
    let Link { core, node, .. } = &stream.link;
    let now_ms = core.host.now_ms();
    node.events.update(|hub| hub.handle_end(now_ms, attempt, end, stream.random));
}

struct Stream {
    link: Link,
    attempt: u64,
    random: u32,
}

impl Stream {
    /// Sends the request and gives the body of the stream.
    async fn open(&self, topics: Vec<TopicRequest>) -> Result<Box<dyn HttpBody>> {
        let budget = self.link.core.budget(&OperationOptions::default());
        budget
            .run(SUBSCRIBE, async {
                let descriptor = self.link.descriptor().await?;
                let Some(url) = descriptor.events_endpoint() else { return Err(self.upgrade_required()) };
                let Some(client_id) = self.link.node.events.client_id() else { return Err(super::closed()) };
                let body = EventsRequest { version: 1, client_id, topics };
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

    /// Reads frames until the stream ends; `None` when the hub ended it.
    async fn read(&self, mut body: Box<dyn HttpBody>) -> Option<StreamEnd<Error>> {
        let Link { core, node, .. } = &self.link;
        let (host, events) = (&core.host, &node.events);
        let mut decoder = SseDecoder::new(EVENT_FRAME_MAX_BYTES);
        events.update(|hub| hub.handle_opened(host.now_ms(), self.attempt));
        loop {
            let chunk: Bytes = match body.next_chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return broken(Error::protocol(SUBSCRIBE, "the event stream ended")),
                Err(error) => return broken(host_error(SUBSCRIBE, error)),
            };
            let now_ms = host.now_ms();
            events.update(|hub| hub.handle_bytes(now_ms, self.attempt));
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
                match &frame {
                    Frame::Ready(ready) => {
                        let epoch = ready.harness_epoch.as_deref();
                        node.profiles.forget_if(|profiles| Some(profiles.epoch.as_str()) != epoch);
                    }
                    Frame::Closing(closing) if closing.code == AUTHORIZATION_CHANGED => self.link.revoke(),
                    _ => {}
                }
                events.update(|hub| hub.handle_frame(now_ms, self.attempt, frame, self.random));
            }
        }
    }

    /// What a stream that could not be opened means.
    fn end_of(&self, error: Error) -> StreamEnd<Error> {
        let retry_after_ms = match error.retry() {
            Retry::After(wait_ms) => Some(wait_ms),
            Retry::Never | Retry::Now => None,
        };
        // Whether another secret may help.
        let waits_for_credential = matches!(error.status(), Some(401 | 403)) || error.operation() == CREDENTIAL;
        let error = match error.status() {
            Some(404 | 405 | 422) => {
                self.link.node.descriptor.forget_if(|_| true);
                self.upgrade_required()
            }
            Some(408 | 429 | 500..) => return StreamEnd::Broken { error, retry_after_ms },
            Some(400 | 413 | 415) => Error::protocol(SUBSCRIBE, error.message()).with_source(error),
            Some(_) => error,
            None if matches!(error.kind(), ErrorKind::Io | ErrorKind::TimedOut) && error.reason().is_none() => {
                return StreamEnd::Broken { error, retry_after_ms: None };
            }
            None => error,
        };
        StreamEnd::Refused { error, waits_for_credential }
    }

    fn upgrade_required(&self) -> Error {
        let message = format!(
            "the node at {} offers no event stream of version 1; upgrade it to Cells 0.4 or newer",
            self.link.node.binding.endpoint
        );
        Error::new(ErrorKind::Unsupported, SUBSCRIBE, message).with_reason(NODE_UPGRADE_REQUIRED)
    }
}

fn broken(error: Error) -> Option<StreamEnd<Error>> {
    Some(StreamEnd::Broken { error, retry_after_ms: None })
}

impl From<StreamFault> for Error {
    fn from(fault: StreamFault) -> Self {
        match fault {
            StreamFault::Silent(ms) => {
                let message = format!("subscribe heard nothing from the node for {ms} ms");
                Self::new(ErrorKind::Io, CONNECT, message)
            }
            StreamFault::NotReady | StreamFault::Violation(_) => Self::protocol(SUBSCRIBE, fault),
            StreamFault::Closed(code) if code == AUTHORIZATION_CHANGED => authorization_changed(SUBSCRIBE),
            StreamFault::Closed(code) => {
                let message = format!("the node ended the event stream with code {code}");
                Self::new(ErrorKind::Io, SUBSCRIBE, message).with_remote_code(code)
            }
        }
    }
}

const EVENT_STREAM: &str = "text/event-stream";
/// Reason of a feature that the node is too old for.
const NODE_UPGRADE_REQUIRED: &str = "NODE_UPGRADE_REQUIRED";
