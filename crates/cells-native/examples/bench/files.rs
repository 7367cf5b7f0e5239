//! Measurements of files: lookups, listings, uploads, opened sources.

use std::{fs, time::Instant};

use anyhow::{Context as _, ensure};
use cells_driver::{FileClient, FileConnection, FileMutationOptions, OperationOptions, ReplaceCondition};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::{Bench, compare, median};

impl Bench {
    fn export(&self) -> FileConnection {
        FileConnection::new(self.connection(self.node.endpoint()), "export")
    }

    /// 2,000 paths asked for at once, against one request for each.
    pub(crate) async fn stat_unbatched(&self) -> anyhow::Result<Value> {
        let files = self.client.files(&self.export())?;
        let paths: Vec<String> = (0..2_000).map(|number| format!("tree/file-{number:04}.txt")).collect();
        let ours = || async {
            let answers: Vec<_> = paths.iter().map(|path| files.stat(path, OperationOptions::default())).collect();
            let mut found = 0;
            for answer in join_all(answers).await {
                found += u64::from(answer?.is_some());
            }
            Ok(found)
        };
        let (value, peer_value) = compare(ours, || self.raw.stat_each(&paths)).await?;
        Ok(json!({
            "name": "stat_batch_native_vs_unbatched", "value": value, "unit": "ms",
            "peer": "one reqwest call a path, 64 at a time", "peer_value": peer_value, "aim": 0.3,
        }))
    }

    /// How long an entry takes in a large directory, against a small one.
    pub(crate) async fn list_growth(&self) -> anyhow::Result<Value> {
        let files = self.client.files(&self.export())?;
        let (large, small) =
            (list(&files, "many-100000", 100_000, 3).await?, list(&files, "many-1000", 1_000, 15).await?);
        Ok(json!({
            "name": "list_100k_entries_native", "value": large, "unit": "µs an entry",
            "peer": "a directory of 1,000", "peer_value": small, "aim": 1.5,
        }))
    }

    /// One upload of 256 MiB, streamed from the same file by both.
    pub(crate) async fn put(&self) -> anyhow::Result<Value> {
        let storage = self.client.file_storage(&self.export(), OperationOptions::default()).await?;
        let writes = storage.mutations().context("the export takes no writes")?;
        let large = self.folder.join("export/large.bin");
        let ours = || async {
            let upload = cells_native::upload_file(&large).await?;
            let options = FileMutationOptions::default();
            let put = writes.replace("put-ours.bin", upload, ReplaceCondition::CreateOnly, options).await?;
            writes.remove("put-ours.bin", FileMutationOptions::default()).await?;
            put.value.size.context("the node names no size")
        };
        let (value, peer_value) = compare(ours, || self.raw.put("put-raw.bin", &large)).await?;
        Ok(json!({
            "name": "put_native_vs_reqwest", "value": value, "unit": "ms", "peer": "reqwest",
            "peer_value": peer_value, "aim": 1.1,
        }))
    }

    /// Memory of this process after 10,000 sources were opened and released, against 1,000.
    pub(crate) async fn source_memory(&self) -> anyhow::Result<Value> {
        let mut resident = Vec::new();
        for opened in [1_000, 9_000] {
            for _ in 0..opened {
                self.client.open(&self.export(), OperationOptions::default()).await?.dispose();
            }
            resident.push(resident_mib()?);
        }
        Ok(json!({
            "name": "open_release_10k_sources", "value": resident[1], "unit": "MiB resident",
            "peer": "after 1,000", "peer_value": resident[0], "aim": 1.05,
        }))
    }
}

/// Median time for one entry, in microseconds.
async fn list(files: &FileClient, path: &str, entries: usize, rounds: usize) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let (started, mut listed, mut cursor) = (Instant::now(), 0, None);
        loop {
            let page = files.list(path, cursor.as_deref(), OperationOptions::default()).await?;
            listed += page.entries.len();
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        ensure!(listed == entries, "{listed} of {entries} entries");
        times.push(started.elapsed());
    }
    Ok(median(times) * 1_000.0 / entries as f64)
}

fn resident_mib() -> anyhow::Result<f64> {
    let status = fs::read_to_string("/proc/self/status").context("the memory of this process")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("the system names no memory")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().context("the memory of this process")?;
    Ok(kib / 1_024.0)
}
