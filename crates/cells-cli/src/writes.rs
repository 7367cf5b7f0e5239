//! What the verbs that change files share.

use cells_native::cells_driver::{
    Error, FileConnection, FileMutationOptions, FileMutations, FileReceipt, FileStorage, OperationId, Outcome,
};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::node::Node;
use crate::remote_path::RemotePath;

/// An export that may be changed.
pub(crate) struct Writable {
    /// The export.
    pub(crate) storage: FileStorage,
    /// Its writes.
    pub(crate) mutations: FileMutations,
}

impl Node {
    /// Opens the export `alias`.
    pub(crate) async fn storage(&self, alias: &str) -> Result<FileStorage, Failure> {
        let connection = FileConnection::new(self.connection.clone(), alias);
        let about = |error: Error| Failure::from(error).about(alias);
        self.client.file_storage(&connection, self.options()).await.map_err(about)
    }

    /// Opens the export `alias` for writing.
    ///
    /// # Errors
    /// When the export or the credential only allows reading.
    pub(crate) async fn writable(&self, alias: &str) -> Result<Writable, Failure> {
        let storage = self.storage(alias).await?;
        let mutations = storage.mutations().cloned();
        let mutations = mutations.ok_or_else(|| {
            let line = format!("{alias} is read-only here (EROFS); `cells exports` lists what may be written");
            Failure::new(Exit::AccessDenied, line)
        })?;
        Ok(Writable { storage, mutations })
    }

    /// Options of one write.
    pub(crate) fn write_options(&self) -> FileMutationOptions {
        FileMutationOptions { operation: self.options(), ..FileMutationOptions::default() }
    }

    /// The failure of a write of `path`. An unknown outcome says how to ask for it.
    pub(crate) fn write_failure(&self, path: &RemotePath, error: Error) -> Failure {
        let operation_id = error.operation_id().cloned();
        let is_unknown = error.outcome() == Some(Outcome::Unknown);
        let failure = match error.remote_code() {
            Some("ECONFLICT") => {
                let line = format!("{path} exists, or has changed meanwhile ({})", error.kind());
                Failure::driver(error, line)
            }
            _ => Failure::path(error, path),
        };
        match operation_id {
            Some(id) if is_unknown => failure.with_ask(self.operation_command(&path.alias, &id)),
            _ => failure,
        }
    }
}

/// A receipt as one object.
pub(crate) fn receipt_json(alias: &str, id: &OperationId, receipt: &FileReceipt) -> Value {
    let mut object = json!({ "alias": alias, "operationId": id.as_str() });
    match receipt {
        FileReceipt::Committed { result } => {
            object["outcome"] = json!("committed");
            object["result"] = json!(result);
        }
        FileReceipt::NotCommitted { code } => {
            object["outcome"] = json!("not-committed");
            object["code"] = json!(code);
        }
        FileReceipt::Unknown { code } => {
            object["outcome"] = json!("unknown");
            object["code"] = json!(code);
        }
        FileReceipt::Running => {
            object["outcome"] = json!("unknown");
            object["state"] = json!("running");
        }
    }
    object
}
