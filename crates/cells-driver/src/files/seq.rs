//! SeqFiles of one export (`files-http.md` §7).

use std::sync::Arc;

use cells_protocol::error::{ErrorKind, Outcome};
use cells_protocol::file_recovery::FileChange;
use cells_protocol::files::FileStat;
use cells_protocol::ids::Alias;
use cells_protocol::json::to_vec;
use cells_protocol::limits::{JSON_REPLY_MAX_BYTES, JSON_REQUEST_MAX_BYTES};
use cells_protocol::mutations::is_revision;
use cells_protocol::seq::{
    SeqChange, SeqSnapshot, SeqSnapshotRequest, SeqTransactionRequest, check_changes, check_seq_name,
};

use super::write::{FileCommitted, FileMutationOptions, Request, check_entry, commit, not_started};
use super::{FileClient, Files};
use crate::cancellation::OperationOptions;
use crate::discovery::parsed;
use crate::error::{Error, Result};
use crate::node::Link;
use crate::transport::{Call, JSON};

/// SeqFiles of one export: small tables of keys and JSON values, each in one file. Cheap to clone.
///
/// ```no_run
/// use cells_driver::{FileMutationOptions, FileStorage, OperationOptions, Result, SeqChange};
/// # async fn example(storage: FileStorage) -> Result<()> {
/// let seq = storage.seq();
/// let before = seq.snapshot("meta/info.seq", OperationOptions::default()).await?;
/// let changes = [SeqChange::Set { key: "title".into(), value: "Plan".into() }];
/// let after = seq.transaction("meta/info.seq", before.revision.as_deref(), &changes, FileMutationOptions::default());
/// println!("revision {:?}", after.await?.value.revision);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SeqClient {
    files: Arc<Files>,
    is_writable: bool,
}

impl SeqClient {
    pub(super) fn new(files: &Arc<Files>, is_writable: bool) -> Self {
        Self { files: Arc::clone(files), is_writable }
    }

    /// All entries of the SeqFile `path`; none, and no revision, when it does not exist.
    ///
    /// # Errors
    /// `EINVAL` when the name does not end in `.seq`; `EIO` when the file is no SeqFile; `EFBIG` above 4 MiB of entries;
    /// `ECAPABILITY` on a node without SeqFiles.
    pub async fn snapshot(&self, path: &str, options: OperationOptions) -> Result<SeqSnapshot> {
        self.files.link.check_open(SNAPSHOT)?;
        check_path(SNAPSHOT, path)?;
        let budget = self.files.link.budget(&options);
        let ask = async {
            let body = to_vec(&SeqSnapshotRequest { path: path.to_owned() });
            let call = Call::post(SNAPSHOT, self.files.url("seq/snapshot").await?, JSON, body);
            let reply = self.files.link.fetch(&call, JSON_REPLY_MAX_BYTES, &budget).await?;
            parsed(SNAPSHOT, SeqSnapshot::parse(&reply))
        };
        budget.run(SNAPSHOT, ask).await.map_err(explain)
    }

    /// Makes `changes` in order, all of them or none. `expected_revision` is that of the last snapshot or transaction;
    /// `None` = the SeqFile does not exist. The result describes the new file; its revision is the one to expect next.
    ///
    /// # Errors
    /// `ECONFLICT` when the SeqFile has another revision: take a snapshot first. `EINVAL` for more than 256 changes, keys
    /// that are empty, longer than 1,024 bytes or hold a NUL, and changes of more than 512 KiB in all. `EROFS` on a
    /// read-only export. Outcomes are those of every write; see [`FileMutations`](crate::FileMutations).
    pub async fn transaction(
        &self,
        path: &str,
        expected_revision: Option<&str>,
        changes: &[SeqChange],
        options: FileMutationOptions,
    ) -> Result<FileCommitted<FileStat>> {
        let body = self.body(path, expected_revision, changes).map_err(not_started)?;
        let call = Call::post(TRANSACTION, String::new(), JSON, body);
        let change = FileChange::Transaction { path: path.to_owned(), revision: expected_revision.map(str::to_owned) };
        let request = Request { call, route: "seq/transaction".to_owned(), content: None, change };
        commit(&self.files, request, options).await.map_err(explain)?.into_file(TRANSACTION)
    }

    fn body(&self, path: &str, expected_revision: Option<&str>, changes: &[SeqChange]) -> Result<Vec<u8>> {
        check_path(TRANSACTION, path)?;
        let invalid = |problem: String| Error::invalid(TRANSACTION, problem);
        check_changes(changes).map_err(|problem| invalid(problem.to_string()))?;
        if expected_revision.is_some_and(|revision| !is_revision(revision)) {
            return Err(invalid("the expected revision is not one; pass it as it was read".to_owned()));
        }
        if !self.is_writable {
            return Err(Error::new(ErrorKind::ReadOnly, TRANSACTION, "the export is read-only for this credential"));
        }
        let body = to_vec(&SeqTransactionRequest {
            path: path.to_owned(),
            expected_revision: expected_revision.map(str::to_owned),
            changes: changes.to_vec(),
        });
        if body.len() > JSON_REQUEST_MAX_BYTES {
            let size = body.len();
            return Err(invalid(format!(
                "the changes take {size} bytes, more than the {JSON_REQUEST_MAX_BYTES} of one transaction"
            )));
        }
        Ok(body)
    }
}

impl std::fmt::Debug for SeqClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SeqClient({})", self.files.alias)
    }
}

/// SeqFiles of an export of which nothing is known: the node refuses what it does not allow.
pub(crate) fn seq_of(link: &Link, alias: Alias) -> SeqClient {
    SeqClient::new(&FileClient::new(link.clone(), alias).0, true)
}

fn check_path(operation: &'static str, path: &str) -> Result<()> {
    check_entry(operation, path)?;
    check_seq_name(path).map_err(|problem| Error::invalid(operation, problem))
}

/// A missing SeqFile is no error, so a bare 404 means that the node does not have the route.
fn explain(error: Error) -> Error {
    if error.status() != Some(404) || error.remote_code().is_some() {
        return error;
    }
    let operation = error.operation().to_owned();
    let plain = Error::new(ErrorKind::Unsupported, operation, "the node does not have SeqFiles").with_status(404);
    match error.operation_id() {
        Some(operation_id) => plain.with_outcome(Outcome::NotCommitted).with_operation_id(operation_id.clone()),
        None => plain,
    }
}

const SNAPSHOT: &str = "seq_snapshot";
const TRANSACTION: &str = "seq_transaction";
