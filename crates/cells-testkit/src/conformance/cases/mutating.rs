//! mkdir, rename, remove (`files-http.md` §5.3).

use serde_json::{Value, json};

use crate::conformance::{
    case::{Case, Step, mkdir, mutate, post, put, read, remove, rename, stat},
    check::Check,
    declared::Need,
};

pub(super) fn cases() -> Vec<Case> {
    let case = |name, steps: Vec<Step>| Case::steps("writes", &[Need::Write], name, steps);
    let missing = |path| stat(&[path]).json("/results/0", json!({ "stat": null }));
    let bytes = |path, bytes: &str| read(path).check(Check::Bytes(bytes.into()));
    vec![
        case(
            "mkdir makes one directory",
            vec![
                mkdir("d").committed().json("/result", json!({})),
                stat(&["d"]).json("/results/0/stat/kind", "directory"),
                mkdir("d/e").committed(),
                mkdir("x/y").not_committed(&[404], "ENOENT"),
            ],
        ),
        case(
            "mkdir refuses what exists",
            vec![
                mkdir("d").committed(),
                put("a", "one").create().committed(),
                mkdir("d").not_committed(&[409], "EEXIST"),
                mkdir("a").not_committed(&[409], "EEXIST"),
                bytes("a", "one"),
            ],
        ),
        case(
            "the root cannot be made, renamed or removed",
            vec![
                mutate(json!({ "action": "mkdir", "path": "" })).not_committed(&[400], "EINVAL"),
                mutate(json!({ "action": "remove", "path": "" })).not_committed(&[400], "EINVAL"),
                mutate(json!({ "action": "rename", "path": "", "to": "{dir}/x" })).not_committed(&[400], "EINVAL"),
            ],
        ),
        case(
            "rename moves a file",
            vec![
                put("a", "one").create().committed(),
                mkdir("d").committed(),
                rename("a", "d/b").committed().json("/result", json!({})),
                missing("a"),
                bytes("d/b", "one"),
            ],
        ),
        case(
            "rename moves a directory with all in it",
            vec![
                mkdir("d").committed(),
                put("d/a", "one").create().committed(),
                rename("d", "e").committed(),
                missing("d"),
                bytes("e/a", "one"),
            ],
        ),
        case(
            "rename never overwrites",
            vec![
                put("a", "one").create().committed(),
                put("b", "two").create().committed(),
                mkdir("d").committed(),
                rename("a", "b").not_committed(&[409], "EEXIST"),
                rename("a", "d").not_committed(&[409], "EEXIST"),
                bytes("a", "one"),
                bytes("b", "two"),
            ],
        ),
        case(
            "rename of what is missing, or into what is missing, is ENOENT",
            vec![
                rename("a", "b").not_committed(&[404], "ENOENT"),
                put("a", "one").create().committed(),
                rename("a", "d/a").not_committed(&[404], "ENOENT"),
                bytes("a", "one"),
            ],
        ),
        case(
            "a directory cannot move into itself",
            vec![
                mkdir("d").committed(),
                // The code is inferred by the document.
                rename("d", "d/e").status(&[400, 409, 500]).json("/outcome", "not-committed"),
                stat(&["d"]).json("/results/0/stat/kind", "directory"),
            ],
        ),
        case(
            "rename needs a target",
            vec![
                mutate(json!({ "action": "rename", "path": "{dir}/a" })).refused(&[400], "EINVAL"),
                mutate(json!({ "action": "rename", "path": "{dir}/a", "to": "../b" })).refused(&[400], "EINVAL"),
            ],
        ),
        case(
            "remove takes a file or an empty directory",
            vec![
                put("a", "one").create().committed(),
                mkdir("d").committed(),
                remove("a").committed().json("/result", json!({})),
                remove("d").committed(),
                stat(&["a", "d"]).json("/results", json!([{ "stat": null }, { "stat": null }])),
            ],
        ),
        case(
            "remove refuses a directory that holds something",
            vec![
                mkdir("d").committed(),
                put("d/a", "one").create().committed(),
                remove("d").not_committed(&[409], "ENOTEMPTY"),
                bytes("d/a", "one"),
            ],
        ),
        case("remove of what is missing is ENOENT", vec![remove("a").not_committed(&[404], "ENOENT")]),
        case(
            "recursive work is not offered",
            vec![
                mkdir("d").committed(),
                mutate(json!({ "action": "remove", "path": "{dir}/d", "recursive": true }))
                    .refused(&[422], "ECAPABILITY"),
                mutate(json!({ "action": "remove", "path": "{dir}/d", "recursive": false })).committed(),
            ],
        ),
        case(
            "a malformed mutation is refused, and claims no operation id",
            vec![
                mutate(json!({ "action": "copy", "path": "{dir}/a" })).id("{one}").refused(&[400], "EINVAL"),
                mutate(json!({ "action": "mkdir", "path": "{dir}/" })).id("{one}").refused(&[400], "EINVAL"),
                mutate(json!({ "action": "mkdir", "path": "{dir}/a", "more": 1 })).id("{one}").status(&[422]),
                mutate(json!({ "action": "mkdir" })).id("{one}").status(&[422]),
                post("/v1/fs/{alias}/mutate", Value::Null).id("{one}").bytes("{").status(&[400]),
                mkdir("a").id("{one}").committed(),
            ],
        ),
        case(
            "a mutation needs an operation id",
            vec![
                mkdir("a").without("x-operation-id").refused(&[400], "EINVAL"),
                mkdir("a").id("ü").refused(&[400], "EINVAL"),
                missing("a"),
            ],
        ),
    ]
}
