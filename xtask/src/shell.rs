//! Running other programs.

use std::{
    env,
    ffi::OsStr,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};

use crate::repo;

/// The active cargo, at the top of the repository.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(repo::root()).args(arguments);
    command
}

/// Prints the command and runs it with this terminal.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    println!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    ensure!(status.success(), "`{}` failed ({status})", shown(command));
    Ok(())
}

/// Runs the command silently and gives its output; its error output only when it fails.
pub(crate) fn capture(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        bail!("`{}` failed ({})\n{}", shown(command), output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs the command and hands over each line of its output, standard and error output in the order they were written.
/// A program that it leaves behind with its output open is not waited for.
pub(crate) fn lines(command: &mut Command, mut line: impl FnMut(&str)) -> anyhow::Result<ExitStatus> {
    println!("$ {}", shown(command));
    let (reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", shown(command)))?;
    // The command holds the writing ends; as long as it does, the pipe does not end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        for text in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            if sender.send(text).is_err() {
                break;
            }
        }
    });
    let mut ended = None;
    loop {
        match received.recv_timeout(LAST_WORDS) {
            Ok(text) => line(&String::from_utf8_lossy(&text)),
            Err(RecvTimeoutError::Timeout) if ended.is_none() => ended = child.try_wait()?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(child.wait()?)
}

/// A program in PATH.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The command as one could type it.
fn shown(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let mut text = program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// How long a program that ended may take until its last line is here.
const LAST_WORDS: Duration = Duration::from_secs(1);
