//! The session files of a profile: one JSON-lines file for each session, only ever appended to.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cells_protocol::ids::{NativeId, is_id};
use rustix::fs::OFlags;

use super::history::Summary;
use super::metadata::Metadata;
use super::record::{Header, Record};

/// The folder `sessions` in the home of a profile. All methods block on the disk.
#[derive(Debug)]
pub(super) struct Store {
    directory: PathBuf,
}

impl Store {
    /// The store in `home`. Makes nothing yet.
    pub(super) fn new(home: &Path) -> Self {
        Self { directory: home.join("sessions") }
    }

    /// Reads what the folder holds. Links, foreign files and files that cannot be read are left out.
    pub(super) fn load(&self) -> io::Result<Vec<(Summary, Metadata)>> {
        let entries = match self.directory.read_dir() {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut summaries = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".jsonl")) else { continue };
            let Some(id) = NativeId::new(id).ok().filter(|id| is_id(id.as_str())) else { continue };
            let summary = self.open(&id).and_then(|file| Summary::read(&file));
            let summary = summary.ok().flatten().filter(|summary| summary.header.id == id);
            summaries.extend(summary.map(|summary| (summary, self.metadata(&id))));
        }
        Ok(summaries)
    }

    /// Makes the file of a new session durably, and gives its length.
    pub(super) fn create(&self, header: Header) -> io::Result<u64> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let options = OpenOptions::new().write(true).create_new(true).mode(0o600).clone();
        let mut file = options.open(self.path(&header.id))?;
        let line = Record::Session(header).to_line();
        file.write_all(&line)?;
        file.sync_all()?;
        self.sync_directory()?;
        Ok(line.len() as u64)
    }

    /// Opens the file of a session for reading.
    pub(super) fn open(&self, id: &NativeId) -> io::Result<File> {
        let file = OpenOptions::new().read(true).custom_flags(NO_LINK).open(self.path(id))?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// Appends records behind `end`, where the last whole line ends, and gives the new end. Whatever a crash or a full
    /// disk left behind `end` is cut off. With `sync` the records are durable when this returns.
    pub(super) fn append(&self, id: &NativeId, end: u64, records: &[Record], sync: bool) -> io::Result<u64> {
        let lines: Vec<u8> = records.iter().flat_map(Record::to_line).collect();
        let mut file = OpenOptions::new().append(true).custom_flags(NO_LINK).open(self.path(id))?;
        match file.metadata()?.len() {
            length if length < end => return Err(io::ErrorKind::UnexpectedEof.into()),
            length if length > end => file.set_len(end)?,
            _ => {}
        }
        file.write_all(&lines)?;
        if sync {
            file.sync_data()?;
        }
        Ok(end + lines.len() as u64)
    }

    /// Makes a session with the records of `source` between `start` and `end` durably. It is there whole or not at all.
    pub(super) fn fork(&self, header: Header, source: &NativeId, start: u64, end: u64) -> io::Result<()> {
        let target = self.path(&header.id);
        self.write_whole(&target, |file| {
            let mut records = self.open(source)?;
            file.write_all(&Record::Session(header).to_line())?;
            records.seek(io::SeekFrom::Start(start))?;
            let copied = io::copy(&mut records.take(end - start), file)?;
            if copied == end - start { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
        })
    }

    /// Removes a session durably.
    pub(super) fn delete(&self, id: &NativeId) -> io::Result<()> {
        std::fs::remove_file(self.path(id))?;
        match std::fs::remove_file(self.metadata_path(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        self.sync_directory()
    }

    /// What is kept of a session beside its history; the default where nothing was written or it cannot be read.
    pub(super) fn metadata(&self, id: &NativeId) -> Metadata {
        let file = OpenOptions::new().read(true).custom_flags(NO_LINK).open(self.metadata_path(id));
        let mut text = Vec::new();
        let read = file.and_then(|file| file.take(METADATA_MAX_BYTES).read_to_end(&mut text));
        read.ok().and_then(|_| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// Replaces the metadata of a session durably.
    pub(super) fn set_metadata(&self, id: &NativeId, metadata: &Metadata) -> io::Result<()> {
        let text = cells_protocol::json::to_vec(metadata);
        self.write_whole(&self.metadata_path(id), |file| file.write_all(&text))
    }

    /// Makes or replaces a file in one durable step.
    fn write_whole(&self, path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let staged = path.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(NO_LINK);
        let mut file = options.open(&staged)?;
        let written = write(&mut file).and_then(|()| file.sync_all()).and_then(|()| std::fs::rename(&staged, path));
        if let Err(error) = written {
            // What cannot be removed either is replaced by the next attempt.
            let _ = std::fs::remove_file(&staged);
            return Err(error);
        }
        self.sync_directory()
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn path(&self, id: &NativeId) -> PathBuf {
        self.directory.join(format!("{id}.jsonl"))
    }

    fn metadata_path(&self, id: &NativeId) -> PathBuf {
        self.directory.join(format!("{id}.meta"))
    }
}

const METADATA_MAX_BYTES: u64 = 64 * 1024;

const NO_LINK: i32 = OFlags::NOFOLLOW.bits() as i32;
