//! Models of an agent, and the choice of one (`cells-0.4.md` §4).

use serde::Serialize;

use crate::json::{self, Malformed, Object};
use crate::limits::{
    MODEL_ID_MAX_BYTES, MODELS_MAX, MODELS_MAX_BYTES, REASONING_EFFORT_ID_MAX_BYTES, REASONING_EFFORTS_MAX,
};
use crate::text::{has_twice, is_label};

/// Reply of `harness_models`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct HarnessModelCatalog {
    /// At most 256 with unique ids.
    pub models: Vec<HarnessModel>,
    /// What is used where nothing is chosen.
    pub default: Option<HarnessModelSelection>,
    /// What the session uses now, where one was asked about.
    pub current: Option<HarnessModelSelection>,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessModel {
    /// Its name for the agent, opaque, at most 256 bytes.
    pub id: String,
    /// Its name for people, at most 256 bytes.
    pub label: String,
    /// How much it can be told to think, at most 32 with unique ids; may be empty.
    pub reasoning_efforts: Vec<ReasoningEffort>,
    /// The effort of this model where none is chosen: one of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_reasoning_effort: Option<String>,
}

/// One reasoning effort of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReasoningEffort {
    /// Its name for the agent, opaque, at most 64 bytes.
    pub id: String,
    /// Its name for people, at most 256 bytes.
    pub label: String,
}

/// A chosen model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessModelSelection {
    /// The model.
    pub model_id: String,
    /// One of its efforts; without it the native default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
}

impl HarnessModelSelection {
    /// Reads a selection; [`HarnessModelCatalog::offers`] tells whether it is one of a catalog.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing, wrong or longer than an id may be.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            model_id: label(object, "modelId", MODEL_ID_MAX_BYTES)?,
            reasoning_effort: optional_label(object, "reasoningEffort", REASONING_EFFORT_ID_MAX_BYTES)?,
        })
    }
}

impl HarnessModelCatalog {
    /// Reads and validates a catalog. One wrong entry rejects it whole.
    ///
    /// # Errors
    /// [`Malformed`] when an entry is wrong, an id stands twice, a default is not listed, or a bound is exceeded.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        let what = object.what();
        if object.compact_bytes() > MODELS_MAX_BYTES {
            return Err(Malformed::new(what, "is larger than 512 KiB"));
        }
        let mut selection = |name| match object.optional_object(name)? {
            Some(mut selection) => HarnessModelSelection::read(&mut selection).map(Some),
            None => Ok(None),
        };
        let (default, current) = (selection("default")?, selection("current")?);
        let catalog = Self { models: object.objects("models", HarnessModel::read)?, default, current };
        if catalog.models.len() > MODELS_MAX {
            return Err(Malformed::new(what, "has more than 256 models"));
        }
        if has_twice(catalog.models.iter().map(|model| model.id.as_str()).collect()) {
            return Err(Malformed::new(what, "names a model twice"));
        }
        if !catalog.default.iter().chain(&catalog.current).all(|selection| catalog.offers(selection)) {
            return Err(Malformed::new(what, "has a default or current model that is not in it"));
        }
        Ok(catalog)
    }

    /// Whether `selection` is a model of this catalog, with no effort or one of its efforts.
    pub fn offers(&self, selection: &HarnessModelSelection) -> bool {
        let model = self.models.iter().find(|model| model.id == selection.model_id);
        model.is_some_and(|model| {
            let effort = selection.reasoning_effort.as_ref();
            effort.is_none_or(|effort| model.reasoning_efforts.iter().any(|listed| listed.id == *effort))
        })
    }
}

impl HarnessModel {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        let what = object.what();
        let model = Self {
            id: label(object, "id", MODEL_ID_MAX_BYTES)?,
            label: label(object, "label", MODEL_ID_MAX_BYTES)?,
            reasoning_efforts: object.objects_or_empty("reasoningEfforts", |effort| {
                Ok(ReasoningEffort {
                    id: label(effort, "id", REASONING_EFFORT_ID_MAX_BYTES)?,
                    label: label(effort, "label", MODEL_ID_MAX_BYTES)?,
                })
            })?,
            default_reasoning_effort: object.optional_string("defaultReasoningEffort")?,
        };
        let efforts = &model.reasoning_efforts;
        if efforts.len() > REASONING_EFFORTS_MAX || has_twice(efforts.iter().map(|effort| effort.id.as_str()).collect())
        {
            return Err(Malformed::new(what, "has more than 32 reasoning efforts, or one twice"));
        }
        let is_listed = |default: &String| efforts.iter().any(|effort| effort.id == *default);
        if !model.default_reasoning_effort.as_ref().is_none_or(is_listed) {
            return Err(Malformed::new(what, "has a default reasoning effort that is not listed"));
        }
        Ok(model)
    }
}

/// A mandatory label.
pub(super) fn label(object: &mut Object<'_>, name: &'static str, max_bytes: usize) -> Result<String, Malformed> {
    let text = object.string(name)?;
    if is_label(&text, max_bytes) { Ok(text) } else { Err(object.wrong(name)) }
}

/// A label that may be absent or null.
pub(super) fn optional_label(
    object: &mut Object<'_>,
    name: &'static str,
    max_bytes: usize,
) -> Result<Option<String>, Malformed> {
    match object.optional_string(name)? {
        Some(text) if !is_label(&text, max_bytes) => Err(object.wrong(name)),
        text => Ok(text),
    }
}

json::deserialize_by_read!(HarnessModelSelection);
