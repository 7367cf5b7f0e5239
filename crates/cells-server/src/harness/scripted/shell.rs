//! Runs a shell command: own process group, no input, a short environment, bounded output, and an end in every case.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};

use crate::process_group::ProcessGroup;

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Finished {
    /// How it ended.
    pub(super) end: End,
    /// It wrote more than [`OUTPUT_MAX_BYTES`]; the rest was dropped.
    pub(super) cut: bool,
    /// How long it ran.
    pub(super) duration: Duration,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal, which somebody else sent.
    Signalled(i32),
    /// It was killed because it ran too long.
    TimedOut,
    /// It was killed because `stop` was ready.
    Stopped,
}

/// Runs `sh -c command` in `directory` until it ends, `limit` is over or `stop` is ready, and hands its output (standard
/// output and error in the order they were written, read as UTF-8) to `output` piece by piece.
///
/// Whatever the command leaves running in its process group is killed when the command has ended.
///
/// # Errors
/// When the shell cannot be started.
pub(super) async fn run(
    command: &str,
    directory: &Path,
    limit: Duration,
    stop: impl Future<Output = ()>,
    mut output: impl FnMut(&str),
) -> io::Result<Finished> {
    let started = Instant::now();
    let (mut child, mut receiver) = spawn(command, directory)?;
    let mut group = ProcessGroup::of(&child)?;
    let mut text = Text::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut is_open = true;
    let timeout = tokio::time::sleep(limit);
    tokio::pin!(stop, timeout);
    let killed = loop {
        tokio::select! {
            biased;
            () = &mut stop => break Some(End::Stopped),
            () = &mut timeout => break Some(End::TimedOut),
            () = group.leader_end() => break None,
            read = receiver.read(&mut buffer), if is_open => match read {
                Ok(size) if size > 0 => text.push(&buffer[..size], &mut output),
                Ok(_) | Err(_) => is_open = false,
            },
        }
    };
    // The leader is not reaped yet, so the group id still belongs to this command.
    group.kill();
    let status = child.wait().await?;
    if is_open {
        text.push(&rest(&receiver, &mut buffer), &mut output);
    }
    text.finish(&mut output);
    let end = killed.unwrap_or_else(|| end(status));
    Ok(Finished { end, cut: text.cut, duration: started.elapsed() })
}

fn spawn(command: &str, directory: &Path) -> io::Result<(Child, Receiver)> {
    let (reader, writer) = io::pipe()?;
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).current_dir(directory);
    shell.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    shell.env_clear().envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    shell.process_group(0).kill_on_drop(true);
    let child = shell.spawn()?;
    Ok((child, Receiver::from_owned_fd(reader.into())?))
}

/// What stands in the pipe now. A process that left the group may write on forever, so it is at most one full pipe.
fn rest(receiver: &Receiver, buffer: &mut [u8]) -> Vec<u8> {
    let mut rest = Vec::new();
    while rest.len() < PIPE_MAX_BYTES {
        match rustix::io::read(receiver, &mut *buffer) {
            Ok(size) if size > 0 => rest.extend_from_slice(&buffer[..size]),
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => break,
        }
    }
    rest
}

fn end(status: ExitStatus) -> End {
    use std::os::unix::process::ExitStatusExt;
    match status.code() {
        Some(code) => End::Exited(code),
        None => End::Signalled(status.signal().unwrap_or_default()),
    }
}

/// Output that arrives in pieces which may split a character.
#[derive(Debug, Default)]
struct Text {
    taken_bytes: usize,
    cut: bool,
    /// The beginning of a character.
    incomplete: Vec<u8>,
}

impl Text {
    fn push(&mut self, bytes: &[u8], output: &mut impl FnMut(&str)) {
        let room = OUTPUT_MAX_BYTES - self.taken_bytes;
        self.cut |= bytes.len() > room;
        let bytes = &bytes[..bytes.len().min(room)];
        self.taken_bytes += bytes.len();
        self.incomplete.extend_from_slice(bytes);
        let complete = self.incomplete.len() - incomplete_tail(&self.incomplete);
        if complete > 0 {
            let bytes: Vec<u8> = self.incomplete.drain(..complete).collect();
            output(&String::from_utf8_lossy(&bytes));
        }
    }

    fn finish(&mut self, output: &mut impl FnMut(&str)) {
        // Where the cut splits a character, the beginning of it is dropped with the rest.
        if !self.cut && !self.incomplete.is_empty() {
            output(&String::from_utf8_lossy(&self.incomplete));
        }
        self.incomplete.clear();
    }
}

