//! New content, from a staging file to its name in one step (`files-http.md` §5.2).

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cells_protocol::files::FileStat;
use cells_protocol::mutations::ReplaceCondition;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Statx, fchmod, fsync, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::confine::{ExportPath, kind, stat_open};
use super::operations::intent::{Content, Identity, Intent, OpenPlace};
use super::operations::{Failure, Operation};
use super::revision::{file_stat, revision};
use super::steps::Step;
use crate::random;
use crate::refusal::Refusal;

/// Content that nobody sees yet. Dropped without [`Staging::commit`] it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Staging {
    place: Arc<OpenPlace>,
    leftover: Arc<Leftover>,
    file: File,
    condition: ReplaceCondition,
    /// Permissions of the file: those of the file it replaces.
    mode: Mode,
}

impl Staging {
    /// Makes the staging file, if the condition holds now. Blocks.
    pub(crate) fn begin(
        operation: &Operation,
        path: &ExportPath,
        condition: ReplaceCondition,
    ) -> Result<Self, Refusal> {
        let place = Arc::new(OpenPlace::open(&operation.export().root, path)?);
        let mode = match require(&condition, &place)? {
            Some(old) => Mode::from_raw_mode(old.stx_mode.into()) & PERMISSIONS,
            None => NEW_FILE,
        };
        operation.step(Step::Create)?;
        let leftover = Leftover::new(operation, &place, LeftoverKind::File)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(place.as_fd(), &leftover.name, flags, PRIVATE)?.into();
        Ok(Self { place, leftover, file, condition, mode })
    }

    /// Blocks.
    pub(crate) fn write_at(&self, operation: &Operation, offset: u64, bytes: &[u8]) -> Result<(), Refusal> {
        operation.check()?;
        operation.step(Step::Write)?;
        Ok(self.file.write_all_at(bytes, offset).map_err(|error| errno(&error))?)
    }

    /// Gives the content its name, if the condition still holds. Blocks.
    pub(crate) fn commit(&self, operation: &Operation) -> Result<Option<FileStat>, Failure> {
        operation.check()?;
        fchmod(&self.file, self.mode)?;
        operation.step(Step::Sync)?;
        fsync(&self.file)?;
        let old = require(&self.condition, &self.place)?;
        let staged = Staged { place: &self.place, leftover: &self.leftover, object: self.file.as_fd() };
        let object = stat_open(self.file.as_fd())?;
        let intent = Intent::Place {
            at: self.place.place().clone(),
            staged: self.leftover.name.clone(),
            object: Identity::from(&object),
            content: Some(Content::from(&object)),
            // With another name elsewhere it could come back.
            old: old.filter(|old| old.stx_nlink == 1).as_ref().map(Identity::from),
        };
        let check = || require(&self.condition, &self.place).map(drop);
        let replace = || match self.condition {
            ReplaceCondition::CreateOnly => match staged.rename_to_free_name() {
                Err(Errno::EXIST) => Err(Refusal::CONFLICT.into()),
                renamed => renamed.map_err(Failure::of_effect),
            },
            ReplaceCondition::Match(_) => staged.rename().map_err(Failure::of_effect),
        };
        let stat = staged.publish(operation, &intent, check, replace)?;
        let is_writable = operation.export().is_writable();
        // The revision of bytes that another program wrote meanwhile must not pass for that of this write.
        let published = stat.filter(|stat| Content::from(stat) == Content::from(&object));
        Ok(published.map_or_else(|| file_stat(&object, false), |stat| file_stat(&stat, is_writable)))
    }
}

/// Stages `bytes` and gives them their name, if the condition holds. Blocks.
pub(crate) fn replace_from_bytes(
    operation: &Operation,
    path: &ExportPath,
    condition: &ReplaceCondition,
    bytes: &[u8],
) -> Result<Option<FileStat>, Failure> {
    let staging = Staging::begin(operation, path, condition.clone())?;
    staging.write_at(operation, 0, bytes)?;
    staging.commit(operation)
}

/// Makes a folder. Blocks.
pub(crate) fn make_directory(operation: &Operation, path: &ExportPath) -> Result<(), Failure> {
    let place = Arc::new(OpenPlace::open(&operation.export().root, path)?);
    let check = || if place.stat()?.is_none() { Ok(()) } else { Err(Refusal::EXISTS) };
    check()?;
    operation.check()?;
    operation.step(Step::Create)?;
    // Made under a staging name, so that a later start can tell it from one that somebody else made.
    let leftover = Leftover::new(operation, &place, LeftoverKind::Folder)?;
    rustix::fs::mkdirat(place.as_fd(), &leftover.name, PRIVATE_FOLDER)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(place.as_fd(), &leftover.name, flags, Mode::empty())?;
    // Other bits, such as the group's inheritance, are the parent's.
    let inherited = Mode::from_raw_mode(stat_open(folder.as_fd())?.stx_mode.into()) - PERMISSIONS;
    fchmod(&folder, (inherited & Mode::from_raw_mode(0o7000)) | NEW_FOLDER)?;
    operation.step(Step::Sync)?;
    fsync(&folder)?;
    let staged = Staged { place: &place, leftover: &leftover, object: folder.as_fd() };
    let intent = Intent::Place {
        at: place.place().clone(),
        staged: leftover.name.clone(),
        object: Identity::from(&stat_open(folder.as_fd())?),
        content: None,
        old: None,
    };
    staged.publish(operation, &intent, check, || staged.rename_to_free_name().map_err(Failure::of_effect))?;
    Ok(())
}

