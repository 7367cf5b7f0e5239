//! The node of the generation before Cells 0.4, in process: what a client meets in the wild and must cope with.
//!
//! Written from the wire document alone (`files-http.md`) and sharing no code with the local node, so that a client is
//! tried against two readings of the same text. Its habits are kept, the awkward ones too:
//!
//! | habit | section |
//! |---|---|
//! | one reader/writer gate for the whole installation; who does not get it is answered `EBUSY` at once | 1.9 |
//! | errors are a bare `{code}`; malformed requests get plain text | 1.7 |
//! | receipts live in memory and die with the node | 5.1 |
//! | revisions are generations of a table that every mkdir, rename, remove and process empties | 4.2 |
//! | one child with a strange name makes a whole listing fail | 2 |
//! | process output comes at the end, at most 64 KiB a stream | 6.2 |
//! | no events, no projects, no agents; with [`OldNodeOptions::capabilities`] off not even capabilities | 3.1, 8 |
//!
//! Processes are plain children in a process group of their own, and the node says so: it declares the model
//! `trusted-cooperative-host`. Paths are checked component by component, not by the kernel: serve only directories
//! that nobody changes on purpose while a request runs.

mod access;
mod content;
mod discovery;
mod entries;
mod error;
mod ledger;
mod mutate;
mod paths;
mod processes;
mod put;
mod revisions;
mod seq;
mod stat;

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    extract::DefaultBodyLimit,
    http::{HeaderName, HeaderValue, Method, header},
    routing::{get, post},
};
use serde::Deserialize;
use tokio::{net::TcpListener, sync::RwLock, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tower_http::{
    cors::{AllowOrigin, CorsLayer},
    set_header::SetResponseHeaderLayer,
};

use ledger::Ledger;
use processes::Processes;
use revisions::Revisions;

/// What an [`OldNode`] serves.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OldNodeOptions {
    /// The directories.
    pub exports: Vec<OldExport>,
    /// What callers must send.
    pub credential: OldCredential,
    /// Off: `GET /v1/capabilities` is not there (404), as on still older nodes. Default: on.
    #[serde(default = "on")]
    pub capabilities: bool,
    /// Off: no processes. Default: on.
    #[serde(default = "on")]
    pub execution: bool,
    /// Web origins that may call; `*` allows all. Default: none.
    #[serde(default)]
    pub allowed_origins: Vec<String>,
}

fn on() -> bool {
    true
}

impl OldNodeOptions {
    /// Everything on, no web origin.
    pub fn new(credential: OldCredential, exports: impl IntoIterator<Item = OldExport>) -> OldNodeOptions {
        OldNodeOptions {
            exports: exports.into_iter().collect(),
            credential,
            capabilities: true,
            execution: true,
            allowed_origins: Vec::new(),
        }
    }
}

/// One directory that is served.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OldExport {
    /// Its name in URLs.
    pub alias: String,
    /// The directory.
    pub path: PathBuf,
    /// Whether it may be changed. Default: no.
    #[serde(default)]
    pub writable: bool,
}

/// The one credential of the node (section 1.1).
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", untagged)]
pub enum OldCredential {
    /// `Authorization: Bearer`.
    Token {
        /// The secret.
        token: String,
    },
    /// `Authorization: Basic`.
    Password {
        /// Without a colon.
        username: String,
        /// The secret.
        password: String,
    },
}

impl std::fmt::Debug for OldCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            OldCredential::Token { .. } => "Token(…)",
            OldCredential::Password { .. } => "Password(…)",
        })
    }
}

/// A running old node on a free loopback port. Dropping it stops it; [`OldNode::stop`] also waits for that.
#[derive(Debug)]
pub struct OldNode {
    address: SocketAddr,
    stopping: CancellationToken,
    server: Option<JoinHandle<io::Result<()>>>,
}

