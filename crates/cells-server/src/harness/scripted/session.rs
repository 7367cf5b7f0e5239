//! One session: who controls it, what it shows, and its history.
//!
//! Everything that changes what a reader sees happens under one lock together with the event that tells of it, and in
//! this order: first the state, then the event. So a page of history contains the effect of exactly the events up to
//! its `eventCursor` (`cells-0.4.md` §3.2).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cells_protocol::harness::{
    HarnessExecutionRecovery, HarnessUsage, HarnessUsageEntry, LockState, RuntimeState, Session as SessionView,
};
use cells_protocol::ids::{NativeId, WorkspaceId};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::active::Active;
use super::history::{LastTurn, Page, Summary};
use super::metadata::Metadata;
use super::record::{Header, Item, Record, TurnEnd, TurnStatus};
use super::runtime::{Runtime, WriteLock, lock_for_writing, lock_state};
use super::store::Store;
use crate::harness::clock::now_ms;
use crate::harness::plugin::ToolError;
use crate::harness::ring::EventRing;

/// One session of the agent.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) header: Header,
    items_start: u64,
    pub(super) store: Arc<Store>,
    pub(super) ring: Arc<EventRing>,
    pub(super) state: Mutex<State>,
    /// Held from the moment a record is appended until it is visible: one writer at a time.
    pub(super) writing: tokio::sync::Mutex<()>,
}

/// What changes.
#[derive(Debug)]
pub(super) struct State {
    pub(super) is_owned: bool,
    pub(super) title: String,
    pub(super) metadata: Metadata,
    pub(super) updated_at: u64,
    /// Where the visible history ends in the file.
    pub(super) end: u64,
    /// How many records that are, where it is known.
    pub(super) records: Option<u64>,
    /// The last turn that does not run.
    pub(super) last_turn: LastTurn,
    /// What was used until its end.
    pub(super) usage: Vec<HarnessUsageEntry>,
    /// The process that ran it, if it has no end.
    runtime: Option<Runtime>,
    pub(super) active: Option<Active>,
    /// The user does not want to be asked again.
    pub(super) allows_commands: bool,
    pub(super) allows_file_changes: bool,
}

impl Session {
    /// A stored session, which nobody controls.
    pub(super) fn stored(summary: Summary, metadata: Metadata, store: Arc<Store>, ring: Arc<EventRing>) -> Self {
        let preview = || summary.first_prompt.as_deref().map(title).unwrap_or_default();
        let state = State {
            is_owned: false,
            title: metadata.name.clone().unwrap_or_else(preview),
            updated_at: summary.updated_at.max(metadata.updated_at),
            metadata,
            end: summary.end,
            records: summary.records,
            last_turn: summary.last_turn,
            usage: summary.usage,
            runtime: summary.runtime,
            active: None,
            allows_commands: false,
            allows_file_changes: false,
        };
        let (header, items_start) = (summary.header, summary.items_start);
        Self { header, items_start, store, ring, state: Mutex::new(state), writing: tokio::sync::Mutex::default() }
    }

    /// Makes a new session durably. It is owned.
    pub(super) fn create(
        workspace: &(WorkspaceId, impl AsRef<Path>),
        spawned_by: Option<NativeId>,
        store: Arc<Store>,
        ring: Arc<EventRing>,
    ) -> Result<Self, ToolError> {
        let header = Header {
            id: new_id()?,
            workspace_id: workspace.0.clone(),
            cwd: workspace.1.as_ref().to_string_lossy().into_owned(),
            created_at: now_ms(),
            forked_from: None,
            spawned_by,
            inherited_records: 0,
        };
        let end = store.create(header.clone()).map_err(|_| ToolError("EIO"))?;
        let summary = Summary {
            items_start: end,
            end,
            first_prompt: None,
            last_turn: LastTurn::None,
            updated_at: header.created_at,
            records: Some(1),
            usage: Vec::new(),
            runtime: None,
            header,
        };
        let session = Self::stored(summary, Metadata::default(), store, ring);
        session.lock().is_owned = true;
        session.emit("thread/started", json!({"thread": session.view()}));
        Ok(session)
    }

