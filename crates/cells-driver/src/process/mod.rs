//! Commands on a node (`files-http.md` §6 and §9.7).

mod confirm;
mod run;
mod wire;

use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use cells_machines::process::OutputStream;
use cells_protocol::capabilities::ServerCapabilities;
use cells_protocol::error::ErrorKind;
use cells_protocol::ids::{RequestId, is_id};
use cells_protocol::process::{ProcessMount, check_mounts, check_working_directory};
use futures::channel::oneshot;

use crate::cancellation::{Cancellation, OperationOptions};
use crate::error::{Error, Result};
use crate::host::Callback;
use crate::node::Link;
use crate::sync::{Lookup, lock};

/// Where commands run: on which run of which node, and what they see of its exports.
///
/// ```no_run
/// use cells_driver::{Client, Connection, OperationOptions, ProcessMount, ProcessSpec, Result};
/// # async fn example(client: Client, connection: Connection) -> Result<()> {
/// let capabilities = client.capabilities(&connection, OperationOptions::default()).await?;
/// let mount = ProcessMount {
///     alias: "notes".to_owned(),
///     path: "project".to_owned(),
///     at: "/workspace".to_owned(),
///     access: "rw".to_owned(),
/// };
/// let session = client.process(&connection, ProcessSpec::on(&capabilities, "/workspace", vec![mount])?)?;
/// let exit = session.exec("make", &["test".to_owned()], Default::default()).await?;
/// println!("{:?}: {}", exit.code, exit.stdout);
/// session.release(OperationOptions::default()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSpec {
    /// The installation, `serverId` of the capabilities.
    pub server_id: String,
    /// Its present run, `processEpoch` of the capabilities. After a restart of the node a new session is needed.
    pub epoch: String,
    /// Virtual path of the directory in which commands run, at or below a mount.
    pub cwd: String,
    /// What commands see of the exports: 1 to 32 mounts.
    pub mounts: Vec<ProcessMount>,
}

impl ProcessSpec {
    /// The node as it is now.
    ///
    /// # Errors
    /// `ECAPABILITY` when the node runs no commands.
    pub fn on(capabilities: &ServerCapabilities, cwd: impl Into<String>, mounts: Vec<ProcessMount>) -> Result<Self> {
        match (&capabilities.server_id, &capabilities.process_epoch) {
            (Some(server_id), Some(epoch)) if capabilities.process.exec => Ok(Self {
                server_id: server_id.as_str().to_owned(),
                epoch: epoch.as_str().to_owned(),
                cwd: cwd.into(),
                mounts,
            }),
            _ => Err(Error::new(ErrorKind::Unsupported, PROCESS, "the node runs no commands for this credential")),
        }
    }

    fn check(&self) -> Result<()> {
        let invalid = |problem: &str| Error::invalid(PROCESS, problem);
        if !is_id(&self.server_id) {
            return Err(invalid("the server id is not valid; take it from the capabilities of the node"));
        }
        if !is_id(&self.epoch) {
            return Err(invalid("the epoch is not valid; take the process epoch from the capabilities of the node"));
        }
        check_mounts(&self.mounts)
            .and_then(|()| check_working_directory(&self.cwd, &self.mounts))
            .map_err(|problem| Error::invalid(PROCESS, problem))
    }
}

/// Runs commands on a node, one process each. Cheap to clone; clones are the same session. Made by
/// [`Client::process`](crate::Client::process).
///
/// # What is promised
/// * A command is started in one HTTP request, ever.
/// * One time budget holds from the call to the end of the command. When it ends, when the caller cancels or drops the
///   call, and after any failure, the process is cancelled at the node, which takes at most 5 s more.
/// * An error of a command that may have begun has the [`process_id`](Error::process_id). Its
///   [`outcome`](Error::outcome) is `partial` when the process is over, `unknown` when that is not proven, and
///   `not-committed` when the node refused to start it. Cancelling undoes nothing.
/// * A process whose end is not proven stays with the session until [`release`](Self::release) has the proof.
///
/// While a command runs, an old node refuses every other access to its files with `EBUSY`.
#[derive(Clone)]
pub struct ProcessSession(Arc<Session>);

/// What the clones share.
struct Session {
    link: Link,
    spec: ProcessSpec,
    /// Whether the node has live output.
    output: Lookup<bool>,
    /// Whether the event stream of the node tells the end of a process.
    topic: Lookup<bool>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_released: bool,
    /// Processes that were started, or may have been, and are not known to be over.
    outstanding: Vec<RequestId>,
    n_running: usize,
    /// Who waits for the end of what runs.
    waiting: Vec<oneshot::Sender<()>>,
}

