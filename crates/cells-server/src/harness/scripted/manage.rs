//! What is done with whole sessions: fork, rename, archive, delete, spawn (`harness.md` §6).

use std::sync::Arc;

use cells_protocol::ids::NativeId;
use cells_protocol::limits::{DELETED_SESSIONS_MAX, FORK_NAME_MAX_CHARS, SESSION_NAME_MAX_BYTES};
use cells_protocol::text::is_label;
use serde_json::{Value, json};

use super::driver::{Agent, lock};
use super::record::{Record, TurnEnd, TurnStatus};
use super::session::Session;
use crate::harness::arguments::{Arguments, text};
use crate::harness::clock::now_ms;
use crate::harness::plugin::ToolError;

impl Agent {
    /// Copies a session. The copy is owned; a name that cannot be used is left out.
    ///
    /// # Errors
    /// `EBUSY` while a turn runs.
    pub(super) async fn fork(&self, arguments: &Arguments) -> Result<Value, ToolError> {
        let source = self.session(arguments).await?;
        let name = arguments.get("name").and_then(Value::as_str).map(str::trim);
        let name = name.filter(|name| name.chars().count() <= FORK_NAME_MAX_CHARS && is_label(name, usize::MAX));
        let name = name.map(str::to_owned);
        let forked = tokio::task::spawn_blocking(move || source.fork(name)).await;
        let forked = Arc::new(forked.map_err(|_| ToolError("EIO"))??);
        lock(self.sessions().await?).insert(forked.id().clone(), Arc::clone(&forked));
        forked.own().await?;
        let view = forked.view();
        forked.emit("thread/started", json!({"thread": view}));
        Ok(json!({"session": view}))
    }

    /// Names a session.
    ///
    /// # Errors
    /// `EINVAL` for a name that is not 1 to 512 bytes without control characters.
    pub(super) async fn rename(&self, arguments: &Arguments) -> Result<Value, ToolError> {
        let session = self.session(arguments).await?;
        let name = text(arguments, "name")?.trim();
        if !is_label(name, SESSION_NAME_MAX_BYTES) {
            return Err(ToolError("EINVAL"));
        }
        let show = |session: &Session, state: &mut super::session::State| {
            state.title = name.to_owned();
            session.emit("thread/name/updated", json!({"threadName": name}));
        };
        session.set_metadata(|metadata| metadata.name = Some(name.to_owned()), show).await?;
        Ok(json!({"session": session.view()}))
    }

    /// Puts a session and those it spawned away. Nobody controls them any more.
    ///
    /// # Errors
    /// `EBUSY` while a turn runs in one of them, `EACCES` when one of them is not of this profile.
    pub(super) async fn archive(&self, arguments: &Arguments) -> Result<Value, ToolError> {
        let root = self.session(arguments).await?;
        let tree = self.tree(&root).await?;
        if tree.iter().any(|session| session.lock().active.is_some()) {
            return Err(ToolError("EBUSY"));
        }
        let mut view = root.view();
        // Those it spawned first: when this stops half way, the root still stands where it can be archived again.
        for session in tree.iter().rev() {
            let show = |session: &Session, state: &mut super::session::State| {
                let was_owned = std::mem::take(&mut state.is_owned);
                (state.allows_commands, state.allows_file_changes) = (false, false);
                session.emit("thread/archived", json!({}));
                if was_owned {
                    session.emit_status(state);
                }
            };
            session.set_metadata(|metadata| metadata.is_archived = true, show).await?;
        }
        (view.archived, view.owned, view.archive_allowed, view.resumable) = (true, Some(false), Some(false), false);
        view.updated_at = root.view().updated_at;
        Ok(json!({"session": view}))
    }

    /// Takes a session back from the archive. Starts nothing and takes control of nothing.
    pub(super) async fn unarchive(&self, arguments: &Arguments) -> Result<Value, ToolError> {
        let session = self.session(arguments).await?;
        let show = |session: &Session, _: &mut super::session::State| session.emit("thread/unarchived", json!({}));
        session.set_metadata(|metadata| metadata.is_archived = false, show).await?;
        Ok(json!({"session": session.view()}))
    }

