//! Starting and stopping a node.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum_server::Handle;
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use cells_protocol::ids::ServerId;
use tower_http::set_header::SetResponseHeaderLayer;

use crate::app::{App, AppState, MCP_PATH};
use crate::events::Streams;
use crate::files::steps::Steps;
use crate::files::{Exports, Files};
use crate::harness::plugin::HarnessPlugin;
use crate::harness::scripted::ScriptedPlugin;
use crate::harness::{HarnessOptions, HarnessService, StartError};
use crate::origins::Origins;
use crate::process::Processes;
use crate::prompt::PromptAcceptor;
use crate::state_dir::{Record, StateDir};
use crate::{
    Secret, ServeConfig, ServeError, credential, events, files, log, mcp, principals, process, profiles, random, tls,
};

/// A node that has its port and its state directory, and is ready to answer.
///
/// Requests that come before [`Node::run`] wait.
///
/// ```no_run
/// # async fn example() -> Result<(), cells_server::ServeError> {
/// use cells_server::{Node, ServeConfig};
///
/// let config = ServeConfig {
///     listen: ([127, 0, 0, 1], 0).into(),
///     exports: vec!["notes=/home/me/notes".parse()?],
///     ..ServeConfig::default()
/// };
/// let node = Node::bind(config).await?;
/// println!("{} {}", node.endpoint(), node.server_id());
/// node.run(async { tokio::time::sleep(std::time::Duration::from_secs(60)).await }).await
/// # }
/// ```
pub struct Node {
    app: AppState,
    listener: TcpListener,
    tls: Option<RustlsConfig>,
    endpoint: String,
    api_key: Option<Secret>,
    /// Locked as long as the node lives.
    _state: StateDir,
}

impl Node {
    /// Checks everything, takes the port, then opens the state directory. Must run inside a tokio runtime.
    ///
    /// # Errors
    /// [`ServeError::Config`] when something must be changed first; nothing was created, unless the state directory
    /// itself is at fault. [`ServeError::Failed`] when the machine failed.
    pub async fn bind(config: ServeConfig) -> Result<Self, ServeError> {
        let steps = config.fault_kill.map_or_else(Steps::default, Steps::kill_at);
        Self::bind_with(config, &[Arc::new(ScriptedPlugin)], Streams::default(), steps).await
    }

    /// As [`Node::bind`], with these agents, this patience with event streams, and this at the steps of writes.
    pub(crate) async fn bind_with(
        config: ServeConfig,
        plugins: &[Arc<dyn HarnessPlugin>],
        streams: Streams,
        steps: Steps,
    ) -> Result<Self, ServeError> {
        let checked = Checked::new(&config)?;
        let listener = TcpListener::bind(config.listen).map_err(|error| {
            ServeError::Config(format!("address {}: {error}; choose another with --listen", config.listen))
        })?;
        // Accepted sockets inherit it: a peer that takes nothing for this long is dropped.
        rustix::net::sockopt::set_tcp_user_timeout(&listener, STALLED_MS)
            .map_err(|error| ServeError::Failed(format!("address {}: {error}", config.listen)))?;
        let address = listener.local_addr().map_err(|error| ServeError::Failed(error.to_string()))?;
        let scheme = if checked.tls.is_some() { "https" } else { "http" };

        let state = StateDir::open(&checked.state)?;
        let mut record = identity(&state, config.server_id.as_ref())?;
        state.save(&record)?; // before the stores that carry this id
        let files = Files::open(checked.exports, state.path(), &record.server_id, steps)?;
        let profiles = profiles::resolve(&config, &files.exports, state.path())?;
        let options = HarnessOptions::new(state.path().to_owned(), record.server_id.clone(), profiles);
        let process_epoch = ServerId::new(random::hex(&random::bytes::<32>()?))
            .map_err(|error| ServeError::Failed(error.to_string()))?;
        let processes = Processes::start(config.execution, state.path(), process_epoch.clone()).await?;
        let harness = HarnessService::start(plugins, options).await?;
        // Last, so that a start that fails cannot replace the key by one that nobody saw.
        let settled = credential::settle(&config.credential, config.new_key, &mut record)?;
        let principals = checked.principals.settle(settled.verifier, &config)?;
        state.save(&record)?;
        let app = App {
            server_id: record.server_id,
            process_epoch,
            principals,
            origins: checked.origins,
            files,
            processes,
            harness,
            events: Arc::new(streams),
            legacy_discovery: config.legacy_discovery,
        };
        Ok(Self {
            app: AppState::new(app),
            listener,
            tls: checked.tls,
            endpoint: format!("{scheme}://{}", reachable(address)),
            api_key: settled.generated,
            _state: state,
        })
    }

    /// Address of the node, for example `http://127.0.0.1:4477`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Address of its MCP endpoint.
    pub fn mcp_url(&self) -> String {
        format!("{}{MCP_PATH}", self.endpoint)
    }

    /// Identity of the installation.
    pub fn server_id(&self) -> &ServerId {
        &self.app.server_id
    }

