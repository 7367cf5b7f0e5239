//! The driver of one profile: finds the session a tool is about and does what the tool says.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cells_protocol::harness::{
    AttachmentKind, HarnessCapabilities, HarnessModelSelection, HarnessUsage, Profile, Workspace,
};
use cells_protocol::ids::{NativeId, RequestId};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::arguments;
use super::command::run_action;
use super::message::Message;
use super::models;
use super::order::Order;
use super::record::Record;
use super::script::ReceiptTime;
use super::search::SEARCHES_MAX;
use super::session::Session;
use super::slash::{Slash, catalog};
use super::store::Store;
use super::tokens;
use super::turn::{ProcessEnd, Turn};
use crate::harness::arguments::{Arguments, text};
use crate::harness::clock::now_ms;
use crate::harness::plugin::{DriverContext, HarnessDriver, MutationCall, ProfileConfig, Proof, ToolError};
use crate::harness::ring::EventRing;

/// The driver of one profile.
pub(super) struct ScriptedDriver(Arc<Agent>);

impl ScriptedDriver {
    /// A driver that has read nothing yet.
    pub(super) fn new(profile: ProfileConfig, context: DriverContext) -> Self {
        let shutdown = CancellationToken::new();
        Self(Arc::new(Agent {
            store: Arc::new(Store::new(&profile.home)),
            profile,
            ring: context.ring,
            sessions: OnceCell::new(),
            refuses_work: AtomicBool::new(false),
            process: Mutex::new(shutdown.child_token()),
            shutdown,
            turns: TaskTracker::new(),
            searches: Arc::new(Semaphore::new(SEARCHES_MAX)),
        }))
    }
}

impl HarnessDriver for ScriptedDriver {
    fn descriptor(&self) -> Profile {
        self.0.descriptor()
    }

    fn read(&self, tool: &str, arguments: Arguments) -> BoxFuture<'static, Result<Value, ToolError>> {
        let (agent, tool) = (Arc::clone(&self.0), tool.to_owned());
        Box::pin(async move { agent.read(&tool, &arguments).await })
    }

    fn check(&self, tool: &str, arguments: &Arguments) -> Result<(), ToolError> {
        match tool {
            "harness_turn" | "harness_command" => models::selection(arguments).map(|_| ()),
            _ => Ok(()),
        }
    }

    fn proofs(&self, session_id: &str, page: &Value) -> Vec<Proof> {
        let turns = page.get("turns").and_then(Value::as_array);
        turns.into_iter().flatten().filter_map(|turn| proof(session_id, turn)).collect()
    }

    fn execute(&self, call: MutationCall) -> BoxFuture<'static, Result<Value, ToolError>> {
        let agent = Arc::clone(&self.0);
        Box::pin(async move { agent.execute(call).await })
    }

    fn stop(&self) {
        self.0.refuses_work.store(true, Ordering::Release);
    }

    fn drain(&self) -> BoxFuture<'static, ()> {
        let agent = Arc::clone(&self.0);
        Box::pin(async move {
            agent.refuses_work.store(true, Ordering::Release);
            agent.shutdown.cancel();
            agent.turns.close();
            agent.turns.wait().await;
        })
    }
}

pub(super) type Sessions = BTreeMap<NativeId, Arc<Session>>;

pub(super) struct Agent {
    profile: ProfileConfig,
    pub(super) ring: Arc<EventRing>,
    pub(super) store: Arc<Store>,
    /// Read from the disk when they are first needed.
    sessions: OnceCell<Mutex<Sessions>>,
    /// The node stops, or the agent process died.
    refuses_work: AtomicBool,
    shutdown: CancellationToken,
    /// Cancelled when the agent process ends; a child of `shutdown`.
    process: Mutex<CancellationToken>,
    turns: TaskTracker,
    /// One permit for each search that may run now.
    pub(super) searches: Arc<Semaphore>,
}

impl Agent {
    fn descriptor(&self) -> Profile {
        let capabilities = HarnessCapabilities {
            history: true,
            create: true,
            resume: true,
            interrupt: true,
            interactions: true,
            fork: true,
            search: true,
            rename: true,
            archive: true,
            unarchive: true,
            delete: true,
            attachments: vec![AttachmentKind::Text, AttachmentKind::Image],
            slash_commands: true,
            command_outputs: true,
            session_digest: true,
            models: true,
            steer: true,
            usage: true,
            metrics: true,
            execution_recovery: true,
        };
        Profile {
            id: self.profile.id.clone(),
            kind: self.profile.kind.clone(),
            workspaces: self.profile.workspaces.iter().map(|(id, _)| Workspace { id: id.clone() }).collect(),
            project_runtime: false,
            capabilities,
        }
    }

