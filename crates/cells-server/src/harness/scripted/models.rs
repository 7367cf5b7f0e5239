//! The models that the agent pretends to have. They differ in name only; what is chosen is remembered and counted.

use cells_protocol::harness::{HarnessModel, HarnessModelCatalog, HarnessModelSelection, ReasoningEffort};
use serde_json::Value;

use crate::harness::arguments::Arguments;
use crate::harness::plugin::ToolError;

/// Every model, with `current` for a session that has one.
pub(super) fn catalog(current: Option<HarnessModelSelection>) -> HarnessModelCatalog {
    let effort = |id: &str, label: &str| ReasoningEffort { id: id.to_owned(), label: label.to_owned() };
    let large = HarnessModel {
        id: LARGE.to_owned(),
        label: "Scripted Large".to_owned(),
        reasoning_efforts: vec![effort("low", "Low"), effort("high", "High")],
        default_reasoning_effort: Some("low".to_owned()),
    };
    let fast = HarnessModel {
        id: "scripted-fast".to_owned(),
        label: "Scripted Fast".to_owned(),
        reasoning_efforts: Vec::new(),
        default_reasoning_effort: None,
    };
    HarnessModelCatalog { models: vec![large, fast], default: Some(default()), current }
}

/// What is used where nothing was chosen.
pub(super) fn default() -> HarnessModelSelection {
    HarnessModelSelection { model_id: LARGE.to_owned(), reasoning_effort: Some("low".to_owned()) }
}

/// The selection among the arguments of a turn or prompt command.
///
/// # Errors
/// `HARNESS_SELECTION_INVALID` for one that is not in the catalog.
pub(super) fn selection(arguments: &Arguments) -> Result<Option<HarnessModelSelection>, ToolError> {
    let Some(selection) = arguments.get("selection").filter(|selection| **selection != Value::Null) else {
        return Ok(None);
    };
    let selection: Result<HarnessModelSelection, _> = serde::Deserialize::deserialize(selection);
    let selection = selection.ok().filter(|selection| catalog(None).offers(selection));
    selection.map(Some).ok_or(ToolError("HARNESS_SELECTION_INVALID"))
}

const LARGE: &str = "scripted-large";
