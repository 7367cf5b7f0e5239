//! A running node and what tests ask of it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Once;

use bytes::Bytes;
use cells_server::{Credential, Node, Secret, ServeConfig, ServeError};
use reqwest::header::HeaderMap;
use reqwest::{Client, ClientBuilder, Method, RequestBuilder};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const KEY: &str = "a-key-that-only-tests-know";

/// A node with the exports `rw` (writable) and `ro` (read-only), each a directory of that name.
pub(crate) struct TestNode {
    endpoint: String,
    client: Client,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), ServeError>>,
    base: PathBuf,
    _directory: Option<TempDir>,
}

impl TestNode {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut ServeConfig)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut config = config(&directory);
        change(&mut config);
        Self::of(config, Some(directory)).await
    }

    /// A node whose state and exports are below `directory`, which stays when the node is gone.
    pub(crate) async fn start_in(directory: &TempDir) -> Self {
        Self { base: directory.path().to_owned(), ..Self::of(config(directory), None).await }
    }

    async fn of(config: ServeConfig, directory: Option<TempDir>) -> Self {
        let node = Node::bind(config).await.unwrap();
        let endpoint = node.endpoint().to_owned();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async {
            let _ = stopped.await;
        };
        let ended = tokio::spawn(node.run(shutdown));
        let base = directory.as_ref().map_or_else(PathBuf::new, |directory| directory.path().to_owned());
        Self { endpoint, client: client(|builder| builder), stop, ended, base, _directory: directory }
    }

    /// A path below the directory that holds both exports.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.base.join(relative)
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// A request without credential.
    pub(crate) fn anonymous(&self, method: Method, route: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{route}", self.endpoint))
    }

    pub(crate) fn get(&self, route: &str) -> RequestBuilder {
        self.anonymous(Method::GET, route).bearer_auth(KEY)
    }

    pub(crate) fn content(&self, alias: &str, path: &str) -> RequestBuilder {
        self.get(&format!("/v1/fs/{alias}/content?path={}", query_value(path)))
    }

    pub(crate) fn entries(&self, alias: &str, path: &str, cursor: Option<&str>) -> RequestBuilder {
        let cursor = cursor.map(|cursor| format!("&cursor={}", query_value(cursor))).unwrap_or_default();
        self.get(&format!("/v1/fs/{alias}/entries?path={}{cursor}", query_value(path)))
    }

    pub(crate) fn stat(&self, alias: &str, paths: &[impl AsRef<str>]) -> RequestBuilder {
        let paths: Vec<&str> = paths.iter().map(AsRef::as_ref).collect();
        self.anonymous(Method::POST, &format!("/v1/fs/{alias}/stat"))
            .bearer_auth(KEY)
            .header("content-type", "application/json")
            .body(serde_json::json!({ "paths": paths }).to_string())
    }

    /// Asks the node to stop and waits until it did.
    pub(crate) async fn stop(self) -> Result<(), ServeError> {
        let _ = self.stop.send(());
        self.ended.await.unwrap()
    }

    /// Asks the node to stop; the other half waits until it did.
    pub(crate) fn begin_stop(self) -> JoinHandle<Result<(), ServeError>> {
        let _ = self.stop.send(());
        self.ended
    }
}

/// A node on a free port with the exports `rw` and `ro` below `directory`, which are created.
pub(crate) fn config(directory: &TempDir) -> ServeConfig {
    let export = |alias: &str, access: &str| {
        let path = directory.path().join(alias);
        std::fs::create_dir_all(&path).unwrap();
        format!("{alias}={}:{access}", path.display()).parse().unwrap()
    };
    ServeConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        state: Some(directory.path().join("state")),
        credential: Credential::ApiKey(Some(Secret::new(KEY))),
        exports: vec![export("rw", "rw"), export("ro", "ro")],
        ..ServeConfig::default()
    }
}

pub(crate) fn client(change: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    change(Client::builder().no_proxy()).build().unwrap()
}

/// A whole reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) async fn of(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, body: response.bytes().await.unwrap() }
    }

    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"));
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Status and code of an error reply, which holds nothing else.
    pub(crate) fn refusal(&self) -> (u16, String) {
        let json = self.json();
        let members: Vec<&String> = json.as_object().unwrap().keys().collect();
        assert_eq!(members, ["code"]);
        (self.status, json["code"].as_str().unwrap().to_owned())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

pub(crate) fn refusal(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

/// Percent-encodes a query value.
pub(crate) fn query_value(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// Makes empty files named by their number. Most are links to the first of their thousand: links are much cheaper to
/// make than files, and few file systems allow as many as needed to a single one.
pub(crate) fn make_files(directory: &Path, numbers: Range<usize>) {
    let file = |number: usize| directory.join(number.to_string());
    let start = numbers.start;
    for number in numbers {
        match (number - start) % 1000 {
            0 => std::fs::write(file(number), "").unwrap(),
            offset => std::fs::hard_link(file(number - offset), file(number)).unwrap(),
        }
    }
}
