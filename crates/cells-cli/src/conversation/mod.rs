//! What one turn shows: a pure function of the events of its session.
//!
//! The events of a profile concern all its sessions, come at least once, and may have gaps that history fills. A
//! [`Conversation`] picks what belongs to one turn and gives each piece of text once.

mod dialogue;
mod follow;
mod item;
mod printer;
mod request;
mod start;
mod terminal;

use std::collections::{BTreeMap, BTreeSet};

use cells_native::cells_driver::{CommandResult, HistoryPage, NativeId, NativeMessage, RequestId, TurnResult};
use serde_json::Value;

pub(crate) use follow::Follow;
pub(crate) use printer::Printer;
pub(crate) use start::{Prompt, start};

/// One turn of a session, or one slash command.
#[derive(Debug)]
pub(crate) struct Conversation {
    session_id: NativeId,
    request_id: Option<RequestId>,
    turn: Turn,
    /// Text that was shown of messages that are not complete, by item.
    shown: BTreeMap<String, String>,
    /// Items that were shown as complete.
    complete: BTreeSet<String>,
    /// What the items that were started do, for requests that only name them.
    notes: BTreeMap<String, String>,
    ended: bool,
}

/// What is known of the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Turn {
    /// Nothing.
    Unseen,
    /// A turn started in the session after the prompt was sent; the receipt has not named it yet.
    Seen(String),
    /// The receipt names it, or it has the id of the request, which nobody else knows.
    Proven(String),
}

/// One thing to show.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shown {
    /// Text of a message grows.
    Text {
        /// The message.
        item_id: String,
        /// What is new.
        delta: String,
    },
    /// A message is complete.
    Message {
        /// The message.
        item_id: String,
        /// All of it.
        text: String,
        /// What was not shown of it yet.
        missing: String,
    },
    /// The agent does something else.
    Item {
        /// It has ended.
        is_complete: bool,
        /// The native item.
        item: Value,
    },
    /// The slash command that was sent has ended.
    Command(Box<CommandResult>),
    /// The turn has ended. Nothing follows.
    Ended(TurnEnd),
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// By itself.
    Completed,
    /// With an error.
    Failed(String),
    /// Interrupted.
    Cancelled,
    /// With the process of the agent.
    AgentDied,
    /// The node does not say how.
    Untold,
}

impl Conversation {
    /// What will be sent to `session_id` next.
    pub(crate) fn new(session_id: NativeId) -> Self {
        Self {
            session_id,
            request_id: None,
            turn: Turn::Unseen,
            shown: BTreeMap::new(),
            complete: BTreeSet::new(),
            notes: BTreeMap::new(),
            ended: false,
        }
    }

    /// It is sent as `request_id`. Turns that start from here on may be its own.
    pub(crate) fn dispatched(&mut self, request_id: RequestId) {
        self.request_id = Some(request_id);
    }

    /// The receipt names the turn. True if events of this turn were taken for those of another one: replay them.
    pub(crate) fn prove(&mut self, turn_id: &NativeId) -> bool {
        let is_other = matches!(&self.turn, Turn::Seen(seen) | Turn::Proven(seen) if seen != turn_id.as_str());
        if is_other {
            self.ended = false;
        }
        self.turn = Turn::Proven(turn_id.as_str().to_owned());
        is_other
    }

    /// The turn, as soon as it is known.
    pub(crate) fn turn_id(&self) -> Option<&str> {
        match &self.turn {
            Turn::Unseen => None,
            Turn::Seen(id) | Turn::Proven(id) => Some(id),
        }
    }

    /// Whether the turn is known for certain, whatever becomes of the receipt.
    pub(crate) fn is_proven(&self) -> bool {
        matches!(self.turn, Turn::Proven(_))
    }

    /// What the item `item_id` does, if it was seen.
    pub(crate) fn note_of(&self, item_id: &str) -> Option<&str> {
        self.notes.get(item_id).map(String::as_str)
    }

    /// Whether a request of an agent is one of this turn. It may come before anything else of the turn does.
    pub(crate) fn takes_request(&mut self, message: &NativeMessage) -> bool {
        if self.ended || self.request_id.is_none() || !self.is_this_session(&message.params) {
            return false;
        }
        match (text(&message.params, "turnId"), &self.turn) {
            (None, Turn::Unseen) => true,
            (turn_id, _) => {
                self.see_turn(turn_id);
                self.is_this_turn(turn_id)
            }
        }
    }

    /// Takes the next event.
    pub(crate) fn handle_event(&mut self, message: &NativeMessage) -> Vec<Shown> {
        let params = &message.params;
        let mut show = Vec::new();
        if self.ended || !self.is_this_session(params) {
            return show;
        }
        let turn = params.get("turn").unwrap_or(&Value::Null);
        match message.method.as_str() {
            "turn/started" => self.see_turn(text(turn, "id")),
            "turn/completed" if self.is_this_turn(text(turn, "id")) => self.end(end_of(turn), &mut show),
            "item/agentMessage/delta" | "item/plan/delta" if self.is_this_turn(text(params, "turnId")) => {
                self.grow(text(params, "itemId"), text(params, "delta").unwrap_or_default(), &mut show);
            }
            "item/started" | "item/completed" => {
                let is_complete = message.method == "item/completed";
                if let Some(item) = params.get("item") {
                    self.handle_item(item, text(params, "turnId"), is_complete, &mut show);
                }
            }
            "harness/disconnected" if self.turn != Turn::Unseen => self.end(TurnEnd::AgentDied, &mut show),
            _ => {}
        }
        show
    }