impl OldNode {
    /// Starts a node. Its receipts, revisions, cursors and process epoch are new: a second start is a restart.
    ///
    /// # Errors
    /// When a directory is missing, no port can be bound, or the system gives no random bytes.
    pub async fn start(options: OldNodeOptions) -> io::Result<OldNode> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let stopping = CancellationToken::new();
        let node = Node::new(options)?;
        let serve = axum::serve(listener, routes(node)).with_graceful_shutdown(stopping.clone().cancelled_owned());
        let server = tokio::spawn(async { serve.await });
        Ok(OldNode { address, stopping, server: Some(server) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// [`OldNode::address`] as a URL without a trailing slash.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops it, and waits until every request has its reply.
    ///
    /// # Errors
    /// When the port broke.
    pub async fn stop(mut self) -> io::Result<()> {
        self.stopping.cancel();
        match self.server.take() {
            Some(server) => server.await.map_err(io::Error::other)?,
            None => Ok(()),
        }
    }
}

impl Drop for OldNode {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

/// What all handlers share.
#[derive(Debug)]
struct Node {
    credential: OldCredential,
    capabilities: bool,
    execution: bool,
    allowed_origins: Vec<String>,
    exports: BTreeMap<String, Export>,
    /// Files take it shared, a process alone (section 1.9). Nobody waits for it.
    gate: Arc<RwLock<()>>,
    ledger: Ledger,
    processes: Processes,
    server_id: String,
    process_epoch: String,
    /// Signs cursors.
    cursor_key: [u8; 64],
}

#[derive(Debug)]
struct Export {
    root: PathBuf,
    writable: bool,
    revisions: Mutex<Revisions>,
}

impl Node {
    fn new(options: OldNodeOptions) -> io::Result<Arc<Node>> {
        let mut exports = BTreeMap::new();
        for OldExport { alias, path, writable } in options.exports {
            let root = path.canonicalize()?;
            put::sweep(&root, writable)?;
            exports.insert(alias, Export { root, writable, revisions: Mutex::new(Revisions::new()?) });
        }
        Ok(Arc::new(Node {
            credential: options.credential,
            capabilities: options.capabilities,
            execution: options.execution,
            allowed_origins: options.allowed_origins,
            exports,
            gate: Arc::default(),
            ledger: Ledger::default(),
            processes: Processes::default(),
            server_id: format!("pi-agent-{}", random_hex::<32>()?),
            process_epoch: random_hex::<32>()?,
            cursor_key: random::<64>()?,
        }))
    }
}

fn routes(node: Arc<Node>) -> Router {
    let origins = if node.allowed_origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(node.allowed_origins.iter().filter_map(|origin| origin.parse().ok()))
    };
    let cors = CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::OPTIONS])
        .allow_headers(ALLOWED_HEADERS.map(HeaderName::from_static))
        .expose_headers([header::CONTENT_RANGE, header::ETAG]);
    let no_store = SetResponseHeaderLayer::overriding(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let files = Router::new()
        .route("/v1/fs/{alias}/stat", post(stat::stat))
        .route("/v1/fs/{alias}/entries", get(entries::entries))
        .route("/v1/fs/{alias}/mutate", post(mutate::mutate))
        .route("/v1/fs/{alias}/operations/{id}", get(ledger::query))
        .route("/v1/fs/{alias}/operations/{id}/cancel", post(ledger::cancel))
        .route("/v1/fs/{alias}/seq/snapshot", post(seq::snapshot))
        .route("/v1/fs/{alias}/seq/transaction", post(seq::transaction))
        .route("/v1/processes", post(processes::start))
        .route("/v1/processes/{epoch}/{id}", get(processes::query))
        .route("/v1/processes/{epoch}/{id}/cancel", post(processes::cancel))
        .layer(DefaultBodyLimit::max(JSON_MAX_BYTES));
    let content = Router::new()
        .route("/v1/fs/{alias}/content", get(content::content).put(put::put))
        .layer(DefaultBodyLimit::disable());
    Router::new()
        .route("/v1/exports", get(discovery::exports))
        .route("/v1/capabilities", get(discovery::capabilities))
        .merge(files)
        .merge(content)
        .with_state(node)
        .layer(cors)
        .layer(no_store)
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

/// `2 * N` lowercase hex digits.
fn random_hex<const N: usize>() -> io::Result<String> {
    Ok(random::<N>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

const JSON_MAX_BYTES: usize = 524_288;
const ALLOWED_HEADERS: [&str; 15] = [
    "x-fsagent-project",
    "x-fsagent-project-revision",
    "x-fsagent-project-readonly",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "authorization",
    "content-type",
    "range",
    "if-range",
    "if-match",
    "if-none-match",
    "x-timeout-ms",
    "x-operation-id",
    "x-sync-history-epoch",
];
