//! The running turn of a session: its items, its deltas and what it asks.

use std::collections::VecDeque;
use std::sync::Arc;

use cells_protocol::harness::TokenCounts;
use cells_protocol::ids::NativeId;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::history::LastTurn;
use super::record::{Item, Record, TurnEnd, TurnStart, TurnStatus};
use super::requests::{Answer, Decision, RequestKind};
use super::runtime::{Runtime, WriteLock};
use super::session::{Session, State, title};
use super::tokens;
use crate::harness::clock::now_ms;
use crate::harness::plugin::ToolError;

/// A running turn.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) turn: NativeId,
    /// Cancelled when the turn must stop.
    pub(super) stop: CancellationToken,
    /// Where it starts in the history, once its prompt is there.
    pub(super) start: Option<TurnStart>,
    /// The model it uses, and what it has used of it.
    model: String,
    spent: TokenCounts,
    /// What the user added while it ran and it has not taken yet.
    steers: VecDeque<String>,
    /// Told of each.
    steered: Arc<Notify>,
    /// The write lock of the session.
    _lock: WriteLock,
    live: Option<Item>,
    pending: Option<Pending>,
}

/// What the turn waits for.
#[derive(Debug)]
struct Pending {
    id: Value,
    kind: RequestKind,
    answer: oneshot::Sender<Answer>,
}

/// Why a turn does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    /// Somebody interrupted it.
    Interrupted,
    /// It failed, for this reason.
    Failed(String),
    /// It is not the turn of the session: its process died.
    Gone,
}

/// The text that grows while an item is being made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    /// `text` of an agent message.
    Message,
    /// `text` of a plan.
    Plan,
    /// `aggregatedOutput` of a command.
    CommandOutput,
    /// The first entry of `summary` of reasoning.
    Reasoning,
}

impl Active {
    /// A turn whose prompt is not in the history yet.
    pub(super) fn new(turn: NativeId, model: String, stop: CancellationToken, lock: WriteLock) -> Self {
        Self {
            turn,
            stop,
            start: None,
            model,
            spent: TokenCounts::default(),
            steers: VecDeque::new(),
            steered: Arc::default(),
            _lock: lock,
            live: None,
            pending: None,
        }
    }

    /// The item that is being made, as far as it is.
    pub(super) fn live_item(&self) -> Option<Item> {
        self.live.clone()
    }

    /// What the turn waits for, in the words of the session status.
    pub(super) fn flags(&self) -> Vec<&'static str> {
        self.pending.iter().map(|pending| pending.kind.active_flag()).collect()
    }
}

impl Channel {
    fn method(self) -> &'static str {
        match self {
            Self::Message => "item/agentMessage/delta",
            Self::Plan => "item/plan/delta",
            Self::CommandOutput => "item/commandExecution/outputDelta",
            Self::Reasoning => "item/reasoning/summaryTextDelta",
        }
    }

    fn append(self, item: &mut Item, delta: &str) {
        let text = match self {
            Self::Message | Self::Plan => item.get_mut("text"),
            Self::CommandOutput => item.get_mut("aggregatedOutput"),
            Self::Reasoning => item.get_mut("summary").and_then(|summary| summary.get_mut(0)),
        };
        if let Some(Value::String(text)) = text {
            text.push_str(delta);
        }
    }
}

/// All of these need the turn to be the running one, else they give [`Stop::Gone`] and change nothing.
impl Session {
    /// Makes the prompt durable and starts the turn.
    ///
    /// # Errors
    /// `EIO` when the prompt could not be written; the session is free again.
    pub(super) async fn start_turn(&self, turn: &NativeId, prompt: &str, user_message: Item) -> Result<(), ToolError> {
        let _writing = self.writing.lock().await;
        let end = self.lock().end;
        let record = Record::Item { item: user_message.clone(), runtime: Runtime::current() };
        let appended = self.append(end, vec![record], true).await;
        let mut state = self.lock();
        let cache_read_tokens = tokens::context(&state.usage);
        let start = TurnStart { sequence: state.next_position(), prompt_sha256: Record::prompt_sha256(&user_message) };
        let active = active_turn(&mut state, turn).ok_or(ToolError("EIO"))?;
        match appended {
            Ok(end) => {
                active.start = Some(start);
                let input_tokens = tokens::of_message(&user_message);
                active.spent = TokenCounts { input_tokens, cache_read_tokens, ..TokenCounts::default() };
                state.advance(end);
            }
            Err(error) => {
                state.active = None;
                return Err(error);
            }
        }
        state.updated_at = now_ms();
        self.emit_status(&state);
        if state.title.is_empty() {
            state.title = title(prompt);
            self.emit("thread/name/updated", json!({"threadName": state.title}));
        }
        self.emit("turn/started", json!({"turn": {"id": turn, "status": "inProgress"}}));
        self.emit("item/completed", json!({"turnId": turn, "item": user_message}));
        Ok(())
    }

