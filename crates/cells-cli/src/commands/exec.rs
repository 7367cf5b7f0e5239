use std::io::{self, Write as _};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cells_native::cells_driver::{
    Access, Error, ErrorKind, ExecOptions, FileConnection, FileKind, OperationOptions, Outcome, OutputStream,
    ProcessExit, ProcessMount, ProcessSession, ProcessSpec, RequestId,
};
use clap::Args;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::node::{Node, NodeArgs};
use crate::output::{note, print_json, warn};
use crate::remote_path::RemotePath;
use crate::under_way::UnderWay;

/// Run a command on the node, in a directory of an export.
///
/// What it writes appears while it runs, and its exit code is that of this program. Ctrl-C stops the command, and so does
/// --run-timeout; that it has ended is then confirmed. When the program itself fails, the last line on standard error starts
/// with `cells: `; exit code 3 with such a line says that the end of the command is not known. With --json, one object at the
/// end tells all.
#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// The directory, such as notes/project; it is /workspace for the command
    #[arg(value_name = "ALIAS/PATH")]
    directory: RemotePath,
    /// The command may only read there
    #[arg(long)]
    read_only: bool,
    /// Another directory that the command sees, at AT; it may only read there, unless `:rw` follows. May be repeated
    #[arg(long = "mount", value_name = "ALIAS/PATH:AT[:ro|:rw]")]
    mounts: Vec<Mount>,
    /// Where the command starts: below /workspace, or an absolute path below a mount [default: /workspace]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// How long the command may run, at most 300
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=300))]
    run_timeout: u64,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<String>,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

/// A directory of an export, and where the command sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    source: RemotePath,
    at: String,
    access: &'static str,
}

impl Exec {
    pub(super) async fn run(self, under_way: UnderWay) -> Result<ExitCode, Failure> {
        let node = self.node.connect()?.cancelled_by(under_way.cancellation());
        let capabilities = node.client.capabilities(&node.connection, node.options()).await?;
        let spec = ProcessSpec::on(&capabilities, WORKSPACE, self.mounts())?;
        let session = node.client.process(&node.connection, spec)?;
        let number = under_way.begin();
        let id: Arc<Mutex<Option<RequestId>>> = Arc::default();
        let (dispatched, sent, seconds) = (Arc::clone(&id), under_way.clone(), self.run_timeout);
        let options = ExecOptions {
            cwd: self.cwd.clone(),
            timeout_ms: Some(self.run_timeout * 1000),
            cancel: Some(under_way.cancellation()),
            on_output: (!self.node.json).then(|| Box::new(|stream, bytes: bytes::Bytes| pass_on(stream, &bytes)) as _),
            on_dispatch: Some(Box::new(move |id| {
                let left = format!("left; {}", may_still_run(&id, seconds));
                sent.sent(number, Failure::new(Exit::Interrupted, left));
                *dispatched.lock().unwrap_or_else(PoisonError::into_inner) = Some(id);
            })),
        };
        let (program, arguments) = self.command.split_first().unwrap_or((&self.command[0], &[]));
        let result = session.exec(program, arguments, options).await;
        let result = match result {
            Ok(exit) => Ok(exit),
            Err(error) => Err(self.failure(&node, &session, &under_way, error).await),
        };
        under_way.ended(number);
        let id = id.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.show(result?, id.as_ref())
    }

    fn mounts(&self) -> Vec<ProcessMount> {
        let access = if self.read_only { "ro" } else { "rw" };
        let workspace = Mount { source: self.directory.clone(), at: WORKSPACE.to_owned(), access };
        let mounts = std::iter::once(&workspace).chain(&self.mounts);
        mounts
            .map(|Mount { source, at, access }| ProcessMount {
                alias: source.alias.clone(),
                path: source.path.clone(),
                at: at.clone(),
                access: (*access).to_owned(),
            })
            .collect()
    }

