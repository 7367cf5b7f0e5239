//! Turning `unknown` into `committed` by evidence (`cells-0.4.md` §12.1 rule 7). Nothing is ever proved not to have
//! happened.

use std::collections::BTreeMap;

use cells_protocol::ids::{PrincipalId, ProfileId, RequestId};
use rusqlite::{Connection, params};
use serde_json::{Map, Value};

use super::{COMMITTED, ReceiptKey, ReceiptState, ReceiptStore, UNKNOWN, bounded, time};
use crate::harness::arguments::identity;
use crate::harness::plugin::{Proof, ToolError};

/// The mutations that ran when an earlier process ended.
pub(super) type Unproved = BTreeMap<RequestId, Vec<PrincipalId>>;

impl ReceiptStore {
    /// Writes that a mutation of `profile` happened, if its outcome is unknown and the evidence is of exactly this
    /// mutation: its identity says so, which holds session and prompt. Does nothing otherwise.
    ///
    /// # Errors
    /// `HARNESS_RECEIPT_STORE`; the outcome stays unknown then.
    pub(crate) fn prove(&self, profile: &ProfileId, proof: &Proof) -> Result<(), ToolError> {
        let mut inner = self.lock();
        let mut proved = Vec::new();
        for principal in inner.unproved.get(&proof.request_id).into_iter().flatten() {
            let Some(row) = inner.row(principal.as_str(), proof.request_id.as_str())? else { continue };
            let is_unknown = matches!(row.state, ReceiptState::Unknown(_)) && row.profile == profile.as_str();
            let found = identity(proof.tool, &arguments(proof, profile, &row.epoch));
            if is_unknown && row.identity.as_deref() == Some(&found[..]) {
                proved.push(ReceiptKey { principal: principal.clone(), request_id: proof.request_id.clone() });
            }
        }
        // Two principals could have sent the very same; one effect is no proof of both.
        let [key] = &proved[..] else { return Ok(()) };
        let (principal, request_id) = (key.principal.as_str(), key.request_id.as_str());
        let result = bounded(proof.result.to_string());
        let written = inner
            .connection
            .prepare_cached(PROVE)
            .and_then(|mut prove| prove.execute(params![COMMITTED, result, time(), principal, request_id, UNKNOWN]));
        written.map_err(|_| ToolError("HARNESS_RECEIPT_STORE"))?;
        inner.unproved.remove(&key.request_id);
        Ok(())
    }
}

/// What the open file holds of them.
pub(super) fn read_unproved(connection: &Connection) -> rusqlite::Result<Unproved> {
    let mut unproved = Unproved::new();
    let mut select = connection.prepare(SELECT_RESTARTED)?;
    let rows = select.query_map([UNKNOWN], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    for row in rows {
        let (principal, request_id) = row?;
        if let (Ok(principal), Ok(request_id)) = (PrincipalId::new(principal), RequestId::new(request_id)) {
            unproved.entry(request_id).or_default().push(principal);
        }
    }
    Ok(unproved)
}

/// The arguments of the mutation, as they were sent if the evidence is right.
fn arguments(proof: &Proof, profile: &ProfileId, epoch: &str) -> Map<String, Value> {
    let mut arguments = proof.arguments.clone();
    for (name, value) in [("profileId", profile.as_str()), ("epoch", epoch), ("requestId", proof.request_id.as_str())] {
        arguments.insert(name.to_owned(), value.into());
    }
    arguments
}

const SELECT_RESTARTED: &str =
    "SELECT principal, requestId FROM receipts WHERE state = ?1 AND code = 'HARNESS_RESTARTED'";
const PROVE: &str = "UPDATE receipts SET state = ?1, code = NULL, result = ?2, updatedAt = ?3 \
                     WHERE principal = ?4 AND requestId = ?5 AND state = ?6";
