//! The steps that see files.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
};

use anyhow::{Context as _, bail, ensure};
use cells_driver::{Connection, DiscoverOptions, ErrorKind, OperationOptions, ReadOptions, Secret};
use futures::future::join_all;
use sha2::{Digest as _, Sha256};

use crate::{expect_equal, stage::Stage};

pub(crate) async fn discover(stage: &Stage) -> anyhow::Result<String> {
    let found = stage.client.discover(&stage.connection, DiscoverOptions::default()).await?.document;
    let server_id = found.server_id.context("no server id")?;
    expect_equal("server id", server_id.as_str(), stage.server_id()?)?;
    ensure!(found.harness, "no agents");
    ensure!(found.receipts.is_some_and(|receipts| receipts.durable), "receipts are not durable");
    ensure!(found.events.is_some(), "no event stream");
    let exports = stage.client.exports(&stage.connection, OperationOptions::default()).await?.exports;
    let names: Vec<&str> = exports.iter().map(|export| export.alias.as_str()).collect();
    expect_equal("exports", &names[..], &["repository", "scratch"])?;
    Ok(format!("node {server_id}, {}, exports {}", found.file_protocol, names.join(" and ")))
}

pub(crate) async fn stat_batch(stage: &Stage) -> anyhow::Result<String> {
    let files = stage.files("repository")?;
    let paths = real_paths(&stage.repository, DISTINCT_PATHS)?;
    let asked: Vec<&String> = paths.iter().cycle().take(STATS).collect();
    stage.count();
    // All are asked before the first answer is awaited: they share one tick.
    let answers: Vec<_> = asked.iter().map(|path| files.stat(path, OperationOptions::default())).collect();
    let answers = join_all(answers).await;
    for (path, answer) in asked.iter().zip(answers) {
        let stat = answer?.with_context(|| format!("{path} is missing"))?;
        let real = fs::symlink_metadata(stage.repository.join(path))?;
        ensure!(stat.kind.as_str() == if real.is_dir() { "directory" } else { "file" }, "{path} is a {:?}", stat.kind);
        ensure!(real.is_dir() || stat.size == Some(real.len()), "{path} has {:?} bytes, not {}", stat.size, real.len());
    }
    let counts = stage.counts();
    expect_equal("HTTP requests", &counts.paths, &[("POST /v1/fs/repository/stat".to_owned(), 1)].into())?;
    Ok(format!("{STATS} stats of {} distinct paths, {} HTTP request", paths.len(), counts.requests))
}

pub(crate) async fn list_pages(stage: &Stage) -> anyhow::Result<String> {
    let files = stage.files("scratch")?;
    let (mut names, mut pages, mut cursor) = (Vec::new(), 0, None::<String>);
    loop {
        let page = files.list(ENTRIES, cursor.as_deref(), OperationOptions::default()).await?;
        names.extend(page.entries.into_iter().map(|entry| entry.name));
        pages += 1;
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let real: BTreeSet<String> = fs::read_dir(stage.scratch.join(ENTRIES))?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, _>>()?;
    expect_equal("entries", names.len(), real.len())?;
    expect_equal("names", names.iter().cloned().collect(), real)?;
    ensure!(pages > 1, "all entries came on one page");
    Ok(format!("{} entries on {pages} pages", names.len()))
}

pub(crate) async fn read_range(stage: &Stage) -> anyhow::Result<String> {
    let (offset, length) = (12_345_678, 1_000_003);
    let options = ReadOptions { offset, length: Some(length), ..ReadOptions::default() };
    let read = stage.files("scratch")?.read(LARGE, options).await?;
    let mut real = vec![0; usize::try_from(length)?];
    let mut file = File::open(stage.scratch.join(LARGE))?;
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut real)?;
    ensure!(read.data[..] == real[..], "the bytes differ from the file");
    Ok(format!("{} bytes at offset {offset}, equal to the file", read.data.len()))
}

pub(crate) async fn read_verify(stage: &Stage) -> anyhow::Result<String> {
    let mut stream = stage.files("scratch")?.read_stream(LARGE, ReadOptions::default()).await?;
    let (mut digest, mut bytes, mut pieces) = (Sha256::new(), 0, 0);
    while let Some(piece) = stream.next().await? {
        bytes += piece.len();
        pieces += 1;
        digest.update(&piece);
    }
    let digest = hex(&digest.finalize());
    let mut real = Sha256::new();
    std::io::copy(&mut File::open(stage.scratch.join(LARGE))?, &mut DigestWriter(&mut real))?;
    expect_equal("SHA-256", &digest, &hex(&real.finalize()))?;
    Ok(format!("{bytes} bytes in {pieces} pieces, SHA-256 {}…", &digest[..16]))
}

pub(crate) async fn bad_credential(stage: &Stage) -> anyhow::Result<String> {
    let connection = Connection::new(stage.connection.endpoint.clone(), "wrong");
    stage.client.set_credential("wrong", Secret::new("this-is-not-the-key-of-the-node".to_owned()));
    stage.count();
    let refused = stage.client.exports(&connection, OperationOptions::default()).await;
    stage.client.clear_credential("wrong");
    match refused {
        Ok(_) => bail!("a wrong key was accepted"),
        Err(error) => {
            expect_equal("kind", error.kind(), ErrorKind::AccessDenied)?;
            expect_equal("requests", stage.counts().requests, 1).with_context(|| format!("{error}"))?;
            ensure!(!format!("{error} {error:?}").contains("not-the-key"), "the error shows the secret");
            Ok(error.to_string())
        }
    }
}

/// Files and folders of the repository, as paths of its export.
fn real_paths(root: &Path, wanted: usize) -> anyhow::Result<Vec<String>> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let name = entry.file_name();
            if kind.is_symlink() || ["target", "node_modules", ".git"].iter().any(|skipped| name == *skipped) {
                continue;
            }
            if let Some(path) = entry.path().strip_prefix(root)?.to_str() {
                found.insert(path.to_owned());
            }
            if kind.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    ensure!(found.len() >= wanted, "the repository has only {} files and folders", found.len());
    Ok(found.into_iter().take(wanted).collect())
}

struct DigestWriter<'a>(&'a mut Sha256);

impl std::io::Write for DigestWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const STATS: usize = 300;
const DISTINCT_PATHS: usize = 200;
const ENTRIES: &str = "entries";
const LARGE: &str = "large.bin";
