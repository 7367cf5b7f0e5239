//! Connections must say something: one that stays silent from the start is closed.
//!
//! The HTTP library bounds the time of a request's head, but not the time until it knows which version of HTTP a
//! connection speaks.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum_server::accept::Accept;
use futures::TryFutureExt;
use futures::future::MapOk;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Accepts as `inner` does, and gives each connection [`FIRST_BYTES_LIMIT`] to begin.
#[derive(Debug, Clone)]
pub(crate) struct PromptAcceptor<A> {
    inner: A,
}

impl<A> PromptAcceptor<A> {
    pub(crate) fn new(inner: A) -> Self {
        Self { inner }
    }
}

impl<A: Accept<I, S>, I, S> Accept<I, S> for PromptAcceptor<A> {
    type Stream = Prompt<A::Stream>;
    type Service = A::Service;
    type Future = MapOk<A::Future, fn((A::Stream, A::Service)) -> (Prompt<A::Stream>, A::Service)>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        self.inner.accept(stream, service).map_ok(|(stream, service)| (Prompt::new(stream, FIRST_BYTES_LIMIT), service))
    }
}

/// A connection that is waited for only so long.
#[derive(Debug)]
pub(crate) struct Prompt<S> {
    stream: S,
    /// None: it has begun.
    limit: Option<Pin<Box<Sleep>>>,
    seen: usize,
}

impl<S> Prompt<S> {
    fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit: Some(Box::pin(sleep(limit))), seen: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prompt<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Ready(read) => {
                self.seen += buffer.filled().len() - before;
                if self.seen >= BEGUN_BYTES {
                    self.limit = None;
                }
                Poll::Ready(read)
            }
            Poll::Pending => match &mut self.limit {
                None => Poll::Pending,
                Some(limit) => {
                    ready!(limit.as_mut().poll(cx));
                    Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
                }
            },
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prompt<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// As long as the preface of HTTP/2, after which the version is known.
const BEGUN_BYTES: usize = 24;
const FIRST_BYTES_LIMIT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_connection_that_never_begins_is_given_up_and_others_are_not() {
        for (sent, is_given_up) in [("", true), ("PRI * HTTP", true), ("GET / HTTP/1.1\r\nhost: x\r\n", false)] {
            let (mut client, node) = duplex(64);
            let mut node = Prompt::new(node, Duration::from_millis(20));
            client.write_all(sent.as_bytes()).await.unwrap();
            let mut bytes = vec![0; sent.len()];
            node.read_exact(&mut bytes).await.unwrap();
            assert_eq!(bytes, sent.as_bytes());
            if is_given_up {
                assert_eq!(node.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut, "{sent}");
            } else {
                tokio::time::sleep(Duration::from_millis(40)).await;
                client.write_all(b"!").await.unwrap();
                assert_eq!(node.read_u8().await.unwrap(), b'!');
            }
        }
    }
}
