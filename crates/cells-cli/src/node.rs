//! Which node a verb talks to, and as whom.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cells_native::cells_driver::{
    Cancellation, Client, ClientConfig, Connection, Epoch, Error, HarnessClient, NativeId, OperationId,
    OperationOptions, OutputRef, Profile, ProfileId, Recovery, RequestId, Secret,
};
use clap::Args;

use crate::failure::{Exit, Failure};

/// The options that all client verbs have.
#[derive(Debug, Args)]
#[command(next_help_heading = "Node")]
pub(crate) struct NodeArgs {
    /// Address of the node: its root, or its MCP URL
    #[arg(long, value_name = "URL", env = "CELLS_URL", hide_env_values = true, default_value = DEFAULT_URL)]
    url: String,
    /// Read the API key (or the password) from FILE; else it is taken from CELLS_API_KEY
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// User name, for a node that wants a password
    #[arg(long, value_name = "NAME", env = "CELLS_USERNAME", hide_env_values = true)]
    username: Option<String>,
    /// Send no credential
    #[arg(long, conflicts_with = "api_key_file")]
    anonymous: bool,
    /// How long one call may take
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Print JSON for programs
    #[arg(long)]
    pub(crate) json: bool,
}

/// A node that a verb can talk to.
pub(crate) struct Node {
    /// The driver.
    pub(crate) client: Client,
    /// How the node is reached.
    pub(crate) connection: Connection,
    timeout_ms: u64,
    /// Ends its calls.
    cancel: Option<Cancellation>,
    /// The options that lead a later command to the same node.
    options: String,
}

impl NodeArgs {
    /// A client of the node. Asks nothing.
    ///
    /// # Errors
    /// Without a credential, and for an address or a user name that cannot be one.
    pub(crate) fn connect(&self) -> Result<Node, Failure> {
        let config = ClientConfig {
            client_name: "cells".to_owned(),
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..ClientConfig::default()
        };
        let client = cells_native::spawn(config)?;
        let connection = if self.anonymous {
            Connection::anonymous(&self.url)
        } else {
            client.set_credential(CREDENTIAL, Secret::new(self.secret()?));
            Connection { username: self.username.clone(), ..Connection::new(&self.url, CREDENTIAL) }
        };
        let invalid = |what: &str| {
            let what = what.to_owned();
            move |error: Error| Failure::usage(format!("{what}: {}", error.message()))
        };
        client.harness(&Connection::anonymous(&self.url)).map_err(invalid("--url or CELLS_URL"))?;
        client.harness(&connection).map_err(invalid("--username or CELLS_USERNAME"))?;
        let timeout_ms = self.timeout.saturating_mul(1000);
        Ok(Node { client, connection, timeout_ms, cancel: None, options: self.options() })
    }

    fn secret(&self) -> Result<String, Failure> {
        if let Some(path) = &self.api_key_file {
            return read_secret(path);
        }
        match std::env::var("CELLS_API_KEY") {
            Ok(secret) if !secret.is_empty() => Ok(secret),
            Err(std::env::VarError::NotUnicode(_)) => Err(Failure::usage("CELLS_API_KEY is not text")),
            Ok(_) | Err(std::env::VarError::NotPresent) => Err(Failure::usage(
                "no API key: set CELLS_API_KEY, name a file with --api-key-file, or go without one with --anonymous",
            )),
        }
    }

    fn options(&self) -> String {
        let mut options = String::new();
        let mut add = |name: &str, value: &str| options.push_str(&format!(" {name} {}", quoted(value)));
        if self.url != DEFAULT_URL {
            add("--url", &self.url);
        }
        if let Some(path) = &self.api_key_file {
            add("--api-key-file", &path.to_string_lossy());
        }
        match &self.username {
            _ if self.anonymous => options.push_str(" --anonymous"),
            Some(username) => add("--username", username),
            None => {}
        }
        options
    }
}

impl Node {
    /// The same node, of which the calls end with `cancel`.
    pub(crate) fn cancelled_by(self, cancel: Cancellation) -> Self {
        Self { cancel: Some(cancel), ..self }
    }

    /// Options of one call.
    pub(crate) fn options(&self) -> OperationOptions {
        OperationOptions { timeout_ms: Some(self.timeout_ms), cancel: self.cancel.clone() }
    }

