//! A local node, a proxy that counts and breaks requests, and a client that talks to the node through it.

use std::{
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use cells_driver::{Client, ClientConfig, Connection, FileClient, FileConnection, HarnessClient, Secret};
use cells_testkit::{
    fault_proxy::{Counts, FaultProxy},
    local_node::{LocalNode, NodeOptions},
};

/// What every step uses.
pub(crate) struct Stage {
    pub(crate) client: Client,
    pub(crate) connection: Connection,
    pub(crate) proxy: FaultProxy,
    pub(crate) repository: PathBuf,
    pub(crate) scratch: PathBuf,
    pub(crate) state: PathBuf,
    options: NodeOptions,
    node: Option<LocalNode>,
}

impl Stage {
    /// Starts a node over `repository`, read-only, and `folder/scratch`, writable.
    pub(crate) async fn set(cells: &Path, repository: &Path, folder: &Path) -> anyhow::Result<Stage> {
        let scratch = folder.join("scratch");
        let export = |name: &str, path: &Path, access: &str| {
            let mut export = OsString::from(format!("{name}="));
            export.push(path);
            export.push(access);
            export
        };
        let mut key = [0; 32];
        getrandom::fill(&mut key).context("no randomness")?;
        let mut options = NodeOptions {
            program: cells.to_owned(),
            exports: vec![export("repository", repository, ""), export("scratch", &scratch, ":rw")],
            state: folder.join("state"),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            api_key: key.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        let node = LocalNode::start(&options).await?;
        options.listen = node.address()?; // a restart takes the same port
        let proxy = FaultProxy::start(options.listen).await?;
        let client = cells_native::spawn(ClientConfig::default())?;
        client.set_credential(CREDENTIAL, Secret::new(options.api_key.clone()));
        Ok(Stage {
            client,
            connection: Connection::new(proxy.url(), CREDENTIAL),
            proxy,
            repository: repository.to_owned(),
            scratch,
            state: options.state.clone(),
            options,
            node: Some(node),
        })
    }

    pub(crate) fn files(&self, alias: &str) -> anyhow::Result<FileClient> {
        Ok(self.client.files(&FileConnection::new(self.connection.clone(), alias))?)
    }

    pub(crate) fn harness(&self) -> anyhow::Result<HarnessClient> {
        Ok(self.client.harness(&self.connection)?)
    }

    pub(crate) fn server_id(&self) -> anyhow::Result<&str> {
        Ok(self.node.as_ref().context("the node does not run")?.server_id())
    }

    /// What a step sent: counts from here on.
    pub(crate) fn count(&self) {
        self.proxy.reset_counts();
    }

    pub(crate) fn counts(&self) -> Counts {
        self.proxy.counts()
    }

    /// Ends the node as a power cut would.
    pub(crate) async fn kill_node(&mut self) -> anyhow::Result<()> {
        let node = self.node.take().context("the node does not run")?;
        node.kill().await.context("cannot kill the node")?;
        Ok(())
    }

    /// Starts the node again: same state, port and key.
    pub(crate) async fn start_node(&mut self) -> anyhow::Result<()> {
        self.node = Some(LocalNode::start(&self.options).await?);
        Ok(())
    }
}

const CREDENTIAL: &str = "demo";
