use std::collections::{BTreeMap, BTreeSet};

use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;

enum Step {
    Open(u64, &'static str),
    Started(u64),
    Failed(u64, &'static str),
    Release(u64),
    Revoke(&'static str),
    Dispose,
}
use Step::{Dispose, Failed, Open, Release, Revoke, Started};

/// Runs the steps and writes down what comes out of each.
fn trace(steps: &[Step]) -> String {
    let mut pool: SourcePool<&str, &str> = SourcePool::new();
    let mut lines = Vec::new();
    for step in steps {
        match step {
            Open(handle, key) => pool.start_open(HandleId(*handle), key),
            Started(source) => note_unwanted(&mut lines, pool.handle_started(SourceId(*source), Ok(()))),
            Failed(source, error) => note_unwanted(&mut lines, pool.handle_started(SourceId(*source), Err(error))),
            Release(handle) => pool.start_release(HandleId(*handle)),
            Revoke(key) => pool.start_revoke(|other| other == key),
            Dispose => pool.start_dispose(),
        }
        while let Some(action) = pool.poll_action() {
            lines.push(match action {
                SourceAction::Start { source, key } => format!("start {} for {key}", source.0),
                SourceAction::Abort { source } => format!("abort {}", source.0),
                SourceAction::Close { source } => format!("close {}", source.0),
            });
        }
        while let Some(event) = pool.poll_event() {
            lines.push(match event {
                SourceEvent::Opened { handle, source } => format!("{} has {}", handle.0, source.0),
                SourceEvent::Failed { handle, failure } => format!("{} fails: {failure:?}", handle.0),
            });
        }
    }
    lines.push(format!("sources: {}, handles: {}", pool.sources.len(), pool.handles.len()));
    lines.join("\n")
}

fn note_unwanted(lines: &mut Vec<String>, is_wanted: bool) {
    if !is_wanted {
        lines.push("unwanted".to_owned());
    }
}

#[test]
fn equal_keys_share_a_source_until_the_last_release() {
    assert_snapshot!(trace(&[
        Open(1, "a"),
        Open(2, "b"),
        Open(3, "a"),
        Started(0),
        Open(4, "a"),
        Release(1),
        Release(1),
        Release(4),
        Started(1),
        Release(3),
        Release(3),
        Open(5, "a"),
    ]), @"
    start 0 for a
    start 1 for b
    1 has 0
    3 has 0
    4 has 0
    2 has 1
    close 0
    start 2 for a
    sources: 2, handles: 2
    ");
}

#[test]
fn an_opener_that_leaves_does_not_disturb_the_others_and_the_last_one_aborts() {
    assert_snapshot!(trace(&[
        Open(1, "a"),
        Open(2, "a"),
        Release(1),
        Started(0),
        Release(2),
        Open(3, "a"),
        Open(4, "a"),
        Release(3),
        Release(4),
        Started(1),
    ]), @"
    start 0 for a
    2 has 0
    close 0
    start 1 for a
    abort 1
    unwanted
    sources: 0, handles: 0
    ");
}

#[test]
fn a_failed_start_is_told_to_all_and_not_kept() {
    assert_snapshot!(trace(&[
        Open(1, "a"),
        Open(2, "a"),
        Failed(0, "refused"),
        Open(3, "a"),
        Started(1),
        Release(1),
        Failed(1, "late"),
        Release(3),
    ]), @r#"
    start 0 for a
    1 fails: Start("refused")
    2 fails: Start("refused")
    start 1 for a
    3 has 1
    unwanted
    close 1
    sources: 0, handles: 0
    "#);
}

#[test]
fn revoking_closes_the_sources_of_a_key_and_disposing_all_of_them() {
    assert_snapshot!(trace(&[
        Open(1, "a"),
        Started(0),
        Open(2, "b"),
        Open(3, "c"),
        Revoke("a"),
        Revoke("b"),
        Release(1),
        Open(4, "a"),
        Started(3),
        Dispose,
        Open(5, "a"),
        Release(4),
    ]), @"
    start 0 for a
    1 has 0
    start 1 for b
    start 2 for c
    close 0
    abort 1
    2 fails: Revoked
    start 3 for a
    4 has 3
    abort 2
    close 3
    3 fails: Disposed
    5 fails: Disposed
    sources: 0, handles: 0
    ");
}

#[derive(Debug, Clone)]
enum Input {
    Open(u8),
    Release(u8),
    Answer(u8, bool),
    Revoke(u8),
    Dispose,
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        6 => (0..4_u8).prop_map(Input::Open),
        6 => any::<u8>().prop_map(Input::Release),
        4 => (any::<u8>(), prop::bool::weighted(0.7)).prop_map(|(which, works)| Input::Answer(which, works)),
        1 => (0..4_u8).prop_map(Input::Revoke),
        1 => Just(Input::Dispose),
    ]
}

/// What the world outside of the pool knows.
#[derive(Default)]
struct World {
    starting: BTreeMap<SourceId, u8>,
    open: BTreeMap<SourceId, u8>,
    waiting: BTreeSet<HandleId>,
    holding: BTreeMap<HandleId, SourceId>,
    n_handles: u64,
}

impl World {
    fn take_in(&mut self, pool: &mut SourcePool<u8, ()>) -> Result<(), TestCaseError> {
        while let Some(action) = pool.poll_action() {
            match action {
                SourceAction::Start { source, key } => {
                    let is_known = self.starting.values().chain(self.open.values()).any(|other| *other == key);
                    prop_assert!(!is_known, "a key has two sources");
                    self.starting.insert(source, key);
                }
                SourceAction::Abort { source } => prop_assert!(self.starting.remove(&source).is_some()),
                SourceAction::Close { source } => {
                    prop_assert!(self.open.remove(&source).is_some(), "closed once, and only when open");
                }
            }
        }
        while let Some(event) = pool.poll_event() {
            match event {
                SourceEvent::Opened { handle, source } => {
                    prop_assert!(self.waiting.remove(&handle) && self.open.contains_key(&source));
                    self.holding.insert(handle, source);
                }
                SourceEvent::Failed { handle, .. } => prop_assert!(self.waiting.remove(&handle)),
            }
        }
        // Whatever is open is used, unless it was revoked, and whatever starts is waited for.
        for source in self.open.keys() {
            prop_assert!(self.holding.values().any(|held| held == source), "an open source that nobody holds");
        }
        prop_assert!(self.starting.is_empty() || !self.waiting.is_empty(), "a start that nobody waits for");
        prop_assert_eq!(pool.sources.len(), self.open.len() + self.starting.len());
        Ok(())
    }
}

proptest! {
    #[test]
    fn every_source_is_opened_once_and_closed_by_the_last_release(inputs in prop::collection::vec(input(), 0..60)) {
        let mut pool: SourcePool<u8, ()> = SourcePool::new();
        let mut world = World::default();
        for input in inputs {
            match input {
                Input::Open(key) => {
                    let handle = HandleId(world.n_handles);
                    world.n_handles += 1;
                    world.waiting.insert(handle);
                    pool.start_open(handle, key);
                }
                Input::Release(which) => {
                    let handle = HandleId(u64::from(which) % (world.n_handles + 1));
                    world.waiting.remove(&handle);
                    world.holding.remove(&handle);
                    pool.start_release(handle);
                }
                Input::Answer(which, works) => {
                    let n_starting = world.starting.len().max(1);
                    if let Some((source, key)) = world.starting.iter().nth(usize::from(which) % n_starting) {
                        let (source, key) = (*source, *key);
                        world.starting.remove(&source);
                        if works {
                            world.open.insert(source, key);
                        }
                        let is_wanted = pool.handle_started(source, if works { Ok(()) } else { Err(()) });
                        prop_assert!(is_wanted);
                    }
                }
                Input::Revoke(key) => pool.start_revoke(|other| *other == key),
                Input::Dispose => pool.start_dispose(),
            }
            world.take_in(&mut pool)?;
        }
        for handle in 0..world.n_handles {
            world.waiting.remove(&HandleId(handle));
            world.holding.remove(&HandleId(handle));
            pool.start_release(HandleId(handle));
            world.take_in(&mut pool)?;
        }
        prop_assert!(world.open.is_empty() && world.starting.is_empty());
        prop_assert!(pool.sources.is_empty() && pool.handles.is_empty());
    }
}