    /// The API key, only if it was made by this start. It cannot be asked for again: only a hash is kept.
    pub fn api_key(&self) -> Option<&str> {
        self.api_key.as_ref().map(Secret::expose)
    }

    #[cfg(test)]
    pub(crate) fn app(&self) -> &AppState {
        &self.app
    }

    /// Answers requests until `shutdown` is ready. Then no connection is accepted, event streams, agents and processes end,
    /// and requests that run have 5 s to finish.
    ///
    /// # Errors
    /// [`ServeError::Failed`] when the socket fails.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Self { app, listener, tls, endpoint, _state, .. } = self;
        let (harness, processes, streams) = (app.harness.clone(), app.processes.clone(), Arc::clone(&app.events));
        let operations = Arc::clone(&app.files.operations);
        app.files.sweep();
        let routes = routes(app);
        let handle = Handle::new();
        let server = axum_server::from_tcp(listener).map_err(|error| ServeError::Failed(error.to_string()))?;
        let mut server = server.handle(handle.clone()).acceptor(NoDelayAcceptor::new());
        server.http_builder().http1().header_read_timeout(HEADER_READ_TIMEOUT);
        let stop = async {
            shutdown.await;
            tracing::info!("stopping");
            streams.stop();
            operations.stop();
            handle.graceful_shutdown(Some(GRACE));
        };
        tracing::info!("listening on {endpoint}");
        let serve = async {
            match tls {
                None => server.map(PromptAcceptor::new).serve(routes.into_make_service()).await,
                Some(tls) => {
                    let secure = |plain| PromptAcceptor::new(RustlsAcceptor::new(tls).acceptor(plain));
                    server.map(secure).serve(routes.into_make_service()).await
                }
            }
        };
        let mut serve = pin!(serve);
        let result = tokio::select! {
            result = &mut serve => result,
            // Agents and processes end while the server does: calls that wait for them get their answers.
            () = stop => tokio::join!(serve, harness.shutdown(), processes.shutdown()).0,
        };
        harness.shutdown().await;
        processes.shutdown().await;
        operations.stop();
        operations.drained().await;
        result.map_err(|error| ServeError::Failed(format!("the server stopped: {error}")))
    }
}

/// What can be checked without creating anything.
struct Checked {
    exports: Exports,
    principals: principals::Checked,
    origins: Origins,
    tls: Option<RustlsConfig>,
    state: std::path::PathBuf,
}

impl Checked {
    fn new(config: &ServeConfig) -> Result<Self, ServeError> {
        if config.exports.is_empty() && config.harnesses.is_empty() {
            return Err(ServeError::Config("nothing to serve; give at least one --export NAME=PATH".into()));
        }
        credential::check(&config.credential, config.new_key)?;
        profiles::check(config)?;
        let origins = Origins::parse(&config.allowed_origins)?;
        let tls = tls::load(config)?;
        let exports = files::open_all(&config.exports)?;
        let state = config.state.clone().map_or_else(StateDir::default_path, Ok)?;
        files::check_state_outside(&exports, &state)?;
        let principals = principals::check(config, &exports)?;
        Ok(Self { exports, principals, origins, tls, state })
    }
}

/// The record of the state directory, or that of a new node.
fn identity(state: &StateDir, configured: Option<&ServerId>) -> Result<Record, ServeError> {
    match (state.load()?, configured) {
        (Some(record), Some(configured)) if record.server_id != *configured => Err(ServeError::Config(format!(
            "state directory {}: it belongs to server id {}, not {configured}; correct server_id or give another --state",
            state.path().display(),
            record.server_id
        ))),
        (Some(record), _) => Ok(record),
        (None, Some(configured)) => Ok(Record::new(configured.clone())),
        (None, None) => {
            let id = ServerId::new(format!("node-{}", random::hex(&random::bytes::<16>()?)));
            id.map(Record::new).map_err(|error| ServeError::Failed(error.to_string()))
        }
    }
}

/// All routes. Each feature brings its own; what holds for every reply is added here once.
fn routes(app: AppState) -> Router {
    let cors = app.origins.layer();
    let no_store = SetResponseHeaderLayer::overriding(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Router::new()
        .merge(files::router())
        .merge(process::router())
        .merge(events::router())
        .merge(mcp::router(AppState::clone(&app)))
        .with_state(app)
        .layer(cors)
        .layer(no_store)
        .layer(axum::middleware::from_fn(log::requests))
}

impl From<StartError> for ServeError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Plugin { .. } | StartError::Profile(_) | StartError::Receipts(_) => {
                Self::Config(error.to_string())
            }
            StartError::Outputs(_) | StartError::Random => Self::Failed(error.to_string()),
        }
    }
}

/// `address` as this machine reaches it.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// How long running requests may go on after a stop.
const GRACE: Duration = Duration::from_secs(5);
/// How long a peer may accept nothing of what is sent to it (`cells-0.4.md` §2.6).
const STALLED_MS: u32 = 60_000;
/// How long a connection may take to send the head of a request.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);
