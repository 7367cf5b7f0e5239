//! Measures the native driver against what a program without it would do; `cargo xtask bench` runs it.
//!
//! ```text
//! bench CELLS FOLDER REPORT    CELLS: the program; FOLDER: has `export`, gets `native-state`
//! ```

mod files;
mod raw;

use std::{
    ffi::OsString,
    fs,
    future::Future,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use cells_driver::{
    Client, ClientConfig, CommandName, Connection, FileConnection, MutationOptions, NativeId, OperationOptions,
    OutputLoadOptions, OutputRef, ProfileId, ReadOptions, Secret,
};
use cells_testkit::{
    fault_proxy::FaultProxy,
    local_node::{LocalNode, NodeOptions},
};
use futures::future::join_all;
use serde_json::{Value, json};

use raw::Raw;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [cells, folder, report] = arguments.as_slice() else {
        anyhow::bail!("see the first lines of this program for its arguments");
    };
    let bench = Bench::start(Path::new(cells), Path::new(folder)).await?;
    let rows = vec![
        // First, while this process is small.
        bench.source_memory().await?,
        bench.stat_batch().await?,
        bench.stat_unbatched().await?,
        bench.list_growth().await?,
        bench.content_read().await?,
        bench.put().await?,
        bench.command_output().await?,
    ];
    fs::write(report, serde_json::to_vec(&rows)?).context("cannot write the report")
}

struct Bench {
    node: LocalNode,
    client: Client,
    raw: Raw,
    folder: PathBuf,
}

impl Bench {
    async fn start(cells: &Path, folder: &Path) -> anyhow::Result<Bench> {
        let api_key = "the-key-of-a-node-that-lives-for-one-bench".to_owned();
        let mut export = OsString::from("export=");
        export.push(folder.join("export"));
        export.push(":rw");
        let options = NodeOptions {
            program: cells.to_owned(),
            exports: vec![export],
            state: folder.join("native-state"),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            api_key: api_key.clone(),
        };
        let node = LocalNode::start(&options).await?;
        let raw = Raw::new(&node, &api_key)?;
        let client = cells_native::spawn(ClientConfig::default())?;
        client.set_credential("bench", Secret::new(api_key));
        Ok(Bench { node, client, raw, folder: folder.to_owned() })
    }

    fn connection(&self, endpoint: &str) -> Connection {
        Connection::new(endpoint, "bench")
    }

    /// How many HTTP requests 10,000 stats over 2,000 distinct paths take.
    async fn stat_batch(&self) -> anyhow::Result<Value> {
        let proxy = FaultProxy::start(self.node.address()?).await?;
        let files = self.client.files(&FileConnection::new(self.connection(&proxy.url()), "export"))?;
        let answers: Vec<_> = (0..10_000)
            .map(|number| files.stat(&format!("tree/file-{:04}.txt", number % 2_000), OperationOptions::default()))
            .collect();
        for answer in join_all(answers).await {
            ensure!(answer?.is_some(), "a file of the bench is missing");
        }
        Ok(json!({
            "name": "stat_batch_requests", "value": proxy.counts().requests, "unit": "requests", "aim": 8,
        }))
    }

    async fn content_read(&self) -> anyhow::Result<Value> {
        let files = self.client.files(&FileConnection::new(self.connection(self.node.endpoint()), "export"))?;
        let ours = || async {
            let mut stream = files.read_stream("large.bin", ReadOptions::default()).await?;
            let mut bytes = 0;
            while let Some(piece) = stream.next().await? {
                bytes += piece.len() as u64;
            }
            Ok(bytes)
        };
        let (value, peer_value) = compare(ours, || self.raw.content("large.bin")).await?;
        Ok(json!({
            "name": "content_read_native_vs_reqwest", "value": value, "unit": "ms", "peer": "reqwest",
            "peer_value": peer_value, "aim": 1.05,
        }))
    }

    async fn command_output(&self) -> anyhow::Result<Value> {
        let (profile, reference) = self.output().await?;
        let harness = self.client.harness(&self.connection(self.node.endpoint()))?;
        let ours = || async {
            let options = OutputLoadOptions { max_bytes: reference.bytes, ..OutputLoadOptions::default() };
            Ok(harness.load_command_output(&profile, &reference, options).await?.len() as u64)
        };
        let (value, peer_value) = compare(ours, || self.raw.output(&profile, &reference)).await?;
        Ok(json!({
            "name": "command_output_native_vs_raw", "value": value, "unit": "ms",
            "peer": "sequential reqwest calls, unchecked", "peer_value": peer_value, "aim": 1.3,
        }))
    }

    /// The output of a command, as large as it may be.
    async fn output(&self) -> anyhow::Result<(ProfileId, OutputRef)> {
        let harness = self.client.harness(&self.connection(self.node.endpoint()))?;
        let profiles = harness.profiles(OperationOptions::default()).await?.profiles;
        let profile = profiles.first().context("the node has no agent")?;
        let workspace = profile.workspaces.first().context("the agent has no workspace")?;
        let session: NativeId =
            harness.create(&profile.id, &workspace.id, MutationOptions::default()).await?.value.session.id;
        let (name, arguments) = (CommandName::new("output")?, format!("{OUTPUT_BYTES} bench"));
        let done = harness.command(&profile.id, &session, &name, &arguments, MutationOptions::default()).await?;
        Ok((profile.id.clone(), done.value.output_ref.context("the output is not kept behind a reference")?))
    }
}

/// Median times in milliseconds of both, run in turns; both must move the same number of bytes.
async fn compare<A, B>(ours: impl Fn() -> A, peer: impl Fn() -> B) -> anyhow::Result<(f64, f64)>
where
    A: Future<Output = anyhow::Result<u64>>,
    B: Future<Output = anyhow::Result<u64>>,
{
    let (mut our_times, mut peer_times) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (our_time, our_bytes) = timed(ours()).await?;
        let (peer_time, peer_bytes) = timed(peer()).await?;
        ensure!(our_bytes == peer_bytes, "{our_bytes} bytes here, {peer_bytes} at the peer");
        if round > 0 {
            our_times.push(our_time); // the first round warms caches and connections
            peer_times.push(peer_time);
        }
    }
    Ok((median(our_times), median(peer_times)))
}

async fn timed(run: impl Future<Output = anyhow::Result<u64>>) -> anyhow::Result<(Duration, u64)> {
    let started = Instant::now();
    let bytes = run.await?;
    Ok((started.elapsed(), bytes))
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1_000.0
}

const ROUNDS: usize = 7;
const OUTPUT_BYTES: u64 = 32 * 1024 * 1024;
