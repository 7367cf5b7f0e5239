//! The client's socket, with the two things HTTP libraries hide: resetting it, and knowing that all was written.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use futures::task::AtomicWaker;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Shared between the socket of one client and the requests on it.
#[derive(Debug, Default)]
pub(super) struct Wire {
    reset: AtomicBool,
    flushes: AtomicU64,
    waiting: AtomicWaker,
}

impl Wire {
    /// The socket will be reset when it is dropped, not closed in order.
    pub(super) fn reset_on_drop(&self) {
        self.reset.store(true, Ordering::SeqCst);
    }

    /// How often everything that was handed to the socket had been written.
    pub(super) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::SeqCst)
    }

    /// Ready when everything was written once more since [`Wire::flushes`] gave `seen`.
    pub(super) fn poll_flushed_since(&self, seen: u64, cx: &mut Context<'_>) -> Poll<()> {
        self.waiting.register(cx.waker());
        if self.flushes() > seen { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The client's socket.
#[derive(Debug)]
pub(super) struct WireStream {
    stream: TcpStream,
    wire: Arc<Wire>,
}

impl WireStream {
    pub(super) fn new(stream: TcpStream, wire: Arc<Wire>) -> WireStream {
        // Small frames of an event stream must not wait for more.
        let _ = stream.set_nodelay(true);
        WireStream { stream, wire }
    }
}

impl AsyncRead for WireStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for WireStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes only after its own buffer went out, so a flush means that every byte was written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.wire.flushes.fetch_add(1, Ordering::SeqCst);
            self.wire.waiting.wake();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.wire.reset.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(())); // a closing handshake would come before the reset
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Drop for WireStream {
    fn drop(&mut self) {
        if self.wire.reset.load(Ordering::SeqCst) {
            let _ = self.stream.set_zero_linger();
        }
    }
}
