//! How a write ended, by its receipt, else by what the export shows.

use cells_protocol::error::{ErrorKind, Outcome};
use cells_protocol::file_receipts::FileReceipt;
use cells_protocol::file_recovery::{FileChange, FileRecovery};
use cells_protocol::files::{FileKind, FileStat};
use cells_protocol::ids::Sha256Hex;
use sha2::{Digest, Sha256};

use super::receipts::{cancel, ended, is_never_seen, is_running, remembers, status};
use crate::budget::Budget;
use crate::cancellation::OperationOptions;
use crate::error::{Error, Result};
use crate::files::{FileClient, ReadOptions};

/// [`FileStorage::settle`](crate::FileStorage::settle).
pub(in crate::files) async fn settle(
    client: &FileClient,
    recovery: &FileRecovery,
    options: &OperationOptions,
) -> Result<FileReceipt> {
    let find_out = async {
        client.0.link.check_open(SETTLE)?;
        if recovery.alias != client.0.alias {
            let message = format!("the write was one of the export {}, not of {}", recovery.alias, client.0.alias);
            return Err(Error::invalid(SETTLE, message));
        }
        let budget = client.0.link.budget(options);
        budget.run(SETTLE, by_receipt(client, recovery, options, &budget)).await
    };
    find_out.await.map_err(|error: Error| error.with_outcome(Outcome::Unknown).with_file_recovery(recovery.clone()))
}

async fn by_receipt(
    client: &FileClient,
    recovery: &FileRecovery,
    options: &OperationOptions,
    budget: &Budget,
) -> Result<FileReceipt> {
    let (files, operation_id) = (&client.0, &recovery.operation_id);
    let known = match status(files, operation_id, budget).await {
        Ok(receipt) => Some(receipt),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let receipt = match known {
        Some(receipt) => receipt,
        // The write may still arrive. It can no longer happen after this, which alone does not say that it has not.
        None => match cancel(files, operation_id, budget).await {
            Ok(receipt) if is_never_seen(&receipt) && !remembers(files, recovery, budget).await? => {
                FileReceipt::Unknown { code: None }
            }
            Ok(receipt) => receipt,
            Err(error) => return Err(error),
        },
    };
    let receipt = ended(files, operation_id, receipt, budget).await?;
    match receipt {
        FileReceipt::Unknown { ref code } if !is_running(&receipt) => {
            by_looking(client, recovery, options, code.clone()).await
        }
        receipt => Ok(receipt),
    }
}

/// What the export proves about a write that does not run and cannot happen any more.
async fn by_looking(
    client: &FileClient,
    recovery: &FileRecovery,
    options: &OperationOptions,
    code: Option<String>,
) -> Result<FileReceipt> {
    let unknown = Ok(FileReceipt::Unknown { code });
    let (path, revision, content) = match &recovery.change {
        FileChange::Replace { path, revision, size, sha256 } => (path, revision, size.zip(sha256.as_ref())),
        FileChange::Transaction { path, revision } => (path, revision, None),
        // Somebody else may have made, moved or removed the entry.
        FileChange::Mkdir { .. } | FileChange::Rename { .. } | FileChange::Remove { .. } | FileChange::Other { .. } => {
            return unknown;
        }
    };
    let Some(stat) = client.stat(path, options.clone()).await? else { return unknown };
    // A revision is never given twice: the file is still the one that was to be replaced.
    if revision.is_some() && stat.revision == *revision {
        return Ok(FileReceipt::NotCommitted { code: "ECANCELLED".to_owned() });
    }
    match content {
        Some((size, sha256)) if has_content(client, path, &stat, size, sha256, options).await? => {
            Ok(FileReceipt::Committed { result: Some(stat) })
        }
        Some(_) | None => unknown,
    }
}

async fn has_content(
    client: &FileClient,
    path: &str,
    stat: &FileStat,
    size: u64,
    sha256: &Sha256Hex,
    options: &OperationOptions,
) -> Result<bool> {
    if stat.kind != FileKind::File || stat.size != Some(size) {
        return Ok(false);
    }
    let options = ReadOptions { operation: options.clone(), ..ReadOptions::default() };
    let mut stream = client.read_stream(path, options).await?;
    if stream.revision != stat.revision || stream.size != size {
        return Ok(false);
    }
    let mut hash = Sha256::new();
    while let Some(piece) = stream.next().await? {
        hash.update(&piece);
    }
    Ok(Sha256Hex::from_bytes(hash.finalize().into()) == *sha256)
}

const SETTLE: &str = "settle";
