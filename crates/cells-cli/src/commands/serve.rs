use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use cells_server::{Credential, FaultPoint, LogLevel, Node, Secret, ServeConfig, ServeError, TlsFiles};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::EnvFilter;

use super::{block_on, fail};

/// Serve directories and agents of this machine.
///
/// Prints one JSON line with the addresses and the server id on standard output, and everything else on standard error.
/// The API key is made at the first start and printed once; CELLS_API_KEY (at least 24 bytes) sets it.
/// Flags win over the configuration file.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Serve the directory PATH as NAME; read-only unless `:rw` follows. Repeat for more. Replaces the file's exports
    #[arg(long = "export", value_name = "NAME=PATH[:rw]")]
    exports: Vec<String>,
    /// Where the node keeps identity, receipts and agent history [default: `cells` in your state directory]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Address to listen on; port 0 takes a free one [default: 127.0.0.1:4477]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// Allow a web origin, or every one with `*`. Repeat for more. Replaces the file's origins
    #[arg(long = "allow-origin", value_name = "URL")]
    allowed_origins: Vec<String>,
    /// Read settings from a TOML file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Replace the API key by a new one
    #[arg(long)]
    new_key: bool,
    /// Serve HTTPS with this PEM certificate (and its chain)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The PEM private key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Allow plain HTTP on an address that other machines can reach
    #[arg(long)]
    insecure_http: bool,
    /// How commands of clients run: sandbox (bubblewrap), host (all your rights), auto (sandbox where it works, else host) or
    /// off [default: auto]
    #[arg(long, value_name = "HOW")]
    execution: Option<String>,
    /// How much to log on standard error: off, error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// For tests of crashes: end with SIGKILL at this point of the first write of a file
    #[arg(long, value_name = "POINT", value_enum, hide = true)]
    fault_kill: Option<FaultKill>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum FaultKill {
    Before,
    During,
    After,
}

impl From<FaultKill> for FaultPoint {
    fn from(point: FaultKill) -> Self {
        match point {
            FaultKill::Before => Self::Before,
            FaultKill::During => Self::During,
            FaultKill::After => Self::After,
        }
    }
}

impl Serve {
    pub(crate) fn run(self) -> ExitCode {
        block_on(async {
            match self.serve().await {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => fail(error.exit_code(), &error.to_string()),
            }
        })
    }

    async fn serve(self) -> Result<(), ServeError> {
        let config = self.into_config()?;
        log_to_stderr(config.log_level);
        let mut interrupt = listen_for(SignalKind::interrupt())?;
        let mut terminate = listen_for(SignalKind::terminate())?;
        let node = Node::bind(config).await?;
        announce(&node)?;
        let shutdown = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        node.run(shutdown).await
    }

    fn into_config(self) -> Result<ServeConfig, ServeError> {
        let mut config = self.config.as_deref().map_or_else(|| Ok(ServeConfig::default()), ServeConfig::from_file)?;
        if !self.exports.is_empty() {
            config.exports = self.exports.iter().map(|export| export.parse()).collect::<Result<_, _>>()?;
        }
        if !self.allowed_origins.is_empty() {
            config.allowed_origins = self.allowed_origins;
        }
        if let (Some(cert), Some(key)) = (self.tls_cert, self.tls_key) {
            config.tls = Some(TlsFiles { cert, key });
        }
        config.state = self.state.or(config.state);
        config.fault_kill = self.fault_kill.map(FaultPoint::from);
        if let Some(listen) = self.listen {
            let wrong =
                |_| ServeError::Config(format!("address `{listen}`: write ADDR:PORT, for example 127.0.0.1:4477"));
            config.listen = listen.parse().map_err(wrong)?;
        }
        if let Some(level) = self.log_level {
            config.log_level = level.parse()?;
        }
        if let Some(execution) = self.execution {
            config.execution = execution.parse()?;
        }
        config.insecure_http |= self.insecure_http;
        config.new_key = self.new_key;
        config.credential = with_environment_key(config.credential)?;
        Ok(config)
    }
}

/// `CELLS_API_KEY` wins over the key of the file, and over the one that the state directory knows.
fn with_environment_key(credential: Credential) -> Result<Credential, ServeError> {
    let key = match std::env::var(API_KEY_VARIABLE) {
        Ok(key) => key,
        Err(std::env::VarError::NotPresent) => return Ok(credential),
        Err(std::env::VarError::NotUnicode(_)) => {
            return Err(ServeError::Config(format!("{API_KEY_VARIABLE} is not text")));
        }
    };
    match credential {
        Credential::ApiKey(_) | Credential::ApiKeySha256(_) => Ok(Credential::ApiKey(Some(Secret::new(key)))),
        Credential::Password { .. } => Err(ServeError::Config(format!(
            "{API_KEY_VARIABLE} is set, but the configuration has a user name and password; leave one of the two out"
        ))),
    }
}

/// Addresses for programs on standard output, the key for the person on standard error.
fn announce(node: &Node) -> Result<(), ServeError> {
    match node.api_key() {
        Some(key) => eprintln!("API key (shown only now): {key}"),
        None => tracing::info!(
            "the API key or password is the one that was given or set before; --new-key makes another key"
        ),
    }
    let line = serde_json::json!({
        "endpoint": node.endpoint(),
        "mcpUrl": node.mcp_url(),
        "serverId": node.server_id(),
    });
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| ServeError::Failed(format!("standard output: {error}")))
}

fn listen_for(kind: SignalKind) -> Result<tokio::signal::unix::Signal, ServeError> {
    signal(kind).map_err(|error| ServeError::Failed(format!("signals cannot be received: {error}")))
}

fn log_to_stderr(level: LogLevel) {
    // Below `warn`, libraries quote what they carry: prompts of people, paths of this machine.
    let libraries = match level {
        LogLevel::Off | LogLevel::Error => level,
        LogLevel::Warn | LogLevel::Info | LogLevel::Debug | LogLevel::Trace => LogLevel::Warn,
    };
    let (level, libraries) = (level.as_str(), libraries.as_str());
    // rmcp calls a client that left before its reply an error.
    let filter = EnvFilter::new(format!("{libraries},rmcp=off,cells={level},cells_server={level}"));
    let is_terminal = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(is_terminal).init();
}

const API_KEY_VARIABLE: &str = "CELLS_API_KEY";