    /// Makes a copy of this session durably. It is owned once [`Self::own`] was called. Blocks on the disk.
    ///
    /// # Errors
    /// `EBUSY` while a turn runs, `EIO`.
    pub(super) fn fork(&self, name: Option<String>) -> Result<Self, ToolError> {
        let (end, records) = {
            let state = self.lock();
            if state.active.is_some() {
                return Err(ToolError("EBUSY"));
            }
            (state.end, state.records)
        };
        let header = Header {
            id: new_id()?,
            created_at: now_ms(),
            forked_from: Some(self.id().clone()),
            spawned_by: None,
            inherited_records: records.unwrap_or(u64::MAX),
            ..self.header.clone()
        };
        let id = header.id.clone();
        let io = |_| ToolError("EIO");
        self.store.fork(header, self.id(), self.items_start, end).map_err(io)?;
        let mut metadata = Metadata { updated_at: now_ms(), ..Metadata::default() };
        if name.is_some() {
            metadata.name = name;
            // A fork that could not be named is one all the same.
            if self.store.set_metadata(&id, &metadata).is_err() {
                metadata.name = None;
            }
        }
        let summary = self.store.open(&id).and_then(|file| Summary::read(&file)).map_err(io)?;
        let summary = summary.ok_or(ToolError("EIO"))?;
        Ok(Self::stored(summary, metadata, Arc::clone(&self.store), Arc::clone(&self.ring)))
    }

    /// Its identity.
    pub(super) fn id(&self) -> &NativeId {
        &self.header.id
    }

    /// Takes control of a stored session. A turn whose process died is ended as interrupted.
    pub(super) async fn own(&self) -> Result<(), ToolError> {
        let _writing = self.writing.lock().await;
        let (last_turn, end, sequence, usage) = {
            let state = self.lock();
            if state.metadata.is_archived {
                return Err(ToolError("EINVAL"));
            }
            (state.last_turn.clone(), state.end, state.next_position(), state.usage.clone())
        };
        if let LastTurn::Open(turn_id, start) = last_turn {
            let Some(_lock) = self.write_lock()? else { return Err(ToolError("HARNESS_SESSION_BUSY")) };
            let status = TurnStatus::Interrupted;
            let ended = TurnEnd { turn_id, status, error: None, timestamp: now_ms(), start, sequence, usage };
            let end = self.append(end, vec![Record::TurnEnd(ended.clone())], true).await?;
            let mut state = self.lock();
            state.advance(end);
            state.updated_at = ended.timestamp;
            state.last_turn = LastTurn::Ended(ended);
        }
        let mut state = self.lock();
        if !state.is_owned {
            state.is_owned = true;
            self.emit_status(&state);
        }
        Ok(())
    }

    /// Loses control, because the process that had it died. The turn that ran stays without an end.
    pub(super) fn lose(&self) {
        let mut state = self.lock();
        state.is_owned = false;
        (state.allows_commands, state.allows_file_changes) = (false, false);
        if let Some(active) = state.active.take() {
            active.stop.cancel();
            if active.start.is_some() {
                state.last_turn = LastTurn::Open(active.turn, active.start);
                state.runtime = Runtime::current();
            }
        }
    }

    /// Refuses what only the controller of the session may do.
    ///
    /// # Errors
    /// `HARNESS_SESSION_NOT_OWNED`.
    pub(super) fn check_owned(&self) -> Result<(), ToolError> {
        self.lock().check_owned()
    }

    /// Reserves the session for a turn. The token is cancelled when the turn must stop.
    ///
    /// # Errors
    /// `EBUSY` while another turn runs; `HARNESS_SESSION_BUSY` while another process writes the session.
    pub(super) fn reserve(
        &self,
        turn: NativeId,
        model: String,
        parent: &CancellationToken,
    ) -> Result<CancellationToken, ToolError> {
        let mut state = self.lock();
        state.check_owned()?;
        if state.active.is_some() {
            return Err(ToolError("EBUSY"));
        }
        let lock = self.write_lock()?.ok_or(ToolError("HARNESS_SESSION_BUSY"))?;
        let stop = parent.child_token();
        state.active = Some(Active::new(turn, model, stop.clone(), lock));
        Ok(stop)
    }

    /// The write lock of the session, which this process holds while a turn runs; `None` when another one has it.
    fn write_lock(&self) -> Result<Option<WriteLock>, ToolError> {
        let file = self.store.open(self.id()).map_err(|error| open_error(&error))?;
        lock_for_writing(file).map_err(|_| ToolError("EIO"))
    }

