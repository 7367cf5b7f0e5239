//! Commands in a sandbox of bubblewrap: namespaces of their own, the system read-only, no network, a private `/tmp`, and of
//! the exports what is mounted.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use cells_protocol::capabilities::Access;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::Command;
use tokio::task::{JoinHandle, spawn_blocking};

use super::execution::{LANG, PATH, find_program};
use super::mark::{Mark, Marks};
use super::spawner::{Launch, Spawner};

/// A bubblewrap that works here.
#[derive(Debug)]
pub(super) struct Sandbox {
    program: PathBuf,
    /// Arguments that show the system.
    system: Vec<OsString>,
}

/// Tells when a sandbox is gone, with everything that ran in it.
#[derive(Debug)]
pub(super) struct Init(JoinHandle<Option<OwnedFd>>);

impl Sandbox {
    /// Looks for bubblewrap and makes one sandbox.
    ///
    /// # Errors
    /// One line: why there can be no sandbox here.
    pub(super) async fn probe(spawner: &Spawner, marks: &Marks) -> Result<Self, String> {
        let program = find_program("bwrap").ok_or("bubblewrap is not installed (package `bubblewrap`)")?;
        let sandbox = Self { program, system: system() };
        let failed = |error: &dyn std::fmt::Display| format!("bubblewrap does not work here: {error}");
        let directory = std::fs::File::open("/usr").map_err(|error| failed(&error))?;
        let mount = [("/workspace".to_owned(), Access::Ro, directory.into())];
        let (launch, init) = sandbox
            .launch("sh", &["-c".into(), "exit 0".into()], "/workspace", mount, &marks.next())
            .map_err(|error| failed(&error))?;
        let child = spawner.start(launch).await.map_err(|error| failed(&error))?;
        match tokio::time::timeout(PROBE_LIMIT, child.wait_with_output()).await {
            Ok(Ok(output)) if output.status.success() => match init.end().await {
                true => Ok(sandbox),
                false => Err(failed(&"a sandbox did not end")),
            },
            Ok(Ok(output)) => {
                let text = String::from_utf8_lossy(&output.stderr);
                Err(failed(&text.lines().next().unwrap_or("it gives no reason")))
            }
            Ok(Err(error)) => Err(failed(&error)),
            Err(_) => Err(failed(&"a sandbox did not end")),
        }
    }

    /// A command with these mounts: virtual path, access, directory.
    pub(super) fn launch(
        &self,
        program: &str,
        args: &[String],
        cwd: &str,
        mounts: impl IntoIterator<Item = (String, Access, OwnedFd)>,
        mark: &Mark,
    ) -> io::Result<(Launch, Init)> {
        let (info, info_writer) = io::pipe()?;
        let mut inherited = Vec::new();
        let mut command = Command::new(&self.program);
        command.args(["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]);
        for (name, value) in [("PATH", PATH), ("HOME", "/tmp"), ("LANG", LANG)] {
            command.args(["--setenv", name, value]);
        }
        command.args(&self.system).args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
        for (at, access, directory) in mounts {
            let option = match access {
                Access::Ro => "--ro-bind-fd",
                Access::Rw => "--bind-fd",
            };
            // The descriptor was opened below its export; bubblewrap compares it with what stands at the place then.
            command.args([option, &directory.as_raw_fd().to_string(), &at]);
            inherited.push(directory);
        }
        command.args(["--remount-ro", "/", "--info-fd", &info_writer.as_raw_fd().to_string()]);
        command.args(["--chdir", cwd, "--", program]).args(args);
        command.env_clear().process_group(0).kill_on_drop(true);
        // On bubblewrap itself: the command gets another environment.
        mark.put_on(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        inherited.push(info_writer.into());
        Ok((Launch { command, inherited }, Init::read(info.into())?))
    }
}

impl Init {
    /// `info` is where bubblewrap writes the process id of the first process of the sandbox.
    fn read(info: OwnedFd) -> io::Result<Self> {
        let mut info = Receiver::from_owned_fd(info)?;
        Ok(Self(tokio::spawn(async move {
            let mut text = Vec::new();
            while text.len() < INFO_MAX_BYTES && info.read_buf(&mut text).await.ok()? > 0 {
                if let Ok(info) = serde_json::from_slice::<Info>(&text) {
                    let init = pidfd_open(Pid::from_raw(info.child_pid)?, PidfdFlags::empty()).ok()?;
                    return Some(init);
                }
            }
            None
        })))
    }

    /// Kills what is left of the sandbox and waits until it is gone; false = it is not, after 5 s. The kernel ends its first
    /// process last.
    pub(super) async fn end(self) -> bool {
        let Ok(told) = tokio::time::timeout(super::REAP_LIMIT, self.0).await else { return false };
        // Otherwise it was never made, or it was gone before it could be looked at.
        let Ok(Some(init)) = told else { return true };
        // When bubblewrap was killed while it made the sandbox, nothing has told the first process yet to die with it.
        // Fails only when it is gone.
        let _ = pidfd_send_signal(&init, Signal::KILL);
        spawn_blocking(move || is_readable(&init)).await.unwrap_or(false)
    }
}

/// Whether the process behind a pidfd ends within 5 s.
fn is_readable(process: &OwnedFd) -> bool {
    let limit = Instant::now() + super::REAP_LIMIT;
    loop {
        let rest = limit.saturating_duration_since(Instant::now());
        let Ok(rest) = Timespec::try_from(rest) else { return false };
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&rest)) {
            Err(Errno::INTR) => {}
            other => return matches!(other, Ok(1)),
        }
    }
}

#[derive(Deserialize)]
struct Info {
    #[serde(rename = "child-pid")]
    child_pid: i32,
}

/// The programs, libraries and settings that commands need.
fn system() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    for path in ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"] {
        match std::fs::read_link(path) {
            Ok(target) => arguments.extend(["--symlink".into(), target.into(), path.into()]),
            Err(_) if Path::new(path).is_dir() => arguments.extend(["--ro-bind", path, path].map(OsString::from)),
            Err(_) => {}
        }
    }
    for name in SETTINGS {
        let path = format!("/etc/{name}");
        arguments.extend(["--ro-bind-try", &path, &path].map(OsString::from));
    }
    arguments
}

/// What of `/etc` is shown: how programs are found, who owns files, which certificates are valid, the time zone.
const SETTINGS: &[&str] = &[
    "alternatives",
    "ca-certificates",
    "group",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "passwd",
    "pki",
    "protocols",
    "services",
    "ssl",
];
const INFO_MAX_BYTES: usize = 4096;
/// How long the first sandbox may take.
const PROBE_LIMIT: Duration = Duration::from_secs(10);
