//! The discovery document of `server/discover` and of the capability tools (`cells-0.4.md` §1.1–1.2).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::authorization::AuthorizationSnapshot;
use crate::endpoint::Endpoint;
use crate::ids::ServerId;
use crate::json::{self, Malformed, Object, safe_integer, to_vec};
use crate::limits::DISCOVERY_MAX_BYTES;

/// Key of the document in the `_meta` of `server/discover`.
pub const DISCOVERY_KEY: &str = "itookit/cells";
/// Keys of older nodes, in the order in which they are looked for.
pub const LEGACY_DISCOVERY_KEYS: [&str; 2] = ["itookit/pi-agent", "itookit/fs-agent"];
/// Tools that return the document, newest first.
pub const CAPABILITY_TOOLS: [&str; 3] = ["cells_capabilities", "piagent_capabilities", "fsagent_capabilities"];
/// The file protocol this driver speaks.
pub const FILE_PROTOCOL: &str = "fs-agent-http-v1";

const WHAT: &str = "the discovery document";
const EVENTS_VERSION: u64 = 1;

/// The document as it stands on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveryDocument {
    /// Always 1.
    pub version: u64,
    /// Reference to the file HTTP endpoint, relative to the MCP URL.
    pub http_endpoint: String,
    /// Identity of the installation. The member must be present; it may be null.
    #[serde(deserialize_with = "Option::deserialize")]
    pub server_id: Option<ServerId>,
    /// Always `fs-agent-http-v1`.
    pub file_protocol: String,
    /// A harness profile is visible to this principal.
    pub harness: bool,
    /// The project catalog is enabled.
    #[serde(default)]
    pub projects: bool,
    /// Protocol of the project tools.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub project_protocol: Option<String>,
    /// The sync store is enabled.
    #[serde(default)]
    pub sync: bool,
    /// Directory sync is enabled.
    #[serde(default)]
    pub directory_sync: bool,
    /// 2 = direction, compare, resolve and browse.
    #[serde(default = "one", deserialize_with = "safe_integer")]
    pub directory_sync_version: u64,
    /// Directories can be watched.
    #[serde(default)]
    pub file_watch: bool,
    /// Projects can be searched.
    #[serde(default)]
    pub file_search: bool,
    /// 2 or more = mode `name` and scope `directory`.
    #[serde(default = "one", deserialize_with = "safe_integer")]
    pub file_search_version: u64,
    /// Keyword queries.
    #[serde(default)]
    pub search_keywords: bool,
    /// Harness search mode `prompt`.
    #[serde(default)]
    pub search_prompts: bool,
    /// Execution settings of projects.
    #[serde(default)]
    pub project_execution_environment: bool,
    /// The shared event stream.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub events: Option<EventsAnnouncement>,
    /// Durable receipts.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub receipts: Option<ReceiptsAnnouncement>,
    /// Who the node says the caller is.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub authorization: Option<AuthorizationSnapshot>,
}

/// Announcement of the shared event stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsAnnouncement {
    /// 1 = `cells-0.4.md` §2.
    pub version: u64,
    /// Reference relative to the HTTP endpoint.
    pub endpoint: String,
}

/// Announcement of durable receipts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReceiptsAnnouncement {
    /// 1 = `cells-0.4.md` §12.
    pub version: u64,
    /// Receipts survive a restart.
    pub durable: bool,
}

impl ReceiptsAnnouncement {
    /// Reads the announcement.
    ///
    /// # Errors
    /// [`Malformed`] when a member is wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self { version: object.integer("version")?, durable: object.boolean("durable")? })
    }
}

json::deserialize_by_read!(ReceiptsAnnouncement);

/// A node, as discovery described it: defaults filled in, addresses absolute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CellsDescriptor {
    /// The document.
    #[serde(flatten)]
    pub document: DiscoveryDocument,
    /// The absolute MCP URL that was asked.
    pub mcp_endpoint: String,
    /// The document stood under a key of an older node.
    pub legacy: bool,
}

impl CellsDescriptor {
    /// Validates `document`, found at `mcp`, and makes its addresses absolute.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong, when the document is larger than 64 KiB, or when an address leads
    /// to another origin. A document that is present but wrong must not be bypassed.
    pub fn from_document(document: &Value, mcp: &Endpoint, legacy: bool) -> Result<Self, Malformed> {
        if to_vec(document).len() > DISCOVERY_MAX_BYTES {
            return Err(Malformed::new(WHAT, "is larger than 64 KiB"));
        }
        let mut document: DiscoveryDocument = json::convert(WHAT, document)?;
        if document.version != 1 {
            return Err(Malformed::new(WHAT, "has another version than 1"));
        }
        if document.file_protocol != FILE_PROTOCOL {
            return Err(Malformed::new(WHAT, "names another file protocol than fs-agent-http-v1"));
        }
        if document.directory_sync_version < 1 || document.file_search_version < 1 {
            return Err(Malformed::new(WHAT, "has a feature version below 1"));
        }
        if document.projects && document.project_protocol.is_none() {
            return Err(Malformed::new(WHAT, "offers projects without a project protocol"));
        }
        let resolve = |base: &Endpoint, reference: &str| {
            base.resolve(reference).map_err(|error| Malformed::new(WHAT, format!("holds a bad address: {error}")))
        };
        let http = resolve(mcp, &document.http_endpoint)?;
        document.http_endpoint = http.without_trailing_slash().to_owned();
        // An announcement of another version is none, and its address may follow other rules.
        document.events = document.events.filter(|events| events.version == EVENTS_VERSION);
        if let Some(events) = &mut document.events {
            events.endpoint = resolve(&http.directory(), &events.endpoint)?.without_trailing_slash().to_owned();
        }
        Ok(Self { document, mcp_endpoint: mcp.without_trailing_slash().to_owned(), legacy })
    }

    /// The address of the shared event stream, if the node has it in the version this driver speaks.
    pub fn events_endpoint(&self) -> Option<&str> {
        self.document.events.as_ref().map(|events| events.endpoint.as_str())
    }

    /// Whether receipts survive a restart of the node.
    pub fn has_durable_receipts(&self) -> bool {
        self.document.receipts.as_ref().is_some_and(|receipts| receipts.version == 1 && receipts.durable)
    }
}

/// The result of `server/discover`, as far as discovery needs it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DiscoverResult {
    /// Holds the document, see [`find_document`].
    #[serde(default, rename = "_meta")]
    pub meta: Value,
}

/// Picks the document out of the `_meta` of `server/discover`: the first key present, with whether it is a legacy key.
pub fn find_document(meta: &Value) -> Option<(&Value, bool)> {
    let current = meta.get(DISCOVERY_KEY).map(|document| (document, false));
    current.or_else(|| LEGACY_DISCOVERY_KEYS.iter().find_map(|key| meta.get(*key)).map(|document| (document, true)))
}

fn one() -> u64 {
    1
}

/// An optional member that, when present, must not be null.
fn present<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