    /// What is known of the process that ran the session last (`cells-0.4.md` §3.6). Looks at the disk.
    pub(super) fn execution_recovery(&self) -> HarnessExecutionRecovery {
        let (is_owned, active, open, runtime) = {
            let state = self.lock();
            let open = if let LastTurn::Open(turn, _) = &state.last_turn { Some(turn.clone()) } else { None };
            let active = state.active.as_ref().map(|active| active.turn.clone());
            (state.is_owned, active, open, state.runtime.clone())
        };
        let runtime = if active.is_some() { Runtime::current() } else { runtime.filter(|_| open.is_some()) };
        let lock = match (&active, is_owned) {
            (Some(_), _) => LockState::Held,
            // Only the owner may take it.
            (None, true) => LockState::NotHeld,
            (None, false) => lock_state(self.store.open(self.id())),
        };
        // A process that lives on after its agent died runs the session no more.
        let is_other = runtime.as_ref().is_some_and(|runtime| Some(runtime) != Runtime::current().as_ref());
        let is_alive = is_other && runtime.as_ref().is_some_and(Runtime::is_alive);
        let state = match lock {
            LockState::Held => RuntimeState::Running,
            _ if is_alive => RuntimeState::Running,
            LockState::NotHeld if !is_owned => RuntimeState::Detached,
            LockState::NotHeld | LockState::Unknown => RuntimeState::Unknown,
        };
        HarnessExecutionRecovery {
            state,
            turn_id: active.or(open),
            pid: runtime.as_ref().map(|runtime| runtime.pid),
            started_at: runtime.as_ref().map(|runtime| runtime.started_at),
            runtime_id: runtime.map(|runtime| runtime.runtime_id),
            lock,
            observed_at: now_ms(),
        }
    }

    /// As [`Self::view`], with what only the view of one session has: usage and evidence of its runtime.
    pub(super) fn detailed_view(&self) -> SessionView {
        let execution_recovery = Some(self.execution_recovery());
        let (mut view, usage) = {
            let state = self.lock();
            (self.view_of(&state), state.usage.clone())
        };
        view.usage = HarnessUsage::of(self.id().clone(), usage);
        view.execution_recovery = execution_recovery;
        view
    }

    /// Stops the turn `turn`; its end follows.
    pub(super) fn interrupt(&self, turn: &str) -> Result<(), ToolError> {
        let state = self.lock();
        state.check_owned()?;
        match &state.active {
            Some(active) if active.turn.as_str() == turn => active.stop.cancel(),
            Some(_) | None => return Err(ToolError("HARNESS_TURN_NOT_ACTIVE")),
        }
        Ok(())
    }

    /// What a list shows.
    pub(super) fn view(&self) -> SessionView {
        self.view_of(&self.lock())
    }

    /// What a list shows, and where the history that it tells of ends.
    pub(super) fn view_and_end(&self) -> (SessionView, u64) {
        let state = self.lock();
        (self.view_of(&state), state.end)
    }

    /// Where the first record of the history starts.
    pub(super) fn items_start(&self) -> u64 {
        self.items_start
    }

