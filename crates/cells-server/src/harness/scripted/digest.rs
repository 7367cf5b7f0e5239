//! Digests of sessions: prompts and answers, nothing else (`cells-0.4.md` §7.3).

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use cells_protocol::harness::{DigestEntry, DigestPage, DigestRole, Session as SessionView};
use cells_protocol::ids::{DigestRevision, NativeId};
use cells_protocol::limits::{DIGEST_PAGE_MAX_BYTES, DIGEST_PAGE_MAX_ENTRIES, DIGEST_TEXT_MAX_BYTES};
use cells_protocol::text::prefix;
use serde_json::{Value, json};

use super::arguments::offset;
use super::driver::Agent;
use super::record::{Item, Record};
use super::session::open_error;
use super::texts::Said;
use crate::harness::arguments::Arguments;
use crate::harness::plugin::ToolError;

impl Agent {
    /// A page of the digest of a session, oldest entries first.
    ///
    /// # Errors
    /// `HARNESS_DIGEST_CHANGED` when the history is not the expected one any more; `EINVAL` for a cursor without
    /// `expectedRevision`.
    pub(super) async fn digest(&self, arguments: &Arguments) -> Result<Value, ToolError> {
        let session = self.session(arguments).await?;
        let cursor = offset(arguments, "cursor")?;
        let expected = match arguments.get("expectedRevision") {
            None | Some(Value::Null) => None,
            Some(revision) => Some(revision.as_str().ok_or(ToolError("EINVAL"))?.to_owned()),
        };
        let metadata_only = match arguments.get("metadataOnly") {
            None | Some(Value::Null) => false,
            Some(only) => only.as_bool().ok_or(ToolError("EINVAL"))?,
        };
        if cursor.is_some() && (expected.is_none() || metadata_only) {
            return Err(ToolError("EINVAL"));
        }
        let (view, end) = session.view_and_end();
        let revision = view.history_revision.clone().unwrap_or_default();
        if expected.is_some_and(|expected| expected != revision) {
            return Err(ToolError("HARNESS_DIGEST_CHANGED"));
        }
        let mut page = empty_page(view, &revision)?;
        if metadata_only {
            return Ok(json!(page));
        }
        let from = cursor.unwrap_or(session.items_start());
        if !(session.items_start()..=end).contains(&from) {
            return Err(ToolError("EINVAL"));
        }
        let (store, id) = (std::sync::Arc::clone(&self.store), session.id().clone());
        let filled = tokio::task::spawn_blocking(move || {
            let file = store.open(&id).map_err(|error| open_error(&error))?;
            fill(&mut page, file, from, end)?;
            Ok(json!(page))
        });
        filled.await.unwrap_or(Err(ToolError("EIO")))
    }
}

fn empty_page(view: SessionView, revision: &str) -> Result<DigestPage, ToolError> {
    Ok(DigestPage {
        version: 1,
        session_id: view.id,
        revision: DigestRevision::new(revision).map_err(|_| ToolError("EIO"))?,
        title: view.title,
        created_at: view.created_at,
        updated_at: view.updated_at,
        entries: Vec::new(),
        omitted_unclassified: None,
        next_cursor: None,
    })
}

/// Reads the records of `file` between `from` and `end` into `page` until that is full.
///
/// # Errors
/// `EINVAL` when no record starts at `from`.
fn fill(page: &mut DigestPage, mut file: File, from: u64, end: u64) -> Result<(), ToolError> {
    let io = |_| ToolError("EIO");
    let mut before = [0];
    file.read_exact_at(&mut before, from.saturating_sub(1)).map_err(io)?;
    if before != *b"\n" {
        return Err(ToolError("EINVAL"));
    }
    file.seek(SeekFrom::Start(from)).map_err(io)?;
    let mut reader = BufReader::new(file.take(end - from));
    let (mut position, mut bytes, mut omitted) = (from, 0, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).map_err(io)?;
        if read == 0 {
            break;
        }
        if let Record::Item { item, .. } = Record::from_line(&line) {
            match Said::of(&item) {
                Some(Said::Unclassified(_)) => omitted += 1,
                Some(said @ (Said::Prompt(_) | Said::Answer(_))) => {
                    let entry = entry(&item, &said).ok_or(ToolError("EIO"))?;
                    bytes += cells_protocol::json::to_vec(&entry).len() + 1;
                    let is_full = page.entries.len() == DIGEST_PAGE_MAX_ENTRIES || bytes > DIGEST_PAGE_MAX_BYTES;
                    if is_full && !page.entries.is_empty() {
                        page.next_cursor = Some(position.to_string());
                        break;
                    }
                    page.entries.push(entry);
                }
                Some(Said::Other(_)) | None => {}
            }
        }
        position += read as u64;
    }
    page.omitted_unclassified = Some(omitted);
    Ok(())
}

fn entry(item: &Item, said: &Said) -> Option<DigestEntry> {
    let id_of = |name: &str| item.get(name)?.as_str().and_then(|id| NativeId::new(id).ok());
    let text = prefix(said.text(), DIGEST_TEXT_MAX_BYTES);
    Some(DigestEntry {
        id: id_of("id")?,
        role: if matches!(said, Said::Answer(_)) { DigestRole::Assistant } else { DigestRole::User },
        turn_id: id_of("turnId"),
        timestamp: item.get("timestamp").and_then(Value::as_u64),
        text: text.to_owned(),
        truncated: text.len() < said.text().len(),
    })
}
