//! What a node serves and how: the options of `cells serve` and of its configuration file.

mod execution;
mod file;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use cells_protocol::capabilities::Access;
use cells_protocol::ids::{Alias, PrincipalId, ProfileId, ServerId, WorkspaceId};
use cells_protocol::limits::ID_MAX_BYTES;

pub use crate::files::steps::FaultPoint;
use crate::{Secret, ServeError};

pub use self::execution::Execution;

/// Everything that can be set of a node. Flags of `cells serve` win over the file.
///
/// ```no_run
/// # async fn example() -> Result<(), cells_server::ServeError> {
/// use cells_server::{Node, ServeConfig};
///
/// let config = ServeConfig { exports: vec!["notes=/home/me/notes:rw".parse()?], ..ServeConfig::default() };
/// let node = Node::bind(config).await?;
/// println!("{}", node.endpoint());
/// node.run(std::future::pending()).await
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// Address and port; port 0 takes a free one. Default [`DEFAULT_LISTEN`].
    pub listen: SocketAddr,
    /// Where the node keeps its identity, receipts and agent history. Default: `cells` in the user's state directory.
    pub state: Option<PathBuf>,
    /// Identity of the installation. Default: made at the first start and kept in the state directory.
    pub server_id: Option<ServerId>,
    /// How the owner, who may do everything, is recognised.
    pub credential: Credential,
    /// Replace the API key of the state directory by a new one.
    pub new_key: bool,
    /// Web origins that may call, compared exactly; `*` allows every origin. Default: none.
    pub allowed_origins: Vec<String>,
    /// The directories that are served.
    pub exports: Vec<ExportConfig>,
    /// Other callers, who may do what is granted to them. Default: none.
    pub principals: Vec<PrincipalConfig>,
    /// The agents. Default: the built-in `scripted` agent with every export as a workspace.
    pub harnesses: Vec<HarnessConfig>,
    /// How processes run. Default: in a sandbox where one can be made, else on the machine itself.
    pub execution: Execution,
    /// Certificate and key of HTTPS. Default: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Allow plain HTTP on an address that other machines can reach.
    pub insecure_http: bool,
    /// Repeat the discovery document under `itookit/pi-agent` for older clients (`cells-0.4.md` §1.1).
    pub legacy_discovery: bool,
    /// How much a program should log. The node itself only emits `tracing` events.
    pub log_level: LogLevel,
    /// For tests of crashes: the node ends itself with SIGKILL at this point of the first write of a file. Default: never.
    pub fault_kill: Option<FaultPoint>,
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            listen: DEFAULT_LISTEN,
            state: None,
            server_id: None,
            credential: Credential::ApiKey(None),
            new_key: false,
            allowed_origins: Vec::new(),
            exports: Vec::new(),
            principals: Vec::new(),
            harnesses: Vec::new(),
            execution: Execution::Auto,
            tls: None,
            insecure_http: false,
            legacy_discovery: false,
            log_level: LogLevel::Info,
            fault_kill: None,
        }
    }
}

/// How a caller is recognised (`files-http.md` §1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// `Authorization: Bearer`. The key has at least 24 bytes. None, for the owner only: the key that the state directory
    /// knows, or a new one at the first start.
    ApiKey(Option<Secret>),
    /// As [`Credential::ApiKey`], with the SHA-256 of the key in 64 lowercase hex digits.
    ApiKeySha256(String),
    /// `Authorization: Basic`.
    Password {
        /// Not empty; no colon and no line break.
        username: String,
        /// At least 8 bytes.
        password: Secret,
    },
}

/// A directory that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportConfig {
    /// Its name in URLs.
    pub alias: Alias,
    /// The directory.
    pub path: PathBuf,
    /// Whether it may be changed.
    pub access: Access,
    /// Whether everyone may read it, without a credential (`cells-0.4.md` §1.5).
    pub public: bool,
}

/// Parses `NAME=PATH`, `NAME=PATH:ro` or `NAME=PATH:rw`. Any other colon belongs to the path.
impl FromStr for ExportConfig {
    type Err = ServeError;

