//! Export-relative paths (`files-http.md` §2).

use crate::limits::PATH_MAX_BYTES;

/// Prefix of staging files; such names are reserved and hidden from listings.
pub const STAGING_PREFIX: &str = ".itookit-upload-";

/// Why a path is not an export-relative path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPath {
    /// More than 4,096 UTF-8 bytes.
    #[error("the path is longer than 4096 bytes")]
    TooLong,
    /// A leading slash.
    #[error("the path starts with `/`; paths are relative to the export, and its root is the empty string")]
    Absolute,
    /// A backslash or a NUL.
    #[error("the path holds a backslash or a NUL")]
    ForbiddenCharacter,
    /// `//` or a trailing slash.
    #[error("the path has an empty segment (`//` or a trailing `/`)")]
    EmptySegment,
    /// `.` or `..`.
    #[error("the path has a `.` or `..` segment")]
    DotSegment,
    /// A name that is reserved for staging files.
    #[error("the path has a segment that starts with `.itookit-upload-`, which is reserved")]
    Reserved,
    /// A first segment such as `C:`.
    #[error("the path starts with a drive prefix such as `C:`")]
    DrivePrefix,
}

/// Checks an export-relative path. The empty string is the root of the export.
///
/// # Errors
/// The first rule that the path breaks.
///
/// ```
/// use cells_protocol::paths::{InvalidPath, check_path};
/// assert_eq!(check_path("notes/2024:Q1.md"), Ok(()));
/// assert_eq!(check_path("a/../b"), Err(InvalidPath::DotSegment));
/// ```
pub fn check_path(path: &str) -> Result<(), InvalidPath> {
    if path.len() > PATH_MAX_BYTES {
        return Err(InvalidPath::TooLong);
    }
    if path.is_empty() {
        return Ok(());
    }
    if path.starts_with('/') {
        return Err(InvalidPath::Absolute);
    }
    // Bytes: a search for characters takes longer than the rest of a stat call.
    if path.bytes().any(|byte| matches!(byte, b'\\' | b'\0')) {
        return Err(InvalidPath::ForbiddenCharacter);
    }
    if has_drive_prefix(path) {
        return Err(InvalidPath::DrivePrefix);
    }
    for segment in path.as_bytes().split(|byte| *byte == b'/') {
        match segment {
            b"" => return Err(InvalidPath::EmptySegment),
            b"." | b".." => return Err(InvalidPath::DotSegment),
            name if name.starts_with(STAGING_PREFIX.as_bytes()) => return Err(InvalidPath::Reserved),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a name can stand in a listing: not empty, no separator, no NUL, not a dot segment.
pub fn is_entry_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

fn has_drive_prefix(path: &str) -> bool {
    let bytes = path.as_bytes();
    bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_export_relative_paths() {
        let long = "x".repeat(4097);
        for (path, expected) in [
            ("", Ok(())),
            ("a", Ok(())),
            ("a/b:c", Ok(())),
            ("2024:Q1.md", Ok(())),
            ("ü/…", Ok(())),
            ("/a", Err(InvalidPath::Absolute)),
            ("a//b", Err(InvalidPath::EmptySegment)),
            ("a/", Err(InvalidPath::EmptySegment)),
            ("./a", Err(InvalidPath::DotSegment)),
            ("a/..", Err(InvalidPath::DotSegment)),
            ("a\\b", Err(InvalidPath::ForbiddenCharacter)),
            ("a\0", Err(InvalidPath::ForbiddenCharacter)),
            ("C:/x", Err(InvalidPath::DrivePrefix)),
            ("z:file", Err(InvalidPath::DrivePrefix)),
            ("a/.itookit-upload-1", Err(InvalidPath::Reserved)),
            (long.as_str(), Err(InvalidPath::TooLong)),
        ] {
            assert_eq!(check_path(path), expected, "{path:.20}");
        }
    }
}
