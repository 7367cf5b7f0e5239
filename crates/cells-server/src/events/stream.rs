//! Feeding one stream. Frames are made when the client takes them, so that a slow client holds
//! at most two pages of them.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt;
use futures::future::{pending, select_all};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::frame::Frames;
use super::streams::Place;
use super::topic::Topic;
use crate::harness::clock::now_ms;

/// One stream.
pub(super) struct Stream {
    topics: VecDeque<Topic>,
    place: Place,
}

/// Why a stream ends.
enum End {
    /// The client is gone.
    Left,
    /// The node closes it, with this code.
    Closed(&'static str),
}

impl Stream {
    pub(super) fn new(place: Place, topics: VecDeque<Topic>) -> Self {
        Self { topics, place }
    }

    /// Starts with the frames `first`; gives the body of the reply.
    pub(super) fn start(self, first: Frames) -> Body {
        let (frames, waiting) = mpsc::channel(1);
        let (last, closing) = oneshot::channel();
        tokio::spawn(async move {
            if let End::Closed(code) = self.feed(first, frames).await {
                // Not through the channel, which is full when the client is slow. A client that left needs no code.
                let _ = last.send(Frames::closing(code).into());
            }
        });
        let waiting = futures::stream::unfold(waiting, async |mut waiting| Some((waiting.recv().await?, waiting)));
        let closing = futures::stream::once(closing).filter_map(async |closing: Result<Bytes, _>| closing.ok());
        Body::from_stream(waiting.chain(closing).map(Ok::<_, Infallible>))
    }

    async fn feed(mut self, first: Frames, frames: mpsc::Sender<Bytes>) -> End {
        let mut next = first;
        let patience = self.place.streams.patience;
        loop {
            let room = tokio::select! {
                biased;
                end = self.place.closed() => return end,
                room = timeout(patience, frames.reserve()) => match room {
                    Ok(Ok(room)) => room,
                    Ok(Err(_)) => return End::Left,
                    Err(_) => return End::Closed("EVENTS_SLOW_CONSUMER"),
                },
            };
            while next.is_empty() {
                next = self.page();
                if next.is_empty() {
                    match self.wait(&frames).await {
                        Ok(frames) => next = frames,
                        Err(end) => return end,
                    }
                }
            }
            room.send(std::mem::take(&mut next).into());
        }
    }

    /// The next page of the topics, which take turns; nothing when the client has everything.
    fn page(&mut self) -> Frames {
        let mut frames = Frames::default();
        for _ in 0..self.topics.len() {
            let Some(mut topic) = self.topics.pop_front() else { break };
            topic.advance(&mut frames);
            self.topics.push_back(topic);
            if !frames.is_empty() {
                break;
            }
        }
        frames
    }

    /// Waits for something to write: nothing yet when a ring changed, or a heartbeat.
    async fn wait(&mut self, frames: &mpsc::Sender<Bytes>) -> Result<Frames, End> {
        let heartbeat = self.place.streams.heartbeat;
        tokio::select! {
            biased;
            end = self.place.closed() => Err(end),
            () = frames.closed() => Err(End::Left),
            () = any_changed(&mut self.topics) => Ok(Frames::default()),
            () = sleep(heartbeat) => Ok(Frames::heartbeat(now_ms())),
        }
    }
}

impl Place {
    async fn closed(&mut self) -> End {
        (&mut self.close).await.map_or(End::Left, End::Closed)
    }
}

async fn any_changed(topics: &mut VecDeque<Topic>) {
    if topics.is_empty() {
        pending::<()>().await;
    }
    select_all(topics.iter_mut().map(|topic| Box::pin(topic.changed()))).await;
}
