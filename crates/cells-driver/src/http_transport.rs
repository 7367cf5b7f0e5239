//! Requests to any route of a node, for programs that speak to a part of it that this crate does not cover.

use bytes::Bytes;
use cells_protocol::files::FileStat;
use cells_protocol::ids::Alias;
use cells_protocol::json::Json;
use cells_protocol::limits::JSON_REPLY_MAX_BYTES;

use crate::cancellation::{CancelHandle, OperationOptions};
use crate::discovery::parsed;
use crate::error::{Error, Result};
use crate::files::{self, FileCommitted, FileContent, FileMutationOptions, ReadOptions, SeqClient};
use crate::node::{AUTHORIZATION_CHANGED, Link};
use crate::transport::{Call, JSON, is_success, read_all};

/// Requests to any route of one node, with all that every request of the driver gets: the credential, one time budget from
/// the look-up of the credential to the last byte of the reply, retries of GET, bounds on the reply, and the same errors.
/// Cheap to clone; [`close`](Self::close) ends all clones. Made by [`Client::http_transport`](crate::Client::http_transport).
///
/// A route is relative to the root of the node, and may have a query: `v1/exports`, `v1/fs/notes/entries?path=a`.
///
/// ```no_run
/// use cells_driver::{Client, Connection, OperationOptions, Result};
/// # async fn example(client: Client) -> Result<()> {
/// let transport = client.http_transport(&Connection::new("http://127.0.0.1:4477", "office"))?;
/// let exports = transport.json("v1/exports", None, OperationOptions::default()).await?;
/// println!("{}", String::from_utf8_lossy(&exports));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct HttpTransport {
    link: Link,
    close: CancelHandle,
}

/// A reply with JSON in it, or without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonReply {
    /// Its status. Never that of a redirect, which is an error.
    pub status: u16,
    /// Its body, as it came; `None` if that is not JSON.
    pub json: Option<Bytes>,
}

impl HttpTransport {
    pub(crate) fn new(link: &Link) -> Self {
        let (close, link) = link.closable();
        Self { link, close }
    }

    /// The JSON text that `route` answers, of at most 4 MiB. Without a `body` the request is a GET, which is sent up to twice
    /// more after a status 429, 502, 503 or 504; with one, of JSON, it is a POST, which is never sent again.
    ///
    /// # Errors
    /// The node's, for a status that is not a success; `EIO` of operation `protocol` for a body that is not JSON; `EFBIG`
    /// for a larger one; `EINVAL` for a route that is none.
    pub async fn json(&self, route: &str, body: Option<Bytes>, options: OperationOptions) -> Result<Bytes> {
        let budget = self.link.budget(&options);
        let ask = async {
            let call = self.call(route, body).await?;
            let json = self.link.fetch(&call, JSON_REPLY_MAX_BYTES, &budget).await?;
            parsed(REQUEST, Json::parse("the reply", &json).map(drop))?;
            Ok(json)
        };
        budget.run(REQUEST, ask).await
    }

    /// As [`json`](Self::json), for a route whose failing statuses are answers too. Sent once.
    ///
    /// # Errors
    /// As [`json`](Self::json), but none for a status; except for the code `AUTHORIZATION_CHANGED`, which ends the
    /// connection.
    pub async fn json_reply(&self, route: &str, body: Option<Bytes>, options: OperationOptions) -> Result<JsonReply> {
        let budget = self.link.budget(&options);
        let ask = async {
            let mut call = self.call(route, body).await?;
            call.is_accepted = |_| true;
            let response = self.link.open(&call, &budget).await?;
            let status = response.status;
            let body = read_all(REQUEST, response, JSON_REPLY_MAX_BYTES).await?;
            if !is_success(status) {
                let error = self.link.error_of(REQUEST, status, &body, None);
                if error.remote_code() == Some(AUTHORIZATION_CHANGED) {
                    return Err(error);
                }
            }
            let is_json = Json::parse("the reply", &body).is_ok();
            Ok(JsonReply { status, json: is_json.then_some(body) })
        };
        budget.run(REQUEST, ask).await
    }

    /// The bytes that `route` answers, of at most 32 MiB; see [`FileClient::read`](crate::FileClient::read).
    ///
    /// # Errors
    /// As [`FileClient::read`](crate::FileClient::read).
    pub async fn content(&self, route: &str, options: ReadOptions) -> Result<FileContent> {
        let url = Box::pin(async { Ok(self.call(route, None).await?.url) });
        files::read_from(&self.link, url, &options).await.map_err(|error| error.called(REQUEST))
    }

    /// Sends a write that claims an operation id: a POST of JSON to a route of an export, `v1/fs/{alias}/…`. The id and all
    /// that follows are those of [`FileMutations`](crate::FileMutations).
    ///
    /// # Errors
    /// As [`FileMutations`](crate::FileMutations); `EINVAL` for a route that is not one of an export.
    pub async fn mutate(
        &self,
        route: &str,
        body: Bytes,
        options: FileMutationOptions,
    ) -> Result<FileCommitted<Option<FileStat>>> {
        let target = check_route(route).and_then(|()| {
            let below = route.strip_prefix("v1/fs/").and_then(|rest| rest.split_once('/'));
            let (alias, rest) = below.ok_or_else(|| invalid("it is not one of an export, as v1/fs/notes/mutate"))?;
            Ok((Alias::new(alias).map_err(|error| Error::invalid(REQUEST, error))?, rest))
        });
        let (alias, rest) = target.map_err(files::not_started)?;
        files::post_write(&self.link, alias, rest, body, options).await
    }

    /// SeqFiles of the export `alias`. Asks nothing: what the export does not allow is refused by the node.
    ///
    /// # Errors
    /// `EINVAL` for an alias that is none.
    pub fn seq(&self, alias: &str) -> Result<SeqClient> {
        let alias = Alias::new(alias).map_err(|error| Error::invalid(REQUEST, error))?;
        Ok(files::seq_of(&self.link, alias))
    }

    /// Ends this transport and its clones: calls under way end with `ECANCELLED`, later ones with `EACCES`.
    pub fn close(&self) {
        self.close.cancel();
    }

    async fn call(&self, route: &str, body: Option<Bytes>) -> Result<Call> {
        self.link.check_open(REQUEST)?;
        check_route(route)?;
        let url = format!("{}/{route}", self.link.file_root().await?.without_trailing_slash());
        Ok(match body {
            None => Call::get(REQUEST, url),
            Some(body) => Call { body: Some(body), ..Call::post(REQUEST, url, JSON, Vec::new()) },
        })
    }
}

impl std::fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HttpTransport({})", self.link.node.binding.endpoint)
    }
}

/// Checks that a route stays below the root of the node, however it is read.
fn check_route(route: &str) -> Result<()> {
    let path = route.split('?').next().unwrap_or_default();
    let is_dots = |segment: &str| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    if path.is_empty() || path.starts_with('/') {
        return Err(invalid("it is relative to the root of the node, as v1/exports"));
    }
    if !route.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'\\')) {
        return Err(invalid("it holds a character that must be percent-encoded"));
    }
    if path.split('/').any(is_dots) {
        return Err(invalid("it has a `.` or `..` segment"));
    }
    Ok(())
}

fn invalid(problem: &str) -> Error {
    Error::invalid(REQUEST, format!("the route is not valid: {problem}"))
}

const REQUEST: &str = "request";