    fn from_str(text: &str) -> Result<Self, ServeError> {
        let (alias, path) = text.split_once('=').ok_or_else(|| {
            ServeError::Config(format!("export `{text}`: write NAME=PATH, NAME=PATH:ro or NAME=PATH:rw"))
        })?;
        let (path, access) = match path.strip_suffix(":rw") {
            Some(path) => (path, Access::Rw),
            None => (path.strip_suffix(":ro").unwrap_or(path), Access::Ro),
        };
        if path.is_empty() {
            return Err(ServeError::Config(format!("export `{text}`: the directory is missing after `=`")));
        }
        Ok(Self { alias: parse_alias(alias)?, path: path.into(), access, public: false })
    }
}

fn parse_alias(alias: &str) -> Result<Alias, ServeError> {
    // An alias is also the id of a workspace, which has a bound.
    let parsed = Alias::new(alias).ok().filter(|_| alias.len() <= ID_MAX_BYTES);
    parsed.ok_or_else(|| {
        ServeError::Config(format!("export `{alias}`: the name must be 1 to 128 characters of A-Z, a-z, 0-9, _ and -"))
    })
}

/// A caller besides the owner (`cells-0.4.md` §1.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrincipalConfig {
    /// Its name, under which the node keeps its receipts; not `owner` and not `anonymous`.
    pub id: PrincipalId,
    /// How it is recognised; no two principals have the same key or user name.
    pub credential: Credential,
    /// The exports that exist for it, with at most the access they are served with.
    pub exports: BTreeMap<Alias, Access>,
    /// The agents that exist for it. They work with the rights of the node in all their workspaces.
    pub harnesses: Vec<ProfileId>,
    /// Whether it may start processes.
    pub process: bool,
}

/// A configured agent profile (`harness.md` §8.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HarnessConfig {
    /// Its name.
    pub id: ProfileId,
    /// The kind of agent.
    pub kind: String,
    /// Where the agent keeps its own files: an existing absolute directory. Default: below the state directory.
    pub home: Option<PathBuf>,
    /// Where its sessions work: names and existing absolute directories. Empty: every export is a workspace.
    pub workspaces: Vec<(WorkspaceId, PathBuf)>,
}

/// The two PEM files of HTTPS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by its chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What the node could not do.
    Error,
    /// And every request that was refused.
    Warn,
    /// And start and stop.
    #[default]
    Info,
    /// And every request.
    Debug,
    /// And what the libraries say.
    Trace,
}

impl LogLevel {
    /// Every level, the quietest first.
    pub const ALL: [Self; 6] = [Self::Off, Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// The word in flags and in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl FromStr for LogLevel {
    type Err = ServeError;

    fn from_str(text: &str) -> Result<Self, ServeError> {
        let level = Self::ALL.into_iter().find(|level| level.as_str() == text);
        level.ok_or_else(|| {
            ServeError::Config(format!("log level `{text}`: write off, error, warn, info, debug or trace"))
        })
    }
}

/// The address of a node that was told none.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4477);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_trailing_access_word_is_cut_from_the_path_of_an_export() {
        for (text, expected) in [
            ("a=/x", Some(("a", "/x", Access::Ro))),
            ("a=/x:ro", Some(("a", "/x", Access::Ro))),
            ("a=/x:rw", Some(("a", "/x", Access::Rw))),
            ("a=/x:y", Some(("a", "/x:y", Access::Ro))),
            ("a=/x:ro:rw", Some(("a", "/x:ro", Access::Rw))),
            ("a=/x=y:rw", Some(("a", "/x=y", Access::Rw))),
            ("a=rel", Some(("a", "rel", Access::Ro))),
            ("a", None),
            ("a=", None),
            ("a=:rw", None),
            ("=x", None),
            ("a b=/x", None),
            ("a/b=/x", None),
        ] {
            let parsed = text.parse::<ExportConfig>().ok();
            let parsed = parsed.as_ref().map(|e| (e.alias.as_str(), e.path.to_str().unwrap(), e.access));
            assert_eq!(parsed, expected, "{text}");
        }
    }
}