    /// A page of history. Without a cursor it is the newest one, with the item that is being made.
    pub(super) async fn read(&self, cursor: Option<u64>) -> Result<Value, ToolError> {
        let execution_recovery = self.execution_recovery();
        let (mut view, usage, end, active, open_turn, event_cursor) = {
            let state = self.lock();
            let open_turn = if let LastTurn::Open(turn, _) = &state.last_turn { Some(turn.clone()) } else { None };
            let active = state.active.as_ref().map(|active| (active.turn.clone(), active.live_item()));
            (self.view_of(&state), state.usage.clone(), state.end, active, open_turn, self.ring.newest())
        };
        view.usage = HarnessUsage::of(self.id().clone(), usage);
        view.execution_recovery = Some(execution_recovery);
        let is_first = cursor.is_none();
        let from = cursor.unwrap_or(end);
        if from > end {
            return Err(ToolError("EINVAL"));
        }
        let (active_turn, live) = active.unzip();
        let live = live.flatten().filter(|_| is_first);
        let live_bytes = live.as_ref().map_or(0, |item| cells_protocol::json::to_vec(item).len());
        let live_count = usize::from(live.is_some());
        let (store, id) = (Arc::clone(&self.store), self.id().clone());
        let page = tokio::task::spawn_blocking(move || {
            let file = store.open(&id).map_err(|error| open_error(&error))?;
            Page::read(&file, from, live_count, live_bytes)
        });
        let Page { mut items, ends, start } = page.await.map_err(|_| ToolError("EIO"))??;
        items.extend(live);
        let status = |turn: &str| {
            if active_turn.as_ref().is_some_and(|active| active.as_str() == turn) {
                return Some(("inProgress", None));
            }
            if let Some(end) = ends.get(turn) {
                return Some((end.status.as_str(), end.error.clone()));
            }
            let died = open_turn.as_ref().is_some_and(|open| open.as_str() == turn);
            died.then_some((TurnStatus::Interrupted.as_str(), None))
        };
        let next_cursor = (start > self.items_start).then(|| start.to_string());
        let mut turns = group(items, status);
        self.add_evidence(&mut turns, &ends);
        let mut reply = json!({"session": view, "turns": turns, "nextCursor": next_cursor});
        if is_first {
            reply["eventCursor"] = json!(event_cursor);
        }
        Ok(reply)
    }

    /// Attaches what each turn that ends on this page proves, to the last of its elements.
    fn add_evidence(&self, turns: &mut [Value], ends: &BTreeMap<String, TurnEnd>) {
        let mut seen = BTreeSet::new();
        for turn in turns.iter_mut().rev() {
            let Some(end) = turn.get("id").and_then(Value::as_str).and_then(|id| ends.get(id)) else { continue };
            if seen.insert(&end.turn_id)
                && let Some(evidence) = end.evidence(&self.header)
            {
                turn["submissionEvidence"] = evidence;
            }
        }
    }

    /// Changes name or archive state durably, and shows it together with the event `method`.
    pub(super) async fn set_metadata(
        &self,
        change: impl FnOnce(&mut Metadata),
        show: impl FnOnce(&Self, &mut State),
    ) -> Result<(), ToolError> {
        let _writing = self.writing.lock().await;
        let mut metadata = self.lock().metadata.clone();
        change(&mut metadata);
        metadata.updated_at = now_ms();
        let (store, id, written) = (Arc::clone(&self.store), self.id().clone(), metadata.clone());
        let written = tokio::task::spawn_blocking(move || store.set_metadata(&id, &written)).await;
        written.ok().and_then(Result::ok).ok_or(ToolError("EIO"))?;
        let mut state = self.lock();
        state.updated_at = metadata.updated_at;
        state.metadata = metadata;
        show(self, &mut state);
        Ok(())
    }

    /// Appends an item that belongs to no turn, durably, and tells of it.
    pub(super) async fn add_item(&self, item: Item) -> Result<(), ToolError> {
        let _writing = self.writing.lock().await;
        let end = self.lock().end;
        let end = self.append(end, vec![Record::item(item.clone())], true).await?;
        let mut state = self.lock();
        state.advance(end);
        state.updated_at = now_ms();
        self.emit("item/completed", json!({"turnId": item.get("turnId"), "item": item}));
        Ok(())
    }

    /// Appends records; the caller holds `writing` and makes them visible.
    pub(super) async fn append(&self, end: u64, records: Vec<Record>, sync: bool) -> Result<u64, ToolError> {
        let (store, id) = (Arc::clone(&self.store), self.id().clone());
        let appended = tokio::task::spawn_blocking(move || store.append(&id, end, &records, sync)).await;
        appended.ok().and_then(Result::ok).ok_or(ToolError("EIO"))
    }

    /// Pushes an event of this session; the caller holds the lock if the event tells of a change.
    pub(super) fn emit(&self, method: &str, mut params: Value) {
        params["threadId"] = json!(self.id());
        if let Err(error) = self.ring.push(method, params) {
            tracing::warn!(code = error.0, method, "an event was dropped");
        }
    }

