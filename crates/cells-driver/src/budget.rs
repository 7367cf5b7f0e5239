//! The time budget of one call, and what can end it early.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use cells_protocol::error::ErrorKind;

use crate::cancellation::{Cancellation, Cancelled, OperationOptions};
use crate::error::{Error, Result};
use crate::host::{Host, HostFuture, MaybeSend};
use crate::node::authorization_changed;

/// One budget from the call to the last byte of its reply. Ends early when the caller cancels or the client is disposed.
#[derive(Clone)]
pub(crate) struct Budget {
    host: Arc<dyn Host>,
    deadline_ms: u64,
    cancel: Option<Cancellation>,
    disposed: Cancellation,
    closed: Option<Cancellation>,
    revoked: Option<Cancellation>,
}

impl Budget {
    /// Starts the clock for a call with `options`, which has `default_ms` if they say nothing else.
    pub(crate) fn start(
        host: &Arc<dyn Host>,
        disposed: &Cancellation,
        default_ms: u64,
        options: &OperationOptions,
    ) -> Self {
        let timeout_ms = options.timeout_ms.unwrap_or(default_ms);
        Self {
            host: Arc::clone(host),
            deadline_ms: host.now_ms().saturating_add(timeout_ms),
            cancel: options.cancel.clone(),
            disposed: disposed.clone(),
            closed: None,
            revoked: None,
        }
    }

    /// Ends early also when `closed` is cancelled: the client that made the call was closed; and when `revoked` is: the
    /// node refused the authorization of the call.
    pub(crate) fn ended_by(mut self, closed: Option<Cancellation>, revoked: Cancellation) -> Self {
        self.closed = closed;
        self.revoked = Some(revoked);
        self
    }

    /// Whether the caller has cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        is_cancelled(self.cancel.as_ref())
    }

    /// Whether nothing more may be asked: the client was closed or disposed of, or the node refused its authorization.
    pub(crate) fn is_closed(&self) -> bool {
        self.disposed.is_cancelled() || is_cancelled(self.closed.as_ref()) || is_cancelled(self.revoked.as_ref())
    }

    /// What is left, in milliseconds.
    pub(crate) fn remaining_ms(&self) -> u64 {
        self.deadline_ms.saturating_sub(self.host.now_ms())
    }

    /// Why the budget is over, if it is.
    pub(crate) fn check(&self, operation: &'static str) -> Result<()> {
        if self.disposed.is_cancelled() {
            return Err(disposed(operation));
        }
        if is_cancelled(self.revoked.as_ref()) {
            return Err(authorization_changed(operation));
        }
        if self.is_closed() {
            return Err(closed(operation));
        }
        if self.is_cancelled() {
            return Err(cancelled(operation));
        }
        if self.remaining_ms() == 0 {
            return Err(timed_out(operation));
        }
        Ok(())
    }

    /// Runs `work` until it is done or the budget is over. Work that is ready at once costs no timer.
    ///
    /// The work is boxed: what waits for it then exists once for each type of result, not for each call of the driver.
    pub(crate) fn run<'a, T>(
        &'a self,
        operation: &'static str,
        work: impl Future<Output = Result<T>> + MaybeSend + 'a,
    ) -> Running<'a, T> {
        Running { work: Box::pin(work), is_checked: false, end: End::new(self, operation) }
    }
}

/// Future of [`Budget::run`].
pub(crate) struct Running<'a, T> {
    work: HostFuture<'a, Result<T>>,
    /// Whether the budget was looked at before the work began.
    is_checked: bool,
    end: End<'a>,
}

impl<T> Running<'_, T> {
    /// Uses the timer of work that had a budget before this one.
    pub(crate) fn with_timer(mut self, timer: Timer) -> Self {
        self.end.timer = timer;
        self
    }

    /// The timer, for work that gets a budget after this one.
    pub(crate) fn into_timer(self) -> Timer {
        self.end.timer
    }
}

