//! SeqFiles (`files-http.md` §7).

use serde_json::{Value, json};

use crate::conformance::{
    case::{Case, Step, mkdir, post, put, read, stat},
    check::Check,
    declared::Need,
};

pub(super) fn cases() -> Vec<Case> {
    let case = |name, steps: Vec<Step>| Case::steps("seq", &[Need::Seq], name, steps);
    let missing = |path| stat(&[path]).json("/results/0", json!({ "stat": null }));
    let set = |key: &str, value: Value| json!({ "action": "set", "key": key, "value": value });
    let delete = |key: &str| json!({ "action": "delete", "key": key });
    let made = |changes: Value| change("a.seq", Value::Null, changes).committed().keep("revision", "/result/revision");
    let row = |key: &str, value: Value| json!({ "key": key, "value": value });
    vec![
        case(
            "a snapshot of what is missing is empty, and creates nothing",
            vec![
                snapshot("a.seq").status(&[200]).json("", json!({ "revision": null, "entries": [] })),
                missing("a.seq"),
            ],
        ),
        case(
            "a transaction creates the file, in key order",
            vec![
                made(json!([set("b", json!(1)), set("é", json!(2)), set("B", json!(3)), set("a", json!(4))]))
                    .json("/result/kind", "file"),
                snapshot("a.seq").json("/revision", "{revision}").json(
                    "/entries",
                    json!([row("B", json!(3)), row("a", json!(4)), row("b", json!(1)), row("é", json!(2))]),
                ),
            ],
        ),
        case(
            "values are any JSON",
            vec![
                made(json!([
                    set("1", Value::Null),
                    set("2", json!(true)),
                    set("3", json!(-1.5)),
                    set("4", json!("text \"quoted\" ü\n")),
                    set("5", json!([1, [2], {}])),
                    set("6", json!({ "n": { "m": 1 } })),
                ])),
                snapshot("a.seq")
                    .json("/entries/0/value", Value::Null)
                    .json("/entries/1/value", true)
                    .json("/entries/2/value", -1.5)
                    .json("/entries/3/value", "text \"quoted\" ü\n")
                    .json("/entries/4/value", json!([1, [2], {}]))
                    .json("/entries/5/value", json!({ "n": { "m": 1 } })),
            ],
        ),
        case(
            "changes are applied in order; deleting what is absent is fine",
            vec![
                made(json!([set("a", json!(1)), set("b", json!(1))])),
                change(
                    "a.seq",
                    json!("{revision}"),
                    json!([
                        set("a", json!(2)),
                        set("a", json!(3)),
                        delete("b"),
                        delete("c"),
                        set("d", json!(1)),
                        delete("d")
                    ]),
                )
                .committed()
                .check(Check::Differs("/result/revision", "{revision}".into())),
                snapshot("a.seq").json("/entries", json!([row("a", json!(3))])),
            ],
        ),
        case(
            "a transaction without a revision must create",
            vec![
                made(json!([set("a", json!(1))])),
                change("a.seq", Value::Null, json!([set("a", json!(2))])).not_committed(&[412], "ECONFLICT"),
                snapshot("a.seq").json("/entries", json!([row("a", json!(1))])),
            ],
        ),
        case(
            "a transaction with an older revision is a conflict",
            vec![
                made(json!([set("a", json!(1))])),
                change("a.seq", json!("{revision}"), json!([set("a", json!(2))])).committed(),
                change("a.seq", json!("{revision}"), json!([set("a", json!(3))])).not_committed(&[412], "ECONFLICT"),
                change("b.seq", json!("{revision}"), json!([])).not_committed(&[412], "ECONFLICT"),
                snapshot("a.seq").json("/entries", json!([row("a", json!(2))])),
                missing("b.seq"),
            ],
        ),
        case(
            "the result has the revision of the next transaction",
            vec![
                made(json!([])),
                change("a.seq", json!("{revision}"), json!([set("a", json!(1))]))
                    .committed()
                    .keep("next", "/result/revision"),
                snapshot("a.seq").json("/revision", "{next}"),
                change("a.seq", json!("{next}"), json!([set("a", json!(2))])).committed(),
            ],
        ),
        case(
            "a SeqFile is an SQLite file, and works as one",
            vec![
                made(json!([set("a", json!(1))])),
                read("a.seq")
                    .check(Check::Holds("an SQLite file", |reply| reply.body.starts_with(b"SQLite format 3\0"))),
                put("a.seq", "no database, and much too short to be one").matching("{revision}").committed(),
                snapshot("a.seq").refused(&[500], "EIO"),
            ],
        ),
        case(
            "only names that end in .seq are SeqFiles",
            vec![
                snapshot("a.txt").refused(&[400], "EINVAL"),
                change("a.txt", Value::Null, json!([])).not_committed(&[400], "EINVAL"),
                snapshot("a.seq/").refused(&[400], "EINVAL"),
                missing("a.txt"),
            ],
        ),
        case(
            "a directory is no SeqFile",
            vec![mkdir("a.seq").committed(), snapshot("a.seq").refused(&[422], "ECAPABILITY")],
        ),
        case(
            "a missing directory is ENOENT",
            vec![change("d/a.seq", Value::Null, json!([])).not_committed(&[404], "ENOENT"), missing("d")],
        ),
        case(
            "keys have 1 to 1,024 bytes without NUL",
            vec![
                change("a.seq", Value::Null, json!([set("", json!(1))])).not_committed(&[400], "EINVAL"),
                change("a.seq", Value::Null, json!([set(&"k".repeat(1_025), json!(1))]))
                    .not_committed(&[400], "EINVAL"),
                change("a.seq", Value::Null, json!([delete("a\0b")])).not_committed(&[400], "EINVAL"),
                missing("a.seq"),
                change("a.seq", Value::Null, json!([set(&"k".repeat(1_024), json!(1))])).committed(),
            ],
        ),
        case(
            "a transaction has at most 256 changes, all or nothing",
            vec![
                change("a.seq", Value::Null, many(257)).not_committed(&[400], "EINVAL"),
                missing("a.seq"),
                change("a.seq", Value::Null, many(256)).committed(),
                snapshot("a.seq").check(Check::Holds("256 entries", |reply| {
                    reply.json["entries"].as_array().is_some_and(|entries| entries.len() == 256)
                })),
            ],
        ),
        case(
            "a malformed transaction is refused, and claims no operation id",
            vec![
                change("a.seq", Value::Null, json!([{ "action": "swap", "key": "a" }])).id("{one}").status(&[422]),
                change("a.seq", Value::Null, json!([{ "action": "set", "key": "a" }])).id("{one}").status(&[422]),
                change("a.seq", json!(1), json!([])).id("{one}").status(&[422]),
                change("a.seq", Value::Null, json!([])).without("x-operation-id").refused(&[400], "EINVAL"),
                change("a.seq", Value::Null, json!([])).id("{one}").committed(),
            ],
        ),
        case(
            "transactions and uploads share their receipts",
            vec![
                change("a.seq", Value::Null, json!([])).id("{one}").committed().keep("revision", "/result/revision"),
                super::receipts::query("{one}").committed().json("/result/revision", "{revision}"),
                put("b", "one").create().id("{one}").refused(&[409], "OPERATION_ID_REUSED"),
                super::receipts::cancel("{two}").not_committed(&[200], "ECANCELLED"),
                change("a.seq", json!("{revision}"), json!([])).id("{two}").refused(&[409], "OPERATION_ID_REUSED"),
                snapshot("a.seq").json("/revision", "{revision}"),
            ],
        ),
    ]
}

fn snapshot(path: &str) -> Step {
    post("/v1/fs/{alias}/seq/snapshot", json!({ "path": format!("{{dir}}/{path}") }))
}

fn change(path: &str, expected: Value, changes: Value) -> Step {
    let mut body = json!({ "path": format!("{{dir}}/{path}") });
    body["expectedRevision"] = expected;
    body["changes"] = changes;
    post("/v1/fs/{alias}/seq/transaction", body).id("{fresh}")
}

fn many(changes: u32) -> Value {
    (0..changes).map(|number| json!({ "action": "set", "key": format!("key {number}"), "value": number })).collect()
}
