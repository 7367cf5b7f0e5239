//! The principals of a node: its owner, those of the configuration, and the public one.

use std::collections::{BTreeMap, BTreeSet};

use cells_protocol::capabilities::Access;
use cells_protocol::ids::{Alias, PrincipalId, ProfileId};

use crate::auth::{Grants, Principal, Principals};
use crate::credential::{self, Verifier};
use crate::files::Exports;
use crate::{PrincipalConfig, ServeConfig, ServeError, profiles};

/// All principals, but how the owner is recognised.
pub(crate) struct Checked {
    owner: Principal,
    others: Vec<(Verifier, Principal)>,
    public: Option<Principal>,
}

/// Checks the configured principals, before anything is created.
pub(crate) fn check(config: &ServeConfig, exports: &Exports) -> Result<Checked, ServeError> {
    let profiles = profiles::ids(config)?;
    let mut others: Vec<(Verifier, Principal)> = Vec::new();
    for (at, principal) in config.principals.iter().enumerate() {
        let id = &principal.id;
        let refuse = |problem: &str| Err(ServeError::Config(format!("principal {id}: {problem}")));
        if [OWNER, ANONYMOUS].contains(&id.as_str()) {
            return refuse("the name has a fixed meaning; choose another");
        }
        if config.principals[..at].iter().any(|earlier| earlier.id == *id) {
            return refuse("the id is given twice; ids must differ");
        }
        let verifier = match credential::verifier(&principal.credential) {
            Ok(Some(verifier)) => verifier,
            Ok(None) => return refuse("it needs an API key, or a user name and a password"),
            Err(ServeError::Config(problem)) => return refuse(&problem),
            Err(error) => return Err(error),
        };
        let grants = match grants(principal, exports, &profiles) {
            Ok(grants) => grants,
            Err(problem) => return refuse(&problem),
        };
        others.push((verifier, Principal::new(id.clone(), false, grants)));
    }
    check_distinct(config, &others)?;

    let owner = Grants {
        exports: exports.iter().map(|(alias, export)| (alias.clone(), export.access)).collect(),
        profiles,
        process: true,
    };
    let public = Grants { exports: public_exports(exports), ..Grants::default() };
    Ok(Checked {
        owner: Principal::new(fixed(OWNER)?, false, owner),
        others,
        public: if public.exports.is_empty() { None } else { Some(Principal::new(fixed(ANONYMOUS)?, true, public)) },
    })
}

impl Checked {
    /// The owner has the credential of `verifier`, which nobody else may have.
    pub(crate) fn settle(self, verifier: Verifier, config: &ServeConfig) -> Result<Principals, ServeError> {
        match config.principals.iter().find(|other| verifier.takes(&other.credential)) {
            None => {
                let owner = (verifier, self.owner);
                Ok(Principals::new(std::iter::once(owner).chain(self.others).collect(), self.public))
            }
            Some(other) => Err(same_credential(OWNER, other.id.as_str())),
        }
    }
}

/// What everyone may read.
fn public_exports(exports: &Exports) -> BTreeMap<Alias, Access> {
    exports.iter().filter(|(_, export)| export.public).map(|(alias, _)| (alias.clone(), Access::Ro)).collect()
}

/// What the configuration grants, if the node has all of it.
fn grants(principal: &PrincipalConfig, exports: &Exports, profiles: &BTreeSet<ProfileId>) -> Result<Grants, String> {
    for (alias, access) in &principal.exports {
        match exports.get(alias).map(|export| export.access) {
            None => return Err(format!("export {alias} is not served; correct its `exports`")),
            Some(Access::Ro) if *access == Access::Rw => {
                return Err(format!("export {alias} is served read-only; grant \"ro\""));
            }
            Some(Access::Ro | Access::Rw) => {}
        }
    }
    if let Some(unknown) = principal.harnesses.iter().find(|profile| !profiles.contains(profile)) {
        return Err(format!("there is no harness {unknown}; correct its `harnesses`"));
    }
    // Whoever has a name may do no less than who has none.
    let mut granted = public_exports(exports);
    granted.extend(principal.exports.clone());
    Ok(Grants { exports: granted, profiles: principal.harnesses.iter().cloned().collect(), process: principal.process })
}

/// Refuses credentials that leave open who calls.
fn check_distinct(config: &ServeConfig, others: &[(Verifier, Principal)]) -> Result<(), ServeError> {
    for (verifier, principal) in others {
        let id = principal.id();
        let same = config.principals.iter().find(|other| other.id != *id && verifier.takes(&other.credential));
        if let Some(other) = same {
            return Err(same_credential(id.as_str(), other.id.as_str()));
        }
        if verifier.takes(&config.credential) {
            return Err(same_credential(OWNER, id.as_str()));
        }
    }
    Ok(())
}

fn same_credential(one: &str, other: &str) -> ServeError {
    ServeError::Config(format!("principals {one} and {other} have the same API key or user name; give each its own"))
}

fn fixed(id: &str) -> Result<PrincipalId, ServeError> {
    PrincipalId::new(id).map_err(|error| ServeError::Failed(error.to_string()))
}

/// The principal with the credential of the node itself, who may do everything.
const OWNER: &str = "owner";
/// The public principal (`cells-0.4.md` §1.4).
const ANONYMOUS: &str = "anonymous";
