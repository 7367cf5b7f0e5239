//! Shares opened file sources between those who opened them (`files-http.md` §9.6, `driver-api.md` §9.1).

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

/// Opens each source once, however many ask for it, and closes it when the last of them has let go. `K` is everything that
/// tells sources apart; `E` is the caller's error.
///
/// * The first opener of a key starts its source; those who come before it is there wait for it too. One that leaves
///   ([`start_release`](Self::start_release)) does not disturb the others; the last one out aborts the start.
/// * Every handle is released for itself, and twice is harmless.
/// * A start that fails is told to all who wait, and not kept: the next opener starts anew.
///
/// How long an opener waits is its own affair: it releases its handle when its time is up.
///
/// ```
/// use cells_machines::source_pool::{HandleId, SourceAction, SourceEvent, SourcePool};
///
/// let mut pool: SourcePool<&str, String> = SourcePool::new();
/// pool.start_open(HandleId(1), "notes");
/// pool.start_open(HandleId(2), "notes");
/// let Some(SourceAction::Start { source, key: "notes" }) = pool.poll_action() else { panic!() };
/// assert_eq!(pool.poll_action(), None);
///
/// assert!(pool.handle_started(source, Ok(())));
/// assert_eq!(pool.poll_event(), Some(SourceEvent::Opened { handle: HandleId(1), source }));
/// assert_eq!(pool.poll_event(), Some(SourceEvent::Opened { handle: HandleId(2), source }));
///
/// pool.start_release(HandleId(1));
/// pool.start_release(HandleId(1));
/// assert_eq!(pool.poll_action(), None);
/// pool.start_release(HandleId(2));
/// assert_eq!(pool.poll_action(), Some(SourceAction::Close { source }));
/// ```
#[derive(Debug)]
pub struct SourcePool<K, E> {
    /// Those that are starting or open. There are few at a time.
    sources: Vec<Source<K>>,
    /// In the order of their identities.
    handles: Vec<(HandleId, SourceId)>,
    next_source: u64,
    is_disposed: bool,
    actions: VecDeque<SourceAction<K>>,
    events: VecDeque<SourceEvent<E>>,
}

/// Identity of one handle, given by the caller and never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandleId(pub u64);

/// Identity of one source, given by the machine and never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(u64);

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceAction<K> {
    /// Open the source of this key, and give what came of it to [`SourcePool::handle_started`].
    Start {
        /// Identity of the source.
        source: SourceId,
        /// What to open.
        key: K,
    },
    /// Nobody waits for this source: abort its start.
    Abort {
        /// Identity of the source.
        source: SourceId,
    },
    /// Nobody uses this source: close it.
    Close {
        /// Identity of the source.
        source: SourceId,
    },
}

/// The end of waiting for a handle. A handle that was released before has no event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceEvent<E> {
    /// The source is there.
    Opened {
        /// Whose handle.
        handle: HandleId,
        /// Its source.
        source: SourceId,
    },
    /// There is no source, and the handle is void.
    Failed {
        /// Whose handle.
        handle: HandleId,
        /// Why.
        failure: SourceFailure<E>,
    },
}

/// Why a handle has no source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceFailure<E> {
    /// The start failed, for everybody who waited for it.
    Start(E),
    /// The source was revoked while it was waited for.
    Revoked,
    /// The pool was disposed of.
    Disposed,
}

#[derive(Debug)]
struct Source<K> {
    id: SourceId,
    key: K,
    is_open: bool,
}

impl<K: Eq + Clone, E: Clone> SourcePool<K, E> {
    /// An empty pool.
    pub fn new() -> Self {
        Self {
            sources: Vec::new(),
            handles: Vec::new(),
            next_source: 0,
            is_disposed: false,
            actions: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Opens the source of `key`, or joins those who did.
    pub fn start_open(&mut self, handle: HandleId, key: K) {
        if self.is_disposed {
            self.events.push_back(SourceEvent::Failed { handle, failure: SourceFailure::Disposed });
            return;
        }
        let known = self.sources.iter().find(|source| source.key == key).map(|source| (source.id, source.is_open));
        let (source, is_open) = known.unwrap_or_else(|| (self.start(key), false));
        if is_open {
            self.events.push_back(SourceEvent::Opened { handle, source });
        }
        let at = self.handles.partition_point(|(other, _)| *other < handle);
        self.handles.insert(at, (handle, source));
    }

    /// What came of the start of a source. False when nobody waits for it: the caller closes what it has opened.
    pub fn handle_started(&mut self, source: SourceId, result: Result<(), E>) -> bool {
        let Some(found) = self.sources.iter_mut().find(|found| found.id == source && !found.is_open) else {
            return false;
        };
        match result {
            Ok(()) => {
                found.is_open = true;
                let held = self.handles.iter().filter(|(_, held)| *held == source);
                self.events.extend(held.map(|(handle, _)| SourceEvent::Opened { handle: *handle, source }));
            }
            Err(error) => {
                self.forget(source, &SourceFailure::Start(error));
            }
        }
        true
    }

    /// The handle is not needed any more, or its owner waits no longer for it. The last handle of a source closes it, or
    /// aborts its start. Does nothing for a handle that was released before.
    pub fn start_release(&mut self, handle: HandleId) {
        let Ok(at) = self.handles.binary_search_by_key(&handle, |(handle, _)| *handle) else { return };
        let (_, source) = self.handles.remove(at);
        if self.handles.iter().all(|(_, held)| *held != source) {
            self.end(source, &SourceFailure::Revoked);
        }
    }

    /// Closes every source whose key is `revoked`; their handles are void, and the next opener starts anew.
    pub fn start_revoke(&mut self, revoked: impl Fn(&K) -> bool) {
        while let Some(source) = self.sources.iter().find(|source| revoked(&source.key)) {
            self.end(source.id, &SourceFailure::Revoked);
        }
    }

    /// Closes every source, and opens none any more.
    pub fn start_dispose(&mut self) {
        self.is_disposed = true;
        while let Some(source) = self.sources.first() {
            self.end(source.id, &SourceFailure::Disposed);
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<SourceAction<K>> {
        self.actions.pop_front()
    }

    /// The next handle whose waiting ended.
    pub fn poll_event(&mut self) -> Option<SourceEvent<E>> {
        self.events.pop_front()
    }

    fn start(&mut self, key: K) -> SourceId {
        let id = SourceId(self.next_source);
        self.next_source += 1;
        self.sources.push(Source { id, key: key.clone(), is_open: false });
        self.actions.push_back(SourceAction::Start { source: id, key });
        id
    }

    /// Ends a source that is open, or whose start is under way.
    fn end(&mut self, source: SourceId, failure: &SourceFailure<E>) {
        let is_open = self.forget(source, failure);
        self.actions.push_back(if is_open { SourceAction::Close { source } } else { SourceAction::Abort { source } });
    }

    /// Drops everything about a source, and tells those who wait for it. Gives whether it was open.
    fn forget(&mut self, source: SourceId, failure: &SourceFailure<E>) -> bool {
        let mut is_open = false;
        self.sources.retain(|found| {
            is_open |= found.id == source && found.is_open;
            found.id != source
        });
        let events = &mut self.events;
        self.handles.retain(|(handle, held)| {
            if *held == source && !is_open {
                events.push_back(SourceEvent::Failed { handle: *handle, failure: failure.clone() });
            }
            *held != source
        });
        is_open
    }
}

impl<K: Eq + Clone, E: Clone> Default for SourcePool<K, E> {
    fn default() -> Self {
        Self::new()
    }
}
