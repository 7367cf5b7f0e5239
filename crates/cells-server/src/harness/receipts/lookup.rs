//! Asking for a receipt and sealing an id (`cells-0.4.md` §12.4–12.5).

use cells_protocol::ids::{PrincipalId, ProfileId};
use rusqlite::{OptionalExtension, params};

use super::{NOT_COMMITTED, NewRow, ReceiptKey, ReceiptState, ReceiptStore};
use crate::harness::plugin::ToolError;

impl ReceiptStore {
    /// What became of the mutation that `principal` sent as `request_id` to `profile` in `epoch`. Both texts may be
    /// anything: what has the wrong form was never admitted.
    ///
    /// # Errors
    /// `HARNESS_EPOCH_CHANGED` when nothing is known of the epoch, `ENOENT` when the mutation may still arrive,
    /// `HARNESS_REQUEST_REUSED` when the id belongs to another profile, `HARNESS_RECEIPT_STORE` when the file cannot be
    /// read.
    pub(crate) fn find(
        &self,
        principal: &PrincipalId,
        request_id: &str,
        profile: &str,
        epoch: &str,
    ) -> Result<ReceiptState, ToolError> {
        let inner = self.lock();
        let known = epoch == self.epoch.as_str()
            || inner
                .connection
                .prepare_cached("SELECT 1 FROM epochs WHERE epoch = ?1")
                .and_then(|mut select| select.query_row(params![epoch], |_| Ok(())).optional())
                .map_err(|_| ToolError("HARNESS_RECEIPT_STORE"))?
                .is_some();
        if !known {
            return Err(ToolError("HARNESS_EPOCH_CHANGED"));
        }
        match inner.row(principal.as_str(), request_id)? {
            Some(row) if row.epoch == epoch && row.profile != profile => Err(ToolError("HARNESS_REQUEST_REUSED")),
            Some(row) if row.epoch == epoch => Ok(row.state),
            Some(_) | None if epoch == self.epoch.as_str() => Err(ToolError("ENOENT")),
            // Nothing is admitted for an earlier epoch any more: an absent row proves that it did not happen.
            Some(_) | None => Ok(ReceiptState::NotCommitted("HARNESS_NOT_ADMITTED".to_owned())),
        }
    }

    /// Makes sure that the mutation `key` of `profile` does not happen, unless it was admitted; gives its receipt.
    ///
    /// # Errors
    /// `HARNESS_REQUEST_REUSED` when the id belongs to another profile or epoch, `HARNESS_OPERATION_LIMIT`,
    /// `HARNESS_RECEIPT_LIMIT`, `HARNESS_RECEIPT_STORE`.
    pub(crate) fn seal(&self, key: &ReceiptKey, profile: &ProfileId) -> Result<ReceiptState, ToolError> {
        const CODE: &str = "ECANCELLED";
        let mut inner = self.lock();
        match inner.row(key.principal.as_str(), key.request_id.as_str())? {
            Some(row) if row.epoch == self.epoch.as_str() && row.profile == profile.as_str() => Ok(row.state),
            Some(_) => Err(ToolError("HARNESS_REQUEST_REUSED")),
            None => {
                let row =
                    NewRow { profile, tool: "harness_seal", identity: None, state: NOT_COMMITTED, code: Some(CODE) };
                self.insert(&mut inner, key, &row)?;
                Ok(ReceiptState::NotCommitted(CODE.to_owned()))
            }
        }
    }
}
