//! The future that drives a client: mutations, stat batches and event streams run here, whoever started them.

use std::pin::Pin;
use std::task::{Context, Poll};

use cells_protocol::error::ErrorKind;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use crate::cancellation::{Cancellation, Cancelled};
use crate::error::{Error, Result};
use crate::host::HostFuture;

/// Drives one [`Client`](crate::Client) and everything made from it. Spawn it and leave it alone.
///
/// It ends when the client and everything made from it are dropped and what they started has ended, or after
/// [`Client::dispose`](crate::Client::dispose). Dropping it earlier fails every call that needs it with `ECANCELLED`; a
/// mutation that was already sent is then reported as `unknown`.
#[must_use = "nothing happens unless this future is spawned"]
pub struct Run {
    incoming: UnboundedReceiver<Task>,
    tasks: FuturesUnordered<Task>,
    disposed: Option<Cancelled>,
}

/// Work that belongs to the client, not to the caller that asked for it.
type Task = HostFuture<'static, ()>;

impl Run {
    pub(crate) fn new(disposed: &Cancellation) -> (Spawner, Self) {
        let (sender, incoming) = unbounded();
        let run = Self { incoming, tasks: FuturesUnordered::new(), disposed: Some(disposed.cancelled()) };
        (Spawner(sender), run)
    }
}

impl Future for Run {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.disposed.as_mut().is_some_and(|disposed| disposed.poll_unpin(context).is_ready()) {
            this.disposed = None;
            this.incoming.close();
        }
        loop {
            let no_more = loop {
                match this.incoming.poll_next_unpin(context) {
                    Poll::Ready(Some(task)) => this.tasks.push(task),
                    Poll::Ready(None) => break true,
                    Poll::Pending => break false,
                }
            };
            match this.tasks.poll_next_unpin(context) {
                // A task that ended may have started another.
                Poll::Ready(Some(())) => {}
                Poll::Ready(None) if no_more => return Poll::Ready(()),
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Run({} tasks)", self.tasks.len())
    }
}

/// Hands work to [`Run`].
#[derive(Clone)]
pub(crate) struct Spawner(UnboundedSender<Task>);

impl Spawner {
    /// Hands `task` over.
    ///
    /// # Errors
    /// When the [`Run`] future is gone.
    pub(crate) fn spawn(&self, operation: &'static str, task: Task) -> Result<()> {
        self.0.unbounded_send(task).map_err(|_| stopped(operation))
    }
}

/// The error of a call whose task was dropped with its [`Run`].
pub(crate) fn stopped(operation: &'static str) -> Error {
    let message = "the Run future of the client has ended or was dropped; keep it running while the client is used";
    Error::new(ErrorKind::Cancelled, operation, message)
}
