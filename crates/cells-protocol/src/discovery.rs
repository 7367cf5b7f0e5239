//! The discovery document of `server/discover` and of the capability tools (`cells-0.4.md` §1.1–1.2).

use serde::Serialize;
use serde_json::Value;

use crate::authorization::AuthorizationSnapshot;
use crate::endpoint::Endpoint;
use crate::ids::ServerId;
use crate::json::{Json, Malformed, Object};
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveryDocument {
    /// Always 1.
    pub version: u64,
    /// Reference to the file HTTP endpoint, relative to the MCP URL.
    pub http_endpoint: String,
    /// Identity of the installation. The member must be present; it may be null.
    pub server_id: Option<ServerId>,
    /// Always `fs-agent-http-v1`.
    pub file_protocol: String,
    /// A harness profile is visible to this principal.
    pub harness: bool,
    /// The project catalog is enabled.
    pub projects: bool,
    /// Protocol of the project tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_protocol: Option<String>,
    /// The sync store is enabled.
    pub sync: bool,
    /// Directory sync is enabled.
    pub directory_sync: bool,
    /// 2 = direction, compare, resolve and browse.
    pub directory_sync_version: u64,
    /// Directories can be watched.
    pub file_watch: bool,
    /// Projects can be searched.
    pub file_search: bool,
    /// 2 or more = mode `name` and scope `directory`.
    pub file_search_version: u64,
    /// Keyword queries.
    pub search_keywords: bool,
    /// Harness search mode `prompt`.
    pub search_prompts: bool,
    /// Execution settings of projects.
    pub project_execution_environment: bool,
    /// The shared event stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<EventsAnnouncement>,
    /// Durable receipts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipts: Option<ReceiptsAnnouncement>,
    /// Who the node says the caller is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization: Option<AuthorizationSnapshot>,
}

impl DiscoveryDocument {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        let version_of = |version: Option<Json<'_>>| match version {
            None => Ok(1),
            Some(version) => {
                version.safe_integer().ok_or_else(|| Malformed::new(WHAT, "has a feature version that is not one"))
            }
        };
        Ok(Self {
            version: object.integer("version")?,
            http_endpoint: object.string("httpEndpoint")?,
            server_id: match object.nullable_string("serverId")? {
                Some(id) => Some(ServerId::new(id).map_err(|_| object.wrong("serverId"))?),
                None => None,
            },
            file_protocol: object.string("fileProtocol")?,
            harness: object.boolean("harness")?,
            projects: object.flag("projects")?,
            project_protocol: match object.member("projectProtocol")? {
                None => None,
                Some(Json::String(protocol)) => Some(protocol.into_owned()),
                Some(_) => return Err(object.wrong("projectProtocol")),
            },
            sync: object.flag("sync")?,
            directory_sync: object.flag("directorySync")?,
            directory_sync_version: version_of(object.member("directorySyncVersion")?)?,
            file_watch: object.flag("fileWatch")?,
            file_search: object.flag("fileSearch")?,
            file_search_version: version_of(object.member("fileSearchVersion")?)?,
            search_keywords: object.flag("searchKeywords")?,
            search_prompts: object.flag("searchPrompts")?,
            project_execution_environment: object.flag("projectExecutionEnvironment")?,
            events: match object.object_if_present("events")? {
                Some(mut events) => Some(EventsAnnouncement::read(&mut events)?),
                None => None,
            },
            receipts: match object.object_if_present("receipts")? {
                Some(mut receipts) => Some(ReceiptsAnnouncement::read(&mut receipts)?),
                None => None,
            },
            authorization: match object.object_if_present("authorization")? {
                Some(mut snapshot) => Some(AuthorizationSnapshot::read(&mut snapshot)?),
                None => None,
            },
        })
    }
}

/// Announcement of the shared event stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventsAnnouncement {
    /// 1 = `cells-0.4.md` §2.
    pub version: u64,
    /// Reference relative to the HTTP endpoint.
    pub endpoint: String,
}

impl EventsAnnouncement {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self { version: object.integer("version")?, endpoint: object.string("endpoint")? })
    }
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
        let mut object = Json::of(document).object(WHAT)?;
        if object.compact_bytes() > DISCOVERY_MAX_BYTES {
            return Err(Malformed::new(WHAT, "is larger than 64 KiB"));
        }
        let mut document = DiscoveryDocument::read(&mut object)?;
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

/// Picks the document out of the `_meta` of `server/discover`: the first key present, with whether it is a legacy key.
pub fn find_document(meta: &Value) -> Option<(&Value, bool)> {
    let current = meta.get(DISCOVERY_KEY).map(|document| (document, false));
    current.or_else(|| LEGACY_DISCOVERY_KEYS.iter().find_map(|key| meta.get(*key)).map(|document| (document, true)))
}
