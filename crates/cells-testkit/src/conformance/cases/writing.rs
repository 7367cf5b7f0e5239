//! Uploads (`files-http.md` §5.1, §5.2).

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, channel::mpsc, future::join_all};
use serde_json::json;

use crate::conformance::{
    case::{Case, Step, list, mkdir, put, read, stat},
    check::Check,
    declared::Need,
    http::Reply,
    scene::Scene,
};

const WRITE: &[Need] = &[Need::Write];

pub(super) fn cases() -> Vec<Case> {
    let case = |name, steps: Vec<Step>| Case::steps("writes", WRITE, name, steps);
    let program = |name, program| Case::program("writes", WRITE, name, program);
    vec![
        case(
            "a new file is committed with its stat",
            vec![
                put("a", "one")
                    .create()
                    .committed()
                    .json("/result/kind", "file")
                    .json("/result/size", 3)
                    .check(Check::Holds("a quoted revision and times", has_revision_and_times))
                    .check(Check::NoHeader("etag")),
                read("a").status(&[200]).check(Check::Bytes(b"one".to_vec())),
            ],
        ),
        case(
            "the revision of an upload is that of stat, listing and download",
            vec![
                put("a", "one").create().keep("revision", "/result/revision"),
                stat(&["a"]).json("/results/0/stat/revision", "{revision}"),
                list("").json("/entries/0/stat/revision", "{revision}"),
                read("a").check(Check::Header("etag", "{revision}".into())),
            ],
        ),
        case(
            "an empty file can be created",
            vec![
                put("a", "").create().committed().json("/result/size", 0),
                read("a").status(&[200]).check(Check::Bytes(vec![])),
            ],
        ),
        case(
            "a megabyte of any bytes comes back unchanged",
            vec![
                put("a", noise()).create().committed().json("/result/size", 1_048_576),
                read("a").check(Check::Bytes(noise())),
            ],
        ),
        case(
            "create-only refuses what exists, and changes nothing",
            vec![
                put("a", "one").create().committed(),
                put("a", "two").create().not_committed(&[412], "ECONFLICT"),
                read("a").check(Check::Bytes(b"one".to_vec())),
                mkdir("d").committed(),
                put("d", "two").create().not_committed(&[412], "ECONFLICT"),
                stat(&["d"]).json("/results/0/stat/kind", "directory"),
            ],
        ),
        case(
            "a replacement with the current revision is committed, with a new revision",
            vec![
                put("a", "one").create().keep("revision", "/result/revision"),
                put("a", "second")
                    .matching("{revision}")
                    .committed()
                    .json("/result/size", 6)
                    .check(Check::Differs("/result/revision", "{revision}".into())),
                read("a").check(Check::Bytes(b"second".to_vec())),
            ],
        ),
        case(
            "a replacement with an older revision is a conflict",
            vec![
                put("a", "one").create().keep("first", "/result/revision"),
                put("a", "two").matching("{first}").committed(),
                put("a", "three").matching("{first}").not_committed(&[412], "ECONFLICT"),
                read("a").check(Check::Bytes(b"two".to_vec())),
            ],
        ),
        case(
            "equal bytes do not bring an old revision back",
            vec![
                put("a", "one").create().keep("first", "/result/revision"),
                put("a", "two").matching("{first}").keep("second", "/result/revision"),
                put("a", "one")
                    .matching("{second}")
                    .committed()
                    .check(Check::Differs("/result/revision", "{first}".into())),
            ],
        ),
        case(
            "a replacement of what is missing or no file is a conflict",
            vec![
                put("a", "one").matching("\"00000000000000000000000000000000:1\"").not_committed(&[412], "ECONFLICT"),
                stat(&["a"]).json("/results/0", json!({ "stat": null })),
                mkdir("d").committed(),
                stat(&["d"]).keep("revision", "/results/0/stat/revision"),
                put("d", "one").matching("{revision}").not_committed(&[412], "ECONFLICT"),
            ],
        ),
        case(
            "an upload without exactly one precondition is refused",
            vec![
                put("a", "one").refused(&[428], "REVISION_REQUIRED"),
                put("a", "one").create().matching("\"x\"").refused(&[428], "REVISION_REQUIRED"),
                put("a", "one").header("if-none-match", "\"x\"").refused(&[428], "REVISION_REQUIRED"),
                stat(&["a"]).json("/results/0", json!({ "stat": null })),
            ],
        ),
        case(
            "an upload needs a well formed operation id",
            vec![
                put("a", "one").create().without("x-operation-id").refused(&[400], "EINVAL"),
                put("a", "one").create().id("a.b").refused(&[400], "EINVAL"),
                put("a", "one").create().id(&"x".repeat(129)).refused(&[400], "EINVAL"),
                stat(&["a"]).json("/results/0", json!({ "stat": null })),
            ],
        ),
        case(
            "a bad path or timeout claims no operation id",
            vec![
                put("a\\b", "one").create().id("{one}").refused(&[400], "EINVAL"),
                put(".itookit-upload-1", "one").create().id("{one}").refused(&[400], "EINVAL"),
                put("a", "one").create().id("{one}").header("x-timeout-ms", "0").refused(&[400], "EINVAL"),
                put("a", "one").create().id("{one}").committed(),
            ],
        ),
        case(
            "an upload into a missing directory is ENOENT, below a file ENOTDIR",
            vec![
                put("d/a", "one").create().not_committed(&[404], "ENOENT"),
                put("a", "one").create().committed(),
                put("a/b", "one").create().not_committed(&[400], "ENOTDIR"),
            ],
        ),
        case(
            "the root is no file",
            vec![
                Step { query: vec![("path", String::new())], ..put("", "one") }
                    .create()
                    .not_committed(&[400], "EINVAL"),
            ],
        ),
        case(
            "another file keeps its revision",
            vec![
                put("a", "one").create().keep("a", "/result/revision"),
                put("b", "one").create().keep("b", "/result/revision"),
                put("b", "two").matching("{b}").committed(),
                put("a", "two").matching("{a}").committed(),
            ],
        ),
        case(
            "names are any text",
            NAMES
                .iter()
                .flat_map(|name| {
                    [
                        put(name, name).create().committed(),
                        read(name).check(Check::Bytes(name.as_bytes().to_vec())),
                        stat(&[name]).json("/results/0/stat/kind", "file"),
                    ]
                })
                .collect(),
        ),
        program("of uploads at one revision, one is committed", |scene| Box::pin(race(scene, true))),
        program("of uploads of one new file, one is committed", |scene| Box::pin(race(scene, false))),
        program("a broken upload leaves nothing", |scene| Box::pin(broken_upload(scene))),
        program("an upload that is cancelled leaves nothing", |scene| Box::pin(cancelled_upload(scene))),
        program("an upload that is too slow leaves nothing", |scene| Box::pin(slow_upload(scene))),
    ]
}

