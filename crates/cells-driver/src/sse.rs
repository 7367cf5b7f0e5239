//! Server-Sent Events from the chunks of a response body, with a bound on the size of one event.
//!
//! `sse-stream` knows the grammar (byte order mark, LF, CR and CRLF, comments, several data lines, arbitrary chunk
//! borders) but no bound, and wants a stream to pull from. [`SseDecoder`] feeds it from a queue, so that the caller pushes
//! chunks as they arrive, and counts what an unfinished event has taken.

use std::convert::Infallible;

use bytes::Bytes;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::{FutureExt, StreamExt, stream::Map};
use sse_stream::{Error, SseByteStream};

/// Decodes one response body. Push each chunk, then take events until there are none.
///
/// An event that has not ended when the body ends is dropped, as the grammar says.
pub(crate) struct SseDecoder {
    chunks: UnboundedSender<Bytes>,
    events: SseByteStream<Queue>,
    max_event_bytes: usize,
    n_unfinished_bytes: usize,
}

/// An item of the queue. A queue cannot fail.
type Fed = Result<Bytes, Infallible>;
type Queue = Map<UnboundedReceiver<Bytes>, fn(Bytes) -> Fed>;

/// One event with data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The event name, `message` when the event has none.
    pub(crate) name: String,
    /// The data lines, joined by LF.
    pub(crate) data: String,
}

/// Why the stream cannot be read on. After an error the stream must be opened anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SseError {
    /// One event has more data than the limit.
    #[error("an event of the stream is larger than {max_event_bytes} bytes")]
    TooLarge {
        /// The limit.
        max_event_bytes: usize,
    },
    /// A field is not UTF-8.
    #[error("an event of the stream is not UTF-8")]
    NotUtf8,
}

impl SseDecoder {
    /// A decoder that refuses events of more than `max_event_bytes` bytes of data.
    pub(crate) fn new(max_event_bytes: usize) -> Self {
        let (chunks, queue) = unbounded();
        let events = SseByteStream::new(queue.map(Ok as fn(Bytes) -> Fed));
        Self { chunks, events, max_event_bytes, n_unfinished_bytes: 0 }
    }

    /// Takes the next chunk of the body.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.n_unfinished_bytes = self.n_unfinished_bytes.saturating_add(chunk.len());
        // The receiver lives as long as this decoder, so the queue cannot be closed.
        let _ = self.chunks.unbounded_send(chunk);
    }

    /// The next event; `None` when another chunk is needed. Events without data are skipped.
    ///
    /// # Errors
    /// [`SseError`] when an event is too large or not UTF-8.
    pub(crate) fn next_event(&mut self) -> Result<Option<SseEvent>, SseError> {
        let too_large = SseError::TooLarge { max_event_bytes: self.max_event_bytes };
        loop {
            match self.events.next().now_or_never() {
                Some(Some(Ok(event))) => {
                    self.n_unfinished_bytes = 0;
                    let Some(data) = event.data else { continue };
                    if data.len() > self.max_event_bytes {
                        return Err(too_large);
                    }
                    let name = event.event.filter(|name| !name.is_empty()).unwrap_or_else(|| "message".to_owned());
                    return Ok(Some(SseEvent { name, data }));
                }
                Some(Some(Err(Error::Utf8Parse(_)))) => return Err(SseError::NotUtf8),
                // The queue has no errors and unknown fields are ignored; a decoder that failed before has ended.
                Some(Some(Err(_)) | None) => return Err(SseError::NotUtf8),
                None => break,
            }
        }
        let limit = self.max_event_bytes.saturating_add(FIELD_OVERHEAD_BYTES);
        if self.n_unfinished_bytes > limit { Err(too_large) } else { Ok(None) }
    }
}

/// What field names and line ends may add to the data of an unfinished event.
const FIELD_OVERHEAD_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(chunks: &[&[u8]], max_event_bytes: usize) -> Result<Vec<(String, String)>, SseError> {
        let mut decoder = SseDecoder::new(max_event_bytes);
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.push(Bytes::copy_from_slice(chunk));
            while let Some(event) = decoder.next_event()? {
                events.push((event.name, event.data));
            }
        }
        Ok(events)
    }

    fn event(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    #[test]
    fn the_whole_grammar_is_understood_at_every_chunk_border() {
        let text = "\u{feff}: hello\r\nevent: ready\r\ndata: {\"a\":\"ü\"}\r\n\r\nid: 7\n\n: ping\n\ndata: one\rdata:two\r\rretry: 5\ndata\n\nodd: field\nevent:\ndata:  x\n\ndata: lost";
        let expected = vec![
            event("ready", "{\"a\":\"ü\"}"),
            event("message", "one\ntwo"),
            event("message", ""),
            event("message", " x"),
        ];
        let bytes = text.as_bytes();
        assert_eq!(decode(&[bytes], 100).as_ref(), Ok(&expected), "whole");
        for at in 0..=bytes.len() {
            assert_eq!(decode(&[&bytes[..at], &bytes[at..]], 100).as_ref(), Ok(&expected), "split at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decode(&single, 100).as_ref(), Ok(&expected), "byte by byte");
    }

    #[test]
    fn an_event_of_the_limit_passes_and_a_larger_one_fails_before_it_ends() {
        let data = "x".repeat(10_000);
        let complete = format!("data: {data}\n\n");
        assert_eq!(decode(&[complete.as_bytes()], 10_000), Ok(vec![event("message", &data)]));
        assert_eq!(decode(&[complete.as_bytes()], 9_999), Err(SseError::TooLarge { max_event_bytes: 9_999 }));
        for endless in ["data: ", ": ", "other: ", "event: ", "data"] {
            let chunks: Vec<&[u8]> =
                std::iter::once(endless.as_bytes()).chain(std::iter::repeat_n(data.as_bytes(), 2)).collect();
            assert_eq!(decode(&chunks, 10_000), Err(SseError::TooLarge { max_event_bytes: 10_000 }), "{endless}");
        }
    }

    #[test]
    fn many_events_do_not_add_up_to_a_large_one() {
        let chunk = "data: 0123456789\n\n".repeat(1000);
        let chunks = vec![chunk.as_bytes(); 20];
        assert_eq!(decode(&chunks, 10).map(|events| events.len()), Ok(20_000));
    }

    #[test]
    fn invalid_utf8_fails_the_stream_for_good() {
        let mut decoder = SseDecoder::new(100);
        decoder.push(Bytes::from_static(b"data: \xff\n\ndata: x\n\n"));
        assert_eq!(decoder.next_event(), Err(SseError::NotUtf8));
        assert_eq!(decoder.next_event(), Err(SseError::NotUtf8));
    }
}
