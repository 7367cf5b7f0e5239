//! A node as a process of its own, which a test can kill.

use std::{
    ffi::OsString,
    io,
    net::SocketAddr,
    path::PathBuf,
    process::{ExitStatus, Stdio},
};

use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// How to start `cells serve`.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The program `cells`.
    pub program: PathBuf,
    /// Each as after `--export`: `NAME=PATH` or `NAME=PATH:rw`.
    pub exports: Vec<OsString>,
    /// Identity, receipts and agent history; a second start with the same folder is a restart of the same node.
    pub state: PathBuf,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The API key, at least 24 bytes.
    pub api_key: String,
}

/// A running node. Dropping it kills the process.
#[derive(Debug)]
pub struct LocalNode {
    child: Child,
    announced: Announced,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Announced {
    endpoint: String,
    mcp_url: String,
    server_id: String,
}

impl LocalNode {
    /// Starts the node and waits until it is ready.
    ///
    /// # Errors
    /// When the program cannot be started, or ends or speaks otherwise than a node before it is ready. Its own words
    /// are on standard error.
    pub async fn start(options: &NodeOptions) -> io::Result<LocalNode> {
        LocalNode::start_with(options, &[]).await
    }

    /// [`LocalNode::start`] with more arguments for `cells serve`.
    ///
    /// # Errors
    /// As [`LocalNode::start`].
    pub async fn start_with(options: &NodeOptions, arguments: &[&str]) -> io::Result<LocalNode> {
        let mut command = Command::new(&options.program);
        command.arg("serve").arg("--state").arg(&options.state).args(["--listen", &options.listen.to_string()]);
        command.args(["--log-level", "error"]).args(arguments);
        for export in &options.exports {
            command.arg("--export").arg(export);
        }
        let mut child = command
            .env("CELLS_API_KEY", &options.api_key)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).await?;
        let announced = serde_json::from_str(&line)
            .map_err(|error| io::Error::other(format!("`cells serve` did not announce itself: {error}")))?;
        Ok(LocalNode { child, announced })
    }

    /// Its address, such as `http://127.0.0.1:4477`.
    pub fn endpoint(&self) -> &str {
        &self.announced.endpoint
    }

    /// [`LocalNode::endpoint`] as a socket address.
    ///
    /// # Errors
    /// When it is not an address of this machine.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let host = self.endpoint().split("://").nth(1).unwrap_or_default();
        host.parse().map_err(|_| io::Error::other("the node listens on no plain address"))
    }

    /// Its MCP endpoint.
    pub fn mcp_url(&self) -> &str {
        &self.announced.mcp_url
    }

    /// Its installation id.
    pub fn server_id(&self) -> &str {
        &self.announced.server_id
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// When the process is not this one's to wait for.
    pub async fn ended(mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Ends it at once, as a power cut would, and waits until it is gone.
    ///
    /// # Errors
    /// When the process is not this one's to kill.
    pub async fn kill(mut self) -> io::Result<ExitStatus> {
        self.child.start_kill()?;
        self.child.wait().await
    }
}
