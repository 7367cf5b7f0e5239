//! Commands on the machine itself, with all rights of the person who started the node.
//!
//! A command is ended with what it put into the background, which its [mark](super::mark) finds, unless that was started
//! with another environment.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

use super::execution::{LANG, PATH, find_program};
use super::mark::Mark;
use super::request::Plan;
use super::spawner::Launch;

/// Starts commands on the machine.
#[derive(Debug)]
pub(super) struct Host {
    /// Tells the kernel to kill a command that outlives the node.
    setpriv: Option<PathBuf>,
    home: OsString,
}

impl Host {
    pub(super) fn new() -> Self {
        let home = std::env::var_os("HOME").unwrap_or_else(|| "/".into());
        Self { setpriv: find_program("setpriv"), home }
    }

    pub(super) fn launch(&self, plan: &Plan, mark: &Mark) -> Launch {
        let mut command = match &self.setpriv {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--"]).arg(&plan.command);
                command
            }
            None => Command::new(&plan.command),
        };
        command.args(&plan.args).current_dir(&plan.mounts.cwd);
        command.env_clear().env("PATH", PATH).env("HOME", &self.home).env("LANG", LANG);
        mark.put_on(&mut command);
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Launch { command, inherited: Vec::new() }
    }
}
