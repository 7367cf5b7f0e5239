//! Paths of an export (`files-http.md` §2).

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::error::Code;

/// Names of staging files begin so; no path may name one, no listing shows one.
pub(super) const STAGING_PREFIX: &str = ".itookit-upload-";

/// Whether the rules allow the path. The empty path is the root of the export.
pub(super) fn check(path: &str) -> Result<(), Code> {
    let drive = |segment: &str| {
        let bytes = segment.as_bytes();
        bytes.len() > 1 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':'
    };
    let segment_is_wrong = |segment: &str| matches!(segment, "" | "." | "..") || segment.starts_with(STAGING_PREFIX);
    let wrong = path.len() > PATH_MAX_BYTES
        || path.contains(['\\', '\0'])
        || (!path.is_empty() && (drive(path) || path.split('/').any(segment_is_wrong)));
    if wrong { Err(Code("EINVAL")) } else { Ok(()) }
}

/// Where the path lies on this machine. Everything above its last component is a directory and no link.
pub(super) fn resolve(root: &Path, path: &str) -> Result<PathBuf, Code> {
    check(path)?;
    let mut place = root.to_owned();
    if path.is_empty() {
        return Ok(place);
    }
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        place.push(segment);
        if segments.peek().is_none() {
            break;
        }
        let kind = fs::symlink_metadata(&place)?.file_type();
        if kind.is_symlink() {
            return Err(Code("EACCES"));
        }
        if !kind.is_dir() {
            return Err(Code("ENOTDIR"));
        }
    }
    Ok(place)
}

/// [`resolve`] for what is created, renamed or removed: the root itself cannot be.
pub(super) fn resolve_entry(root: &Path, path: &str) -> Result<PathBuf, Code> {
    if path.is_empty() { Err(Code("EINVAL")) } else { resolve(root, path) }
}

/// A directory, not reached through a link.
pub(super) fn resolve_directory(root: &Path, path: &str) -> Result<PathBuf, Code> {
    let place = resolve(root, path)?;
    let kind = fs::symlink_metadata(&place)?.file_type();
    match (kind.is_symlink(), kind.is_dir()) {
        (true, _) => Err(Code("EACCES")),
        (false, true) => Ok(place),
        (false, false) => Err(Code("ENOTDIR")),
    }
}

const PATH_MAX_BYTES: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn paths_follow_the_rules_of_an_export() {
        for (path, allowed) in [
            ("", true),
            ("a", true),
            ("a/b c/ü", true),
            ("2024:Q1.md", true),
            ("a/b:c", true),
            ("a/z:file", true),
            ("z:file", false),
            ("C:/x", false),
            ("/a", false),
            ("a/", false),
            ("a//b", false),
            (".", false),
            ("a/../b", false),
            ("a\\b", false),
            ("a\0", false),
            (".itookit-upload-1", false),
            ("a/.itookit-upload-1/b", false),
        ] {
            assert_eq!(check(path).is_ok(), allowed, "{path:?}");
        }
        assert!(check(&"a".repeat(4_096)).is_ok() && check(&"a".repeat(4_097)).is_err());
    }
}
