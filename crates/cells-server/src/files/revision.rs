//! Attributes and strong revisions, both from the file itself (`files-http.md` §4.1–4.2).

use cells_protocol::files::{FileKind, FileStat};
use cells_protocol::limits::SAFE_INTEGER_MAX;
use rustix::fs::{FileType, Statx, StatxTimestamp};
use sha2::{Digest, Sha256};

use super::confine::kind;
use crate::random;

/// The attributes on the wire; none for sockets, pipes and devices. `strong` adds the revision of a writable export.
pub(crate) fn file_stat(stat: &Statx, strong: bool) -> Option<FileStat> {
    let kind = match kind(stat) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => return None,
    };
    Some(FileStat {
        kind,
        size: Some(stat.stx_size.min(SAFE_INTEGER_MAX)),
        modified_at: Some(unix_ms(stat.stx_mtime)),
        created_at: Some(unix_ms(stat.stx_btime)),
        revision: strong.then(|| revision(stat)),
    })
}

/// Names one state of one file: whoever writes, replaces, renames or touches it, through the node or not, changes the
/// revision, and a restart of the node does not. The decimal part is the time of the last change, for people who read it.
pub(crate) fn revision(stat: &Statx) -> String {
    let mut hash = Sha256::new();
    for part in [u64::from(stat.stx_dev_major), u64::from(stat.stx_dev_minor), stat.stx_ino, stat.stx_size] {
        hash.update(part.to_be_bytes());
    }
    for time in [stat.stx_mtime, stat.stx_ctime] {
        hash.update(time.tv_sec.to_be_bytes());
        hash.update(time.tv_nsec.to_be_bytes());
    }
    format!("\"{}:{}\"", random::hex(&hash.finalize()[..16]), unix_ms(stat.stx_ctime))
}

/// Unix milliseconds; 0 for times the file system does not have and for times before 1970.
fn unix_ms(time: StatxTimestamp) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(u64::from(time.tv_nsec / 1_000_000)).min(SAFE_INTEGER_MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::files::confine::stat_open;

    fn stat(path: &Path) -> Statx {
        stat_open(fs::File::open(path).unwrap().as_fd()).unwrap()
    }

    #[test]
    fn every_kind_of_change_gives_a_new_revision() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "one").unwrap();
        let mut seen = vec![revision(&stat(&path))];
        assert_eq!(seen[0], revision(&stat(&path)), "stable across reads");

        let changes: [(&str, &dyn Fn()); 4] = [
            ("size", &|| fs::write(&path, "four").unwrap()),
            ("same size, other time", &|| {
                let file = fs::File::options().write(true).open(&path).unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_millis(1_234)).unwrap();
            }),
            ("replaced by a copy with the same time", &|| {
                let copy = directory.path().join("copy");
                fs::copy(&path, &copy).unwrap();
                let file = fs::File::options().write(true).open(&copy).unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_millis(1_234)).unwrap();
                fs::rename(&copy, &path).unwrap();
            }),
            ("removed and made again", &|| {
                fs::rename(&path, directory.path().join("old")).unwrap();
                fs::write(&path, "four").unwrap();
            }),
        ];
        for (what, change) in changes {
            change();
            let next = revision(&stat(&path));
            assert!(!seen.contains(&next), "{what}: {next} in {seen:?}");
            seen.push(next);
        }
    }

    #[test]
    fn the_text_form_is_quoted_hex_and_a_number() {
        let text = revision(&stat(Path::new("/")));
        let (hex, number) = text.trim_matches('"').split_once(':').unwrap();
        assert!(text.starts_with('"') && text.ends_with('"'), "{text}");
        assert!(hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase()), "{text}");
        assert!(number.parse::<u64>().is_ok(), "{text}");
    }

    #[test]
    fn only_writable_exports_have_revisions() {
        let root = stat(Path::new("/"));
        assert!(file_stat(&root, true).unwrap().revision.is_some());
        assert!(file_stat(&root, false).unwrap().revision.is_none());
    }
}
