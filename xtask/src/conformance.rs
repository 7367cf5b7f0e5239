//! `cargo xtask conformance`: the conformance list against a running node.

use std::process::Command;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::{repo, shell};

/// The node to judge, and as whom.
#[derive(Args)]
pub(crate) struct Target {
    /// Address of the node, such as http://127.0.0.1:4477
    #[arg(long, env = "CELLS_URL")]
    url: String,
    /// Its API key, or the password of --user. Other users of this machine see arguments: rather set the variable
    #[arg(long, env = "CELLS_API_KEY", hide_env_values = true)]
    token: String,
    /// Name of the user, for a node with a password
    #[arg(long = "user", env = "CELLS_USER")]
    user: Option<String>,
    /// Export below which cases may change files, in a fresh directory that is removed at the end. Without it: only reads
    #[arg(long)]
    alias: Option<String>,
}

/// Prints one line a case and the sum on the last line. True when the node failed no case.
pub(crate) fn conformance(target: &Target) -> anyhow::Result<bool> {
    shell::run(&mut shell::cargo(["build", "--locked", "--package=cells-testkit", "--bin=cells-conformance"]))?;
    let mut list = Command::new(repo::build_dir().join("debug/cells-conformance"));
    list.env("CELLS_URL", &target.url)
        .env("CELLS_API_KEY", &target.token)
        .env("CELLS_USER", target.user.as_deref().unwrap_or_default())
        .env("CELLS_ALIAS", target.alias.as_deref().unwrap_or_default());
    let status = list.status().context("cannot start the conformance list")?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        // It said why.
        Some(_) | None => bail!("the node was not judged"),
    }
}