/// A staged file or folder that is ready to get its name.
struct Staged<'a> {
    place: &'a Arc<OpenPlace>,
    leftover: &'a Arc<Leftover>,
    object: std::os::fd::BorrowedFd<'a>,
}

impl Staged<'_> {
    /// Records the intent, then does `effect` under the lock of the export if `check` still allows it. Gives the
    /// attributes of the object under its new name.
    fn publish(
        &self,
        operation: &Operation,
        intent: &Intent,
        check: impl Fn() -> Result<(), Refusal>,
        effect: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Option<Statx>, Failure> {
        operation.intend(intent, Some(self.leftover))?;
        let stat = {
            let _turn = operation.export().turn();
            operation.check()?;
            if !self.place.is_current(&operation.export().root) {
                return Err(Refusal::CONFLICT.into());
            }
            operation.step(Step::Effect).map_err(Failure::of_effect)?;
            check()?;
            effect()?;
            // A failure from here on does not take the effect back.
            stat_open(self.object).ok()
        };
        let _ = operation.step(Step::Done);
        flush(&[self.place]);
        Ok(stat)
    }

    fn rename(&self) -> Result<(), Errno> {
        renameat(self.place.as_fd(), &self.leftover.name, self.place.as_fd(), &self.place.name)
    }

    fn rename_to_free_name(&self) -> Result<(), Errno> {
        let (directory, name) = (self.place.as_fd(), &self.place.name);
        renameat_with(directory, &self.leftover.name, directory, name, RenameFlags::NOREPLACE)
    }
}

/// Makes changed directories survive a power cut. It is not part of the promise of a receipt, so that a failure is only
/// logged.
pub(super) fn flush(places: &[&OpenPlace]) {
    for place in places {
        if let Err(errno) = fsync(&place.directory) {
            tracing::warn!("a directory could not be flushed to the disk: {errno}");
        }
    }
}

/// A staging name in a directory. Dropping this removes what still has it.
#[derive(Debug)]
pub(crate) struct Leftover {
    place: Arc<OpenPlace>,
    pub(super) name: String,
    kind: LeftoverKind,
    is_evidence: AtomicBool,
}

/// What a staging name is made for, which its last digit tells: a folder may be removed only if it was made for one.
/// Another could be a folder of somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftoverKind {
    File,
    Folder,
}

impl LeftoverKind {
    /// How what has the name is removed.
    pub(super) fn of_name(name: &str) -> Self {
        if name.ends_with(Self::Folder.digit()) { Self::Folder } else { Self::File }
    }

    fn digit(self) -> char {
        match self {
            Self::File => 'f',
            Self::Folder => 'd',
        }
    }
}

impl Leftover {
    /// A name that nothing has.
    pub(super) fn new(operation: &Operation, place: &Arc<OpenPlace>, kind: LeftoverKind) -> Result<Arc<Self>, Refusal> {
        let mut random = random::hex(&random::bytes::<8>().map_err(|_| Refusal::IO)?);
        random.pop();
        let name = format!("{}{random}{}", operation.staging_prefix(), kind.digit());
        Ok(Arc::new(Self { place: Arc::clone(place), name, kind, is_evidence: AtomicBool::new(false) }))
    }

    /// Whether it proves what became of a write that has no receipt. Then it is left alone: the next start looks at it.
    pub(super) fn set_evidence(&self, is_evidence: bool) {
        self.is_evidence.store(is_evidence, Ordering::Relaxed);
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        if *self.is_evidence.get_mut() {
            return;
        }
        let flags = match self.kind {
            LeftoverKind::File => AtFlags::empty(),
            LeftoverKind::Folder => AtFlags::REMOVEDIR,
        };
        match unlinkat(self.place.as_fd(), &self.name, flags) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => tracing::warn!("a staging file could not be removed; the next start tries again: {errno}"),
        }
    }
}

/// What the condition allows to be replaced; none for a new file. A conflict when the condition does not hold.
fn require(condition: &ReplaceCondition, place: &OpenPlace) -> Result<Option<Statx>, Refusal> {
    match (condition, place.stat()?) {
        (ReplaceCondition::CreateOnly, None) => Ok(None),
        (ReplaceCondition::Match(wanted), Some(old))
            if kind(&old) == FileType::RegularFile && revision(&old) == *wanted =>
        {
            Ok(Some(old))
        }
        _ => Err(Refusal::CONFLICT),
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

const PRIVATE: Mode = Mode::from_raw_mode(0o600);
const PRIVATE_FOLDER: Mode = Mode::from_raw_mode(0o700);
const PERMISSIONS: Mode = Mode::from_raw_mode(0o777);
const NEW_FILE: Mode = Mode::from_raw_mode(0o644);
const NEW_FOLDER: Mode = Mode::from_raw_mode(0o755);