    async fn read(&self, tool: &str, arguments: &Arguments) -> Result<Value, ToolError> {
        self.check_works()?;
        match tool {
            "harness_sessions" => self.list(arguments).await,
            "harness_session_info" => {
                let session = self.session(arguments).await?;
                let view = tokio::task::spawn_blocking(move || session.detailed_view()).await;
                Ok(json!({"session": view.map_err(|_| ToolError("EIO"))?}))
            }
            "harness_models" => self.models(arguments).await,
            "harness_usage" => {
                let session = self.session(arguments).await?;
                let usage = session.lock().usage.clone();
                let usage = HarnessUsage::of(session.id().clone(), usage).ok_or(ToolError("EIO"))?;
                Ok(json!({"usage": usage}))
            }
            "harness_metrics" => {
                let session = self.session(arguments).await?;
                let metrics = tokens::metrics(session.id().clone(), &session.lock().usage);
                Ok(json!({"metrics": metrics}))
            }
            "harness_session_read" => {
                let session = self.session(arguments).await?;
                session.read(arguments::offset(arguments, "cursor")?).await
            }
            "harness_session_search" => self.search(arguments).await,
            "harness_session_digest" => self.digest(arguments).await,
            "harness_commands" => {
                self.session(arguments).await?;
                Ok(json!(catalog()))
            }
            _ => Err(ToolError("ECAPABILITY")),
        }
    }

    async fn execute(self: Arc<Self>, call: MutationCall) -> Result<Value, ToolError> {
        self.check_works()?;
        let arguments = &call.arguments;
        match call.tool.as_str() {
            "harness_create" => self.create(arguments).await,
            "harness_resume" => {
                let session = self.session(arguments).await?;
                session.own().await?;
                Ok(json!({"session": session.view()}))
            }
            "harness_fork" => self.fork(arguments).await,
            "harness_rename" => self.rename(arguments).await,
            "harness_archive" => self.archive(arguments).await,
            "harness_unarchive" => self.unarchive(arguments).await,
            "harness_delete" => self.delete(arguments).await,
            "harness_turn" => self.turn(&call).await,
            "harness_steer" => self.steer(&call).await,
            "harness_interrupt" => {
                let session = self.session(arguments).await?;
                session.interrupt(text(arguments, "turnId")?)?;
                Ok(json!({}))
            }
            "harness_respond" => self.respond(arguments).await,
            "harness_command" => self.command(&call).await,
            _ => Err(ToolError("ECAPABILITY")),
        }
    }

    async fn list(&self, arguments: &Arguments) -> Result<Value, ToolError> {
        let archived = arguments.get("archived").and_then(Value::as_bool).unwrap_or_default();
        let limit = arguments.get("limit").and_then(Value::as_u64).unwrap_or(LIST_DEFAULT).clamp(1, LIST_MAX);
        let after = match arguments.get("cursor") {
            None | Some(Value::Null) => None,
            Some(cursor) => Some(cursor.as_str().and_then(position).ok_or(ToolError("EINVAL"))?),
        };
        let mut views: Vec<_> = {
            let sessions = lock(self.sessions().await?);
            sessions.values().filter(|session| self.is_authorized(session)).map(|session| session.view()).collect()
        };
        // Most recent first. The cursor is the last session of a page, so that changes repeat and skip none below it.
        let key = |view: &cells_protocol::harness::Session| (std::cmp::Reverse(view.updated_at), view.id.clone());
        views.sort_by_key(key);
        views.retain(|view| view.archived == archived);
        views.retain(|view| after.as_ref().is_none_or(|after| key(view) > *after));
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = views.len() > limit;
        views.truncate(limit);
        let last = views.last().filter(|_| has_more);
        let next_cursor = last.map(|view| format!("{}.{}", view.updated_at.unwrap_or_default(), view.id));
        Ok(json!({"sessions": views, "nextCursor": next_cursor}))
    }

    async fn create(&self, arguments: &Arguments) -> Result<Value, ToolError> {
        let workspace = text(arguments, "workspaceId")?;
        let workspace = self.profile.workspaces.iter().find(|(id, _)| id.as_str() == workspace);
        let workspace = workspace.cloned().ok_or(ToolError("EACCES"))?;
        let sessions = self.sessions().await?;
        let (store, ring) = (Arc::clone(&self.store), Arc::clone(&self.ring));
        let made = tokio::task::spawn_blocking(move || Session::create(&workspace, None, store, ring)).await;
        let session = made.map_err(|_| ToolError("EIO"))??;
        let view = session.view();
        lock(sessions).insert(session.id().clone(), Arc::new(session));
        Ok(json!({"session": view}))
    }

