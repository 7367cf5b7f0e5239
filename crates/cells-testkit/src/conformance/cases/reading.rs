//! Reads that change nothing (`files-http.md` §1.7, §2, §4).

use serde_json::{Value, json};

use crate::conformance::{
    case::{Case, Step, get, post},
    check::Check,
    declared::Need,
    http::Reply,
};

pub(super) fn cases() -> Vec<Case> {
    let case = |name, steps: Vec<Step>| Case::steps("files", &[], name, steps);
    let stat = |paths: Value| post("/v1/fs/{alias}/stat", json!({ "paths": paths }));
    let entries = |path: &str| get("/v1/fs/{alias}/entries").query("path", path);
    let content = |path: &str| get("/v1/fs/{alias}/content").query("path", path);
    let mut cases = vec![
        case(
            "the empty path is the root, a directory",
            vec![stat(json!([""])).status(&[200]).json("/results/0/stat/kind", "directory")],
        ),
        case("no paths give no results", vec![stat(json!([])).status(&[200]).json("/results", json!([]))]),
        case(
            "results come in the order of the paths, equal paths twice",
            vec![
                stat(json!(["", "{one}", "", "{one}"]))
                    .status(&[200])
                    .json("/results/0/stat/kind", "directory")
                    .json("/results/1", json!({ "stat": null }))
                    .json("/results/2/stat/kind", "directory")
                    .json("/results/3", json!({ "stat": null })),
            ],
        ),
        case(
            "what lies below something missing is missing",
            vec![stat(json!(["{one}/{two}/a"])).status(&[200]).json("/results", json!([{ "stat": null }]))],
        ),
        case(
            "a bad path is the error of its own item only",
            vec![
                stat(json!(BAD_PATHS)).status(&[200]).check(Check::Holds("EINVAL for each path", each_is_einval)),
                stat(json!(["/a", ""]))
                    .json("/results/0", json!({ "error": "EINVAL" }))
                    .json("/results/1/stat/kind", "directory"),
            ],
        ),
        case(
            "a path may have 4,096 bytes",
            vec![
                stat(json!([vec!["abcdefg"; 512].join("/")])).json("/results/0", json!({ "stat": null })),
                stat(json!([format!("{}a", "é".repeat(2_048))])).json("/results/0", json!({ "error": "EINVAL" })),
            ],
        ),
        case(
            "one request may name 256 paths and 65,536 bytes of them",
            vec![
                stat(json!(vec![""; 256])).status(&[200]),
                stat(json!(vec![""; 257])).refused(&[400], "EINVAL"),
                stat(json!(vec!["x".repeat(200) + "/" + &"y".repeat(55); 256])).status(&[200]),
                stat(json!(vec!["x".repeat(200) + "/" + &"y".repeat(56); 256])).refused(&[400], "EINVAL"),
            ],
        ),
        case(
            "a malformed stat is refused before anything else",
            vec![
                post("/v1/fs/{alias}/stat", json!({ "paths": [], "more": 1 })).status(&[422]),
                post("/v1/fs/{alias}/stat", json!({})).status(&[422]),
                post("/v1/fs/{alias}/stat", json!({ "paths": [1] })).status(&[422]),
                post("/v1/fs/{alias}/stat", Value::Null).bytes("{\"paths\":[").status(&[400]),
                post("/v1/fs/{alias}/stat", json!({ "paths": [] })).without("content-type").status(&[415]),
            ],
        ),
        case(
            "a JSON body may have 512 KiB",
            vec![post("/v1/fs/{alias}/stat", Value::Null).bytes(vec![b' '; 524_289]).status(&[413])],
        ),
        case(
            "a query has exactly the members of its route",
            vec![
                get("/v1/fs/{alias}/entries").status(&[400]),
                get("/v1/fs/{alias}/content").status(&[400]),
                entries("").query("more", "1").status(&[400]),
                entries("").query("path", "").status(&[400]),
                content("a").query("cursor", "1").status(&[400]),
            ],
        ),
        case(
            "a cursor that the node did not make is refused",
            vec![
                entries("").query("cursor", "garbage").refused(&[400], "EINVAL"),
                entries("").query("cursor", "eyJhIjoxfQ.AAAA").refused(&[400], "EINVAL"),
                entries("").query("cursor", "c".repeat(16_385)).refused(&[400], "EINVAL"),
            ],
        ),
        case(
            "a listing of the root is well formed, or fails whole",
            vec![entries("").check(Check::Holds("sorted entries, a next cursor, warnings", page_or_quirk))],
        ),
        case("a listing of what is missing is ENOENT", vec![entries("{one}").refused(&[404], "ENOENT")]),
        case("content of what is missing is ENOENT", vec![content("{one}/a").refused(&[404], "ENOENT")]),
        case("content of a directory is ECAPABILITY", vec![content("").refused(&[422], "ECAPABILITY")]),
        case(
            "bad paths are refused by listings and downloads",
            BAD_PATHS
                .iter()
                // A NUL cannot be told from other bytes here: it is encoded like them.
                .flat_map(|path| [entries(path).refused(&[400], "EINVAL"), content(path).refused(&[400], "EINVAL")])
                .collect(),
        ),
    ];
    cases.push(Case::steps(
        "files",
        &[Need::ReadOnly],
        "a read-only export has no revisions",
        [post("/v1/fs/{ro}/stat", json!({ "paths": [""] }))
            .json("/results/0/stat/kind", "directory")
            .check(Check::Absent("/results/0/stat/revision"))],
    ));
    cases
}

const BAD_PATHS: &[&str] = &[
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "a/./b",
    "a/../b",
    "a\\b",
    "a\0b",
    "C:/x",
    "z:file",
    ".itookit-upload-1",
    "a/.itookit-upload-00000000000000000000000000000000",
];

fn each_is_einval(reply: &Reply) -> bool {
    let results = reply.json["results"].as_array();
    results
        .is_some_and(|all| all.len() == BAD_PATHS.len() && all.iter().all(|one| *one == json!({ "error": "EINVAL" })))
}

/// One strange name makes older nodes fail the listing.
fn page_or_quirk(reply: &Reply) -> bool {
    match reply.status.as_u16() {
        400 => reply.json == json!({ "code": "EINVAL" }),
        200 => super::listing::is_page(reply),
        _ => false,
    }
}
