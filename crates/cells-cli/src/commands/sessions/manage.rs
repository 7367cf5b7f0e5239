//! What is done to whole sessions.

use cells_native::cells_driver::Session;
use clap::Args;
use serde_json::json;

use crate::commands::managed::mutate;
use crate::failure::{Exit, Failure};
use crate::node::SessionArgs;
use crate::output::{print, print_json};

/// Make a session with the history of another one; its id is printed.
#[derive(Debug, Args)]
pub(super) struct Fork {
    #[command(flatten)]
    pub(super) at: SessionArgs,
    /// Name of the new session, at most 256 characters [default: none]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Name a session.
#[derive(Debug, Args)]
pub(super) struct Rename {
    #[command(flatten)]
    pub(super) at: SessionArgs,
    /// The new name, at most 512 bytes
    #[arg(value_name = "NAME")]
    name: String,
}

/// Put a session and those it spawned into the archive. The node gives up its control of them.
#[derive(Debug, Args)]
pub(super) struct Archive {
    #[command(flatten)]
    pub(super) at: SessionArgs,
}

/// Take a session out of the archive.
#[derive(Debug, Args)]
pub(super) struct Unarchive {
    #[command(flatten)]
    pub(super) at: SessionArgs,
}

/// Remove a session and those it spawned for good; their ids are printed. Files in the workspace stay.
///
/// A session must be archived, or idle and controlled by the node.
#[derive(Debug, Args)]
pub(super) struct Delete {
    #[command(flatten)]
    pub(super) at: SessionArgs,
}

impl Fork {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let at = self.at.find().await?;
        let name = self.name.as_deref();
        let forked = mutate(&at.node, |options| at.harness.fork(&at.profile_id, &at.session_id, name, options)).await?;
        tell(self.at.node.json, &forked.value.session)
    }
}

impl Rename {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let at = self.at.find().await?;
        let name = self.name.as_str();
        let renamed =
            mutate(&at.node, |options| at.harness.rename(&at.profile_id, &at.session_id, name, options)).await?;
        tell(self.at.node.json, &renamed.value.session)
    }
}

impl Archive {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        archive(&self.at, true).await
    }
}

impl Unarchive {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        archive(&self.at, false).await
    }
}

async fn archive(at: &SessionArgs, archived: bool) -> Result<Exit, Failure> {
    let json = at.node.json;
    let at = at.find().await?;
    let done =
        mutate(&at.node, |options| at.harness.archive(&at.profile_id, &at.session_id, archived, options)).await?;
    tell(json, &done.value.session)
}

impl Delete {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let at = self.at.find().await?;
        let deleted = mutate(&at.node, |options| at.harness.delete(&at.profile_id, &at.session_id, options)).await?;
        let ids = deleted.value.deleted_session_ids;
        if self.at.node.json {
            print_json(&json!({"deletedSessionIds": ids}))?;
        } else {
            print(&ids.iter().map(|id| format!("{id}\n")).collect::<String>())?;
        }
        Ok(Exit::Done)
    }
}

fn tell(json: bool, session: &Session) -> Result<Exit, Failure> {
    if json { print_json(&json!({"session": session})) } else { print(&format!("{}\n", session.id)) }?;
    Ok(Exit::Done)
}