impl<T> Future for Running<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let this = &mut *self;
        if !this.is_checked {
            this.end.budget.check(this.end.operation)?;
            this.is_checked = true;
        }
        match this.work.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending => this.end.poll(context).map(Err),
        }
    }
}

/// Waits for the end of a budget. Apart from [`Running`], which exists for every type of result.
struct End<'a> {
    budget: &'a Budget,
    operation: &'static str,
    disposed: Cancelled,
    revoked: Option<Cancelled>,
    closed: Option<Cancelled>,
    cancelled: Option<Cancelled>,
    timer: Timer,
}

impl<'a> End<'a> {
    fn new(budget: &'a Budget, operation: &'static str) -> Self {
        let disposed = budget.disposed.cancelled();
        let revoked = budget.revoked.as_ref().map(Cancellation::cancelled);
        let closed = budget.closed.as_ref().map(Cancellation::cancelled);
        let cancelled = budget.cancel.as_ref().map(Cancellation::cancelled);
        Self { budget, operation, disposed, revoked, closed, cancelled, timer: Timer::default() }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Error> {
        let mut is_over = |token: &mut Option<Cancelled>| {
            token.as_mut().is_some_and(|token| Pin::new(token).poll(context).is_ready())
        };
        let revoked = is_over(&mut self.revoked);
        let closed = is_over(&mut self.closed);
        let caller = is_over(&mut self.cancelled);
        if Pin::new(&mut self.disposed).poll(context).is_ready() {
            return Poll::Ready(aborted(self.operation));
        }
        if revoked {
            return Poll::Ready(authorization_changed(self.operation));
        }
        if closed {
            return Poll::Ready(close_aborted(self.operation));
        }
        if caller {
            return Poll::Ready(cancelled(self.operation));
        }
        self.timer.poll_over(self.budget, context).map(|()| timed_out(self.operation))
    }
}

/// The timer of a budget, with the deadline that it was set for. It can be handed from one budget to a later one, because
/// setting and clearing a timer is most of what a small piece of work costs: it then goes off too early, and is set again.
#[derive(Default)]
pub(crate) struct Timer(Option<(u64, HostFuture<'static, ()>)>);

impl Timer {
    fn poll_over(&mut self, budget: &Budget, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let set = || (budget.deadline_ms, budget.host.sleep(budget.remaining_ms()));
            let (deadline_ms, sleep) = self.0.get_or_insert_with(set);
            ready!(sleep.as_mut().poll(context));
            let is_over = *deadline_ms >= budget.deadline_ms;
            self.0 = None;
            if is_over {
                return Poll::Ready(());
            }
        }
    }
}

fn is_cancelled(token: Option<&Cancellation>) -> bool {
    token.is_some_and(Cancellation::is_cancelled)
}

/// The error of a call that its caller cancelled.
pub(crate) fn cancelled(operation: &'static str) -> Error {
    Error::new(ErrorKind::Cancelled, operation, "the caller cancelled the call")
}

/// The error of a call that took too long.
pub(crate) fn timed_out(operation: &'static str) -> Error {
    Error::new(ErrorKind::TimedOut, operation, "the time budget of the call is used up")
}

/// The error of a call that was under way when its client was disposed of.
pub(crate) fn aborted(operation: &'static str) -> Error {
    Error::new(ErrorKind::Cancelled, operation, "the call was aborted, because the client was disposed of")
}

/// The error of a call that was under way when what it was made through was closed.
fn close_aborted(operation: &'static str) -> Error {
    Error::new(ErrorKind::Cancelled, operation, "the call was aborted, because what it was made through was closed")
}

/// The error of a call through something that was closed before.
pub(crate) fn closed(operation: &'static str) -> Error {
    Error::new(ErrorKind::AccessDenied, operation, "this was closed; open it again")
}

/// The error of a call to a client that was disposed of before.
pub(crate) fn disposed(operation: &'static str) -> Error {
    Error::new(ErrorKind::AccessDenied, operation, "the client was disposed of; make a new one")
}
