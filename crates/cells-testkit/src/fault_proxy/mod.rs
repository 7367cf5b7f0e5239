//! A loopback HTTP/1.1 proxy between a client and a node. It counts requests and breaks chosen ones on purpose.
//!
//! Everything that no rule of the [`Plan`] names passes through unchanged and unbuffered: bodies are streamed both ways,
//! and a client that goes away also ends the request at the node.
//!
//! ```no_run
//! use cells_testkit::fault_proxy::{Fault, FaultProxy, Plan, Rule};
//!
//! # async fn lost_reply() -> std::io::Result<()> {
//! let proxy = FaultProxy::start("127.0.0.1:8000".parse().unwrap()).await?;
//! proxy.set_plan(Plan::new([Rule::tool("harness_turn", Fault::ResetAfter).nth(1)]));
//! // … let a client at `proxy.url()` send a turn: the node gets it, the client loses the reply …
//! assert_eq!(proxy.counts().tools["harness_turn"], 1);
//! # Ok(())
//! # }
//! ```
//!
//! Other languages drive the same proxy as the program `cells-fault-proxy`, see [`control`].

pub mod control;
mod forward;
mod plan;
mod wire;

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::watch,
    task::JoinSet,
};

pub use plan::{Fault, Plan, Rule, When};

use plan::Matcher;
use wire::{Wire, WireStream};

/// What went through a [`FaultProxy`] since it started or since [`FaultProxy::reset_counts`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests that clients sent, with those a fault kept from the node.
    pub requests: u64,
    /// Requests that went on to the node.
    pub forwarded: u64,
    /// Faults that took effect. One that a request or a reply was too short for is not among them.
    pub faults: u64,
    /// `requests` by method and path without query, such as `POST /v1/exports/docs/stat`.
    pub paths: BTreeMap<String, u64>,
    /// `requests` by MCP tool: the value of the header `Mcp-Name`.
    pub tools: BTreeMap<String, u64>,
}

/// A running proxy; dropping it closes its port and every connection.
#[derive(Debug)]
pub struct FaultProxy {
    shared: Arc<Shared>,
    _connections: JoinSet<()>,
}

impl FaultProxy {
    /// Listens on a free loopback port and forwards to the node at `upstream`.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn start(upstream: SocketAddr) -> io::Result<FaultProxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let shared = Arc::new(Shared {
            address: listener.local_addr()?,
            upstream,
            listening: watch::Sender::new(true),
            open: watch::Sender::new(true),
            state: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, shared.clone()));
        Ok(FaultProxy { shared, _connections: tasks })
    }

    /// The address clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// [`FaultProxy::address`] as a URL without a trailing slash, such as `http://127.0.0.1:40001`.
    pub fn url(&self) -> String {
        format!("http://{}", self.shared.address)
    }

    /// Replaces the plan; every rule counts from its beginning.
    pub fn set_plan(&self, plan: Plan) {
        self.shared.state().matcher = Matcher::new(plan);
    }

    /// What was counted until now.
    pub fn counts(&self) -> Counts {
        self.shared.state().counts.clone()
    }

    /// Counts from zero again.
    pub fn reset_counts(&self) {
        self.shared.state().counts = Counts::default();
    }

    /// Closes the port and all connections: the kernel refuses every new one until [`FaultProxy::listen`].
    pub async fn refuse(&self) {
        self.shared.set_listening(false).await;
    }

    /// Opens the port again after [`FaultProxy::refuse`] or [`Fault::Refuse`].
    pub async fn listen(&self) {
        self.shared.set_listening(true).await;
    }
}

#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    upstream: SocketAddr,
    /// What is wanted of the port.
    listening: watch::Sender<bool>,
    /// What the port is.
    open: watch::Sender<bool>,
    state: Mutex<State>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_fault(&self) {
        self.state().counts.faults += 1;
    }

    async fn set_listening(&self, listening: bool) {
        self.listening.send_replace(listening);
        // Fails only when `self` is gone.
        let _ = self.open.subscribe().wait_for(|open| *open == listening).await;
    }
}

#[derive(Debug, Default)]
struct State {
    matcher: Matcher,
    counts: Counts,
}

/// Serves connections while the port is open; owns them, so that closing the port also ends them.
async fn accept(mut listener: TcpListener, shared: Arc<Shared>) {
    let mut listening = shared.listening.subscribe();
    loop {
        shared.open.send_replace(true);
        let mut connections = JoinSet::new();
        while *listening.borrow_and_update() {
            tokio::select! {
                biased;
                changed = listening.changed() => if changed.is_err() { return },
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                    let wire = Arc::new(Wire::default());
                    let io = TokioIo::new(WireStream::new(stream, wire.clone()));
                    connections.spawn(forward::serve(io, wire, shared.clone()));
                },
            }
        }
        connections.shutdown().await;
        drop(listener);
        let reserved = reserve(shared.address).await;
        shared.open.send_replace(false);
        if listening.wait_for(|open| *open).await.is_err() {
            return;
        }
        let Ok(again) = reserved.listen(1_024) else { return };
        listener = again;
    }
}

/// Keeps the port from everybody else. A socket that does not listen refuses every connection.
async fn reserve(address: SocketAddr) -> TcpSocket {
    loop {
        let bound = TcpSocket::new_v4().and_then(|socket| {
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            Ok(socket)
        });
        match bound {
            Ok(socket) => return socket,
            // Somebody took it in between, as the port of a connection that will not last.
            Err(_) => tokio::time::sleep(RESERVE_PAUSE).await,
        }
    }
}

const RESERVE_PAUSE: Duration = Duration::from_millis(5);
