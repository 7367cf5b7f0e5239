//! The agent profiles of a node: those of the configuration, or the built-in one.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

use cells_protocol::ids::{Alias, ProfileId, WorkspaceId};

use crate::files::{Export, Exports};
use crate::harness::plugin::ProfileConfig;
use crate::{HarnessConfig, ServeConfig, ServeError};

/// Checks the configured profiles, before anything is created.
pub(crate) fn check(config: &ServeConfig) -> Result<(), ServeError> {
    for (at, profile) in config.harnesses.iter().enumerate() {
        let id = &profile.id;
        if config.harnesses[..at].iter().any(|earlier| earlier.id == *id) {
            return Err(ServeError::Config(format!("harness {id}: the id is given twice; ids must differ")));
        }
        let workspaces = profile.workspaces.iter();
        for (name, path) in
            workspaces.map(|(id, path)| (id.as_str(), path)).chain(profile.home.iter().map(|path| ("home", path)))
        {
            if !path.is_absolute() || !path.is_dir() {
                return Err(ServeError::Config(format!(
                    "harness {id}: {name}: {} is not an existing absolute directory",
                    path.display()
                )));
            }
        }
        for (at, (workspace, _)) in profile.workspaces.iter().enumerate() {
            if profile.workspaces[..at].iter().any(|(earlier, _)| earlier == workspace) {
                return Err(ServeError::Config(format!("harness {id}: workspace {workspace} is given twice")));
            }
        }
    }
    Ok(())
}

/// The ids of all profiles.
pub(crate) fn ids(config: &ServeConfig) -> Result<BTreeSet<ProfileId>, ServeError> {
    if config.harnesses.is_empty() {
        return Ok([built_in_id()?].into());
    }
    Ok(config.harnesses.iter().map(|profile| profile.id.clone()).collect())
}

/// The profiles with all defaults filled in. Creates the homes below the state directory.
pub(crate) fn resolve(config: &ServeConfig, exports: &Exports, state: &Path) -> Result<Vec<ProfileConfig>, ServeError> {
    let built_in = HarnessConfig { id: built_in_id()?, kind: BUILT_IN.to_owned(), home: None, workspaces: Vec::new() };
    let configured = if config.harnesses.is_empty() { slice::from_ref(&built_in) } else { &config.harnesses };
    let resolve = |profile: &HarnessConfig| {
        let workspaces = if profile.workspaces.is_empty() { of_exports(exports)? } else { profile.workspaces.clone() };
        let home = profile.home.clone().map_or_else(|| make_home(state, &profile.id), Ok)?;
        Ok(ProfileConfig { id: profile.id.clone(), kind: profile.kind.clone(), workspaces, home })
    };
    configured.iter().map(resolve).collect()
}

/// Every export is a workspace of the same name.
fn of_exports(exports: &Exports) -> Result<Vec<(WorkspaceId, PathBuf)>, ServeError> {
    let workspace = |(alias, export): (&Alias, &Arc<Export>)| match WorkspaceId::new(alias.as_str()) {
        Ok(id) => Ok((id, export.path.clone())),
        Err(error) => Err(ServeError::Config(format!("export {alias}: {error}"))),
    };
    exports.iter().map(workspace).collect()
}

fn built_in_id() -> Result<ProfileId, ServeError> {
    ProfileId::new(BUILT_IN).map_err(|error| ServeError::Failed(error.to_string()))
}

fn make_home(state: &Path, profile: &ProfileId) -> Result<PathBuf, ServeError> {
    let home = state.join("harness").join(profile.as_str());
    match DirBuilder::new().recursive(true).mode(0o700).create(&home) {
        Ok(()) => Ok(home),
        Err(error) => Err(ServeError::Failed(format!("{}: {error}", home.display()))),
    }
}

/// Id and kind of the agent that every node has.
const BUILT_IN: &str = "scripted";
