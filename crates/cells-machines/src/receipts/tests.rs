use std::collections::VecDeque;

use cells_protocol::error::Outcome;
use cells_protocol::receipts::Receipt;
use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn recovery() -> Recovery {
    serde_json::from_value(json!({
        "profileId": "main", "epoch": "e".repeat(64), "requestId": "r1",
        "scope": {"projectId": "p1", "revision": 2, "readOnly": true},
    }))
    .unwrap()
}

fn tool_error(code: &str) -> Observation {
    Observation::ToolError { code: Some(code.to_owned()) }
}

fn http_status(status: u16) -> Observation {
    Observation::HttpStatus { status, code: None }
}

/// The table of the specification, row by row.
#[test]
fn replies_are_classified_as_the_table_says() {
    let committed = || Observation::Receipt(Receipt::Committed(json!({"turnId": "t"})));
    let not_committed = || Observation::Receipt(Receipt::NotCommitted { code: "HARNESS_SESSION_BUSY".to_owned() });
    let undetermined = || Observation::Receipt(Receipt::Undetermined { code: "HARNESS_RESTARTED".to_owned() });
    let rows = [
        ("receipt committed", committed()),
        ("receipt not-committed", not_committed()),
        ("receipt running", Observation::Receipt(Receipt::Running)),
        ("receipt undetermined", undetermined()),
        ("tool error REQUEST_REUSED", tool_error("HARNESS_REQUEST_REUSED")),
        ("tool error ENOENT", tool_error("ENOENT")),
        ("tool error EPOCH_CHANGED", tool_error("HARNESS_EPOCH_CHANGED")),
        ("tool error EIO", tool_error("EIO")),
        ("tool error without code", Observation::ToolError { code: None }),
        ("rpc error", Observation::RpcError { code: -32602 }),
        ("http 302", http_status(302)),
        ("http 400", http_status(400)),
        ("http 407", http_status(407)),
        ("http 408", http_status(408)),
        ("http 409", http_status(409)),
        ("http 499", http_status(499)),
        ("http 500", http_status(500)),
        ("http 599", http_status(599)),
        ("no reply", Observation::NoReply),
        ("not sent", Observation::NotSent),
    ];
    let lines = rows.map(|(name, observation)| {
        format!("{name}: {:?} | {:?}", classify_call(observation.clone()), classify_query(observation))
    });
    assert_snapshot!(lines.join("\n"), @r#"
    receipt committed: Committed(Object {"turnId": String("t")}) | Committed(Object {"turnId": String("t")})
    receipt not-committed: Rejected(Receipt { code: "HARNESS_SESSION_BUSY" }) | Rejected(Receipt { code: "HARNESS_SESSION_BUSY" })
    receipt running: Running | Running
    receipt undetermined: Undetermined { code: "HARNESS_RESTARTED" } | Undetermined { code: "HARNESS_RESTARTED" }
    tool error REQUEST_REUSED: Lost | NoAnswer
    tool error ENOENT: Rejected(Tool { code: Some("ENOENT") }) | Absent
    tool error EPOCH_CHANGED: Rejected(Tool { code: Some("HARNESS_EPOCH_CHANGED") }) | EpochGone
    tool error EIO: Rejected(Tool { code: Some("EIO") }) | NoAnswer
    tool error without code: Rejected(Tool { code: None }) | NoAnswer
    rpc error: Rejected(Rpc { code: -32602 }) | NoAnswer
    http 302: Lost | NoAnswer
    http 400: Rejected(HttpStatus { status: 400, code: None }) | NoAnswer
    http 407: Rejected(HttpStatus { status: 407, code: None }) | NoAnswer
    http 408: Lost | NoAnswer
    http 409: Rejected(HttpStatus { status: 409, code: None }) | NoAnswer
    http 499: Rejected(HttpStatus { status: 499, code: None }) | NoAnswer
    http 500: Lost | NoAnswer
    http 599: Lost | NoAnswer
    no reply: Lost | NoAnswer
    not sent: Rejected(NotSent) | NoAnswer
    "#);
}

#[test]
fn a_rejection_tells_its_outcome_and_code() {
    let code = || Some("EROFS".to_owned());
    for (rejection, outcome, remote_code) in [
        (Rejection::NotSent, Outcome::NotStarted, None),
        (
            Rejection::Receipt { code: "HARNESS_NOT_STARTED".to_owned() },
            Outcome::NotCommitted,
            Some("HARNESS_NOT_STARTED"),
        ),
        (Rejection::Tool { code: code() }, Outcome::NotCommitted, Some("EROFS")),
        (Rejection::Tool { code: None }, Outcome::NotCommitted, None),
        (Rejection::Rpc { code: -1 }, Outcome::NotCommitted, None),
        (Rejection::HttpStatus { status: 401, code: None }, Outcome::NotCommitted, None),
        (Rejection::HttpStatus { status: 409, code: code() }, Outcome::NotCommitted, Some("EROFS")),
    ] {
        assert_eq!((rejection.outcome(), rejection.remote_code()), (outcome, remote_code), "{rejection:?}");
    }
}

enum Step {
    StartCall,
    StartQuery,
    Call(Observation),
    Query(Observation),
    Time(u64),
}
use Step::{Call, Query, StartCall, StartQuery, Time};

/// Runs the steps and writes down what comes out of each.
fn trace(mut operation: Operation, steps: Vec<Step>) -> String {
    let mut now_ms = 0;
    let mut lines = Vec::new();
    for step in steps {
        match step {
            StartCall => operation.start_call(),
            StartQuery => operation.start_query(),
            Call(observation) => operation.handle_call(now_ms, observation),
            Query(observation) => operation.handle_query(now_ms, observation),
            Time(time_ms) => {
                now_ms = time_ms;
                operation.handle_timeout(now_ms);
            }
        }
        while let Some(action) = operation.poll_action() {
            lines.push(format!("{now_ms}: do {action:?}"));
        }
        while let Some(event) = operation.poll_event() {
            lines.push(format!("{now_ms}: {event:?}"));
        }
    }
    lines.push(format!("next timeout: {:?}", operation.poll_timeout()));
    lines.join("\n")
}

#[test]
fn a_lost_reply_is_followed_to_its_outcome() {
    let steps = vec![
        StartCall,
        StartCall,
        Call(Observation::NoReply),
        Time(1_999),
        Time(2_000),
        Query(Observation::NoReply),
        Time(6_000),
        Query(tool_error("ENOENT")),
        Time(14_000),
        Query(Observation::Receipt(Receipt::Running)),
        Time(29_000),
        Query(Observation::Receipt(Receipt::Committed(json!({"turnId": "t"})))),
        Query(Observation::Receipt(Receipt::Running)),
        Call(Observation::NoReply),
        StartCall,
        StartQuery,
    ];
    assert_snapshot!(trace(Operation::new(recovery()), steps), @r#"
    0: do Call
    0: Unknown(Lost)
    2000: do Query
    2000: Unknown(Lost)
    6000: do Query
    6000: Unknown(Lost)
    14000: do Query
    14000: Unknown(Running)
    29000: do Query
    29000: Settled(Committed(Object {"turnId": String("t")}))
    next timeout: None
    "#);
}

#[test]
fn an_epoch_change_rejects_and_asks_for_the_profiles() {
    let steps = vec![StartCall, Call(tool_error("HARNESS_EPOCH_CHANGED"))];
    assert_snapshot!(trace(Operation::new(recovery()), steps), @r#"
    0: do Call
    0: do RefreshProfiles
    0: Settled(Rejected(Tool { code: Some("HARNESS_EPOCH_CHANGED") }))
    next timeout: None
    "#);
}

#[test]
fn what_no_query_improves_is_asked_again_only_on_request() {
    let restarted = || Observation::Receipt(Receipt::Undetermined { code: "HARNESS_RESTARTED".to_owned() });
    let steps = vec![
        StartCall,
        Call(restarted()),
        Time(100_000),
        StartQuery,
        StartQuery,
        Query(Observation::NoReply),
        StartQuery,
        Query(tool_error("HARNESS_EPOCH_CHANGED")),
        Time(200_000),
        StartQuery,
        Query(Observation::Receipt(Receipt::Committed(json!(null)))),
    ];
    assert_snapshot!(trace(Operation::new(recovery()), steps), @r#"
    0: do Call
    0: Unknown(Undetermined { code: "HARNESS_RESTARTED" })
    100000: do Query
    100000: Unknown(Undetermined { code: "HARNESS_RESTARTED" })
    100000: do Query
    100000: Unknown(EpochGone)
    200000: do Query
    200000: Settled(Committed(Null))
    next timeout: None
    "#);
}

#[test]
fn a_mutation_of_an_earlier_run_is_only_ever_asked_about() {
    let steps = vec![
        StartCall,
        Time(100_000),
        StartQuery,
        Query(Observation::NoReply),
        StartQuery,
        Query(Observation::Receipt(Receipt::Running)),
        Time(102_000),
        Query(Observation::Receipt(Receipt::NotCommitted { code: "HARNESS_NOT_ADMITTED".to_owned() })),
    ];
    assert_snapshot!(trace(Operation::resume(recovery()), steps), @r#"
    100000: do Query
    100000: Unknown(Lost)
    100000: do Query
    100000: Unknown(Running)
    102000: do Query
    102000: Settled(Rejected(Receipt { code: "HARNESS_NOT_ADMITTED" }))
    next timeout: None
    "#);
}

#[test]
fn queries_that_say_nothing_end_and_an_answer_starts_them_anew() {
    let mut operation = Operation::new(recovery());
    operation.start_call();
    operation.handle_call(0, Observation::NoReply);
    let mut delays_ms = Vec::new();
    let mut now_ms = 0;
    while let Some(at_ms) = operation.poll_timeout() {
        delays_ms.push(at_ms - now_ms);
        now_ms = at_ms;
        operation.handle_timeout(now_ms);
        // Half way, the node says once that it works on it.
        let running = delays_ms.len() == 20;
        operation
            .handle_query(now_ms, if running { Observation::Receipt(Receipt::Running) } else { Observation::NoReply });
    }
    assert_eq!(delays_ms.len(), 20 + MAX_FRUITLESS_QUERIES as usize);
    assert_eq!(delays_ms[..5], [2_000, 4_000, 8_000, 15_000, 15_000]);
    assert!(delays_ms[5..].iter().all(|delay_ms| *delay_ms == 15_000));
}

fn observation() -> impl Strategy<Value = Observation> {
    let code = || {
        prop_oneof![
            Just("ENOENT"),
            Just("EIO"),
            Just("HARNESS_REQUEST_REUSED"),
            Just("HARNESS_EPOCH_CHANGED"),
            Just("HARNESS_SESSION_BUSY"),
        ]
        .prop_map(str::to_owned)
    };
    prop_oneof![
        Just(Observation::NoReply),
        Just(Observation::NotSent),
        Just(Observation::Receipt(Receipt::Running)),
        any::<u8>().prop_map(|n| Observation::Receipt(Receipt::Committed(json!(n)))),
        code().prop_map(|code| Observation::Receipt(Receipt::NotCommitted { code })),
        Just(Observation::Receipt(Receipt::Undetermined { code: "EIO".to_owned() })),
        proptest::option::of(code()).prop_map(|code| Observation::ToolError { code }),
        any::<i64>().prop_map(|code| Observation::RpcError { code }),
        (300..600_u16, proptest::option::of(code()))
            .prop_map(|(status, code)| Observation::HttpStatus { status, code }),
    ]
}

#[derive(Debug, Clone)]
enum Op {
    StartCall,
    StartQuery,
    Call(Observation),
    Query(Observation),
    Timeout(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => Just(Op::StartCall),
        2 => Just(Op::StartQuery),
        2 => observation().prop_map(Op::Call),
        3 => observation().prop_map(Op::Query),
        2 => (0..40_000_u64).prop_map(Op::Timeout),
    ]
}

/// Whether an observation of a query, or of the call, proves an outcome.
fn proves(observation: &Observation, by_query: bool) -> bool {
    match observation {
        Observation::Receipt(Receipt::Committed(_) | Receipt::NotCommitted { .. }) => true,
        Observation::Receipt(Receipt::Running | Receipt::Undetermined { .. }) | Observation::NoReply => false,
        Observation::ToolError { code } => !by_query && code.as_deref() != Some("HARNESS_REQUEST_REUSED"),
        Observation::RpcError { .. } | Observation::NotSent => !by_query,
        Observation::HttpStatus { status, .. } => !by_query && (400..500).contains(status) && *status != 408,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn one_call_at_most_and_a_proven_outcome_never_changes(
        resumed in any::<bool>(),
        ops in proptest::collection::vec(op(), 1..80),
    ) {
        let mut operation = if resumed { Operation::resume(recovery()) } else { Operation::new(recovery()) };
        let mut now_ms = 0;
        let mut n_calls = 0;
        let mut under_way: VecDeque<OperationAction> = VecDeque::new();
        let mut settlement: Option<Settlement> = None;
        for op in ops {
            let mut proof = false;
            match op {
                Op::StartCall => operation.start_call(),
                Op::StartQuery => operation.start_query(),
                // Answers come only to what was asked, but also twice and late.
                Op::Call(observation) if n_calls > 0 => {
                    proof = under_way.contains(&OperationAction::Call) && proves(&observation, false);
                    under_way.retain(|action| *action != OperationAction::Call);
                    operation.handle_call(now_ms, observation);
                }
                Op::Query(observation) => {
                    proof = under_way.contains(&OperationAction::Query) && proves(&observation, true);
                    under_way.retain(|action| *action != OperationAction::Query);
                    operation.handle_query(now_ms, observation);
                }
                Op::Call(_) => {}
                Op::Timeout(ms) => {
                    now_ms += ms;
                    operation.handle_timeout(now_ms);
                    prop_assert!(operation.poll_timeout().is_none_or(|at_ms| at_ms > now_ms));
                }
            }
            while let Some(action) = operation.poll_action() {
                match action {
                    OperationAction::Call => {
                        n_calls += 1;
                        prop_assert!(!resumed && n_calls == 1);
                    }
                    OperationAction::Query => prop_assert!(settlement.is_none() && (resumed || n_calls == 1)),
                    OperationAction::RefreshProfiles => continue,
                }
                prop_assert!(under_way.is_empty(), "two requests at a time");
                under_way.push_back(action);
            }
            while let Some(event) = operation.poll_event() {
                prop_assert!(settlement.is_none(), "an event after the outcome");
                match event {
                    OperationEvent::Settled(settled) => {
                        prop_assert!(proof, "an outcome without proof");
                        settlement = Some(settled);
                    }
                    OperationEvent::Unknown(_) => prop_assert!(!proof, "a proof that was not used"),
                }
            }
            prop_assert_eq!(operation.settlement(), settlement.as_ref());
            prop_assert_eq!(operation.recovery(), &recovery());
        }
    }
}
