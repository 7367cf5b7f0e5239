//! Verbs that send one mutation to an agent: Ctrl-C leaves, and tells how to ask for the outcome.

use std::future::Future;

use cells_native::cells_driver::{Committed, Error, MutationOptions, Recovery};

use crate::dispatch::Dispatch;
use crate::failure::{Exit, Failure};
use crate::interrupts::Interrupts;
use crate::node::Node;

/// Options of a mutation that `dispatch` remembers.
pub(super) fn options(node: &Node, dispatch: &Dispatch) -> MutationOptions {
    let dispatch = dispatch.clone();
    let on_dispatch = Box::new(move |recovery: Recovery| dispatch.sent(&recovery));
    MutationOptions { operation: node.options(), on_dispatch: Some(on_dispatch) }
}

/// The failure of a mutation, with how to ask for its outcome if it is not known.
pub(super) fn told(node: &Node, error: Error) -> Failure {
    let ask = error.recovery().map(|recovery| node.receipt_command(recovery));
    let failure = Failure::from(error);
    match ask.filter(|_| failure.exit() == Exit::Unknown) {
        Some(ask) => failure.with_ask(ask),
        None => failure,
    }
}

/// The user leaves. What was sent and has no outcome yet can be asked for later.
pub(super) fn leave(node: &Node, dispatch: &Dispatch) -> Failure {
    match dispatch.get() {
        Some(recovery) => Failure::new(Exit::Interrupted, "left; what was sent may go on at the node")
            .with_ask(node.receipt_command(&recovery)),
        None => Failure::Interrupted,
    }
}

/// Sends one mutation and waits for its outcome.
///
/// # Errors
/// It failed, its outcome is not known, or the user left.
pub(super) async fn mutate<T, W: Future<Output = Result<Committed<T>, Error>>>(
    node: &Node,
    send: impl FnOnce(MutationOptions) -> W,
) -> Result<Committed<T>, Failure> {
    let dispatch = Dispatch::default();
    let mut interrupts = Interrupts::listen()?;
    tokio::select! {
        sent = send(options(node, &dispatch)) => sent.map_err(|error| told(node, error)),
        () = interrupts.first() => Err(leave(node, &dispatch)),
    }
}
