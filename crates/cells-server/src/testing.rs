//! A node for the tests of this crate that need to see inside: its rings and its streams.

use std::path::Path;
use std::sync::{Arc, Once};

use cells_protocol::ids::ProfileId;
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::app::AppState;
use crate::events::Streams;
use crate::files::steps::Steps;
use crate::harness::HarnessService;
use crate::harness::ring::EventRing;
use crate::harness::scripted::ScriptedPlugin;
use crate::{Credential, Node, Secret, ServeConfig, ServeError};

pub(crate) const KEY: &str = "a-key-that-only-tests-know";

/// A running node with one agent, `scripted`, that works in the writable export `files`.
pub(crate) struct TestNode {
    pub(crate) endpoint: String,
    pub(crate) harness: HarnessService,
    pub(crate) streams: Arc<Streams>,
    pub(crate) server_id: String,
    app: AppState,
    client: Client,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), ServeError>>,
    _directory: Option<TempDir>,
}

impl TestNode {
    pub(crate) async fn start() -> Self {
        Self::start_with(Streams::default(), |_| {}).await
    }

    pub(crate) async fn start_with(streams: Streams, change: impl FnOnce(&mut ServeConfig)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let node = Self::start_in(directory.path(), streams, Steps::default(), change).await;
        Self { _directory: Some(directory), ..node }
    }

    /// A node whose state and export are below `directory`, which stays when the node is gone.
    pub(crate) async fn start_in(
        directory: &Path,
        streams: Streams,
        steps: Steps,
        change: impl FnOnce(&mut ServeConfig),
    ) -> Self {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let files = directory.join("files");
        std::fs::create_dir_all(&files).unwrap();
        let mut config = ServeConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            state: Some(directory.join("state")),
            credential: Credential::ApiKey(Some(Secret::new(KEY))),
            exports: vec![format!("files={}:rw", files.display()).parse().unwrap()],
            ..ServeConfig::default()
        };
        change(&mut config);
        let node = Node::bind_with(config, &[Arc::new(ScriptedPlugin)], streams, steps).await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async {
            let _ = stopped.await;
        };
        Self {
            endpoint: node.endpoint().to_owned(),
            harness: node.app().harness.clone(),
            streams: Arc::clone(&node.app().events),
            server_id: node.server_id().to_string(),
            app: AppState::clone(node.app()),
            client: Client::builder().no_proxy().build().unwrap(),
            stop,
            ended: tokio::spawn(node.run(shutdown)),
            _directory: None,
        }
    }

    /// What the handlers share.
    pub(crate) fn app(&self) -> &AppState {
        &self.app
    }

    /// A request of the owner.
    pub(crate) fn request(&self, method: Method, route: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{route}", self.endpoint)).bearer_auth(KEY)
    }

    pub(crate) fn ring(&self) -> Arc<EventRing> {
        self.harness.ring(&ProfileId::new("scripted").unwrap()).unwrap()
    }

    /// A request without credential.
    pub(crate) fn post(&self, route: &str) -> RequestBuilder {
        self.client.post(format!("{}{route}", self.endpoint))
    }

    /// A JSON request of the owner.
    pub(crate) fn json(&self, route: &str, body: &Value) -> RequestBuilder {
        self.post(route).bearer_auth(KEY).header("content-type", "application/json").body(body.to_string())
    }

    /// Asks the node to stop and waits until it did.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap().unwrap();
    }
}

/// Status and body, which is JSON or one line of text.
pub(crate) async fn reply(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(json!(text)))
}

/// Reads the frames of a stream.
pub(crate) struct Frames {
    response: Response,
    text: String,
}

impl Frames {
    pub(crate) async fn of(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        Self { response, text: String::new() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name).map(|value| value.to_str().unwrap())
    }

    /// The next frame; `None` at the orderly end of the stream.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (name, data) = frame.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
                let (name, data) = (name.to_owned(), data.to_owned());
                assert!(
                    cells_protocol::events::Frame::parse(&name, data.as_bytes()).is_ok(),
                    "a driver would not read {name} {data}"
                );
                self.text = rest.to_owned();
                return Some((name, serde_json::from_str(&data).unwrap()));
            }
            let chunk = self.response.chunk().await.unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next frame, which has this name.
    pub(crate) async fn expect(&mut self, name: &str) -> Value {
        let (found, data) = self.next().await.expect("the stream ended");
        assert_eq!(found, name, "{data}");
        data
    }
}