    /// Removes a session and those it spawned for good. Files in the workspace stay.
    ///
    /// # Errors
    /// `EBUSY` when one of them is neither controlled by this agent and idle, nor archived; `EACCES` when one of them is not
    /// of this profile; `HARNESS_DELETE_TREE_LIMIT` when they are too many. In all these cases nothing was removed.
    pub(super) async fn delete(&self, arguments: &Arguments) -> Result<Value, ToolError> {
        let root = self.session(arguments).await?;
        let tree = self.tree(&root).await?;
        for session in &tree {
            let state = session.lock();
            if state.active.is_some() || !(state.is_owned || state.metadata.is_archived) {
                return Err(ToolError("EBUSY"));
            }
        }
        for session in tree.iter().rev() {
            let (store, id) = (Arc::clone(&self.store), session.id().clone());
            let deleted = tokio::task::spawn_blocking(move || store.delete(&id)).await;
            deleted.ok().and_then(Result::ok).ok_or(ToolError("EIO"))?;
            lock(self.sessions().await?).remove(session.id());
            session.emit("thread/deleted", json!({}));
        }
        let ids: Vec<_> = tree.iter().map(|session| session.id()).collect();
        Ok(json!({"deletedSessionIds": ids}))
    }

    /// Makes a session below `parent` that holds one finished turn: `prompt` and `answer`.
    pub(super) async fn spawn(&self, parent: &Session, prompt: &str, answer: &str) -> Result<NativeId, ToolError> {
        let (header, sessions) = (&parent.header, self.sessions().await?);
        let workspace = (header.workspace_id.clone(), header.cwd.clone());
        let (store, ring, parent_id) = (Arc::clone(&self.store), Arc::clone(&self.ring), parent.id().clone());
        let made = tokio::task::spawn_blocking(move || Session::create(&workspace, Some(parent_id), store, ring)).await;
        let child = Arc::new(made.map_err(|_| ToolError("EIO"))??);
        child.add_finished_turn(prompt, answer).await?;
        let id = child.id().clone();
        lock(sessions).insert(id.clone(), child);
        Ok(id)
    }

    /// A session and everything that it spawned, parents before children.
    async fn tree(&self, root: &Arc<Session>) -> Result<Vec<Arc<Session>>, ToolError> {
        let mut tree = vec![Arc::clone(root)];
        let sessions = lock(self.sessions().await?);
        let mut next = 0;
        while let Some(parent) = tree.get(next).map(|session| session.id().clone()) {
            next += 1;
            tree.extend(
                sessions.values().filter(|session| session.header.spawned_by.as_ref() == Some(&parent)).cloned(),
            );
            if tree.len() > DELETED_SESSIONS_MAX {
                return Err(ToolError("HARNESS_DELETE_TREE_LIMIT"));
            }
        }
        if tree.iter().all(|session| self.is_authorized(session)) { Ok(tree) } else { Err(ToolError("EACCES")) }
    }
}

impl Session {
    /// Appends a turn that is over already, durably.
    async fn add_finished_turn(&self, prompt: &str, answer: &str) -> Result<(), ToolError> {
        let _writing = self.writing.lock().await;
        let (end, records) = {
            let state = self.lock();
            (state.end, state.records.unwrap_or_default())
        };
        let turn = format!("turn-{records}");
        let item = |number: u32, kind: &str, members: Value| {
            let Value::Object(mut item) = members else { return serde_json::Map::new() };
            item.insert("id".to_owned(), json!(format!("{}-{turn}-{number}", self.id())));
            item.insert("type".to_owned(), json!(kind));
            item.insert("turnId".to_owned(), json!(turn));
            item.insert("timestamp".to_owned(), json!(now_ms()));
            item
        };
        let content = json!({"content": [{"type": "text", "text": prompt}], "contentItemKinds": ["context"]});
        let ended = TurnEnd {
            turn_id: NativeId::new(turn.clone()).map_err(|_| ToolError("EIO"))?,
            status: TurnStatus::Completed,
            error: None,
            timestamp: now_ms(),
            start: None,
            sequence: records + 3,
            usage: Vec::new(),
        };
        let written = vec![
            Record::item(item(1, "userMessage", content)),
            Record::item(item(2, "agentMessage", json!({"text": answer, "status": "completed"}))),
            Record::TurnEnd(ended.clone()),
        ];
        let end = self.append(end, written, true).await?;
        let mut state = self.lock();
        (state.end, state.records, state.updated_at) = (end, Some(records + 3), ended.timestamp);
        state.last_turn = super::history::LastTurn::Ended(ended);
        state.title = super::session::title(prompt);
        self.emit("thread/name/updated", json!({"threadName": state.title}));
        Ok(())
    }
}