const NAMES: [&str; 8] =
    ["with space", "100%+1 & more?#x=y", "2024:Q1.md", "ünï-日本", ".hidden", "'\"`$(x)", "…trailing.", "-r"];

/// Bytes of every value.
fn noise() -> Vec<u8> {
    (0..1_048_576_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
}

fn has_revision_and_times(reply: &Reply) -> bool {
    let result = &reply.json["result"];
    let revision = result["revision"].as_str().unwrap_or_default();
    revision.len() > 2
        && revision.starts_with('"')
        && revision.ends_with('"')
        && result["modifiedAt"].as_u64().is_some_and(|time| time > 0)
        && result["createdAt"].is_u64()
}

async fn race(scene: &mut Scene<'_>, replaces: bool) -> Result<(), String> {
    if replaces {
        scene.play(&put("a", "old").create().committed().keep("revision", "/result/revision")).await?;
    }
    let upload = |index: usize| {
        let step = put("a", format!("writer {index}"));
        if replaces { step.matching("{revision}") } else { step.create() }
    };
    let steps: Vec<Step> = (0..8).map(upload).collect();
    let replies = join_all(steps.iter().map(|step| scene.send(step))).await;
    let mut winners = Vec::new();
    for (index, reply) in replies.into_iter().enumerate() {
        let reply = reply?;
        match (reply.status.as_u16(), reply.json["outcome"].as_str()) {
            (200, Some("committed")) => winners.push(index),
            (412, Some("not-committed")) => {}
            _ => return Err(format!("expected committed or a conflict, got {}", reply.shown())),
        }
    }
    let [winner] = winners[..] else { return Err(format!("{} uploads were committed", winners.len())) };
    scene.play(&read("a").check(Check::Bytes(format!("writer {winner}").into_bytes()))).await
}

/// An upload whose body stays open after its first bytes. Dropping the sender breaks it.
async fn open_upload(
    scene: &Scene<'_>,
    step: &Step,
) -> Result<
    (mpsc::UnboundedSender<Result<Bytes, std::io::Error>>, tokio::task::JoinHandle<Result<Reply, String>>),
    String,
> {
    let (sender, body) = mpsc::unbounded();
    let request = scene.request(step).body(reqwest::Body::wrap_stream(body.boxed()));
    let sent = sender.unbounded_send(Ok(Bytes::from_static(b"half of the new content")));
    sent.map_err(|_| "the body of the upload ended by itself")?;
    Ok((sender, tokio::spawn(Reply::of(request))))
}

/// Waits until the node runs the operation `{one}`.
async fn running(scene: &mut Scene<'_>) -> Result<(), String> {
    let query = super::receipts::query("{one}").while_value("/code", "OPERATION_UNKNOWN");
    scene.play(&query.json("/outcome", "unknown").json("/state", "running")).await
}

/// The old content is there, and no other file.
async fn unchanged(scene: &mut Scene<'_>) -> Result<(), String> {
    scene.play(&read("a").check(Check::Bytes(b"old".to_vec()))).await?;
    scene.play(&list("").status(&[200]).json("/entries/0/name", "a").check(Check::Absent("/entries/1"))).await
}

async fn broken_upload(scene: &mut Scene<'_>) -> Result<(), String> {
    scene.play(&put("a", "old").create().committed().keep("revision", "/result/revision")).await?;
    let (sender, reply) = open_upload(scene, &put("a", "").matching("{revision}").id("{one}")).await?;
    running(scene).await?;
    // Staging is nobody's business.
    scene.play(&list("").status(&[200]).json("/entries/0/name", "a").check(Check::Absent("/entries/1"))).await?;
    let broken = sender.unbounded_send(Err(std::io::ErrorKind::BrokenPipe.into()));
    broken.map_err(|_| "the node ended the upload")?;
    // The client's own error.
    let _ = reply.await;
    scene.play(&settled("EINVAL")).await?;
    unchanged(scene).await
}

async fn cancelled_upload(scene: &mut Scene<'_>) -> Result<(), String> {
    scene.play(&put("a", "old").create().committed().keep("revision", "/result/revision")).await?;
    let (sender, reply) = open_upload(scene, &put("a", "").matching("{revision}").id("{one}")).await?;
    running(scene).await?;
    scene.play(&super::receipts::cancel("{one}").status(&[200])).await?;
    scene.play(&settled("ECANCELLED")).await?;
    drop(sender);
    // Its reply, when it came before the connection ended, says the same.
    if let Ok(Ok(reply)) = reply.await
        && (reply.status != 408 || reply.json["outcome"] != "not-committed")
    {
        return Err(format!("expected 408 not-committed, got {}", reply.shown()));
    }
    unchanged(scene).await
}

async fn slow_upload(scene: &mut Scene<'_>) -> Result<(), String> {
    scene.play(&put("a", "old").create().committed().keep("revision", "/result/revision")).await?;
    let step = put("a", "").matching("{revision}").id("{one}").header("x-timeout-ms", "300");
    let (sender, reply) = open_upload(scene, &step).await?;
    let reply = tokio::time::timeout(Duration::from_secs(10), reply).await;
    let reply = reply.map_err(|_| "no reply 10 s after the deadline")?;
    drop(sender);
    // The connection may break with the reply, because the body was not taken to its end.
    if let Ok(Ok(reply)) = reply
        && (reply.status != 504 || reply.json["code"] != "ETIMEDOUT")
    {
        return Err(format!("expected 504 ETIMEDOUT, got {}", reply.shown()));
    }
    scene
        .play(&super::receipts::query("{one}").while_value("/state", "running").json("/outcome", "not-committed"))
        .await?;
    unchanged(scene).await
}

/// The operation `{one}` ended without effect.
fn settled(code: &'static str) -> Step {
    super::receipts::query("{one}")
        .while_value("/state", "running")
        .json("/outcome", "not-committed")
        .json("/code", code)
}