    async fn turn(self: &Arc<Self>, call: &MutationCall) -> Result<Value, ToolError> {
        let session = self.session(&call.arguments).await?;
        let prompt = text(&call.arguments, "prompt")?;
        let selection = models::selection(&call.arguments)?;
        let message = Message::prompt(prompt, arguments::attachments(&call.arguments)?);
        let turn = self.start(session, &call.request_id, message, selection, Order::new(prompt)).await?;
        Ok(json!({"turnId": turn}))
    }

    async fn steer(&self, call: &MutationCall) -> Result<Value, ToolError> {
        let session = self.session(&call.arguments).await?;
        let (turn, prompt) = (text(&call.arguments, "turnId")?, text(&call.arguments, "prompt")?);
        arguments::refuse(&call.arguments, "selection", "EINVAL")?;
        let message = Message::prompt(prompt, arguments::attachments(&call.arguments)?);
        let Value::Object(mut item) = message.content() else { return Err(ToolError("EIO")) };
        item.insert("id".to_owned(), json!(format!("steer-{}", call.request_id)));
        item.insert("type".to_owned(), json!("userMessage"));
        item.insert("turnId".to_owned(), json!(turn));
        item.insert("timestamp".to_owned(), json!(now_ms()));
        session.steer(turn, prompt, item).await?;
        Ok(json!({"turnId": turn, "targetTurnId": turn}))
    }

    async fn models(&self, arguments: &Arguments) -> Result<Value, ToolError> {
        let current = match arguments.get("sessionId") {
            None | Some(Value::Null) => None,
            Some(_) => {
                let session = self.session(arguments).await?;
                let selection = session.lock().metadata.selection.clone();
                Some(selection.unwrap_or_else(models::default))
            }
        };
        Ok(json!(models::catalog(current)))
    }

    /// Starts a turn whose id is the request id, and waits for its receipt.
    async fn start(
        self: &Arc<Self>,
        session: Arc<Session>,
        request_id: &RequestId,
        message: Message,
        selection: Option<HarnessModelSelection>,
        order: Order,
    ) -> Result<NativeId, ToolError> {
        let id = NativeId::new(request_id.as_str()).map_err(|_| ToolError("EINVAL"))?;
        let process = lock(&self.process).clone();
        session.check_owned()?;
        if let Some(code) = order.reject {
            self.wait_for_receipt(order.receipt, std::future::ready(()), &process).await?;
            return Err(ToolError(code));
        }
        let model = selection.clone().or_else(|| session.lock().metadata.selection.clone());
        let model = model.unwrap_or_else(models::default).model_id;
        let stop = session.reserve(id.clone(), model, &process)?;
        let chosen = Arc::clone(&session);
        let (started, has_started) = oneshot::channel();
        let turn = Turn::new(Arc::clone(self), session, id.clone(), stop).run(message, order.work, started);
        let agent = Arc::clone(self);
        let ended = self.turns.spawn(async move {
            if let Some(process_end) = turn.await {
                agent.end_process(process_end);
            }
        });
        has_started.await.map_err(|_| ToolError("EIO"))??;
        if selection.is_some() && chosen.lock().metadata.selection != selection {
            // The turn runs with what was chosen, whether that can be remembered or not.
            let _ = chosen.set_metadata(|metadata| metadata.selection = selection, |_, _| {}).await;
        }
        self.wait_for_receipt(order.receipt, async { ended.await.unwrap_or_default() }, &process).await?;
        Ok(id)
    }

    /// Waits until the receipt is due.
    ///
    /// # Errors
    /// `EIO` when `process`, in which the turn started, dies before.
    async fn wait_for_receipt(
        &self,
        receipt: ReceiptTime,
        ended: impl Future<Output = ()>,
        process: &CancellationToken,
    ) -> Result<(), ToolError> {
        let due = async {
            match receipt {
                ReceiptTime::Start => {}
                ReceiptTime::After(duration) => tokio::time::sleep(duration).await,
                ReceiptTime::End => ended.await,
            }
        };
        tokio::select! {
            () = due => {}
            () = process.cancelled() => {}
        }
        // A node that stops has an answer all the same: what happened so far is known.
        if process.is_cancelled() && !self.shutdown.is_cancelled() { Err(ToolError("EIO")) } else { Ok(()) }
    }

    async fn respond(&self, arguments: &Arguments) -> Result<Value, ToolError> {
        let id = arguments.get("nativeRequestId").filter(|id| !id.is_null()).ok_or(ToolError("EINVAL"))?;
        let response = arguments.get("response").filter(|response| response.is_object()).ok_or(ToolError("EINVAL"))?;
        let request = self.ring.request(id).ok_or(ToolError("ENOENT"))?;
        let session = request.params.get("threadId").and_then(Value::as_str).and_then(|id| NativeId::new(id).ok());
        let session = session.and_then(|id| lock(self.sessions.get()?).get(&id).cloned());
        session.ok_or(ToolError("ENOENT"))?.respond(id, response)?;
        Ok(json!({}))
    }

