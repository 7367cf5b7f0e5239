//! The two ways in which commands run.

use std::path::{Path, PathBuf};

use cells_protocol::capabilities::{ExecutionModel, PathModel, ReadOnlyEnforcement, WorkspaceConsistency};

use super::host::{Host, Mark};
use super::request::Plan;
use super::sandbox::{Init, Sandbox};
use super::spawner::{Launch, Spawner};
use crate::refusal::Refusal;
use crate::{Execution, ServeError};

/// How commands run on this node.
#[derive(Debug)]
pub(super) enum Model {
    Sandbox(Sandbox),
    Host(Host),
}

/// Everything that a command started.
#[derive(Debug)]
pub(super) enum Tree {
    Sandbox(Init),
    Host(Mark),
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
    /// What is configured, as far as this machine can do it. None = no processes.
    pub(super) async fn choose(
        execution: Execution,
        spawner: &Spawner,
        state: &Path,
        epoch: &str,
    ) -> Result<Option<Self>, ServeError> {
        let host = async || {
            let host = Host::new(state, epoch);
            host.sweep().await;
            Ok(Some(Self::Host(host)))
        };
        match execution {
            Execution::Off => Ok(None),
            Execution::Host => host().await,
            Execution::Sandbox | Execution::Auto => match (Sandbox::probe(spawner).await, execution) {
                (Ok(sandbox), _) => Ok(Some(Self::Sandbox(sandbox))),
                (Err(reason), Execution::Sandbox) => Err(ServeError::Config(format!(
                    "execution: there can be no sandbox: {reason}; correct that, or choose --execution host or off"
                ))),
                (Err(reason), _) => {
                    tracing::warn!(
                        "processes run without a sandbox, with all your rights: {reason}; --execution off forbids them"
                    );
                    host().await
                }
            },
        }
    }

    /// Refuses what this model cannot do.
    pub(super) fn check(&self, plan: &Plan) -> Result<(), Refusal> {
        match self {
            Self::Host(_) if !plan.mounts.are_one_directory() => Err(Refusal::UNSUPPORTED),
            Self::Host(_) | Self::Sandbox(_) => Ok(()),
        }
    }

    pub(super) fn launch(&self, plan: Plan) -> std::io::Result<(Launch, Tree)> {
        match self {
            Self::Sandbox(sandbox) => {
                let mounts = plan.mounts.mounts.into_iter().map(|mount| (mount.at, mount.access, mount.directory));
                let (launch, init) = sandbox.launch(&plan.command, &plan.args, &plan.cwd, mounts)?;
                Ok((launch, Tree::Sandbox(init)))
            }
            Self::Host(host) => {
                let (launch, mark) = host.launch(&plan);
                Ok((launch, Tree::Host(mark)))
            }
        }
    }

    pub(super) fn words(&self) -> ModelWords {
        match self {
            Self::Sandbox(_) => ModelWords {
                execution: ExecutionModel::Sandbox,
                consistency: WorkspaceConsistency::Isolated,
                read_only: ReadOnlyEnforcement::KernelEnforced,
                paths: PathModel::VirtualRoot,
            },
            Self::Host(_) => ModelWords {
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
        match self {
            Self::Sandbox(init) => init.end().await,
            Self::Host(mark) => mark.end().await,
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