/// How many bytes at the end are the beginning of a character whose end may still come.
fn incomplete_tail(bytes: &[u8]) -> usize {
    let Some(chunk) = bytes.utf8_chunks().last() else { return 0 };
    let invalid = chunk.invalid();
    let missing = match invalid.first() {
        Some(0xC2..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF4) => 4,
        _ => 0,
    };
    if invalid.len() < missing && bytes.ends_with(invalid) { invalid.len() } else { 0 }
}

/// Output that is kept of one command.
pub(super) const OUTPUT_MAX_BYTES: usize = 256 * 1024;
/// Largest pipe that an ordinary user can make.
const PIPE_MAX_BYTES: usize = 1024 * 1024;
/// What a command may know of the environment of the node. Keys and tokens are nowhere in it.
const ENVIRONMENT: &[&str] =
    &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "TMPDIR"];

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::pending;

    use rustix::process::Pid;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    async fn run_to_end(command: &str) -> (Finished, String) {
        let directory = tempfile::tempdir().unwrap();
        let mut text = String::new();
        let finished = run(command, directory.path(), LIMIT, pending(), |piece| text.push_str(piece)).await.unwrap();
        (finished, text)
    }

    #[tokio::test]
    async fn output_and_end_are_those_of_the_command() {
        for (command, end, output) in [
            ("echo out; echo err >&2; echo out again", End::Exited(0), "out\nerr\nout again\n"),
            ("printf no-newline; exit 3", End::Exited(3), "no-newline"),
            ("cat", End::Exited(0), ""),
            ("kill -9 $$", End::Signalled(9), ""),
            ("no-such-command-here 2>/dev/null", End::Exited(127), ""),
            (r"printf 'ma\303\261ana \377 \360\237'", End::Exited(0), "mañana \u{FFFD} \u{FFFD}"),
            (r"printf 'a\303'; printf '\261b'", End::Exited(0), "añb"),
        ] {
            let (finished, text) = run_to_end(command).await;
            assert_eq!((finished.end, text.as_str(), finished.cut), (end, output, false), "{command}");
        }
    }

    #[tokio::test]
    async fn output_beyond_the_bound_is_dropped_and_said_to_be() {
        let (finished, text) = run_to_end("yes | head -c 1000000").await;
        assert_eq!((finished.end, finished.cut, text.len()), (End::Exited(0), true, OUTPUT_MAX_BYTES));
        let (finished, text) = run_to_end("yes | head -c 262144").await;
        assert_eq!((finished.cut, text.len()), (false, OUTPUT_MAX_BYTES));
    }

    #[tokio::test]
    async fn the_environment_holds_only_what_is_listed() {
        let (_, text) = run_to_end("env").await;
        let shell_makes = ["PWD", "OLDPWD", "SHLVL", "_"];
        for name in text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name) {
            assert!(ENVIRONMENT.contains(&name) || shell_makes.contains(&name), "{name}");
        }
        assert!(text.contains("PATH="));
    }

    #[tokio::test]
    async fn what_a_command_leaves_behind_ends_with_it() {
        // The pipe stays open until the child left behind is gone, so the end of the test proves that it is.
        let (finished, text) = run_to_end("sleep 1000 & echo started").await;
        assert_eq!((finished.end, text.as_str()), (End::Exited(0), "started\n"));
        assert!(finished.duration < LIMIT);
    }

    #[tokio::test]
    async fn stop_kills_the_whole_group_and_keeps_what_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let text = RefCell::new((String::new(), Some(started)));
        let finished =
            run("sleep 1000 & echo $!; wait", directory.path(), LIMIT, async { has_started.await.unwrap() }, |piece| {
                let mut text = text.borrow_mut();
                text.0.push_str(piece);
                if let Some(started) = text.1.take() {
                    started.send(()).unwrap();
                }
            })
            .await
            .unwrap();
        assert_eq!(finished.end, End::Stopped);
        let child: i32 = text.borrow().0.trim().parse().unwrap();
        wait_until_gone(child).await;
    }

    #[tokio::test]
    async fn a_command_that_runs_too_long_is_killed() {
        let directory = tempfile::tempdir().unwrap();
        let limit = Duration::from_millis(20);
        let finished = run("sleep 1000", directory.path(), limit, pending(), |_| {}).await.unwrap();
        assert_eq!(finished.end, End::TimedOut);
    }

    #[tokio::test]
    async fn a_missing_directory_is_an_error() {
        assert!(run("true", Path::new("/no/such/directory"), LIMIT, pending(), |_| {}).await.is_err());
    }

    /// An orphan is reaped by whoever adopted it, so it is gone soon after it was killed.
    async fn wait_until_gone(pid: i32) {
        let pid = Pid::from_raw(pid).unwrap();
        let is_zombie = || {
            let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
            state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
        };
        while rustix::process::test_kill_process(pid).is_ok() && !is_zombie() {
            tokio::task::yield_now().await;
        }
    }
}
