//! Discovery, credentials, and what holds for every reply (`files-http.md` §1, §3).

use serde_json::{Value, json};

use crate::conformance::{
    case::{Case, Step, get, method, post},
    check::Check,
    declared::Need,
    http::Reply,
};

pub(super) fn cases() -> Vec<Case> {
    let case = |needs, name, steps: Vec<_>| Case::steps("discovery", needs, name, steps);
    const ANY: &[Need] = &[];
    const CAPABILITIES: &[Need] = &[Need::Capabilities];
    vec![
        case(
            CAPABILITIES,
            "capabilities have every member of version 1",
            vec![
                get("/v1/capabilities")
                    .status(&[200])
                    .json("/version", 1)
                    .check(Check::Holds("the five booleans of the document", five_booleans))
                    .check(Check::OneOf("/executionModel", &["none", "trusted-cooperative-host", "sandbox"]))
                    .check(Check::OneOf("/workspaceConsistency", &["none", "cooperative", "isolated"]))
                    .check(Check::OneOf("/readOnlyEnforcement", &["none", "best-effort", "kernel-enforced"]))
                    .check(Check::OneOf("/pathModel", &["none", "host-mapped", "virtual-root"])),
            ],
        ),
        case(
            CAPABILITIES,
            "capabilities do not contradict each other",
            vec![get("/v1/capabilities").check(Check::Holds("processes with an id, an epoch and models", coherent))],
        ),
        case(
            CAPABILITIES,
            "the process epoch stays for one run of the node",
            vec![
                get("/v1/capabilities").keep("before", "/processEpoch"),
                get("/v1/capabilities").json("/processEpoch", "{before}"),
            ],
        ),
        case(
            ANY,
            "exports are sorted, and each is well formed",
            vec![get("/v1/exports").status(&[200]).json("/version", 1).check(Check::Holds("sorted exports", exports))],
        ),
        case(
            ANY,
            "without a credential nothing but EACCES is answered",
            vec![
                get("/v1/exports").anonymous().check(Check::Holds("401, or what is public", refused_or_public)),
                get("/v1/exports")
                    .anonymous()
                    .header("authorization", "Bearer no-secret-of-this-node-0000")
                    .refused(&[401], "EACCES")
                    .check(Check::NoHeader("www-authenticate")),
                get("/v1/exports")
                    .anonymous()
                    .header("authorization", "Basic bm9ib2R5Om5vdGhpbmc=")
                    .refused(&[401], "EACCES"),
                get("/v1/exports").anonymous().header("authorization", "Basic ???").refused(&[401], "EACCES"),
                get("/v1/exports").anonymous().header("authorization", "Digest x").refused(&[401], "EACCES"),
            ],
        ),
        case(
            ANY,
            "a wrong credential is refused on every read",
            vec![
                wrong(post("/v1/fs/{alias}/stat", json!({ "paths": [""] }))),
                wrong(get("/v1/fs/{alias}/entries").query("path", "")),
                wrong(get("/v1/fs/{alias}/content").query("path", "a")),
            ],
        ),
        case(
            ANY,
            "no reply may be stored",
            vec![
                get("/v1/exports").check(Check::Header("cache-control", "no-store".into())),
                get("/v1/exports").anonymous().header("authorization", "Bearer no").check(no_store()),
                get("/v1/fs/{alias}/content").query("path", "no/such/file").check(no_store()),
                post("/v1/fs/{alias}/stat", json!({})).check(no_store()),
            ],
        ),
        case(
            ANY,
            "an unknown export is EACCES, not missing",
            vec![
                post("/v1/fs/no-such-export/stat", json!({ "paths": [""] })).refused(&[403], "EACCES"),
                get("/v1/fs/no-such-export/entries").query("path", "").refused(&[403], "EACCES"),
                get("/v1/fs/no-such-export/content").query("path", "a").refused(&[403], "EACCES"),
            ],
        ),
        case(
            ANY,
            "unknown routes and wrong methods are no success",
            vec![
                get("/v1/no-such-route").status(&[404]),
                method(reqwest::Method::DELETE, "/v1/exports").status(&[404, 405]),
                get("/v1/fs/{alias}/stat").status(&[404, 405]),
            ],
        ),
        case(
            ANY,
            "a preflight needs no credential",
            vec![
                method(reqwest::Method::OPTIONS, "/v1/exports")
                    .anonymous()
                    .header("origin", "https://no-such-origin.invalid")
                    .header("access-control-request-method", "GET")
                    .status(&[200, 204]),
            ],
        ),
        case(
            ANY,
            "a timeout is a positive number of milliseconds",
            vec![
                bounded("0").refused(&[400], "EINVAL"),
                bounded("-1").refused(&[400], "EINVAL"),
                bounded("1.5").refused(&[400], "EINVAL"),
                bounded("soon").refused(&[400], "EINVAL"),
                bounded("").refused(&[400], "EINVAL"),
                bounded("30000").status(&[200]),
                bounded("99999999").status(&[200]),
            ],
        ),
    ]
}

fn wrong(step: Step) -> Step {
    step.anonymous().header("authorization", "Bearer no-secret-of-this-node-0000").refused(&[401], "EACCES")
}

fn bounded(timeout: &str) -> Step {
    post("/v1/fs/{alias}/stat", json!({ "paths": [] })).header("x-timeout-ms", timeout)
}

fn no_store() -> Check {
    Check::Header("cache-control", "no-store".into())
}

fn five_booleans(reply: &Reply) -> bool {
    let places = ["/files/read", "/files/write", "/sync/push", "/process/exec", "/terminal/pty"];
    places.iter().all(|place| reply.json.pointer(place).is_some_and(Value::is_boolean))
}

fn coherent(reply: &Reply) -> bool {
    let document = &reply.json;
    let is_id = |value: &Value| {
        let legal = |id: &str| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        value.as_str().is_some_and(|id| (1..=128).contains(&id.len()) && legal(id))
    };
    let models = ["executionModel", "workspaceConsistency", "pathModel"];
    let ids = (document["serverId"].is_null() || is_id(&document["serverId"]))
        && (document["processEpoch"].is_null() || is_id(&document["processEpoch"]));
    let exec = document["process"]["exec"] != true
        || (is_id(&document["serverId"]) && models.iter().all(|model| document[model] != "none"));
    ids && exec && (document["terminal"]["pty"] != true || document["process"]["exec"] == true)
}

fn exports(reply: &Reply) -> bool {
    let Some(rows) = reply.json["exports"].as_array() else { return false };
    let aliases: Vec<&str> = rows.iter().filter_map(|row| row["alias"].as_str()).collect();
    let legal = |alias: &&str| {
        !alias.is_empty() && alias.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    aliases.len() == rows.len()
        && aliases.iter().all(legal)
        && aliases.windows(2).all(|pair| pair[0] < pair[1])
        && rows.iter().all(|row| {
            ["ro", "rw"].iter().any(|access| row["access"] == *access)
                && row["nameSemantics"] == "source"
                && row["strongRevision"].is_boolean()
        })
}

/// A node may have public exports; those are read-only.
fn refused_or_public(reply: &Reply) -> bool {
    let rows = reply.json["exports"].as_array();
    match reply.status.as_u16() {
        401 => reply.json == json!({ "code": "EACCES" }),
        200 => rows.is_some_and(|rows| rows.iter().all(|row| row["access"] == "ro")),
        _ => false,
    }
}