    /// Starts an item. The turn makes one item at a time.
    pub(super) fn start_item(&self, turn: &NativeId, item: Item) -> Result<(), Stop> {
        let mut state = self.lock();
        let active = active_turn(&mut state, turn).ok_or(Stop::Gone)?;
        let params = json!({"turnId": turn, "item": item});
        active.live = Some(item);
        self.emit("item/started", params);
        Ok(())
    }

    /// Adds `delta` to the item that is being made.
    pub(super) fn delta(&self, turn: &NativeId, channel: Channel, delta: &str) -> Result<(), Stop> {
        let mut state = self.lock();
        let item = active_turn(&mut state, turn).and_then(|active| active.live.as_mut()).ok_or(Stop::Gone)?;
        channel.append(item, delta);
        let mut params = json!({"turnId": turn, "itemId": item.get("id"), "delta": delta});
        if channel == Channel::Reasoning {
            params["summaryIndex"] = json!(0);
        }
        self.emit(channel.method(), params);
        Ok(())
    }

    /// Finishes the item that is being made: `complete` says how it ended. Gives the finished item.
    pub(super) async fn finish_item(&self, turn: &NativeId, complete: impl FnOnce(&mut Item)) -> Result<Item, Stop> {
        let _writing = self.writing.lock().await;
        let (mut item, end) = {
            let mut state = self.lock();
            let item = active_turn(&mut state, turn).and_then(|active| active.live_item()).ok_or(Stop::Gone)?;
            (item, state.end)
        };
        complete(&mut item);
        let appended = self.append(end, vec![Record::item(item.clone())], false).await;
        let mut state = self.lock();
        let active = active_turn(&mut state, turn).ok_or(Stop::Gone)?;
        active.live = None;
        active.spent = active.spent.checked_add(&tokens::of_output(&item)).unwrap_or(active.spent);
        let Ok(end) = appended else { return Err(Stop::Failed("the history cannot be written".to_owned())) };
        state.advance(end);
        state.updated_at = now_ms();
        self.emit("item/completed", json!({"turnId": turn, "item": item}));
        Ok(item)
    }

    /// Adds a message of the user to the running turn `turn`, durably.
    ///
    /// # Errors
    /// `HARNESS_TURN_NOT_ACTIVE` when it does not run.
    pub(super) async fn steer(&self, turn: &str, text: &str, message: Item) -> Result<(), ToolError> {
        const NOT_ACTIVE: ToolError = ToolError("HARNESS_TURN_NOT_ACTIVE");
        // Nothing ends the turn while this is held.
        let _writing = self.writing.lock().await;
        let runs = |active: &&mut Active| active.turn.as_str() == turn && active.start.is_some();
        let end = {
            let mut state = self.lock();
            state.check_owned()?;
            state.active.as_mut().filter(runs).ok_or(NOT_ACTIVE)?;
            state.end
        };
        let end = self.append(end, vec![Record::item(message.clone())], true).await?;
        let mut state = self.lock();
        state.advance(end);
        state.updated_at = now_ms();
        // The agent process may have died meanwhile: the message is in the history all the same.
        if let Some(active) = state.active.as_mut().filter(runs) {
            let input = TokenCounts { input_tokens: tokens::of_message(&message), ..TokenCounts::default() };
            active.spent = active.spent.checked_add(&input).unwrap_or(active.spent);
            active.steers.push_back(text.to_owned());
            active.steered.notify_one();
        }
        self.emit("item/completed", json!({"turnId": turn, "item": message}));
        Ok(())
    }

    /// The next thing that the user adds to the turn.
    pub(super) async fn next_steer(&self, turn: &NativeId) -> Result<String, Stop> {
        loop {
            let steered = {
                let mut state = self.lock();
                let active = active_turn(&mut state, turn).ok_or(Stop::Gone)?;
                if let Some(text) = active.steers.pop_front() {
                    return Ok(text);
                }
                Arc::clone(&active.steered)
            };
            steered.notified().await;
        }
    }

