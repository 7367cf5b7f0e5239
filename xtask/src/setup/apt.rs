//! Packages of Debian.

use std::process::{Command, Stdio};

use crate::shell;

/// Whether the packages could be installed: on Debian, as root or with a sudo that asks nothing.
pub(super) fn install(packages: &[&str]) -> bool {
    if shell::find("apt-get").is_none() {
        return false;
    }
    let is_root = shell::capture(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let run = |arguments: &[&str]| {
        let mut command = if is_root { Command::new("apt-get") } else { Command::new("sudo") };
        if !is_root {
            command.args(["-n", "apt-get"]);
        }
        command
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let install = [&["install", "-y", "-qq", "--no-install-recommends"], packages].concat();
    run(&["update", "-qq"]) && run(&install)
}
