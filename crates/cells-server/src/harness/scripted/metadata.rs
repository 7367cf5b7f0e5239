//! What is kept of a session beside its history: its name, its model, and whether it is archived.

use cells_protocol::harness::HarnessModelSelection;
use serde::{Deserialize, Serialize};

/// The content of a metadata file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    /// The name that somebody gave the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// Somebody put it away.
    pub(super) is_archived: bool,
    /// The model that was chosen last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) selection: Option<HarnessModelSelection>,
    /// When one of them changed last, in Unix milliseconds.
    pub(super) updated_at: u64,
}
