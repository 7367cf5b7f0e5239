//! Copies that broke, or were killed, are taken up again.

use std::fs;
use std::path::PathBuf;

use cells_testkit::fault_proxy::{Fault, Plan, Rule};
use rustix::process::Signal;

use crate::stage::{Stage, content, tree};

const CONTENT: &str = "/v1/fs/notes/content";
const LONG: u64 = 600_000;

fn part(stage: &Stage, folder: &str) -> PathBuf {
    let mut paths = fs::read_dir(stage.path(folder)).unwrap().map(|entry| entry.unwrap().path());
    paths.find(|path| path.to_string_lossy().ends_with(".cells-part")).unwrap()
}

#[tokio::test]
async fn a_download_that_was_cut_goes_on_where_it_was() {
    let stage = Stage::new().await;
    let content = content(4_000_000);
    let name = "x".repeat(255);
    stage.write(&name, &content);
    let cut = |at| Rule::path(CONTENT, Fault::Truncate { at });
    stage.proxy.set_plan(Plan::new([cut(1_000_000).first(1), cut(0)]));
    let remote = format!("notes/{name}");
    let ran = stage.run(&["get", &remote]).await;
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let part = part(&stage, "");
    let kept = part.metadata().unwrap().len();
    assert!(kept > 0 && kept < 4_000_000, "{kept}");
    stage.proxy.set_plan(Plan::new([]));
    stage.check(&[(&["get", &remote], 0, "./*: 4000000 bytes written\n", "")]).await;
    assert!(fs::read(stage.path(&name)).unwrap() == content);
    assert!(!part.exists());
}

#[tokio::test]
async fn a_download_that_was_killed_goes_on_where_it_was() {
    let stage = Stage::new().await;
    let large = content(4_000_000);
    stage.write("dir/a", "first");
    stage.write("dir/large", &large);
    let of_large = |fault| Rule { method: Some("GET".to_owned()), ..Rule::path(CONTENT, fault) };
    stage.proxy.set_plan(Plan::new([
        of_large(Fault::Truncate { at: 1_000_000 }).first(2),
        of_large(Fault::DelayReply { ms: LONG }),
    ]));
    let started = stage.start(&["get", "-r", "notes/dir", "down"]);
    // The small file, the large one, and its rest, which does not come.
    stage.sees("GET /v1/fs/notes/content", 3).await;
    started.signal(Signal::KILL);
    started.finish().await;
    assert_eq!(part(&stage, "down").metadata().unwrap().len(), 1_000_000);
    assert!(!stage.path("down/large").exists());

    // Meets only a reply with more than the rest.
    stage.proxy.reset_counts();
    stage.proxy.set_plan(Plan::new([of_large(Fault::Corrupt { at: 3_000_000, xor: 255 })]));
    let told = "1 files written (4000000 bytes), 1 were here already\n";
    stage.check(&[(&["get", "-r", "notes/dir", "down"], 0, told, "")]).await;
    let counts = stage.proxy.counts();
    assert_eq!((counts.paths["GET /v1/fs/notes/content"], counts.faults), (1, 0));
    assert!(tree(&stage.path("down")) == tree(&stage.path("notes/dir")));
}

#[tokio::test]
async fn what_was_kept_of_another_version_is_not_used() {
    let stage = Stage::new().await;
    stage.write("large", content(4_000_000));
    stage.proxy.set_plan(Plan::new([
        Rule::path(CONTENT, Fault::Truncate { at: 1_000_000 }).first(1),
        Rule::path(CONTENT, Fault::DelayReply { ms: LONG }),
    ]));
    let started = stage.start(&["get", "notes/large", "large"]);
    stage.sees("GET /v1/fs/notes/content", 2).await;
    started.signal(Signal::KILL);
    started.finish().await;
    stage.proxy.set_plan(Plan::default());
    let other: Vec<u8> = content(4_000_000).into_iter().rev().collect();
    stage.write("large", &other);
    stage.check(&[(&["get", "notes/large", "large"], 0, "large: 4000000 bytes written\n", "")]).await;
    assert!(fs::read(stage.path("large")).unwrap() == other);
}

#[tokio::test]
async fn only_one_get_writes_a_file() {
    let stage = Stage::new().await;
    stage.write("large", content(4_000_000));
    stage.proxy.set_plan(Plan::new([Rule::path(CONTENT, Fault::DelayReply { ms: LONG }).first(1)]));
    let started = stage.start(&["get", "notes/large", "large"]);
    stage.sees("GET /v1/fs/notes/content", 1).await;
    let told = "cells: .large.*.cells-part: another `cells get` is writing it\n";
    stage.check(&[(&["get", "notes/large", "large"], 1, "", told)]).await;
    started.signal(Signal::INT);
    started.finish().await.check("an interrupted download", 130, "", "");
    stage.check(&[(&["get", "notes/large", "large"], 0, "large: 4000000 bytes written\n", "")]).await;
}

#[tokio::test]
async fn an_upload_that_was_killed_is_repeated_by_the_same_command() {
    let stage = Stage::new().await;
    fs::create_dir(stage.path("local")).unwrap();
    for at in 0..40 {
        fs::write(stage.path("local").join(format!("{at:02}")), content(at * 1000)).unwrap();
    }
    let held = Rule { method: Some("PUT".to_owned()), ..Rule::any(Fault::DelayRequest { ms: LONG }) };
    stage.proxy.set_plan(Plan::new([held.nth(10)]));
    let started = stage.start(&["put", "-r", "local", "notes/up"]);
    stage.sees("PUT /v1/fs/notes/content", 20).await;
    started.signal(Signal::KILL);
    started.finish().await;
    stage.proxy.set_plan(Plan::default());
    stage.proxy.reset_counts();
    let ran = stage.run(&["put", "-r", "local", "notes/up"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(stage.proxy.counts().paths["PUT /v1/fs/notes/content"] < 40, "what is there is not sent again");
    // A write that was under way may have left its staging file, which the node hides and removes.
    let there = || {
        let mut tree = tree(&stage.path("notes/up"));
        tree.retain(|name, _| !name.starts_with(".itookit-upload-"));
        tree
    };
    assert!(tree(&stage.path("local")) == there());
    let told = "0 files written (0 bytes), 40 were there already\n";
    stage.check(&[(&["put", "-r", "local", "notes/up"], 0, told, "")]).await;
}