    /// Tells of the status.
    pub(super) fn emit_status(&self, state: &State) {
        self.emit("thread/status/changed", json!({"status": status_details(state)}));
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view_of(&self, state: &State) -> SessionView {
        let (last_turn_id, last_turn_result) = match &state.last_turn {
            LastTurn::None => (None, None),
            LastTurn::Ended(end) => (Some(end.turn_id.clone()), Some(end.status.result())),
            LastTurn::Open(turn, _) => (Some(turn.clone()), Some(TurnStatus::Interrupted.result())),
        };
        let (header, is_archived) = (&self.header, state.metadata.is_archived);
        SessionView {
            id: self.id().clone(),
            title: state.title.clone(),
            cwd: Some(self.header.cwd.clone()),
            status: Some(status_type(state).to_owned()),
            status_details: Some(status_details(state)),
            created_at: Some(self.header.created_at),
            updated_at: Some(state.updated_at),
            resumable: !is_archived,
            owned: Some(state.is_owned),
            archived: is_archived,
            archive_allowed: Some(!is_archived && state.active.is_none()),
            active_turn_id: state.active.as_ref().map(|active| active.turn.clone()),
            last_turn_id,
            last_turn_result,
            parent_session_id: header.forked_from.clone(),
            branch_name: state.metadata.name.clone().filter(|_| header.forked_from.is_some()),
            forkable: Some(true),
            history_revision: Some(state.end.to_string()),
            native: None,
            usage: None,
            execution_recovery: None,
        }
    }
}

impl State {
    /// One more record is in the history, which ends at `end`.
    pub(super) fn advance(&mut self, end: u64) {
        self.end = end;
        self.records = self.records.map(|records| records + 1);
    }

    /// The position of the next record; 0 where it is not known.
    pub(super) fn next_position(&self) -> u64 {
        self.records.map_or(0, |records| records + 1)
    }

    /// As [`Session::check_owned`].
    pub(super) fn check_owned(&self) -> Result<(), ToolError> {
        if self.is_owned { Ok(()) } else { Err(ToolError("HARNESS_SESSION_NOT_OWNED")) }
    }
}

/// The title that a first prompt gives: its first line, at most [`TITLE_MAX_CHARS`] characters.
pub(super) fn title(prompt: &str) -> String {
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut characters = line.chars().map(|character| if character.is_control() { ' ' } else { character });
    let title: String = characters.by_ref().take(TITLE_MAX_CHARS).collect();
    if characters.next().is_some() { format!("{title}…") } else { title }
}

/// Items grouped into turns, in their order. An item without a turn stands in an element without an id.
fn group<'a>(items: Vec<Item>, status: impl Fn(&str) -> Option<(&'a str, Option<String>)>) -> Vec<Value> {
    let mut turns: Vec<(Option<String>, Vec<Item>)> = Vec::new();
    for item in items {
        let turn = Record::turn_of(&item).map(str::to_owned);
        match turns.last_mut() {
            Some((last, items)) if *last == turn => items.push(item),
            _ => turns.push((turn, vec![item])),
        }
    }
    let element = |(id, items): (Option<String>, Vec<Item>)| {
        let status = id.as_deref().and_then(&status);
        let mut element = json!({"id": id, "items": items});
        if let Some((status, error)) = status {
            element["status"] = json!(status);
            if let Some(message) = error {
                element["error"] = json!({"message": message});
            }
        }
        element
    };
    turns.into_iter().map(element).collect()
}

/// A fresh identity.
fn new_id() -> Result<NativeId, ToolError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| ToolError("EIO"))?;
    NativeId::new(format!("session-{:032x}", u128::from_be_bytes(random))).map_err(|_| ToolError("EIO"))
}

/// Why a session file cannot be opened: it was deleted meanwhile, or it cannot be read.
pub(super) fn open_error(error: &std::io::Error) -> ToolError {
    if error.kind() == std::io::ErrorKind::NotFound { ToolError("ENOENT") } else { ToolError("EIO") }
}

fn status_type(state: &State) -> &'static str {
    match (&state.active, state.is_owned) {
        (Some(_), _) => "active",
        (None, true) => "idle",
        (None, false) => "notLoaded",
    }
}

fn status_details(state: &State) -> Value {
    match &state.active {
        Some(active) => json!({"type": "active", "activeFlags": active.flags()}),
        None => json!({"type": status_type(state)}),
    }
}

const TITLE_MAX_CHARS: usize = 120;
