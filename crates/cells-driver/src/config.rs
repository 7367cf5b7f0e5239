//! What a caller configures: the client, and the connection to a node.

use cells_protocol::authorization::AuthorizationSnapshot;
use cells_protocol::endpoint::Endpoint;
use cells_protocol::limits::{DEFAULT_TIMEOUT_MS, READ_MAX_BYTES};
use serde::{Deserialize, Serialize};

use crate::credentials::CredentialResolver;
use crate::error::{Error, Result};

/// Configuration of a [`Client`](crate::Client).
pub struct ClientConfig {
    /// Name of the program, sent with every MCP request. Default `cells-driver`.
    pub client_name: String,
    /// Version of the program, sent with every MCP request. Default: the version of this crate.
    pub client_version: String,
    /// Asked for secrets that were not set with [`Client::set_credential`](crate::Client::set_credential). Default: none.
    pub credential_resolver: Option<Box<dyn CredentialResolver>>,
    /// Time budget of calls that name none, in milliseconds. Default 30,000. Commands have 120,000.
    pub timeout_ms: u64,
    /// Most bytes of content that come in one buffer; more are `EFBIG`. Default, and at most, 33,554,432.
    pub read_max_bytes: u64,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            client_name: "cells-driver".to_owned(),
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
            credential_resolver: None,
            timeout_ms: DEFAULT_TIMEOUT_MS,
            read_max_bytes: READ_MAX_BYTES,
        }
    }
}

impl std::fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClientConfig({} {})", self.client_name, self.client_version)
    }
}

/// How a node is reached, and as whom. Holds no secret, only the name of one.
///
/// ```
/// use cells_driver::Connection;
/// let connection = Connection::new("http://127.0.0.1:4477", "office");
/// assert_eq!(serde_json::to_value(&connection)?["credentialRef"], "office");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// The node's root, for example `http://127.0.0.1:4477`, or its MCP URL, whose last segment is `mcp`. From a root the
    /// MCP URL is `harness.endpoint` of `/v1/capabilities`, else `<root>/mcp`; from an MCP URL the root comes from
    /// discovery.
    pub endpoint: String,
    /// Name of the secret: an API key, or a password when there is a `username`. Not used when `anonymous`.
    #[serde(default)]
    pub credential_ref: String,
    /// User name of a node that wants a password. Absent = the secret is an API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Send no credential, and never ask for one.
    #[serde(default)]
    pub anonymous: bool,
    /// Pins every request but discovery to this identity and version of its grants (`cells-0.4.md` §1.4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization: Option<AuthorizationSnapshot>,
}

impl Connection {
    /// A connection that authenticates with the secret called `credential_ref`.
    pub fn new(endpoint: impl Into<String>, credential_ref: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            credential_ref: credential_ref.into(),
            username: None,
            anonymous: false,
            authorization: None,
        }
    }

    /// A connection without a credential.
    pub fn anonymous(endpoint: impl Into<String>) -> Self {
        Self { anonymous: true, ..Self::new(endpoint, "") }
    }

    /// Checks every member; the result holds only valid values and is the identity of the connection.
    pub(crate) fn bind(&self, operation: &'static str) -> Result<Binding> {
        let invalid = |message: &str| Error::invalid(operation, message);
        let endpoint =
            Endpoint::parse(&self.endpoint).map_err(|error| invalid(&format!("connection.endpoint: {error}")))?;
        let identity = if self.anonymous {
            Identity::Anonymous
        } else if self.credential_ref.is_empty() {
            return Err(invalid("the connection names no credential; name one or make it anonymous"));
        } else if let Some(username) = &self.username {
            if username.is_empty() || username.contains(|character: char| character == ':' || character.is_control()) {
                return Err(invalid("connection.username is empty or holds `:` or a control character"));
            }
            Identity::Basic { reference: self.credential_ref.clone(), username: username.clone() }
        } else {
            Identity::Bearer { reference: self.credential_ref.clone() }
        };
        if self.authorization.as_ref().is_some_and(|snapshot| snapshot.anonymous != self.anonymous) {
            return Err(invalid("connection.anonymous and connection.authorization.anonymous differ"));
        }
        Ok(Binding { endpoint, identity, authorization: self.authorization.clone() })
    }
}

/// A connection to one export of a node.
///
/// ```
/// use cells_driver::{Connection, FileConnection};
/// let notes = FileConnection::new(Connection::new("http://127.0.0.1:4477", "office"), "notes");
/// assert_eq!(serde_json::to_value(&notes)?["endpoint"], "http://127.0.0.1:4477");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileConnection {
    /// The node.
    #[serde(flatten)]
    pub connection: Connection,
    /// Name of the export.
    pub alias: String,
}

impl FileConnection {
    /// The export called `alias` of the node behind `connection`.
    pub fn new(connection: Connection, alias: impl Into<String>) -> Self {
        Self { connection, alias: alias.into() }
    }
}

/// A checked [`Connection`]: the key under which addresses, descriptors and profiles of a node are remembered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Binding {
    pub(crate) endpoint: Endpoint,
    pub(crate) identity: Identity,
    pub(crate) authorization: Option<AuthorizationSnapshot>,
}

impl Binding {
    /// Whether the endpoint is an MCP URL; otherwise it is the node's root.
    pub(crate) fn is_mcp_url(&self) -> bool {
        self.endpoint.without_trailing_slash().ends_with("/mcp")
    }
}

/// As whom a node is asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Identity {
    Anonymous,
    Bearer { reference: String },
    Basic { reference: String, username: String },
}

#[cfg(test)]
mod tests {
    use cells_protocol::error::ErrorKind;

    use super::*;

    #[test]
    fn bind_refuses_what_cannot_be_sent() {
        let good = Connection::new("http://node/", "office");
        let snapshot: AuthorizationSnapshot =
            serde_json::from_str(r#"{"principalId":"owner","anonymous":false,"revision":"r1"}"#).unwrap();
        for (connection, expected) in [
            (good.clone(), None),
            (Connection { endpoint: "http://node/mcp/".into(), ..good.clone() }, None),
            (Connection::anonymous("http://node"), None),
            (Connection { authorization: Some(snapshot.clone()), ..good.clone() }, None),
            (Connection { endpoint: "node".into(), ..good.clone() }, Some("must start with http")),
            (Connection { endpoint: "http://a:b@node".into(), ..good.clone() }, Some("must not hold a user name")),
            (Connection::new("http://node", ""), Some("names no credential")),
            (Connection { username: Some(String::new()), ..good.clone() }, Some("username is empty")),
            (Connection { username: Some("a:b".into()), ..good.clone() }, Some("username is empty or holds `:`")),
            (Connection { username: Some("a\rb".into()), ..good }, Some("control character")),
            (
                Connection { authorization: Some(snapshot), ..Connection::anonymous("http://node") },
                Some("authorization.anonymous differ"),
            ),
        ] {
            match (connection.bind("files"), expected) {
                (Ok(_), None) => {}
                (Err(error), Some(part)) => {
                    assert_eq!(error.kind(), ErrorKind::Invalid);
                    assert!(error.to_string().contains(part), "{error}");
                }
                (result, expected) => panic!("{connection:?}: {result:?} instead of {expected:?}"),
            }
        }
    }
}
