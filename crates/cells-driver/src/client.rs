//! The entry point: one client for any number of nodes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cells_machines::source_pool::SourcePool;
use cells_protocol::capabilities::{Exports, ServerCapabilities};
use cells_protocol::discovery::CellsDescriptor;
use cells_protocol::error::ErrorKind;
use cells_protocol::ids::Alias;
use cells_protocol::limits::READ_MAX_BYTES;
use serde_json::Value;

use crate::budget::{Budget, disposed};
use crate::cancellation::{CancelHandle, Cancellation, OperationOptions};
use crate::config::{Binding, ClientConfig, Connection, FileConnection};
use crate::credentials::{CredentialRestore, Credentials, Secret};
use crate::error::{Error, Result};
use crate::files::{FileClient, FileStorage};
use crate::harness::HarnessClient;
use crate::host::Host;
use crate::http_transport::HttpTransport;
use crate::node::{Link, Node};
use crate::process::{ProcessSession, ProcessSpec};
use crate::run::{Run, Spawner};
use crate::sources::{BrowsePage, FileSource, Sources, browse};

/// A client of Cells nodes. Cheap to clone; clones share credentials and what is known of each node.
///
/// ```no_run
/// use cells_driver::{Client, ClientConfig, Connection, FileConnection, OperationOptions, Secret};
/// # async fn example(host: impl cells_driver::host::Host, spawn: impl Fn(cells_driver::Run)) -> cells_driver::Result<()> {
/// let (client, run) = Client::new(host, ClientConfig::default());
/// spawn(run);
/// client.set_credential("office", Secret::new("the API key that `cells serve` printed"));
/// let connection = Connection::new("http://127.0.0.1:4477", "office");
/// let files = client.files(&FileConnection::new(connection, "notes"))?;
/// let stat = files.stat("readme.md", OperationOptions::default()).await?;
/// println!("{:?}", stat.and_then(|stat| stat.size));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    core: Arc<Core>,
}

impl Client {
    /// A client on `host`, and the future that drives it. The caller spawns that future: a call that was sent is then
    /// followed to its end even when its caller is gone.
    pub fn new(host: impl Host, config: ClientConfig) -> (Self, Run) {
        let (dispose, disposal) = Cancellation::new();
        let (spawner, run) = Run::new(&disposal);
        let core = Core {
            host: Arc::new(host),
            client_name: config.client_name,
            client_version: config.client_version,
            timeout_ms: config.timeout_ms,
            read_max_bytes: config.read_max_bytes.min(READ_MAX_BYTES),
            credentials: Credentials::new(config.credential_resolver),
            spawner,
            dispose,
            disposal,
            nodes: Mutex::default(),
            sources: Mutex::default(),
            next_rpc: AtomicU64::new(1),
        };
        (Self { core: Arc::new(core) }, run)
    }

    /// Keeps `secret` in memory under `reference`. The next request uses it. The result can put the previous one back.
    pub fn set_credential(&self, reference: impl Into<String>, secret: Secret) -> CredentialRestore {
        self.core.credentials.set(reference.into(), secret)
    }

    /// Forgets the secret in memory under `reference`.
    pub fn clear_credential(&self, reference: &str) {
        self.core.credentials.clear(reference);
    }

    /// The secret under `reference`: from memory, else from the resolver.
    ///
    /// # Errors
    /// `EACCES` of operation `credential` when neither has one; `ETIMEDOUT` when the resolver takes too long; `EACCES` after
    /// [`Client::dispose`].
    pub async fn resolve_credential(&self, reference: &str, options: OperationOptions) -> Result<Secret> {
        let budget = self.core.budget(&options);
        budget.run("resolve_credential", self.core.credentials.resolve(reference)).await
    }

    /// Asks a node what it is (`cells-0.4.md` §1.1). Always asks anew, without the headers that pin a request.
    ///
    /// # Errors
    /// `EIO` of operation `protocol` with reason `DISCOVERY_INVALID` when the node's document is wrong; nothing else is
    /// tried then. A failing capability tool gives the node's reason as
    /// [`remote_code`](crate::Error::remote_code).
    pub async fn discover(&self, connection: &Connection, options: DiscoverOptions) -> Result<CellsDescriptor> {
        let link = self.link(connection, "discover")?;
        let descriptor = link.discover(options.metadata, &options.operation).await?;
        Ok((*descriptor).clone())
    }

    /// What the HTTP side of a node offers. A node without this route is described by its exports: files and nothing else.
    ///
    /// # Errors
    /// As any call: `EACCES`, `EIO` and so on.
    pub async fn capabilities(&self, connection: &Connection, options: OperationOptions) -> Result<ServerCapabilities> {
        self.link(connection, "capabilities")?.capabilities(&options).await
    }

    /// The exports that this connection may see. Also the cheapest way to check a credential.
    ///
    /// # Errors
    /// As any call: `EACCES`, `EIO` and so on.
    pub async fn exports(&self, connection: &Connection, options: OperationOptions) -> Result<Exports> {
        self.link(connection, "exports")?.exports(&options).await
    }

