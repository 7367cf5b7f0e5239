//! What is asked of a process (`files-http.md` §6.1, checks 8 to 11).

use std::time::Duration;

use cells_protocol::limits::{PROCESS_COMMAND_MAX_BYTES, PROCESS_MOUNTS_MAX, PROCESS_TIMEOUT_MAX_MS};
use cells_protocol::process::ProcessStart;

use super::mounts::{Mounts, is_virtual_path};
use crate::auth::Principal;
use crate::files::Exports;
use crate::refusal::Refusal;

/// A process that may be started.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    /// The working directory as the process sees it.
    pub(super) cwd: String,
    pub(super) limit: Duration,
    pub(super) keep_output: bool,
    pub(super) mounts: Mounts,
}

impl Plan {
    /// Checks the request, in the order of the specification. Blocks.
    pub(super) fn new(start: ProcessStart, principal: &Principal, exports: &Exports) -> Result<Self, Refusal> {
        let words = || std::iter::once(&start.command).chain(&start.args);
        let is_shaped = is_virtual_path(&start.cwd)
            && (1..=PROCESS_MOUNTS_MAX).contains(&start.mounts.len())
            && !start.command.is_empty()
            && words().all(|word| !word.contains('\0'))
            && words().map(String::len).sum::<usize>() <= PROCESS_COMMAND_MAX_BYTES
            && (1..=PROCESS_TIMEOUT_MAX_MS).contains(&start.timeout_ms);
        if !is_shaped {
            return Err(Refusal::INVALID);
        }
        let mounts = Mounts::resolve(start.mounts, &start.cwd, principal, exports)?;
        if start.project_id.is_some() {
            return Err(Refusal::UNSUPPORTED); // the node has no projects
        }
        Ok(Self {
            command: start.command,
            args: start.args,
            cwd: start.cwd,
            limit: Duration::from_millis(start.timeout_ms),
            keep_output: start.keep_output,
            mounts,
        })
    }
}
