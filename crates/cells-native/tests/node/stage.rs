//! A node over a temporary directory, a fault proxy before it, and a client.

use std::path::Path;

use cells_driver::{
    Client, ClientConfig, Connection, FileClient, FileConnection, HarnessClient, MutationOptions, NativeId,
    OperationOptions, ProfileId, Secret, WorkspaceId,
};
use cells_server::{Credential, Node, ServeConfig};
use cells_testkit::fault_proxy::FaultProxy;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// Everything a test needs. Ends with the test.
pub(crate) struct Stage {
    pub(crate) client: Client,
    pub(crate) proxy: FaultProxy,
    /// Address of the node behind the proxy.
    pub(crate) direct: String,
    root: TempDir,
    _stop: oneshot::Sender<()>,
}

impl Stage {
    /// A node with the exports `work` (read-write) and `library` (read-only, the same files).
    pub(crate) async fn new() -> Self {
        Self::with(Credential::ApiKey(None)).await
    }

    /// The same with another credential.
    pub(crate) async fn with(credential: Credential) -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["work", "library", "state"] {
            std::fs::create_dir(root.path().join(directory)).unwrap();
        }
        let path = |name: &str| root.path().join(name).display().to_string();
        let config = ServeConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            state: Some(root.path().join("state")),
            exports: vec![
                format!("work={}:rw", path("work")).parse().unwrap(),
                format!("library={}", path("library")).parse().unwrap(),
            ],
            credential,
            ..ServeConfig::default()
        };
        let node = Node::bind(config).await.unwrap();
        let direct = node.endpoint().to_owned();
        let proxy = FaultProxy::start(direct.strip_prefix("http://").unwrap().parse().unwrap()).await.unwrap();
        let client = cells_native::spawn(ClientConfig::default()).unwrap();
        if let Some(api_key) = node.api_key() {
            client.set_credential("home", Secret::new(api_key));
        }
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(node.run(async {
            let _ = stopped.await;
        }));
        Self { client, proxy, direct, root, _stop: stop }
    }

    pub(crate) fn connection(&self) -> Connection {
        Connection::new(self.proxy.url(), "home")
    }

    pub(crate) fn files(&self, alias: &str) -> FileClient {
        self.client.files(&FileConnection::new(self.connection(), alias)).unwrap()
    }

    /// Writes a file into both exports.
    pub(crate) fn write(&self, path: &str, content: &[u8]) {
        for export in ["work", "library"] {
            let path = self.path(export, path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
    }

    pub(crate) fn path(&self, export: &str, path: &str) -> std::path::PathBuf {
        self.root.path().join(export).join(Path::new(path))
    }

    pub(crate) fn harness(&self) -> HarnessClient {
        self.client.harness(&self.connection()).unwrap()
    }

    /// A session of the built-in agent in the export `work`.
    pub(crate) async fn session(&self, harness: &HarnessClient) -> (ProfileId, NativeId) {
        let profiles = harness.profiles(OperationOptions::default()).await.unwrap();
        let profile = profiles.profiles[0].id.clone();
        let workspace = WorkspaceId::new("work").unwrap();
        let created = harness.create(&profile, &workspace, MutationOptions::default()).await.unwrap();
        (profile, created.value.session.id)
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that are different everywhere.
pub(crate) fn content(n_bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(n_bytes).collect()
}