/// Options of [`ProcessSession::exec`].
#[derive(Default)]
pub struct ExecOptions {
    /// Directory in which the command runs, relative to the one of the session, or a virtual path. Default: that of the
    /// session.
    pub cwd: Option<String>,
    /// Time from the call to the end of the command, in milliseconds. Default 120,000. The node ends a process after at
    /// most 300,000 ms.
    pub timeout_ms: Option<u64>,
    /// Ends the command with `ECANCELLED`, once it is proven to be over.
    pub cancel: Option<Cancellation>,
    /// Gets the output: piece by piece while the command runs, on nodes with live output; else the output and then the
    /// error output, once, at the end. A piece may begin or end inside of a character. Called from the task that drives the
    /// client; must return quickly.
    pub on_output: Option<OnOutput>,
    /// Called with the id of the process right before the only request that starts it is sent.
    pub on_dispatch: Option<Callback<RequestId>>,
}

/// A function that gets pieces of the output of a command.
#[cfg(not(target_family = "wasm"))]
pub type OnOutput = Box<dyn FnMut(OutputStream, Bytes) + Send>;
/// A function that gets pieces of the output of a command.
#[cfg(target_family = "wasm")]
pub type OnOutput = Box<dyn FnMut(OutputStream, Bytes)>;

impl std::fmt::Debug for ExecOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecOptions")
            .field("cwd", &self.cwd)
            .field("timeout_ms", &self.timeout_ms)
            .field("cancel", &self.cancel)
            .finish_non_exhaustive()
    }
}

/// How a command ended that ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessExit {
    /// What it wrote, with replacement characters for what is not UTF-8. On nodes with live output the newest 8 MiB, else at
    /// most 64 KiB.
    pub stdout: String,
    /// What it wrote to its error stream, likewise.
    pub stderr: String,
    /// Its exit code; `None` when a signal ended it. A code other than 0 is no error of the call.
    pub code: Option<i64>,
    /// Older output is missing, because there was more than 8 MiB. Never on nodes without live output, where a command
    /// that writes more than 64 KiB fails.
    pub truncated: bool,
    /// Pieces of the live output are missing, because the command wrote more than 8 MiB faster than it could be fetched.
    pub has_gaps: bool,
}

impl ProcessSession {
    pub(crate) fn new(link: Link, spec: ProcessSpec) -> Result<Self> {
        spec.check()?;
        Ok(Self(Arc::new(Session { link, spec, output: Lookup::new(), topic: Lookup::new(), state: Mutex::default() })))
    }

    /// Runs `command` with `args`, and resolves when it has ended by itself.
    ///
    /// # Errors
    /// `EINVAL` for a command that cannot be started as described, and `EACCES` after [`release`](Self::release): nothing
    /// is sent. `EBUSY` when the node cannot run it now, `ECONFLICT` when the node was restarted, `ECAPABILITY` when it
    /// runs no commands: it was not started. `ETIMEDOUT` and `ECANCELLED` when it was stopped. `EIO` when it could not be
    /// started, wrote more than 64 KiB on a node without live output, or its end is not proven.
    pub async fn exec(&self, command: &str, args: &[String], options: ExecOptions) -> Result<ProcessExit> {
        run::exec(&self.0, command, args, options).await
    }

    /// Ends the session: no command is started any more, those that run are cancelled, and the end of each process is
    /// confirmed, which takes at most 10 s. When it fails, some may still run; call it again.
    ///
    /// # Errors
    /// `EBUSY` when the node itself does not know whether a process has ended; `ETIMEDOUT` when one still runs; any error
    /// of the question. The outcome is `unknown`, and [`process_id`](Error::process_id) names the first of them.
    /// `ECONFLICT` when the node was restarted: it cannot be asked any more.
    pub async fn release(&self, options: OperationOptions) -> Result<()> {
        confirm::release(&self.0, &options).await
    }
}

impl std::fmt::Debug for ProcessSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = lock(&self.0.state);
        write!(f, "ProcessSession({} running, {} outstanding)", state.n_running, state.outstanding.len())
    }
}

/// Keeps a session from being released while one of its commands runs.
struct Running(Arc<Session>);

impl Running {
    /// Admits a process, which is outstanding from now on.
    fn start(session: Arc<Session>, id: &RequestId) -> Result<Self> {
        let mut state = session.admit()?;
        state.outstanding.push(id.clone());
        state.n_running += 1;
        drop(state);
        Ok(Self(session))
    }
}

impl Session {
    /// Fails after a release.
    fn admit(&self) -> Result<MutexGuard<'_, State>> {
        self.link.check_open(EXEC)?;
        let state = lock(&self.state);
        if state.is_released {
            return Err(Error::new(ErrorKind::AccessDenied, EXEC, "the session was released; make a new one"));
        }
        Ok(state)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let waiting = {
            let mut state = lock(&self.0.state);
            state.n_running -= 1;
            if state.n_running == 0 { std::mem::take(&mut state.waiting) } else { Vec::new() }
        };
        for waiting in waiting {
            // Who waits no longer needs not be told.
            let _ = waiting.send(());
        }
    }
}

const PROCESS: &str = "process";
const EXEC: &str = "exec";
