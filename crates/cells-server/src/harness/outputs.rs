//! Bodies of command output behind a reference (`cells-0.4.md` §5.4).
//!
//! One file a body, below `<state>/outputs/<epoch>/<principal>/<request id>`. A body dies with its epoch, or earlier when
//! newer ones need the room. Functions here block on the disk; call them through `tokio::task::spawn_blocking`.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cells_protocol::commands::{OUTPUT_MIME_TYPE, OutputPageBody, OutputRef};
use cells_protocol::ids::{Epoch, ProfileId, Sha256Hex};
use cells_protocol::limits::{OUTPUT_MAX_BYTES, OUTPUT_PAGE_MAX_BYTES};
use sha2::{Digest, Sha256};

use super::plugin::ToolError;
use super::receipts::ReceiptKey;

/// The bodies of one epoch.
#[derive(Debug)]
pub(crate) struct OutputStore {
    directory: PathBuf,
    epoch: Epoch,
    /// Bytes of all bodies together.
    capacity: u64,
    index: Mutex<Index>,
}

impl OutputStore {
    /// Removes the bodies of earlier epochs. Creates nothing before the first body.
    pub(crate) fn open(state: &Path, epoch: Epoch, capacity: u64) -> io::Result<Self> {
        let outputs = state.join("outputs");
        match std::fs::remove_dir_all(&outputs) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        Ok(Self { directory: outputs.join(epoch.as_str()), epoch, capacity, index: Mutex::default() })
    }

    /// Keeps `text` as the output of the mutation `key`.
    ///
    /// # Errors
    /// `HARNESS_COMMAND_OUTPUT_TOO_LARGE` above 32 MiB, `EINVAL` when the text is empty, `ENOSPC` or `EIO` when it cannot
    /// be written.
    pub(crate) fn keep(&self, key: &ReceiptKey, profile: &ProfileId, text: &str) -> Result<OutputRef, ToolError> {
        let bytes = text.len() as u64;
        if bytes == 0 {
            return Err(ToolError("EINVAL"));
        }
        if bytes > OUTPUT_MAX_BYTES || bytes > self.capacity {
            return Err(ToolError("HARNESS_COMMAND_OUTPUT_TOO_LARGE"));
        }
        let path = self.path(key);
        if let Err(error) = write_private(&path, text.as_bytes()) {
            // What was written of it is of no use; a file that is not there is no failure.
            let _ = std::fs::remove_file(&path);
            return Err(ToolError(if error.kind() == io::ErrorKind::StorageFull { "ENOSPC" } else { "EIO" }));
        }
        let reference = OutputRef {
            version: 1,
            epoch: self.epoch.clone(),
            request_id: key.request_id.clone(),
            bytes,
            sha256: Sha256Hex::from_bytes(Sha256::digest(text).into()),
            mime_type: OUTPUT_MIME_TYPE.to_owned(),
        };
        let body = Body { profile: profile.clone(), reference: reference.clone() };
        for old in self.lock().add(key.clone(), body, self.capacity) {
            let _ = std::fs::remove_file(self.path(&old));
        }
        Ok(reference)
    }

    /// One page: `min(limit, bytes − offset)` bytes.
    ///
    /// # Errors
    /// `EINVAL` when `limit` is not 1 to 65,536 or `offset` is beyond the end, `ENOENT` when there is no such body.
    pub(crate) fn page(
        &self,
        key: &ReceiptKey,
        profile: &ProfileId,
        offset: u64,
        limit: u64,
    ) -> Result<OutputPageBody, ToolError> {
        if !(1..=OUTPUT_PAGE_MAX_BYTES).contains(&limit) {
            return Err(ToolError("EINVAL"));
        }
        let (reference, cached) = self.lock().find(key, profile).ok_or(ToolError("ENOENT"))?;
        let length = limit.min(reference.bytes.checked_sub(offset).ok_or(ToolError("EINVAL"))?);
        let file = match cached {
            Some(file) => file,
            None => Arc::new(File::open(self.path(key)).map_err(|_| ToolError("ENOENT"))?),
        };
        let mut data = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact_at(&mut data, offset).map_err(|_| ToolError("ENOENT"))?;
        self.lock().remember(key, file);
        let end = offset + length;
        let next_offset = (end < reference.bytes).then_some(end);
        Ok(OutputPageBody { reference, offset, data: STANDARD.encode(data), next_offset })
    }

    fn path(&self, key: &ReceiptKey) -> PathBuf {
        self.directory.join(key.principal.as_str()).join(key.request_id.as_str())
    }

    fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Index {
    bodies: BTreeMap<ReceiptKey, Body>,
    /// The oldest body first.
    order: VecDeque<ReceiptKey>,
    bytes: u64,
    /// Files that were read last: a body is read page by page.
    open: VecDeque<(ReceiptKey, Arc<File>)>,
}

#[derive(Debug)]
struct Body {
    profile: ProfileId,
    reference: OutputRef,
}

impl Index {
    /// Adds a body and gives those that must go.
    fn add(&mut self, key: ReceiptKey, body: Body, capacity: u64) -> Vec<ReceiptKey> {
        self.bytes += body.reference.bytes;
        self.bodies.insert(key.clone(), body);
        self.order.push_back(key);
        let mut gone = Vec::new();
        while self.bytes > capacity {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.bodies.remove(&oldest).map_or(0, |body| body.reference.bytes);
            self.open.retain(|(key, _)| *key != oldest);
            gone.push(oldest);
        }
        gone
    }

    fn find(&self, key: &ReceiptKey, profile: &ProfileId) -> Option<(OutputRef, Option<Arc<File>>)> {
        let body = self.bodies.get(key).filter(|body| body.profile == *profile)?;
        let file = self.open.iter().find(|(open, _)| open == key).map(|(_, file)| Arc::clone(file));
        Some((body.reference.clone(), file))
    }

    fn remember(&mut self, key: &ReceiptKey, file: Arc<File>) {
        if self.bodies.contains_key(key) && self.open.iter().all(|(open, _)| open != key) {
            self.open.push_back((key.clone(), file));
            if self.open.len() > OPEN_FILES_MAX {
                self.open.pop_front();
            }
        }
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

/// Files kept open for readers.
const OPEN_FILES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use cells_protocol::ids::{PrincipalId, RequestId};

    use super::*;

    fn key(request_id: &str) -> ReceiptKey {
        ReceiptKey { principal: PrincipalId::new("owner").unwrap(), request_id: RequestId::new(request_id).unwrap() }
    }

    fn main_profile() -> ProfileId {
        ProfileId::new("main").unwrap()
    }

    fn store(state: &Path, capacity: u64) -> OutputStore {
        OutputStore::open(state, Epoch::from_bytes([3; 32]), capacity).unwrap()
    }

    #[test]
    fn pages_are_exact() {
        let state = tempfile::tempdir().unwrap();
        let store = store(state.path(), 1 << 20);
        let text = "0123456789".repeat(20_000);
        let reference = store.keep(&key("r"), &main_profile(), &text).unwrap();
        assert_eq!((reference.bytes, reference.check()), (200_000, Ok(())));
        for (offset, limit, expected) in [
            (0, 65_536, Ok((65_536, Some(65_536)))),
            (65_536, 1, Ok((1, Some(65_537)))),
            (199_999, 65_536, Ok((1, None))),
            (199_998, 1, Ok((1, Some(199_999)))),
            (200_000, 5, Ok((0, None))),
            (200_001, 5, Err(ToolError("EINVAL"))),
            (0, 0, Err(ToolError("EINVAL"))),
            (0, 65_537, Err(ToolError("EINVAL"))),
        ] {
            let page = store.page(&key("r"), &main_profile(), offset, limit);
            let seen = page.map(|page| {
                let data = STANDARD.decode(&page.data).unwrap();
                assert_eq!(data, text.as_bytes()[offset as usize..][..data.len()]);
                assert_eq!((page.offset, &page.reference), (offset, &reference));
                (data.len(), page.next_offset)
            });
            assert_eq!(seen, expected, "offset {offset} limit {limit}");
        }
    }

    #[test]
    fn a_body_is_private_to_its_principal_profile_and_epoch() {
        let state = tempfile::tempdir().unwrap();
        let outputs = store(state.path(), 1 << 20);
        outputs.keep(&key("r"), &main_profile(), "x").unwrap();
        let file = state.path().join("outputs").join("03".repeat(32)).join("owner/r");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(file.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let guest = ReceiptKey { principal: PrincipalId::new("guest").unwrap(), ..key("r") };
        let missing = Err(ToolError("ENOENT"));
        assert_eq!(outputs.page(&guest, &main_profile(), 0, 1), missing);
        assert_eq!(outputs.page(&key("r"), &ProfileId::new("other").unwrap(), 0, 1), missing);
        assert_eq!(outputs.page(&key("s"), &main_profile(), 0, 1), missing);
        let next = store(state.path(), 1 << 20);
        assert!(!state.path().join("outputs").exists());
        assert_eq!(next.page(&key("r"), &main_profile(), 0, 1), missing);
    }

    #[test]
    fn the_oldest_bodies_make_room() {
        let state = tempfile::tempdir().unwrap();
        let store = store(state.path(), 250);
        for name in ["a", "b", "c"] {
            store.keep(&key(name), &main_profile(), &name.repeat(100)).unwrap();
        }
        assert_eq!(store.page(&key("a"), &main_profile(), 0, 1), Err(ToolError("ENOENT")));
        assert!(store.page(&key("b"), &main_profile(), 0, 1).is_ok());
        let kept = std::fs::read_dir(store.path(&key("b")).parent().unwrap()).unwrap().count();
        assert_eq!(kept, 2);
        let too_large = store.keep(&key("d"), &main_profile(), &"d".repeat(251));
        assert_eq!(too_large, Err(ToolError("HARNESS_COMMAND_OUTPUT_TOO_LARGE")));
    }
}