    /// Asks the user. The receiver gets the answer; it fails when the turn ends first.
    pub(super) fn ask(
        &self,
        turn: &NativeId,
        kind: RequestKind,
        params: Value,
    ) -> Result<oneshot::Receiver<Answer>, Stop> {
        let mut state = self.lock();
        let active = active_turn(&mut state, turn).ok_or(Stop::Gone)?;
        let item_id = active.live.as_ref().and_then(|item| item.get("id")?.as_str()).unwrap_or_default();
        let id = json!(format!("request-{item_id}"));
        let mut params = params;
        (params["threadId"], params["turnId"], params["itemId"]) = (json!(self.id()), json!(turn), json!(item_id));
        let (answer, answered) = oneshot::channel();
        active.pending = Some(Pending { id: id.clone(), kind, answer });
        if self.ring.add_request(id, kind.method(), params).is_err() {
            active.pending = None;
            return Err(Stop::Failed("too many requests wait for an answer".to_owned()));
        }
        self.emit_status(&state);
        Ok(answered)
    }

    /// Whether the user does not want to be asked for this kind again.
    pub(super) fn is_allowed(&self, kind: RequestKind) -> bool {
        let state = self.lock();
        match kind {
            RequestKind::CommandApproval => state.allows_commands,
            RequestKind::FileApproval => state.allows_file_changes,
            RequestKind::Question => false,
        }
    }

    /// Answers the request `id`.
    ///
    /// # Errors
    /// `ENOENT` when the turn does not wait for it, `EINVAL` when the answer does not fit; the request then stays.
    pub(super) fn respond(&self, id: &Value, response: &Value) -> Result<(), ToolError> {
        let mut state = self.lock();
        state.check_owned()?;
        let pending = state.active.as_mut().map(|active| &mut active.pending).ok_or(ToolError("ENOENT"))?;
        let waiting = pending.as_ref().filter(|pending| pending.id == *id).ok_or(ToolError("ENOENT"))?;
        let answer = waiting.kind.answer(response)?;
        let Some(Pending { id, kind, answer: sender }) = pending.take() else { return Err(ToolError("ENOENT")) };
        if answer == Answer::Decision(Decision::AcceptForSession) {
            match kind {
                RequestKind::CommandApproval => state.allows_commands = true,
                RequestKind::FileApproval => state.allows_file_changes = true,
                RequestKind::Question => {}
            }
        }
        self.ring.resolve_request(&id);
        self.emit_status(&state);
        // Fails only when the turn stopped at this moment; it then ends without the answer.
        let _ = sender.send(answer);
        Ok(())
    }

    /// Ends the turn.
    pub(super) async fn end_turn(&self, turn: &NativeId, status: TurnStatus, error: Option<String>) {
        let _writing = self.writing.lock().await;
        let (end, mut ended) = {
            let mut state = self.lock();
            let sequence = state.next_position();
            let Some(active) = active_turn(&mut state, turn) else { return };
            let (turn_id, start) = (turn.clone(), active.start.clone());
            let (model, spent) = (active.model.clone(), active.spent);
            let mut usage = state.usage.clone();
            tokens::add(&mut usage, &model, &spent);
            (state.end, TurnEnd { turn_id, status, error, timestamp: now_ms(), start, sequence, usage })
        };
        let appended = self.append(end, vec![Record::TurnEnd(ended.clone())], true).await;
        let mut state = self.lock();
        if active_turn(&mut state, turn).is_none() {
            return;
        }
        match appended {
            Ok(end) => {
                state.advance(end);
                state.usage.clone_from(&ended.usage);
            }
            Err(_) => {
                ended.status = TurnStatus::Failed;
                ended.error = Some("the history cannot be written".to_owned());
            }
        }
        let pending = state.active.take().and_then(|active| active.pending);
        if let Some(pending) = pending {
            self.ring.resolve_request(&pending.id);
        }
        let error = ended.error.as_ref().map(|message| json!({"message": message}));
        let turn = json!({"id": turn, "status": ended.status.as_str(), "error": error});
        state.updated_at = ended.timestamp;
        state.last_turn = LastTurn::Ended(ended);
        self.emit("turn/completed", json!({"turn": turn}));
        self.emit_status(&state);
    }
}

fn active_turn<'a>(state: &'a mut State, turn: &NativeId) -> Option<&'a mut Active> {
    state.active.as_mut().filter(|active| active.turn == *turn)
}
