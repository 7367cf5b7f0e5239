//! What the node says of itself (`cells-0.4.md` §1.2).

use cells_protocol::discovery::{
    DISCOVERY_KEY, DiscoveryDocument, EventsAnnouncement, FILE_PROTOCOL, LEGACY_DISCOVERY_KEYS, ReceiptsAnnouncement,
};
use serde_json::{Map, Value};

use crate::app::App;
use crate::auth::Principal;
use crate::events::EVENTS_PATH;

/// The document for one caller. It is also the result of the capability tools.
pub(super) fn document(app: &App, principal: &Principal) -> Value {
    let document = DiscoveryDocument {
        version: 1,
        http_endpoint: "./".to_owned(),
        server_id: Some(app.server_id.clone()),
        file_protocol: FILE_PROTOCOL.to_owned(),
        harness: !principal.profiles().is_empty(),
        projects: false,
        project_protocol: None,
        sync: false,
        directory_sync: false,
        directory_sync_version: 1,
        file_watch: false,
        file_search: false,
        file_search_version: 1,
        search_keywords: !principal.profiles().is_empty(),
        search_prompts: !principal.profiles().is_empty(),
        project_execution_environment: false,
        events: Some(EventsAnnouncement { version: 1, endpoint: EVENTS_PATH.trim_start_matches('/').to_owned() }),
        receipts: Some(ReceiptsAnnouncement { version: 1, durable: true }),
        authorization: Some(principal.authorization().clone()),
    };
    serde_json::to_value(document).unwrap_or_default()
}

/// The members of the `_meta` of `server/discover` that hold the document.
pub(super) fn meta(app: &App, principal: &Principal) -> Map<String, Value> {
    let document = document(app, principal);
    let mut meta = Map::new();
    if app.legacy_discovery {
        meta.insert(LEGACY_DISCOVERY_KEYS[0].to_owned(), document.clone());
    }
    meta.insert(DISCOVERY_KEY.to_owned(), document);
    meta
}
