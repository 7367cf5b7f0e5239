//! Who calls, and what that caller may do (`files-http.md` §1.1, `cells-0.4.md` §1.4).

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
use crate::refusal::Refusal;
use crate::{ServeError, random};

/// The principals of a node. There is one, called `owner`.
#[derive(Debug)]
pub(crate) struct Principals {
    verifier: Verifier,
    owner: Principal,
}

impl Principals {
    pub(crate) fn new(verifier: Verifier, grants: Grants) -> Result<Self, ServeError> {
        Ok(Self { verifier, owner: Principal::new("owner", grants)? })
    }

    /// Authenticates the caller and checks its pin. The first thing every handler does after reading its request.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<&Principal, Refusal> {
        let principal = self.authenticate(headers)?;
        principal.check_pin(headers)?;
        Ok(principal)
    }

    /// The caller, or 401. `/mcp` checks the origin between this and [`Principal::check_pin`].
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Result<&Principal, Refusal> {
        let authorization = headers.get(header::AUTHORIZATION).ok_or(Refusal::UNAUTHENTICATED)?;
        if self.verifier.accepts(authorization) { Ok(&self.owner) } else { Err(Refusal::UNAUTHENTICATED) }
    }
}

/// An authenticated caller. Cheap to clone.
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
    fn new(id: &str, grants: Grants) -> Result<Self, ServeError> {
        let invalid = |error: &dyn std::fmt::Display| ServeError::Failed(format!("principal {id}: {error}"));
        let principal_id = PrincipalId::new(id).map_err(|error| invalid(&error))?;
        let revision = GrantRevision::Text(grants.revision().into());
        let authorization = AuthorizationSnapshot { principal_id, anonymous: false, revision };
        Ok(Self { inner: Arc::new(PrincipalInner { authorization, grants }) })
    }

    pub(crate) fn id(&self) -> &PrincipalId {
        &self.inner.authorization.principal_id
    }

    /// What discovery tells the caller about itself.
    pub(crate) fn authorization(&self) -> &AuthorizationSnapshot {
        &self.inner.authorization
    }

    /// What the caller may do with an export; none = the export does not exist for it.
    pub(crate) fn access(&self, alias: &Alias) -> Option<Access> {
        self.inner.grants.exports.get(alias).copied()
    }

    pub(crate) fn may_use_profile(&self, profile: &ProfileId) -> bool {
        self.inner.grants.profiles.contains(profile)
    }

    /// Refuses a request that is meant for another principal, or for other grants.
    pub(crate) fn check_pin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(principal) = headers.get(PRINCIPAL_HEADER) else { return Ok(()) };
        let revision = headers.get(PRINCIPAL_REVISION_HEADER).and_then(as_id).ok_or(Refusal::INVALID)?;
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
}

impl Grants {
    /// The first 32 hex digits of SHA-256 over the canonical list: one line a grant, exports first, each sorted by name.
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
        ] {
            assert_ne!(revision, other.revision(), "{other:?}");
        }
    }
}
