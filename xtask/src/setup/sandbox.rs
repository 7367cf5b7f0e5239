//! bubblewrap, which makes the sandbox of processes.

use std::process::Command;

use super::{Had, Missing, apt};
use crate::shell;

pub(super) fn bubblewrap() -> anyhow::Result<Result<Had<()>, Missing>> {
    let mut how = "found";
    let mut program = shell::find("bwrap");
    if program.is_none() && apt::install(&["bubblewrap"]) {
        how = "installed with apt-get";
        program = shell::find("bwrap");
    }
    let Some(program) = program else {
        let install = "install it, on Debian `apt-get install bubblewrap`; until then processes run without a sandbox";
        return Ok(Err(Missing::new("bubblewrap", install)));
    };
    // A container may have the program and forbid what it does.
    let sandbox =
        ["--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"];
    if shell::capture(Command::new(&program).args(sandbox)).is_err() {
        let allow = "allow user namespaces on this machine; until then processes run without a sandbox";
        return Ok(Err(Missing::new("the right to make a sandbox", allow)));
    }
    Ok(Ok(Had { value: (), note: format!("{}, {how}", program.display()) }))
}
