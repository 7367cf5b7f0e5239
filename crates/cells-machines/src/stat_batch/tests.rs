use std::collections::{BTreeMap, BTreeSet};

use cells_protocol::error::ErrorKind;
use cells_protocol::files::StatResult;
use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;

const DEFAULT_BUDGET_MS: u64 = 30_000;

enum Step {
    Stat(u64, &'static str, Option<u64>),
    TurnEnd,
    Reply(u64, Result<&'static [StatResult], &'static str>),
    Cancel(u64),
    Time(u64),
}
use Step::{Cancel, Reply, Stat, Time, TurnEnd};

/// Runs the steps and writes down what comes out of each.
fn trace(steps: &[Step]) -> String {
    let mut batch: StatBatch<&str> = StatBatch::new(DEFAULT_BUDGET_MS);
    let mut now_ms = 0;
    let mut lines = Vec::new();
    for step in steps {
        match step {
            Stat(subscriber, path, deadline_ms) => {
                batch.start_stat(now_ms, SubscriberId(*subscriber), path, *deadline_ms);
            }
            TurnEnd => batch.handle_turn_end(now_ms),
            Reply(request, reply) => {
                batch.handle_reply(StatRequestId(*request), reply.map(<[StatResult]>::to_vec));
            }
            Cancel(subscriber) => batch.handle_cancel(SubscriberId(*subscriber)),
            Time(time_ms) => {
                now_ms = *time_ms;
                batch.handle_timeout(now_ms);
            }
        }
        while let Some(action) = batch.poll_action() {
            lines.push(match action {
                StatAction::AwaitTurnEnd => "await turn end".to_owned(),
                StatAction::Send { request_id, paths, budget_ms } => {
                    format!("send {} {paths:?} within {budget_ms} ms", request_id.0)
                }
                StatAction::Abort { request_id } => format!("abort {}", request_id.0),
            });
        }
        while let Some(event) = batch.poll_event() {
            lines.push(format!("{} settles: {:?}", event.subscriber.0, event.result));
        }
    }
    lines.push(format!("next timeout: {:?}, waiting: {}", batch.poll_timeout(), batch.subscribers.len()));
    lines.join("\n")
}

const TWO: &[StatResult] = &[StatResult::Missing, StatResult::Failed(ErrorKind::AccessDenied)];

#[test]
fn equal_paths_share_and_the_longest_budget_wins() {
    assert_snapshot!(trace(&[
        Time(1_000),
        Stat(1, "b", Some(3_000)),
        Stat(2, "a", Some(9_000)),
        Stat(3, "b", None),
        TurnEnd,
        Reply(0, Ok(TWO)),
    ]), @r#"
    await turn end
    send 0 ["b", "a"] within 30000 ms
    1 settles: Ok(Missing)
    3 settles: Ok(Missing)
    2 settles: Ok(Failed(AccessDenied))
    next timeout: None, waiting: 0
    "#);
}

#[test]
fn a_deadline_ends_only_its_own_subscriber() {
    assert_snapshot!(trace(&[
        Stat(1, "a", Some(100)),
        Stat(2, "a", Some(200)),
        Stat(3, "b", Some(300)),
        TurnEnd,
        Time(99),
        Time(100),
        Time(250),
        Reply(0, Ok(TWO)),
    ]), @r#"
    await turn end
    send 0 ["a", "b"] within 300 ms
    1 settles: Err(TimedOut)
    2 settles: Err(TimedOut)
    3 settles: Ok(Failed(AccessDenied))
    next timeout: None, waiting: 0
    "#);
}

#[test]
fn the_last_one_out_aborts_and_a_late_reply_is_ignored() {
    assert_snapshot!(trace(&[
        Stat(1, "a", None),
        Stat(2, "a", Some(100)),
        Stat(3, "b", None),
        TurnEnd,
        Cancel(1),
        Cancel(1),
        Time(100),
        Cancel(3),
        Reply(0, Ok(TWO)),
    ]), @r#"
    await turn end
    send 0 ["a", "b"] within 30000 ms
    2 settles: Err(TimedOut)
    abort 0
    next timeout: None, waiting: 0
    "#);
}

#[test]
fn a_path_that_everybody_left_before_the_turn_ended_is_not_asked() {
    assert_snapshot!(trace(&[
        Stat(1, "a", None),
        Stat(2, "b", None),
        Stat(3, "a", Some(5)),
        Cancel(1),
        Time(5),
        TurnEnd,
        Stat(4, "c", None),
        Cancel(4),
        TurnEnd,
    ]), @r#"
    await turn end
    3 settles: Err(TimedOut)
    send 0 ["b"] within 30000 ms
    await turn end
    next timeout: None, waiting: 1
    "#);
}

#[test]
fn calls_during_a_request_go_into_the_next_batch_even_for_the_same_path() {
    assert_snapshot!(trace(&[
        Stat(1, "a", None),
        TurnEnd,
        Stat(2, "a", None),
        TurnEnd,
        Reply(1, Ok(&[StatResult::Missing])),
        Reply(0, Ok(&[StatResult::Failed(ErrorKind::Io)])),
    ]), @r#"
    await turn end
    send 0 ["a"] within 30000 ms
    await turn end
    send 1 ["a"] within 30000 ms
    2 settles: Ok(Missing)
    1 settles: Ok(Failed(Io))
    next timeout: None, waiting: 0
    "#);
}

#[test]
fn failures_reach_everybody_who_waits() {
    assert_snapshot!(trace(&[
        Stat(1, "a", None),
        Stat(2, "a", None),
        Stat(3, "b", None),
        TurnEnd,
        Reply(0, Err("no network")),
        Stat(4, "a", Some(500)),
        TurnEnd,
        Reply(1, Ok(TWO)),
        Reply(7, Ok(TWO)),
        TurnEnd,
        Stat(5, "a", Some(0)),
    ]), @r#"
    await turn end
    send 0 ["a", "b"] within 30000 ms
    1 settles: Err(Request("no network"))
    2 settles: Err(Request("no network"))
    3 settles: Err(Request("no network"))
    await turn end
    send 1 ["a"] within 500 ms
    4 settles: Err(CountMismatch)
    5 settles: Err(TimedOut)
    next timeout: None, waiting: 0
    "#);
}

#[test]
fn ten_thousand_calls_over_two_thousand_paths_are_eight_requests() {
    let mut batch: StatBatch<()> = StatBatch::new(DEFAULT_BUDGET_MS);
    for call in 0..10_000 {
        batch.start_stat(0, SubscriberId(call), &format!("src/{}", call % 2_000), None);
    }
    batch.handle_turn_end(0);
    let mut n_paths = Vec::new();
    while let Some(action) = batch.poll_action() {
        if let StatAction::Send { request_id, paths, .. } = action {
            n_paths.push(paths.len());
            batch.handle_reply(request_id, Ok(vec![StatResult::Missing; paths.len()]));
        }
    }
    assert_eq!(n_paths, [256, 256, 256, 256, 256, 256, 256, 208]);
    assert_eq!(std::iter::from_fn(|| batch.poll_event()).count(), 10_000);
}

#[test]
fn requests_are_split_by_path_bytes() {
    for (n_paths, path_bytes, expected) in
        [(16, 4_096, vec![16]), (33, 4_096, vec![16, 16, 1]), (3, 40_000, vec![1, 1, 1]), (1, 70_000, vec![1])]
    {
        let mut batch: StatBatch<()> = StatBatch::new(DEFAULT_BUDGET_MS);
        for call in 0..n_paths {
            batch.start_stat(0, SubscriberId(call), &format!("{call:02}{}", "x".repeat(path_bytes - 2)), None);
        }
        batch.handle_turn_end(0);
        let sent: Vec<usize> = std::iter::from_fn(|| batch.poll_action())
            .filter_map(|action| match action {
                StatAction::Send { paths, .. } => Some(paths.len()),
                StatAction::AwaitTurnEnd | StatAction::Abort { .. } => None,
            })
            .collect();
        assert_eq!(sent, expected, "{n_paths} paths of {path_bytes} bytes");
    }
}

/// What the outside did and saw of one subscriber.
#[derive(Debug)]
struct Caller {
    path: u16,
    deadline_ms: Option<u64>,
    request_id: Option<StatRequestId>,
    ended: bool,
}

#[derive(Debug, Clone)]
enum Op {
    Stat { path: u16, deadline_in_ms: Option<u64> },
    TurnEnd,
    Reply { pick: usize, ok: bool },
    Cancel { pick: usize },
    Wait { ms: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..40_u16, proptest::option::of(0..50_u64))
            .prop_map(|(path, deadline_in_ms)| Op::Stat { path, deadline_in_ms }),
        2 => Just(Op::TurnEnd),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(pick, ok)| Op::Reply { pick, ok }),
        2 => any::<usize>().prop_map(|pick| Op::Cancel { pick }),
        1 => (0..30_u64).prop_map(|ms| Op::Wait { ms }),
    ]
}

/// A path of a length that makes requests hit the byte limit, too.
fn path_text(path: u16) -> String {
    format!("{path}/{}", "x".repeat(usize::from(path) * 100))
}

/// A result that tells which path it belongs to.
fn result_of(path: &str) -> StatResult {
    let size = path.split('/').next().and_then(|digits| digits.parse().ok());
    StatResult::Found(cells_protocol::files::FileStat {
        kind: cells_protocol::files::FileKind::File,
        size,
        modified_at: None,
        created_at: None,
        revision: None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_caller_gets_exactly_its_own_result(ops in proptest::collection::vec(op(), 1..200)) {
        let mut batch: StatBatch<()> = StatBatch::new(DEFAULT_BUDGET_MS);
        let mut now_ms = 0;
        let mut callers: BTreeMap<u64, Caller> = BTreeMap::new();
        let mut under_way: BTreeMap<StatRequestId, Vec<Box<str>>> = BTreeMap::new();
        let mut turn_end_awaited = false;
        let drain = [Op::TurnEnd, Op::Wait { ms: 0 }];
        for op in ops.into_iter().chain(drain) {
            match op {
                Op::Stat { path, deadline_in_ms } => {
                    let subscriber = callers.len() as u64;
                    let deadline_ms = deadline_in_ms.map(|ms| now_ms + ms);
                    callers.insert(subscriber, Caller { path, deadline_ms, request_id: None, ended: false });
                    batch.start_stat(now_ms, SubscriberId(subscriber), &path_text(path), deadline_ms);
                }
                Op::TurnEnd => {
                    batch.handle_turn_end(now_ms);
                    turn_end_awaited = false;
                }
                Op::Reply { pick, ok } => {
                    let Some(request_id) = under_way.keys().nth(pick % under_way.len().max(1)).copied() else { continue };
                    let paths = under_way.remove(&request_id).unwrap();
                    let results = paths.iter().map(|path| result_of(path)).collect();
                    batch.handle_reply(request_id, if ok { Ok(results) } else { Err(()) });
                    batch.handle_reply(request_id, Ok(Vec::new()));
                }
                Op::Cancel { pick } => {
                    let n_callers = callers.len().max(1);
                    let Some((subscriber, caller)) = callers.iter_mut().nth(pick % n_callers) else { continue };
                    caller.ended = true;
                    batch.handle_cancel(SubscriberId(*subscriber));
                }
                Op::Wait { ms } => {
                    now_ms += ms;
                    batch.handle_timeout(now_ms);
                    for caller in callers.values() {
                        let due = caller.deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms);
                        prop_assert!(!due || caller.ended || !batch.events.is_empty());
                    }
                }
            }
            while let Some(action) = batch.poll_action() {
                match action {
                    StatAction::AwaitTurnEnd => {
                        prop_assert!(!turn_end_awaited);
                        turn_end_awaited = true;
                    }
                    StatAction::Send { request_id, paths, budget_ms } => {
                        let distinct: BTreeSet<&str> = paths.iter().map(|path| &**path).collect();
                        prop_assert_eq!(distinct.len(), paths.len());
                        prop_assert!((1..=256).contains(&paths.len()));
                        prop_assert!(paths.iter().map(|path| path.len()).sum::<usize>() <= 65_536);
                        prop_assert!(budget_ms <= DEFAULT_BUDGET_MS);
                        let mut waited_for = BTreeSet::new();
                        for caller in callers.values_mut().filter(|caller| !caller.ended && caller.request_id.is_none()) {
                            if let Some(path) = distinct.get(path_text(caller.path).as_str()) {
                                waited_for.insert(*path);
                                caller.request_id = Some(request_id);
                            }
                        }
                        prop_assert_eq!(waited_for, distinct);
                        prop_assert!(under_way.insert(request_id, paths).is_none());
                    }
                    StatAction::Abort { request_id } => {
                        prop_assert!(under_way.remove(&request_id).is_some());
                    }
                }
            }
            while let Some(event) = batch.poll_event() {
                let caller = callers.get_mut(&event.subscriber.0).unwrap();
                prop_assert!(!caller.ended, "a second event, or one after leaving");
                caller.ended = true;
                match event.result {
                    Ok(result) => prop_assert_eq!(result, result_of(&path_text(caller.path))),
                    Err(StatFailure::TimedOut) => prop_assert!(caller.deadline_ms.unwrap() <= now_ms),
                    Err(StatFailure::Request(())) => {}
                    Err(StatFailure::CountMismatch) => prop_assert!(false),
                }
            }
            for request_id in under_way.keys() {
                let waits = |caller: &Caller| !caller.ended && caller.request_id == Some(*request_id);
                prop_assert!(callers.values().any(waits), "a request that nobody waits for");
            }
            prop_assert_eq!(batch.requests.ids().collect::<Vec<_>>(), under_way.keys().map(|id| id.0).collect::<Vec<_>>());
        }
        for (request_id, paths) in under_way {
            batch.handle_reply(request_id, Ok(paths.iter().map(|path| result_of(path)).collect()));
        }
        while let Some(event) = batch.poll_event() {
            callers.get_mut(&event.subscriber.0).unwrap().ended = true;
        }
        prop_assert!(callers.values().all(|caller| caller.ended));
        prop_assert!(batch.subscribers.is_empty() && batch.deadlines.is_empty());
    }
}
