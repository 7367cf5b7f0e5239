//! Where results go: standard output, or a file that appears only when it is complete.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::failure::{Exit, Failure};
use crate::text::one_line;

/// Writes `text` to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::stdout(&error))
}

/// Writes `value` to standard output as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(value).map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    print(&format!("{json}\n"))
}

/// Tells a person something on standard error, on one line.
pub(crate) fn note(text: &str) {
    // There is nobody left to tell when this fails.
    let _ = writeln!(io::stderr().lock(), "cells: {}", one_line(text));
}

/// Tells that a result is not all of what was asked for.
pub(crate) fn warn(text: &str) {
    note(&format!("warning: {text}"));
}

/// Where the bytes of a download go.
pub(crate) struct Target {
    place: Place,
    progress: ProgressBar,
}

enum Place {
    Stdout(io::Stdout),
    /// A device or a pipe, which is written as it is.
    Special(File, PathBuf),
    /// A regular file: written beside its name, and moved there at the end.
    File(NamedTempFile, PathBuf),
}

impl Target {
    /// Standard output, or the file `path`.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let place = match path {
            None => Place::Stdout(io::stdout()),
            Some(path) => open_file(path).map_err(|error| failed(path, &error))?,
        };
        Ok(Self { place, progress: ProgressBar::hidden() })
    }

    /// Shows the progress towards `total` bytes on the terminal, unless the bytes themselves go there.
    pub(crate) fn start_progress(&mut self, total: u64) -> ProgressBar {
        let is_in_the_way = matches!(&self.place, Place::Stdout(out) if out.is_terminal());
        if !is_in_the_way {
            // Draws only on a terminal.
            self.progress = bytes_bar(total);
        }
        self.progress.clone()
    }

    /// Writes the next bytes.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.place {
            Place::Stdout(out) => out.write_all(bytes).map_err(|error| Failure::stdout(&error))?,
            Place::Special(file, path) => file.write_all(bytes).map_err(|error| failed(path, &error))?,
            Place::File(file, path) => file.write_all(bytes).map_err(|error| failed(path, &error))?,
        }
        self.progress.inc(bytes.len() as u64);
        Ok(())
    }

    /// Ends the download. The file has its name from now on.
    ///
    /// # Errors
    /// When the last bytes cannot be written, or the file cannot be moved.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.progress.finish_and_clear();
        match self.place {
            Place::Stdout(mut out) => out.flush().map_err(|error| Failure::stdout(&error)),
            Place::Special(mut file, path) => file.flush().map_err(|error| failed(&path, &error)),
            Place::File(file, path) => file.persist(&path).map(drop).map_err(|error| failed(&path, &error.error)),
        }
    }
}

fn open_file(path: &Path) -> io::Result<Place> {
    // A link stays, and what it leads to is replaced.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mode = match path.metadata() {
        Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(metadata) if !metadata.is_file() => {
            let file = OpenOptions::new().write(true).open(&path)?;
            return Ok(Place::Special(file, path));
        }
        Ok(metadata) => metadata.permissions(),
        Err(_) => Permissions::from_mode(NEW_FILE_MODE),
    };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = tempfile::Builder::new().prefix(".cells-").suffix(".part").permissions(mode).tempfile_in(directory)?;
    Ok(Place::File(file, path))
}

/// A bar towards `total` bytes. It draws only on a terminal.
pub(crate) fn bytes_bar(total: u64) -> ProgressBar {
    ProgressBar::new(total).with_style(style())
}

/// The failure to use the local path `path`.
pub(crate) fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("{}: {error}", path.display()))
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:30} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The umask takes its bits away.
const NEW_FILE_MODE: u32 = 0o666;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_only_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("body");
        let names = || {
            let mut names: Vec<_> = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let mut target = Target::open(Some(&path)).unwrap();
        target.write(b"half").unwrap();
        assert!(!path.exists());
        drop(target);
        assert_eq!(names().len(), 0, "nothing is left of a download that failed");

        std::fs::write(&path, "before").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let mut target = Target::open(Some(&path)).unwrap();
        target.write(b"whole").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
        target.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(), ["body"]);
    }

    #[test]
    fn links_stay_and_devices_are_written_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "before").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mut target = Target::open(Some(&link)).unwrap();
        target.write(b"after").unwrap();
        target.finish().unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"after");
        assert!(link.is_symlink());

        let mut target = Target::open(Some(Path::new("/dev/null"))).unwrap();
        target.write(b"gone").unwrap();
        target.finish().unwrap();
        assert!(Target::open(Some(folder.path())).is_err());
    }
}