    /// A client of one export. Asks nothing; whether the export exists shows at the first call.
    ///
    /// # Errors
    /// `EINVAL` when the connection or the alias is not valid.
    pub fn files(&self, connection: &FileConnection) -> Result<FileClient> {
        let (link, alias) = self.export(connection, "files")?;
        Ok(FileClient::new(link, alias))
    }

    /// Opens one export: asks the node what may be done with it, and how it keeps the receipts of writes.
    ///
    /// # Errors
    /// `EACCES` when the node has no such export, or hides it from this credential; `EINVAL` when the connection or the
    /// alias is not valid; as any call.
    pub async fn file_storage(&self, connection: &FileConnection, options: OperationOptions) -> Result<FileStorage> {
        let (link, alias) = self.export(connection, "open")?;
        FileStorage::open(&link, alias, &options).await
    }

    /// Requests to any route of one node. Asks nothing.
    ///
    /// # Errors
    /// `EINVAL` when the connection is not valid.
    pub fn http_transport(&self, connection: &Connection) -> Result<HttpTransport> {
        Ok(HttpTransport::new(&self.link(connection, "request")?))
    }

    /// A client of the agents of one node. Asks nothing.
    ///
    /// # Errors
    /// `EINVAL` when the connection is not valid.
    pub fn harness(&self, connection: &Connection) -> Result<HarnessClient> {
        Ok(HarnessClient::new(self.link(connection, "harness")?))
    }

    /// Opens one export as a file system. Equal connections share one source, which the last handle closes; see
    /// [`FileSource`]. The options hold for this caller's wait only: one that gives up does not disturb the others.
    ///
    /// # Errors
    /// As [`file_storage`](Self::file_storage). A failure is not kept: the next call tries again.
    pub async fn open(&self, connection: &FileConnection, options: OperationOptions) -> Result<FileSource> {
        let (link, alias) = self.export(connection, "open")?;
        FileSource::open(&link, alias, &options).await
    }

    /// As [`open`](Self::open), without sharing. `view_id` names the view; default: `http:` and the alias.
    ///
    /// # Errors
    /// As [`file_storage`](Self::file_storage).
    pub async fn open_http_file_source(
        &self,
        connection: &FileConnection,
        view_id: Option<String>,
        options: OperationOptions,
    ) -> Result<FileSource> {
        let (link, alias) = self.export(connection, "open")?;
        FileSource::open_unshared(&link, alias, view_id, &options).await
    }

    /// Checks that the node answers and accepts the credential.
    ///
    /// # Errors
    /// `EACCES` when the credential is missing or refused; as any call.
    pub async fn check(&self, connection: &Connection, options: OperationOptions) -> Result<()> {
        self.exports(connection, options).await.map(drop)
    }

    /// As [`check`](Self::check), with a secret that is not stored anywhere. Without one, or with an empty one, the stored
    /// secret is checked.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn check_draft(
        &self,
        connection: &Connection,
        secret: Option<Secret>,
        options: OperationOptions,
    ) -> Result<()> {
        let mut link = self.link(connection, "exports")?;
        if let Some(secret) = secret.filter(|secret| !secret.expose().is_empty()) {
            // What the node tells this secret is not remembered for others.
            link.node = Arc::new(Node::new(link.node.binding.clone()));
            link.draft = Some(secret);
        }
        link.exports(&options).await.map(drop)
    }

    /// Directories of a node: `/` gives the exports, any other path the directories in it, page by page.
    ///
    /// # Errors
    /// `EINVAL` for a path that is none; as [`FileClient::list`].
    pub async fn browse(
        &self,
        connection: &Connection,
        path: &str,
        cursor: Option<&str>,
        options: OperationOptions,
    ) -> Result<BrowsePage> {
        browse(self.link(connection, "browse")?, path, cursor, options).await
    }

    /// A session in which commands run on a node. Asks nothing.
    ///
    /// # Errors
    /// `EINVAL` when the connection or the description is not valid.
    pub fn process(&self, connection: &Connection, spec: ProcessSpec) -> Result<ProcessSession> {
        ProcessSession::new(self.link(connection, "process")?, spec)
    }

    /// Ends what the driver owns: requests and event streams are aborted, secrets are forgotten, later calls fail with
    /// `EACCES`. Turns and processes at the nodes go on, and so do mutations that were already sent; their callers get
    /// `unknown` with what is needed to ask for the outcome.
    pub fn dispose(&self) {
        self.core.dispose.cancel();
        self.core.credentials.clear_all();
        Sources::update(&self.core, SourcePool::start_dispose);
        lock_nodes(&self.core).clear();
    }

    fn link(&self, connection: &Connection, operation: &'static str) -> Result<Link> {
        self.core.check_open(operation)?;
        Ok(self.core.link(connection.bind(operation)?))
    }

    fn export(&self, connection: &FileConnection, operation: &'static str) -> Result<(Link, Alias)> {
        let alias = Alias::new(&connection.alias).map_err(|error| Error::invalid(operation, error))?;
        Ok((self.link(&connection.connection, operation)?, alias))
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({} {})", self.core.client_name, self.core.client_version)
    }
}

