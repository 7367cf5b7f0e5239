//! The sources that handles share, decided by [`cells_machines::source_pool`].

use std::sync::Arc;

use cells_machines::source_pool::{HandleId, SourceAction, SourceEvent, SourceFailure, SourceId, SourcePool};
use cells_protocol::ids::Alias;
use futures::channel::oneshot;
use futures::future::{AbortHandle, abortable};

use super::PoolHandle;
use crate::budget::disposed;
use crate::cancellation::OperationOptions;
use crate::client::Core;
use crate::config::Binding;
use crate::error::{Error, Result};
use crate::files::FileStorage;
use crate::node::{Link, authorization_changed};
use crate::run::stopped;
use crate::sync::lock;

/// The sources of one client.
#[derive(Default)]
pub(crate) struct Sources {
    pool: SourcePool<SourceKey, Error>,
    next_handle: u64,
    waiting: Vec<(HandleId, oneshot::Sender<Result<FileStorage>>)>,
    starting: Vec<(SourceId, AbortHandle)>,
    open: Vec<(SourceId, FileStorage)>,
}

/// Everything that tells sources apart: endpoint, credential, user name, anonymous mode, authorization, alias.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SourceKey {
    pub(crate) binding: Binding,
    alias: Alias,
}

/// Waits for the source of `alias`, within the options of this caller only.
pub(super) async fn open(link: &Link, alias: Alias, options: &OperationOptions) -> Result<(PoolHandle, FileStorage)> {
    link.check_open(OPEN)?;
    let budget = link.budget(options);
    budget.check(OPEN)?;
    let (sender, receiver) = oneshot::channel();
    let id = {
        let mut sources = lock(&link.core.sources);
        let id = HandleId(sources.next_handle);
        sources.next_handle += 1;
        sources.waiting.push((id, sender));
        id
    };
    let handle = PoolHandle { core: Arc::clone(&link.core), id };
    let key = SourceKey { binding: link.node.binding.clone(), alias };
    Sources::update(&link.core, |pool| pool.start_open(id, key));
    let opened = async { receiver.await.unwrap_or_else(|_| Err(stopped(OPEN))) };
    // A handle that is dropped here lets go of its place, and of nothing else.
    let storage = budget.run(OPEN, opened).await?;
    Ok((handle, storage))
}

impl Sources {
    /// Changes the pool, and does what follows from it.
    pub(crate) fn update(core: &Arc<Core>, change: impl FnOnce(&mut SourcePool<SourceKey, Error>)) {
        let mut effects = Vec::new();
        {
            let mut sources = lock(&core.sources);
            change(&mut sources.pool);
            sources.note(&mut effects);
        }
        // Without the lock: what is told may call back.
        for effect in effects {
            effect.take(core);
        }
    }

    fn note(&mut self, effects: &mut Vec<Effect>) {
        while let Some(action) = self.pool.poll_action() {
            effects.push(match action {
                SourceAction::Start { source, key } => Effect::Start(source, key),
                SourceAction::Abort { source } => {
                    self.starting.extract_if(.., |(id, _)| *id == source).for_each(|(_, abort)| abort.abort());
                    continue;
                }
                SourceAction::Close { source } => {
                    let closed = self.open.extract_if(.., |(id, _)| *id == source);
                    effects.extend(closed.map(|(_, storage)| Effect::Close(storage)));
                    continue;
                }
            });
        }
        while let Some(event) = self.pool.poll_event() {
            let (handle, result) = match event {
                SourceEvent::Opened { handle, source } => {
                    let storage = self.open.iter().find(|(id, _)| *id == source).map(|(_, storage)| storage.clone());
                    (handle, storage.ok_or_else(|| stopped(OPEN)))
                }
                SourceEvent::Failed { handle, failure } => (
                    handle,
                    Err(match failure {
                        SourceFailure::Start(error) => error,
                        SourceFailure::Revoked => authorization_changed(OPEN),
                        SourceFailure::Disposed => disposed(OPEN),
                    }),
                ),
            };
            let told = self.waiting.extract_if(.., |(id, _)| *id == handle);
            effects.extend(told.map(|(_, sender)| Effect::Tell(sender, result.clone())));
        }
        // Who has left is told nothing.
        self.waiting.retain(|(_, sender)| !sender.is_canceled());
    }
}

/// What follows from a change of the pool.
enum Effect {
    Start(SourceId, SourceKey),
    Close(FileStorage),
    Tell(oneshot::Sender<Result<FileStorage>>, Result<FileStorage>),
}

impl Effect {
    fn take(self, core: &Arc<Core>) {
        match self {
            Self::Start(source, key) => start(core, source, key),
            Self::Close(storage) => storage.close(),
            // Who has left is told nothing.
            Self::Tell(sender, result) => drop(sender.send(result)),
        }
    }
}

/// Opens a source, in [`Run`](crate::Run): whoever asked first may be gone by then.
fn start(core: &Arc<Core>, source: SourceId, key: SourceKey) {
    let link = core.link(key.binding);
    let task = {
        let core = Arc::clone(core);
        async move {
            let opened = FileStorage::open(&link, key.alias, &OperationOptions::default()).await;
            settle(&core, source, opened);
        }
    };
    let (task, abort) = abortable(task);
    lock(&core.sources).starting.push((source, abort));
    let task = async {
        // An aborted start has nobody to tell.
        let _ = task.await;
    };
    if let Err(error) = core.spawner.spawn(OPEN, Box::pin(task)) {
        settle(core, source, Err(error));
    }
}

/// What came of a start.
fn settle(core: &Arc<Core>, source: SourceId, result: Result<FileStorage>) {
    let mut unwanted = None;
    {
        let mut sources = lock(&core.sources);
        sources.starting.retain(|(id, _)| *id != source);
        if let Ok(storage) = &result {
            unwanted = Some(storage.clone());
            sources.open.push((source, storage.clone()));
        }
    }
    Sources::update(core, |pool| {
        if pool.handle_started(source, result.map(drop)) {
            unwanted = None;
        }
    });
    if let Some(storage) = unwanted {
        lock(&core.sources).open.retain(|(id, _)| *id != source);
        storage.close();
    }
}

const OPEN: &str = "open";