    /// How long one call may take.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// Waits for `work` as long as for one call; `what` is what is waited for.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = T>, what: &str) -> Result<T, Failure> {
        let limit = self.timeout();
        let late = |_| Failure::new(Exit::Failed, format!("{what} is not there after {} s", limit.as_secs()));
        tokio::time::timeout(limit, work).await.map_err(late)
    }

    /// A client of the node's agents.
    pub(crate) fn harness(&self) -> Result<HarnessClient, Failure> {
        Ok(self.client.harness(&self.connection)?)
    }

    /// The profile that was asked for, or the only one.
    ///
    /// # Errors
    /// When it does not exist, or when there are several and none was asked for; the line names them.
    pub(crate) async fn profile(
        &self,
        harness: &HarnessClient,
        wanted: Option<&ProfileId>,
    ) -> Result<Profile, Failure> {
        let mut profiles = harness.profiles(self.options()).await?.profiles;
        let names: Vec<String> = profiles.iter().map(|profile| profile.id.to_string()).collect();
        let position = wanted.and_then(|wanted| profiles.iter().position(|profile| profile.id == *wanted));
        match (wanted, position, names.as_slice()) {
            (_, Some(position), _) => Ok(profiles.swap_remove(position)),
            (_, None, []) => Err(Failure::new(Exit::NotFound, "the node has no agent profile")),
            (None, None, [_]) => Ok(profiles.swap_remove(0)),
            (None, None, names) => Err(Failure::usage(format!(
                "the node has the profiles {}; choose one with --profile",
                names.join(", ")
            ))),
            (Some(wanted), None, names) => Err(Failure::new(
                Exit::NotFound,
                format!("the node has no profile {wanted}; it has {}", names.join(", ")),
            )),
        }
    }

    /// The command that asks how a mutation ended.
    pub(crate) fn receipt_command(&self, recovery: &Recovery) -> String {
        self.command("receipt", &recovery.epoch, &recovery.request_id, &recovery.profile_id)
    }

    /// The command that gives the whole output behind `reference`.
    pub(crate) fn output_command(&self, reference: &OutputRef, profile_id: &ProfileId) -> String {
        self.command("output", &reference.epoch, &reference.request_id, profile_id)
    }

    /// The command that asks how a write in the export `alias` ended.
    pub(crate) fn operation_commands(&self, alias: &str) -> impl Fn(&OperationId) -> String + Clone + Send + use<> {
        let (start, options) = (format!("cells op wait {alias}"), self.options.clone());
        move |id| format!("{start} {}{options}", quoted(id.as_str()))
    }

    fn command(&self, verb: &str, epoch: &Epoch, request_id: &RequestId, profile_id: &ProfileId) -> String {
        format!("cells {verb} {epoch} {} --profile {profile_id}{}", quoted(request_id.as_str()), self.options)
    }
}

/// The names of one mutation, as `send` prints them.
#[derive(Debug, Args)]
pub(crate) struct RecoveryArgs {
    /// Epoch of the mutation
    #[arg(value_parser = |text: &str| Epoch::new(text))]
    pub(crate) epoch: Epoch,
    /// Request id of the mutation
    #[arg(value_name = "ID", value_parser = |text: &str| RequestId::new(text))]
    pub(crate) request_id: RequestId,
    #[command(flatten)]
    profile: ProfileArgs,
}

impl RecoveryArgs {
    /// What the driver needs to ask for the receipt.
    pub(crate) async fn recovery(self, node: &Node, harness: &HarnessClient) -> Result<Recovery, Failure> {
        // A profile that was named may be gone; its receipts are not.
        let profile_id = match self.profile.profile {
            Some(profile_id) => profile_id,
            None => node.profile(harness, None).await?.id,
        };
        Ok(Recovery { profile_id, epoch: self.epoch, request_id: self.request_id, scope: None })
    }
}

/// Which agent.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// Profile of the agent [default: the only one]
    #[arg(long, value_name = "NAME", value_parser = |text: &str| ProfileId::new(text))]
    pub(crate) profile: Option<ProfileId>,
}

/// Which session.
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// The session
    #[arg(value_name = "SESSION", value_parser = |text: &str| NativeId::new(text))]
    pub(crate) session_id: NativeId,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// A session, and the way to it.
pub(crate) struct SessionAt {
    /// The node.
    pub(crate) node: Node,
    /// Its agents.
    pub(crate) harness: HarnessClient,
    /// The agent of the session.
    pub(crate) profile_id: ProfileId,
    /// The session.
    pub(crate) session_id: NativeId,
}

impl SessionArgs {
    /// Finds the agent. Whether the session exists is not asked.
    ///
    /// # Errors
    /// As [`NodeArgs::connect`] and [`Node::profile`].
    pub(crate) async fn find(&self) -> Result<SessionAt, Failure> {
        let node = self.node.connect()?;
        let harness = node.harness()?;
        let profile_id = node.profile(&harness, self.profile.profile.as_ref()).await?.id;
        Ok(SessionAt { node, harness, profile_id, session_id: self.session_id.clone() })
    }
}

fn read_secret(path: &Path) -> Result<String, Failure> {
    let name = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::usage(format!("--api-key-file {name}: {error}")))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(Failure::usage(format!("--api-key-file {name} is empty"))),
        secret if secret.contains(['\r', '\n']) => {
            Err(Failure::usage(format!("--api-key-file {name} has more than one line")))
        }
        secret => Ok(secret.to_owned()),
    }
}

/// `word` as one word of a shell.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+,=[]".contains(&byte);
    if !word.is_empty() && !word.starts_with('-') && word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Where `cells serve` listens unless it is told otherwise.
const DEFAULT_URL: &str = "http://127.0.0.1:4477";
/// Name of the only secret.
const CREDENTIAL: &str = "cells";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell_are_quoted_when_they_must_be() {
        for (word, expected) in [
            ("http://127.0.0.1:4477/mcp", "http://127.0.0.1:4477/mcp"),
            ("my key", "'my key'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("$HOME", "'$HOME'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
