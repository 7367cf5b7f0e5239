//! Operation ids and receipts (`files-http.md` §5.1, §5.4, §5.5).

use serde_json::{Value, json};

use crate::conformance::{
    case::{Case, Step, get, mkdir, post, put, read, remove, stat},
    check::Check,
    declared::Need,
};

pub(super) fn cases() -> Vec<Case> {
    let case = |name, steps: Vec<Step>| Case::steps("receipts", &[Need::Write], name, steps);
    vec![
        case(
            "the receipt of a commit can be asked for",
            vec![
                put("a", "one").create().id("{one}").committed().keep("revision", "/result/revision"),
                query("{one}").committed().json("/result/revision", "{revision}").json("/result/size", 3),
                query("{one}").committed(),
            ],
        ),
        case(
            "the receipt of a failure can be asked for, with status 200",
            vec![
                put("d/a", "one").create().id("{one}").not_committed(&[404], "ENOENT"),
                query("{one}").not_committed(&[200], "ENOENT"),
                remove("a").id("{two}").not_committed(&[404], "ENOENT"),
                query("{two}").not_committed(&[200], "ENOENT"),
            ],
        ),
        case(
            "an operation id works once, whatever it is sent with",
            vec![
                put("a", "one").create().id("{one}").committed(),
                put("a", "one").create().id("{one}").refused(&[409], "OPERATION_ID_REUSED"),
                put("b", "two").create().id("{one}").refused(&[409], "OPERATION_ID_REUSED"),
                mkdir("c").id("{one}").refused(&[409], "OPERATION_ID_REUSED"),
                read("a").check(Check::Bytes(b"one".to_vec())),
                stat(&["b", "c"]).json("/results", json!([{ "stat": null }, { "stat": null }])),
            ],
        ),
        case(
            "the id of a failed operation is used, too",
            vec![
                remove("a").id("{one}").not_committed(&[404], "ENOENT"),
                mkdir("a").id("{one}").refused(&[409], "OPERATION_ID_REUSED"),
                query("{one}").not_committed(&[200], "ENOENT"),
            ],
        ),
        case("an operation that nobody sent is unknown", vec![query("{one}").refused(&[404], "OPERATION_UNKNOWN")]),
        case(
            "a malformed operation id is EINVAL",
            vec![
                query("a.b").refused(&[400], "EINVAL"),
                query(&"x".repeat(129)).refused(&[400], "EINVAL"),
                cancel("a.b").refused(&[400], "EINVAL"),
            ],
        ),
        case(
            "a cancel before the write is a fence",
            vec![
                cancel("{one}").not_committed(&[200], "ECANCELLED"),
                put("a", "one").create().id("{one}").refused(&[409], "OPERATION_ID_REUSED"),
                query("{one}").not_committed(&[200], "ECANCELLED"),
                stat(&["a"]).json("/results/0", json!({ "stat": null })),
            ],
        ),
        case(
            "a cancel after the end changes nothing",
            vec![
                put("a", "one").create().id("{one}").committed(),
                cancel("{one}").committed().json("/result/size", 3),
                query("{one}").committed(),
                read("a").check(Check::Bytes(b"one".to_vec())),
            ],
        ),
        case(
            "operations of one export are nobody else's",
            vec![
                mkdir("a").id("{one}").committed(),
                get("/v1/fs/no-such-export/operations/{one}").refused(&[403], "EACCES"),
                query("{one}").anonymous().header("authorization", "Bearer no").refused(&[401], "EACCES"),
                cancel("{two}").anonymous().header("authorization", "Bearer no").refused(&[401], "EACCES"),
                query("{two}").refused(&[404], "OPERATION_UNKNOWN"),
            ],
        ),
    ]
}

pub(super) fn query(id: &str) -> Step {
    get(&format!("/v1/fs/{{alias}}/operations/{id}"))
}

pub(super) fn cancel(id: &str) -> Step {
    let step = post(&format!("/v1/fs/{{alias}}/operations/{id}/cancel"), Value::Null);
    step.bytes("").without("content-type")
}