    async fn command(self: &Arc<Self>, call: &MutationCall) -> Result<Value, ToolError> {
        let session = self.session(&call.arguments).await?;
        session.check_owned()?;
        let name = text(&call.arguments, "name")?;
        let args = arguments::command_args(&call.arguments)?;
        let slash = Slash::parse(name, args).ok_or(ToolError("HARNESS_COMMAND_UNKNOWN"))?;
        let Slash::Turn(order) = slash else {
            arguments::refuse(&call.arguments, "selection", "EINVAL")?;
            return run_action(&session, &call.request_id, name, slash).await;
        };
        let selection = models::selection(&call.arguments)?;
        let message = Message::command(format!("/{name} {args}"));
        let turn = self.start(session, &call.request_id, message, selection, order).await?;
        Ok(json!({"commandId": call.request_id, "name": name, "state": "running", "turnId": turn}))
    }

    /// The agent process ends: nobody controls a session, and what ran is gone without an end.
    fn end_process(&self, end: ProcessEnd) {
        if end == ProcessEnd::Die {
            self.refuses_work.store(true, Ordering::Release);
        }
        if let Some(sessions) = self.sessions.get() {
            lock(sessions).values().for_each(|session| session.lose());
        }
        match end {
            ProcessEnd::Die => {
                // Cannot be too large; were it, the next call would tell of the death.
                let _ = self.ring.push("harness/disconnected", json!({}));
            }
            ProcessEnd::Restart => self.ring.restart(),
        }
        std::mem::replace(&mut *lock(&self.process), self.shutdown.child_token()).cancel();
    }

    fn check_works(&self) -> Result<(), ToolError> {
        if self.refuses_work.load(Ordering::Acquire) { Err(ToolError("EIO")) } else { Ok(()) }
    }

    /// The session that the arguments name.
    pub(super) async fn session(&self, arguments: &Arguments) -> Result<Arc<Session>, ToolError> {
        let id = NativeId::new(text(arguments, "sessionId")?).map_err(|_| ToolError("EINVAL"))?;
        let session = lock(self.sessions().await?).get(&id).cloned().ok_or(ToolError("ENOENT"))?;
        if self.is_authorized(&session) { Ok(session) } else { Err(ToolError("EACCES")) }
    }

    /// Whether the profile still has the workspace of a session, at the same place.
    pub(super) fn is_authorized(&self, session: &Session) -> bool {
        let header = &session.header;
        let is_its_own = |(id, path): &(_, std::path::PathBuf)| {
            *id == header.workspace_id && path.to_str() == Some(header.cwd.as_str())
        };
        self.profile.workspaces.iter().any(is_its_own)
    }

    pub(super) async fn sessions(&self) -> Result<&Mutex<Sessions>, ToolError> {
        let load = || async {
            let store = Arc::clone(&self.store);
            let loaded = tokio::task::spawn_blocking(move || store.load()).await;
            let summaries = loaded.ok().and_then(Result::ok).ok_or(ToolError("EIO"))?;
            let session = |(summary, metadata)| {
                Session::stored(summary, metadata, Arc::clone(&self.store), Arc::clone(&self.ring))
            };
            let sessions = summaries.into_iter().map(session);
            Ok(Mutex::new(sessions.map(|session| (session.id().clone(), Arc::new(session))).collect()))
        };
        self.sessions.get_or_try_init(load).await
    }
}

/// The request of a turn that a prompt started. The id of the turn is that of the request, and the prompt stands in its
/// user message as it was sent.
fn proof(session_id: &str, turn: &Value) -> Option<Proof> {
    let request_id = RequestId::new(turn.get("id")?.as_str()?).ok()?;
    let mut items = turn.get("items")?.as_array()?.iter().filter_map(Value::as_object);
    let prompt = Record::only_prompt(items.find(|item| Record::is_user_message(item))?)?;
    let arguments = [("sessionId", session_id.into()), ("prompt", prompt.into())];
    let arguments = arguments.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let result = json!({"turnId": request_id});
    Some(Proof { request_id, tool: "harness_turn", arguments, result })
}

/// A position in a list: when the session before it was updated, and its id.
fn position(cursor: &str) -> Option<(std::cmp::Reverse<Option<u64>>, NativeId)> {
    let (updated_at, id) = cursor.split_once('.')?;
    Some((std::cmp::Reverse(Some(updated_at.parse().ok()?)), NativeId::new(id).ok()?))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const LIST_DEFAULT: u64 = 25;
const LIST_MAX: u64 = 100;