    /// Takes what history says of the turn: its items in order, and the page that says whether it runs.
    pub(crate) fn handle_history(&mut self, items: &[Value], page: &HistoryPage) -> Vec<Shown> {
        let mut show = Vec::new();
        if self.ended {
            return show;
        }
        for item in items {
            let is_complete = text(item, "status") != Some("inProgress");
            self.handle_item(item, None, is_complete, &mut show);
        }
        let session = &page.session;
        let is_this = |id: &NativeId| self.turn_id() == Some(id.as_str());
        if self.turn == Turn::Unseen || session.active_turn_id.as_ref().is_some_and(is_this) {
            return show;
        }
        let element = page.turns.iter().rev().find(|turn| turn.id.as_ref().is_some_and(is_this));
        let result = session.last_turn_result.filter(|_| session.last_turn_id.as_ref().is_some_and(is_this));
        let end = match (element.and_then(|turn| turn.status.as_deref()), result) {
            (Some("inProgress"), _) => return show,
            (Some("completed"), _) | (_, Some(TurnResult::Completed)) => TurnEnd::Completed,
            (Some("failed"), _) | (_, Some(TurnResult::Failed)) => TurnEnd::Failed(NO_REASON.to_owned()),
            (Some("interrupted" | "cancelled"), _) | (_, Some(TurnResult::Cancelled)) => TurnEnd::Cancelled,
            (_, None) => TurnEnd::Untold,
        };
        self.end(end, &mut show);
        show
    }

    fn is_this_session(&self, params: &Value) -> bool {
        text(params, "threadId").is_none_or(|thread| thread == self.session_id.as_str())
    }

    fn is_this_turn(&self, turn_id: Option<&str>) -> bool {
        self.turn_id().is_some_and(|this| turn_id.is_none_or(|turn_id| turn_id == this))
    }

    fn see_turn(&mut self, turn_id: Option<&str>) {
        let (Some(turn_id), Some(request_id)) = (turn_id, &self.request_id) else { return };
        if turn_id == request_id.as_str() {
            self.turn = Turn::Proven(turn_id.to_owned());
        } else if self.turn == Turn::Unseen {
            self.turn = Turn::Seen(turn_id.to_owned());
        }
    }

    fn grow(&mut self, item_id: Option<&str>, delta: &str, show: &mut Vec<Shown>) {
        let item_id = item_id.unwrap_or_default();
        if delta.is_empty() || self.complete.contains(item_id) {
            return;
        }
        self.shown.entry(item_id.to_owned()).or_default().push_str(delta);
        show.push(Shown::Text { item_id: item_id.to_owned(), delta: delta.to_owned() });
    }

    fn handle_item(&mut self, item: &Value, turn_id: Option<&str>, is_complete: bool, show: &mut Vec<Shown>) {
        let item_id = text(item, "id").unwrap_or_default();
        if let Some(command) = self.own_command(item) {
            show.push(Shown::Command(Box::new(command)));
            return;
        }
        if !self.is_this_turn(turn_id.or_else(|| text(item, "turnId"))) || self.complete.contains(item_id) {
            return;
        }
        if is_complete {
            self.complete.insert(item_id.to_owned());
        }
        if item::is_message(item) {
            self.handle_message(item_id, &item::text_of(item), is_complete, show);
            return;
        }
        if let Some(note) = item::note(item) {
            self.notes.insert(item_id.to_owned(), note);
        }
        show.push(Shown::Item { is_complete, item: item.clone() });
    }

    /// All of a message is known, up to now or for good. What was not shown of it is.
    fn handle_message(&mut self, item_id: &str, text: &str, is_complete: bool, show: &mut Vec<Shown>) {
        // Deltas without an item belong to the message that is being made.
        let anonymous = if item_id.is_empty() { None } else { self.shown.remove("") };
        let before = self.shown.remove(item_id).or(anonymous).unwrap_or_default();
        let missing = match text.strip_prefix(before.as_str()) {
            Some(missing) => missing.to_owned(),
            // The deltas had a hole.
            None => format!("\n{text}"),
        };
        if is_complete {
            show.push(Shown::Message { item_id: item_id.to_owned(), text: text.to_owned(), missing });
            return;
        }
        self.shown.insert(item_id.to_owned(), text.to_owned());
        if !missing.is_empty() {
            show.push(Shown::Text { item_id: item_id.to_owned(), delta: missing });
        }
    }

    fn own_command(&self, item: &Value) -> Option<CommandResult> {
        let is_own = text(item, "type") == Some("commandResult")
            && text(item, "commandId") == self.request_id.as_ref().map(RequestId::as_str)
            && text(item, "state") != Some("running")
            // What a command with a turn does ends with that turn.
            && text(item, "turnId").is_none();
        is_own.then(|| serde_json::from_value(item.clone()).ok())?
    }

    fn end(&mut self, end: TurnEnd, show: &mut Vec<Shown>) {
        self.ended = true;
        show.push(Shown::Ended(end));
    }
}

/// The string member `name` of `value`.
fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

fn end_of(turn: &Value) -> TurnEnd {
    match text(turn, "status") {
        Some("completed") => TurnEnd::Completed,
        Some("failed") => {
            let error = turn.get("error").unwrap_or(&Value::Null);
            TurnEnd::Failed(error.as_str().or_else(|| text(error, "message")).unwrap_or(NO_REASON).to_owned())
        }
        Some("interrupted" | "cancelled") => TurnEnd::Cancelled,
        Some(_) | None => TurnEnd::Untold,
    }
}

const NO_REASON: &str = "the agent gave no reason";

#[cfg(test)]
mod tests;