/// Options of [`Client::discover`].
#[derive(Debug, Clone, Default)]
pub struct DiscoverOptions {
    /// The `_meta` member of a `server/discover` result that an MCP client of the caller already holds. Used as it is,
    /// without a request; the tools are asked only if it holds none of the known keys.
    pub metadata: Option<Value>,
    /// Budget and cancellation.
    pub operation: OperationOptions,
}

/// What all clones of a client share.
pub(crate) struct Core {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) client_name: String,
    pub(crate) client_version: String,
    /// Time budget of calls that name none.
    pub(crate) timeout_ms: u64,
    pub(crate) read_max_bytes: u64,
    pub(crate) credentials: Credentials,
    pub(crate) spawner: Spawner,
    pub(crate) dispose: CancelHandle,
    pub(crate) disposal: Cancellation,
    nodes: Mutex<Vec<Arc<Node>>>,
    pub(crate) sources: Mutex<Sources>,
    next_rpc: AtomicU64,
}

impl Core {
    /// Starts the budget of one call.
    pub(crate) fn budget(&self, options: &OperationOptions) -> Budget {
        Budget::start(&self.host, &self.disposal, self.timeout_ms, options)
    }

    /// Fails after [`Client::dispose`].
    pub(crate) fn check_open(&self, operation: &'static str) -> Result<()> {
        if self.disposal.is_cancelled() { Err(disposed(operation)) } else { Ok(()) }
    }

    /// A JSON-RPC id that no other request of this client has.
    pub(crate) fn rpc_id(&self) -> String {
        format!("cells-{}", self.next_rpc.fetch_add(1, Ordering::Relaxed))
    }

    /// Cryptographic random bytes.
    pub(crate) fn random<const N: usize>(&self, operation: &'static str) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.host
            .fill_random(&mut bytes)
            .map_err(|error| Error::new(ErrorKind::Unsupported, operation, error.to_string()).with_source(error))?;
        Ok(bytes)
    }

    /// Random bits for delays. A platform without randomness gets delays without jitter.
    pub(crate) fn jitter(&self) -> u32 {
        let mut bytes = [0; 4];
        match self.host.fill_random(&mut bytes) {
            Ok(()) => u32::from_le_bytes(bytes),
            Err(_) => u32::MAX / 2,
        }
    }

    /// Makes a node that was refused for good unknown to new clients, so that they start afresh.
    pub(crate) fn forget(&self, node: &Arc<Node>) {
        lock_nodes(self).retain(|known| !Arc::ptr_eq(known, node));
    }

    /// What is known of the node behind `binding`, to be asked through this client.
    pub(crate) fn link(self: &Arc<Self>, binding: Binding) -> Link {
        Link { core: Arc::clone(self), node: self.node(binding), closed: None, draft: None }
    }

    fn node(&self, binding: Binding) -> Arc<Node> {
        let mut nodes = lock_nodes(self);
        if nodes.len() >= NODES_REMEMBERED_MAX {
            nodes.retain(|node| Arc::strong_count(node) > 1);
        }
        if let Some(node) = nodes.iter().find(|node| node.binding == binding) {
            return Arc::clone(node);
        }
        let node = Arc::new(Node::new(binding));
        nodes.push(Arc::clone(&node));
        node
    }
}

fn lock_nodes(core: &Core) -> std::sync::MutexGuard<'_, Vec<Arc<Node>>> {
    crate::sync::lock(&core.nodes)
}

/// Nodes without a client are forgotten when this many are known.
const NODES_REMEMBERED_MAX: usize = 64;

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use super::*;
    use crate::process::ExecOptions;

    /// Compiles only if every client and the futures of its calls can move between threads.
    #[allow(dead_code, reason = "the compiler is the test")]
    fn clients_and_calls_are_send(
        client: &Client,
        files: &FileClient,
        harness: &HarnessClient,
        source: &FileSource,
        processes: &ProcessSession,
    ) {
        fn shared<T: Send + Sync>(_: &T) {}
        fn moved<T: Send>(_: T) {}
        shared(client);
        shared(files);
        shared(harness);
        shared(source);
        shared(processes);
        let connection = Connection::anonymous("http://node");
        moved(client.discover(&connection, DiscoverOptions::default()));
        let notes = FileConnection::new(connection.clone(), "notes");
        moved(client.open(&notes, OperationOptions::default()));
        moved(client.browse(&connection, "/", None, OperationOptions::default()));
        moved(files.stat("", OperationOptions::default()));
        moved(files.read_stream("", crate::ReadOptions::default()));
        moved(source.fs().list("/", OperationOptions::default()));
        moved(processes.exec("ls", &[], ExecOptions::default()));
        moved(processes.release(OperationOptions::default()));
        moved(harness.profiles(OperationOptions::default()));
    }
}
