//! Listings of what the cases made (`files-http.md` §4.4).

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::conformance::{
    case::{Case, Step, list, mkdir, put, stat},
    check::Check,
    declared::Need,
    http::Reply,
    scene::Scene,
};

const WRITE: &[Need] = &[Need::Write];

pub(super) fn cases() -> Vec<Case> {
    let case = |name, steps: Vec<Step>| Case::steps("files", WRITE, name, steps);
    vec![
        case(
            "an empty directory has an empty page",
            vec![list("").status(&[200]).json("", json!({ "entries": [], "nextCursor": null, "warnings": [] }))],
        ),
        case(
            "names are sorted by their bytes",
            vec![
                put("b", "").create().committed(),
                put("é", "").create().committed(),
                put("B", "").create().committed(),
                put("a b", "").create().committed(),
                put("a", "").create().committed(),
                list("").check(Check::Holds("B, a, a b, b, é", |reply| names(reply) == ["B", "a", "a b", "b", "é"])),
            ],
        ),
        case(
            "an entry has the stat of its path",
            vec![
                put("a", "one").create().committed(),
                mkdir("d").committed(),
                stat(&["a", "d"])
                    .keep("file", "/results/0/stat/revision")
                    .keep("directory", "/results/1/stat/revision"),
                list("")
                    .json("/entries/0/stat/kind", "file")
                    .json("/entries/0/stat/size", 3)
                    .json("/entries/0/stat/revision", "{file}")
                    .json("/entries/1/stat/kind", "directory")
                    .json("/entries/1/stat/revision", "{directory}"),
            ],
        ),
        case(
            "a listing of a file is ENOTDIR",
            vec![put("a", "one").create().committed(), list("a").refused(&[400], "ENOTDIR")],
        ),
        Case::program("files", WRITE, "pages of 512 give every name once", |scene| Box::pin(pages(scene))),
    ]
}

async fn pages(scene: &mut Scene<'_>) -> Result<(), String> {
    scene.play(&mkdir("other").committed()).await?;
    scene.play(&mkdir("many").committed()).await?;
    let files: BTreeSet<String> = (0..FILES).map(|number| format!("file-{number:04}")).collect();
    let uploads: Vec<Step> = files.iter().map(|name| put(&format!("many/{name}"), "").create()).collect();
    for some in uploads.chunks(8) {
        for reply in join_all(some.iter().map(|step| scene.send(step))).await {
            Check::Status(&[200]).judge(&reply?)?;
        }
    }
    let first = scene.send(&list("many")).await?;
    let cursor = first.json["nextCursor"].as_str().ok_or("the first page has no next cursor")?.to_owned();
    if names(&first).len() != 512 || !is_page(&first) {
        return Err(format!("the first page has {} well formed names", names(&first).len()));
    }
    scene.play(&list("other").query("cursor", cursor.as_str()).refused(&[400], "EINVAL")).await?;
    scene.play(&list("many").query("cursor", format!("{cursor}A")).refused(&[400], "EINVAL")).await?;
    let second = scene.send(&list("many").query("cursor", cursor)).await?;
    if !second.json["nextCursor"].is_null() {
        return Err(format!("the second page is not the last: {}", second.shown()));
    }
    let listed: Vec<&str> = names(&first).into_iter().chain(names(&second)).collect();
    if listed.iter().eq(files.iter()) { Ok(()) } else { Err(format!("the pages have {} names", listed.len())) }
}

fn names(reply: &Reply) -> Vec<&str> {
    let entries = reply.json["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    entries.iter().filter_map(|entry| entry["name"].as_str()).collect()
}

/// Sorted entries with stats, a next cursor (or null) and warnings.
pub(super) fn is_page(reply: &Reply) -> bool {
    let page = &reply.json;
    let Some(entries) = page["entries"].as_array() else { return false };
    let stat_is_whole = |entry: &Value| {
        let stat = &entry["stat"];
        ["file", "directory", "symlink"].iter().any(|kind| stat["kind"] == *kind)
            && stat["size"].is_u64()
            && stat["modifiedAt"].is_u64()
            && stat["createdAt"].is_u64()
    };
    let names = names(reply);
    names.len() == entries.len()
        && names.windows(2).all(|pair| pair[0] < pair[1])
        && names.len() <= 512
        && entries.iter().all(stat_is_whole)
        && page.get("nextCursor").is_some_and(|cursor| cursor.is_null() || cursor.is_string())
        && page["warnings"].as_array().is_some_and(|warnings| warnings.iter().all(Value::is_string))
}

/// More than one page.
const FILES: u32 = 520;
