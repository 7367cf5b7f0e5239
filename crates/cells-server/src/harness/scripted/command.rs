//! Slash commands that start no turn.

use cells_protocol::commands::{CommandError, CommandResult, CommandState};
use cells_protocol::ids::{CommandName, RequestId};
use cells_protocol::limits::COMMAND_PREVIEW_MAX_BYTES;
use cells_protocol::text::prefix;
use serde_json::{Value, json};

use super::history::LastTurn;
use super::output::generate;
use super::record::Item;
use super::session::Session;
use super::slash::Slash;
use crate::harness::clock::now_ms;
use crate::harness::plugin::ToolError;

/// Runs an action, records what came of it and gives its result in the inline form (`cells-0.4.md` §5.2).
pub(super) async fn run_action(
    session: &Session,
    request_id: &RequestId,
    name: &str,
    slash: Slash,
) -> Result<Value, ToolError> {
    let (text, error) = match slash {
        Slash::Status => (status(session), None),
        Slash::Text(text) => (text, None),
        Slash::Output { bytes, seed } => {
            let made = tokio::task::spawn_blocking(move || generate(bytes, &seed)).await;
            (made.map_err(|_| ToolError("EIO"))?, None)
        }
        Slash::Fail(code) => (String::new(), Some(CommandError { code })),
        Slash::Turn(_) => return Err(ToolError("EINVAL")),
    };
    let state = if error.is_some() { CommandState::Failed } else { CommandState::Completed };
    session.add_item(item(request_id, name, state, &text)).await?;
    let result = CommandResult {
        command_id: request_id.clone(),
        name: CommandName::new(name).map_err(|_| ToolError("EINVAL"))?,
        state,
        turn_id: None,
        output: Some(text),
        preview: None,
        truncated: None,
        output_ref: None,
        output_error: None,
        error,
    };
    Ok(json!(result))
}

/// The history item: the beginning of the text is enough to show what happened.
fn item(request_id: &RequestId, name: &str, state: CommandState, text: &str) -> Item {
    let preview = prefix(text, COMMAND_PREVIEW_MAX_BYTES);
    let item = json!({
        "id": format!("command-{request_id}"), "type": "commandResult", "commandId": request_id, "name": name,
        "state": state, "preview": preview, "truncated": preview.len() < text.len(), "turnId": null,
        "timestamp": now_ms(),
    });
    if let Value::Object(item) = item { item } else { Item::new() }
}

fn status(session: &Session) -> String {
    let view = session.view();
    let last_turn = match &session.lock().last_turn {
        LastTurn::None => "none".to_owned(),
        LastTurn::Ended(end) => format!("{} {}", end.turn_id, end.status.as_str()),
        LastTurn::Open(turn, _) => format!("{turn} interrupted"),
    };
    let active_turn = view.active_turn_id.as_ref().map_or("none", |turn| turn.as_str());
    let model = session.lock().metadata.selection.clone().unwrap_or_else(super::models::default).model_id;
    format!(
        "Session: {}\nTitle: {}\nWorkspace: {}\nDirectory: {}\nRunning turn: {active_turn}\nLast turn: {last_turn}\n\
         History: {} bytes\nModel: {model}\n",
        view.id,
        view.title,
        session.header.workspace_id,
        session.header.cwd,
        view.history_revision.unwrap_or_default(),
    )
}
