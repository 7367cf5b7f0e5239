//! What a client knows of one node, and the handle through which it is asked.

use std::sync::Arc;

use cells_protocol::discovery::CellsDescriptor;
use cells_protocol::endpoint::Endpoint;
use cells_protocol::error::ErrorKind;
use cells_protocol::harness::Profiles;

use crate::budget::{Budget, closed};
use crate::cancellation::{CancelHandle, Cancellation, OperationOptions};
use crate::client::Core;
use crate::config::Binding;
use crate::credentials::Secret;
use crate::error::{Error, Result};
use crate::events::Events;
use crate::sources::Sources;
use crate::sync::Lookup;

/// What is known of one node under one identity. Kept in memory while the client lives.
pub(crate) struct Node {
    pub(crate) binding: Binding,
    /// The MCP URL.
    pub(crate) mcp: Lookup<Endpoint>,
    /// What the node says it is.
    pub(crate) descriptor: Lookup<Arc<CellsDescriptor>>,
    /// Epoch and profiles of its agents.
    pub(crate) profiles: Lookup<Arc<Profiles>>,
    /// Who subscribes to what happens there.
    pub(crate) events: Events,
    revoke: CancelHandle,
    /// Cancelled when the node says that the pinned authorization is not the current one.
    pub(crate) revoked: Cancellation,
}

impl Node {
    pub(crate) fn new(binding: Binding) -> Self {
        let (revoke, revoked) = Cancellation::new();
        let (mcp, descriptor, profiles) = (Lookup::new(), Lookup::new(), Lookup::new());
        Self { binding, mcp, descriptor, profiles, events: Events::default(), revoke, revoked }
    }
}

/// A node, and the client through which it is asked.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) core: Arc<Core>,
    pub(crate) node: Arc<Node>,
    /// Cancelled when what the calls are made through is closed, if it can be.
    pub(crate) closed: Option<Cancellation>,
    /// A secret that is only tried, in place of the one that is stored.
    pub(crate) draft: Option<Secret>,
}

impl Link {
    /// Fails after the client was disposed of, and after the node refused the pinned authorization.
    pub(crate) fn check_open(&self, operation: &'static str) -> Result<()> {
        self.core.check_open(operation)?;
        if self.node.revoked.is_cancelled() {
            return Err(authorization_changed(operation));
        }
        if self.closed.as_ref().is_some_and(Cancellation::is_cancelled) {
            return Err(closed(operation));
        }
        Ok(())
    }

    /// The same link for something that can be closed, and what closes it.
    pub(crate) fn closable(&self) -> (CancelHandle, Self) {
        let (close, closed) = Cancellation::new();
        (close, Self { closed: Some(closed), ..self.clone() })
    }

    /// Starts the budget of one call.
    pub(crate) fn budget(&self, options: &OperationOptions) -> Budget {
        self.core.budget(options).ended_by(self.closed.clone(), self.node.revoked.clone())
    }

    /// Closes this binding for good, with its sources and streams: the node said `AUTHORIZATION_CHANGED`.
    pub(crate) fn revoke(&self) {
        self.core.forget(&self.node);
        self.node.revoke.cancel();
        Sources::update(&self.core, |pool| pool.start_revoke(|key| key.binding == self.node.binding));
    }
}

/// The error of every call through a binding whose snapshot is not the current one.
pub(crate) fn authorization_changed(operation: &'static str) -> Error {
    let message = "what this connection is allowed to do has changed; discover the node again and connect anew";
    Error::new(ErrorKind::AccessDenied, operation, message).with_remote_code(AUTHORIZATION_CHANGED)
}

/// The node's code for a pinned authorization that is not the current one.
pub(crate) const AUTHORIZATION_CHANGED: &str = "AUTHORIZATION_CHANGED";