    /// Shows the end of the command, and gives its exit code.
    fn show(&self, exit: ProcessExit, id: Option<&RequestId>) -> Result<ExitCode, Failure> {
        let ProcessExit { stdout, stderr, code, truncated, has_gaps } = exit;
        if self.node.json {
            print_json(&json!({
                "code": code, "stdout": stdout, "stderr": stderr, "truncated": truncated,
                "processId": id.map(RequestId::as_str),
            }))?;
        } else {
            if has_gaps {
                warn("pieces of the output are missing: the command wrote faster than it could be fetched");
            }
            if code.is_none() {
                note("a signal ended the command");
            }
        }
        Ok(code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
    }

    /// Why there is no exit code. An end that is not proven is asked for once more.
    async fn failure(&self, node: &Node, session: &ProcessSession, under_way: &UnderWay, error: Error) -> Failure {
        let seconds = self.run_timeout;
        match (error.outcome(), error.process_id().cloned()) {
            (Some(Outcome::Unknown), Some(id)) => {
                let options = OperationOptions { timeout_ms: Some(CONFIRM.as_millis() as u64), cancel: None };
                let line = match session.release(options).await {
                    Ok(()) if under_way.is_stopped() => return Failure::Interrupted,
                    Ok(()) => format!("process {id} is over; how it ended is unknown: {}", error.message()),
                    Err(_) => format!("{}: {}", may_still_run(&id, seconds), error.message()),
                };
                Failure::driver(error, line).with_exit(Exit::Unknown)
            }
            (Some(Outcome::Partial), _) => match error.kind() {
                ErrorKind::Cancelled if under_way.is_stopped() => Failure::Interrupted,
                ErrorKind::TimedOut => {
                    let line = format!("the command ran longer than {seconds} s and was stopped ({})", error.kind());
                    Failure::driver(error, line).with_exit(Exit::Failed)
                }
                _ => Failure::from(error).with_exit(Exit::Failed),
            },
            _ if error.remote_code().is_some() => self.refusal(node, error).await,
            _ => error.into(),
        }
    }

    /// Why the node refuses to start the command.
    async fn refusal(&self, node: &Node, error: Error) -> Failure {
        let code = error.kind();
        let directory = &self.directory;
        let line = match code {
            ErrorKind::ReadOnly => match self.read_only_source(node).await {
                Some(source) if source == directory => {
                    format!("{directory} is read-only here; with --read-only the command may read it ({code})")
                }
                Some(source) => format!("{source} is read-only here; leave `:rw` out ({code})"),
                None => format!("a directory cannot be there both for reading and for writing ({code})"),
            },
            ErrorKind::AccessDenied if error.status() == Some(403) => format!(
                "the command may not use {}; `cells exports` lists what may be used ({code})",
                self.sources().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
            ),
            ErrorKind::NotFound | ErrorKind::NotADirectory => match self.missing(node).await {
                Some(missing) => format!("{missing} is no directory that exists ({code})"),
                None => format!("--cwd {} is no directory that exists ({code})", self.cwd.as_deref().unwrap_or("")),
            },
            ErrorKind::Unsupported if !self.mounts.is_empty() => format!(
                "the node cannot show these directories together: only one export can be written, each place must exist or \
                 be in one that can be written, and a node without a sandbox shows directories only where they are ({code})"
            ),
            ErrorKind::Busy => format!("the node runs as many commands as it can; try again later ({code})"),
            _ => return error.into(),
        };
        Failure::driver(error, line)
    }

    fn sources(&self) -> impl Iterator<Item = &RemotePath> {
        std::iter::once(&self.directory).chain(self.mounts.iter().map(|mount| &mount.source))
    }

    /// The first source that the command wants to write and may only read.
    async fn read_only_source(&self, node: &Node) -> Option<&RemotePath> {
        let exports = node.client.exports(&node.connection, node.options()).await.ok()?.exports;
        let is_read_only = |path: &RemotePath| {
            exports.iter().any(|export| export.alias.as_str() == path.alias && export.access == Access::Ro)
        };
        let wanted = self.mounts.iter().filter(|mount| mount.access == "rw").map(|mount| &mount.source);
        let directory = (!self.read_only).then_some(&self.directory);
        directory.into_iter().chain(wanted).find(|path| is_read_only(path))
    }

    /// The first source that is no directory.
    async fn missing(&self, node: &Node) -> Option<&RemotePath> {
        for source in self.sources() {
            let connection = FileConnection::new(node.connection.clone(), &source.alias);
            let files = node.client.files(&connection).ok()?;
            let stat = files.stat(&source.path, node.options()).await;
            if !stat.is_ok_and(|stat| stat.is_some_and(|stat| stat.kind == FileKind::Directory)) {
                return Some(source);
            }
        }
        None
    }
}

impl FromStr for Mount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rest, access) = match text.strip_suffix(":rw") {
            Some(rest) => (rest, "rw"),
            None => (text.strip_suffix(":ro").unwrap_or(text), "ro"),
        };
        // The place starts with a slash, so that a colon in a name does no harm.
        let colon = rest.rfind(":/").ok_or("a mount is ALIAS/PATH:AT, for example notes/data:/data")?;
        let (source, at) = rest.split_at(colon);
        Ok(Self { source: source.parse()?, at: at[1..].to_owned(), access })
    }
}

fn may_still_run(id: &RequestId, seconds: u64) -> String {
    format!("process {id} may still run; the node ends it {seconds} s after its start")
}

fn pass_on(stream: OutputStream, bytes: &[u8]) {
    // A reader that is gone does not stop the command.
    let _ = match stream {
        OutputStream::Stdout => io::stdout().write_all(bytes).and_then(|()| io::stdout().flush()),
        OutputStream::Stderr => io::stderr().write_all(bytes),
    };
}

/// Where the directory is for the command.
const WORKSPACE: &str = "/workspace";
/// How long the end of a command is asked for.
const CONFIRM: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_as_people_type_them() {
        for (text, expected) in [
            ("notes/data:/data", Some(("notes/data", "/data", "ro"))),
            ("notes/data:/data:ro", Some(("notes/data", "/data", "ro"))),
            ("notes:/all/of it:rw", Some(("notes", "/all/of it", "rw"))),
            ("notes:a/b:/data", Some(("notes/a/b", "/data", "ro"))),
            ("notes/2024:Q1:/data", Some(("notes/2024:Q1", "/data", "ro"))),
            ("notes/data", None),
            ("notes/data:data", None),
            (":/data", None),
            ("my notes:/data", None),
        ] {
            let mount = text.parse::<Mount>().ok();
            let parts = mount.as_ref().map(|mount| (mount.source.to_string(), mount.at.as_str(), mount.access));
            let expected = expected.map(|(source, at, access)| (source.to_owned(), at, access));
            assert_eq!(parts, expected, "{text}");
        }
    }
}
