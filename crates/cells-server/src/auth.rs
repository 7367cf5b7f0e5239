//! Who calls, and what that caller may do (`files-http.md` §1.1, `cells-0.4.md` §1.4–1.5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, header};
use cells_protocol::authorization::{
    AuthorizationSnapshot, GrantRevision, PRINCIPAL_HEADER, PRINCIPAL_REVISION_HEADER,
};
use cells_protocol::capabilities::Access;
use cells_protocol::ids::{Alias, PrincipalId, ProfileId, is_id};
use sha2::{Digest, Sha256};

use crate::credential::Verifier;
use crate::headers::Only;
use crate::random;
use crate::refusal::Refusal;

/// The principals of a node.
#[derive(Debug)]
pub(crate) struct Principals {
    named: Vec<(Verifier, Principal)>,
    /// Who a caller without credential is; none = every caller needs one.
    public: Option<Principal>,
}

impl Principals {
    pub(crate) fn new(named: Vec<(Verifier, Principal)>, public: Option<Principal>) -> Self {
        Self { named, public }
    }

    /// Authenticates the caller and checks its pin. The first thing a handler does after reading its request. The public
    /// principal gets 403.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<&Principal, Refusal> {
        let principal = self.admit_anyone(headers)?;
        if principal.is_anonymous() { Err(Refusal::DENIED) } else { Ok(principal) }
    }

    /// As [`Principals::admit`], for the few routes that the public principal may use.
    pub(crate) fn admit_anyone(&self, headers: &HeaderMap) -> Result<&Principal, Refusal> {
        let principal = self.authenticate(headers)?;
        principal.check_pin(headers)?;
        Ok(principal)
    }

    /// The caller, or 401. A wrong credential never makes a caller anonymous. `/mcp` checks the origin between this and
    /// [`Principal::check_pin`].
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Result<&Principal, Refusal> {
        let principal = match Only::of(headers, header::AUTHORIZATION.as_str()) {
            Only::None => self.public.as_ref(),
            Only::One(authorization) => {
                self.named.iter().find(|(verifier, _)| verifier.accepts(authorization)).map(|(_, principal)| principal)
            }
            Only::Many => None,
        };
        principal.ok_or(Refusal::UNAUTHENTICATED)
    }
}

/// A caller. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Principal {
    inner: Arc<PrincipalInner>,
}

#[derive(Debug)]
struct PrincipalInner {
    authorization: AuthorizationSnapshot,
    grants: Grants,
}

impl Principal {
    pub(crate) fn new(principal_id: PrincipalId, anonymous: bool, grants: Grants) -> Self {
        let revision = GrantRevision::Text(grants.revision().into());
        let authorization = AuthorizationSnapshot { principal_id, anonymous, revision };
        Self { inner: Arc::new(PrincipalInner { authorization, grants }) }
    }

    pub(crate) fn id(&self) -> &PrincipalId {
        &self.inner.authorization.principal_id
    }

    /// What discovery tells the caller about itself.
    pub(crate) fn authorization(&self) -> &AuthorizationSnapshot {
        &self.inner.authorization
    }

    /// Whether this is the public principal.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.inner.authorization.anonymous
    }

    /// What the caller may do with an export; none = the export does not exist for it.
    pub(crate) fn access(&self, alias: &Alias) -> Option<Access> {
        self.inner.grants.exports.get(alias).copied()
    }

    /// Refuses a caller that may not change the files of an export.
    pub(crate) fn may_write(&self, alias: &Alias) -> Result<(), Refusal> {
        match self.access(alias) {
            Some(Access::Rw) => Ok(()),
            Some(Access::Ro) if !self.is_anonymous() => Err(Refusal::READ_ONLY),
            Some(Access::Ro) | None => Err(Refusal::DENIED),
        }
    }

    /// Whether the caller may start processes.
    pub(crate) fn may_run_processes(&self) -> bool {
        self.inner.grants.process
    }

    /// The agent profiles that exist for the caller.
    pub(crate) fn profiles(&self) -> &BTreeSet<ProfileId> {
        &self.inner.grants.profiles
    }

    /// Refuses a request that is meant for another principal, or for other grants.
    pub(crate) fn check_pin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let principal = match Only::of(headers, PRINCIPAL_HEADER) {
            Only::None => return Ok(()),
            Only::One(principal) => principal,
            Only::Many => return Err(Refusal::INVALID),
        };
        let Only::One(revision) = Only::of(headers, PRINCIPAL_REVISION_HEADER) else { return Err(Refusal::INVALID) };
        let revision = as_id(revision).ok_or(Refusal::INVALID)?;
        let current = self.authorization();
        let matches = principal.as_bytes() == current.principal_id.as_str().as_bytes()
            && revision == current.revision.to_string();
        if matches { Ok(()) } else { Err(Refusal::AUTHORIZATION_CHANGED) }
    }
}

/// Everything that is granted to one principal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grants {
    pub(crate) exports: BTreeMap<Alias, Access>,
    pub(crate) profiles: BTreeSet<ProfileId>,
    /// Whether the principal may start processes.
    pub(crate) process: bool,
}

impl Grants {
    /// The first 32 hex digits of SHA-256 over the canonical list: one line a grant, exports first, then agent profiles,
    /// each sorted by name, then processes.
    /// Aliases and profile ids hold neither spaces nor line breaks, so that no two lists have the same text.
    fn revision(&self) -> String {
        let mut list = Sha256::new();
        for (alias, access) in &self.exports {
            let access = match access {
                Access::Ro => "ro",
                Access::Rw => "rw",
            };
            list.update(format!("export {alias} {access}\n"));
        }
        for profile in &self.profiles {
            list.update(format!("harness {profile}\n"));
        }
        if self.process {
            list.update("process\n");
        }
        random::hex(&list.finalize()[..16])
    }
}

fn as_id(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().filter(|text| is_id(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(exports: &[(&str, Access)], profiles: &[&str]) -> Grants {
        Grants {
            exports: exports.iter().map(|(alias, access)| (Alias::new(*alias).unwrap(), *access)).collect(),
            profiles: profiles.iter().map(|id| ProfileId::new(*id).unwrap()).collect(),
            process: false,
        }
    }

    #[test]
    fn equal_grants_have_equal_revisions_and_others_do_not() {
        let revision = grants(&[("a", Access::Ro), ("b", Access::Rw)], &["main"]).revision();
        assert_eq!(revision.len(), 32);
        assert_eq!(revision, grants(&[("b", Access::Rw), ("a", Access::Ro)], &["main"]).revision());
        for other in [
            grants(&[("a", Access::Rw), ("b", Access::Rw)], &["main"]),
            grants(&[("a", Access::Ro)], &["main"]),
            grants(&[("a", Access::Ro), ("b", Access::Rw)], &[]),
            grants(&[("a", Access::Ro), ("b", Access::Rw)], &["other"]),
            Grants { process: true, ..grants(&[("a", Access::Ro), ("b", Access::Rw)], &["main"]) },
        ] {
            assert_ne!(revision, other.revision(), "{other:?}");
        }
    }
}
