//! The two ways in which commands run.

use std::path::{Path, PathBuf};

use cells_protocol::capabilities::{ExecutionModel, PathModel, ReadOnlyEnforcement, WorkspaceConsistency};

use super::host::Host;
use super::mark::{Mark, Marks};
use super::request::Plan;
use super::sandbox::{Init, Sandbox};
use super::spawner::{Launch, Spawner};
use crate::refusal::Refusal;
use crate::{Execution, ServeError};

/// How commands run on this node.
#[derive(Debug)]
pub(super) struct Model {
    kind: Kind,
    marks: Marks,
}

#[derive(Debug)]
enum Kind {
    Sandbox(Sandbox),
    Host(Host),
}

/// Everything that a command started.
#[derive(Debug)]
pub(super) struct Tree {
    mark: Mark,
    /// None on the host.
    init: Option<Init>,
}

/// What the capabilities tell of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModelWords {
    pub(crate) execution: ExecutionModel,
    pub(crate) consistency: WorkspaceConsistency,
    pub(crate) read_only: ReadOnlyEnforcement,
    pub(crate) paths: PathModel,
}

impl Model {
    /// What is configured, as far as this machine can do it. None = no processes. First ends what an earlier start left
    /// behind, however that ran its commands.
    pub(super) async fn choose(
        execution: Execution,
        spawner: &Spawner,
        state: &Path,
        epoch: &str,
    ) -> Result<Option<Self>, ServeError> {
        let marks = Marks::new(state, epoch);
        marks.sweep().await;
        let kind = match execution {
            Execution::Off => return Ok(None),
            Execution::Host => Kind::Host(Host::new()),
            Execution::Sandbox | Execution::Auto => match (Sandbox::probe(spawner, &marks).await, execution) {
                (Ok(sandbox), _) => Kind::Sandbox(sandbox),
                (Err(reason), Execution::Sandbox) => {
                    return Err(ServeError::Config(format!(
                        "execution: there can be no sandbox: {reason}; correct that, or choose --execution host or off"
                    )));
                }
                (Err(reason), _) => {
                    tracing::warn!(
                        "processes run without a sandbox, with all your rights: {reason}; --execution off forbids them"
                    );
                    Kind::Host(Host::new())
                }
            },
        };
        Ok(Some(Self { kind, marks }))
    }

    /// Refuses what this model cannot do.
    pub(super) fn check(&self, plan: &Plan) -> Result<(), Refusal> {
        match self.kind {
            Kind::Host(_) if !plan.mounts.are_one_directory() => Err(Refusal::UNSUPPORTED),
            Kind::Host(_) | Kind::Sandbox(_) => Ok(()),
        }
    }

    pub(super) fn launch(&self, plan: Plan) -> std::io::Result<(Launch, Tree)> {
        let mark = self.marks.next();
        match &self.kind {
            Kind::Sandbox(sandbox) => {
                let mounts = plan.mounts.mounts.into_iter().map(|mount| (mount.at, mount.access, mount.directory));
                let (launch, init) = sandbox.launch(&plan.command, &plan.args, &plan.cwd, mounts, &mark)?;
                Ok((launch, Tree { mark, init: Some(init) }))
            }
            Kind::Host(host) => Ok((host.launch(&plan, &mark), Tree { mark, init: None })),
        }
    }

    pub(super) fn words(&self) -> ModelWords {
        match self.kind {
            Kind::Sandbox(_) => ModelWords {
                execution: ExecutionModel::Sandbox,
                consistency: WorkspaceConsistency::Isolated,
                read_only: ReadOnlyEnforcement::KernelEnforced,
                paths: PathModel::VirtualRoot,
            },
            Kind::Host(_) => ModelWords {
                execution: ExecutionModel::TrustedCooperativeHost,
                consistency: WorkspaceConsistency::Cooperative,
                read_only: ReadOnlyEnforcement::None,
                paths: PathModel::HostMapped,
            },
        }
    }
}

impl Tree {
    /// Ends what is left of it; false = some of it may still run.
    pub(super) async fn end(self) -> bool {
        // In a sandbox this finds bubblewrap's own processes, also one that was interrupted before it told of the others.
        let marked_is_gone = self.mark.end().await;
        match self.init {
            Some(init) => init.end().await && marked_is_gone,
            None => marked_is_gone,
        }
    }
}

/// The program of this name in the search path of the node.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_absolute() && file.is_file())
}

/// Where commands are looked for.
pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// The language of commands.
pub(super) const LANG: &str = "C.UTF-8";
