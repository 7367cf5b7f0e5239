//! Stat, listings and content ranges (`files-http.md` §4).

use serde::{Deserialize, Serialize};

use crate::error::ErrorKind;
use crate::json::{Json, Malformed, Object};
use crate::limits::ENTRIES_PAGE_MAX;
use crate::paths::is_entry_name;

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, which is never followed.
    Symlink,
}

impl FileKind {
    const WORDS: &'static [(&'static str, Self)] =
        &[("file", Self::File), ("directory", Self::Directory), ("symlink", Self::Symlink)];

    /// The string form, for example `file`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
        }
    }
}

/// Attributes of a file. Times are Unix milliseconds; 0 = not available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileStat {
    /// What it is.
    pub kind: FileKind,
    /// Size in bytes, at most 2^53 − 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Time of the last modification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_at: Option<u64>,
    /// Time of the creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<u64>,
    /// Strong revision, quotes included, of at most 1,024 bytes; only on writable exports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

impl FileStat {
    /// Reads the attributes of one file.
    ///
    /// # Errors
    /// [`Malformed`] when a member is wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            kind: object.word("kind", FileKind::WORDS)?,
            size: object.optional_integer("size")?,
            modified_at: object.optional_integer("modifiedAt")?,
            created_at: object.optional_integer("createdAt")?,
            revision: object.optional_string("revision")?,
        })
    }
}

/// Body of `POST /v1/fs/{alias}/stat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatRequest<P = String> {
    /// At most 256 paths and 65,536 path bytes.
    pub paths: Vec<P>,
}

/// Result of one path of a stat request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatResult {
    /// It exists.
    Found(FileStat),
    /// It does not exist, or one of its ancestors does not.
    Missing,
    /// The node could not tell. The kind is `EACCES`, `EINVAL`, `ENOTDIR` or `ECAPABILITY`, else `EIO`.
    Failed(ErrorKind),
}

/// Parses the reply to a stat request of `expected` paths.
///
/// # Errors
/// [`Malformed`] when the number of results differs or a result has neither a stat nor an error. A failure is never
/// reported as *missing*.
pub fn parse_stat_reply(bytes: &[u8], expected: usize) -> Result<Vec<StatResult>, Malformed> {
    const WHAT: &str = "the stat reply";
    let results = Object::parse(WHAT, bytes)?.objects("results", read_stat_result)?;
    if results.len() != expected {
        return Err(Malformed::new(WHAT, format!("has {} results for {expected} paths", results.len())));
    }
    Ok(results)
}

fn read_stat_result(item: &mut Object<'_>) -> Result<StatResult, Malformed> {
    let error = item.optional_string("error")?;
    let found = match item.member("stat")? {
        None => None,
        Some(Json::Null) => Some(StatResult::Missing),
        Some(stat) => Some(StatResult::Found(FileStat::read(&mut stat.object(item.what())?)?)),
    };
    match (error.filter(|code| !code.is_empty()), found) {
        (Some(code), _) => Ok(StatResult::Failed(item_error_kind(&code))),
        (None, Some(found)) => Ok(found),
        (None, None) => Err(Malformed::new(item.what(), "has a result with neither a stat nor an error")),
    }
}

fn item_error_kind(code: &str) -> ErrorKind {
    match ErrorKind::from_code(code) {
        Some(
            kind @ (ErrorKind::AccessDenied | ErrorKind::Invalid | ErrorKind::NotADirectory | ErrorKind::Unsupported),
        ) => kind,
        _ => ErrorKind::Io,
    }
}

/// One child of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileEntry {
    /// Its name.
    pub name: String,
    /// Its attributes.
    pub stat: FileStat,
}

impl FileEntry {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self { name: object.string("name")?, stat: FileStat::read(&mut object.object("stat")?)? })
    }
}

/// One page of a directory listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EntriesPage {
    /// Sorted by the UTF-8 bytes of the name, at most 512.
    pub entries: Vec<FileEntry>,
    /// Asks for the next page; null at the end. The member is always present.
    pub next_cursor: Option<String>,
    /// One word for each child of the directory that was left out, for example `NON_UTF8_NAME`.
    pub warnings: Vec<String>,
}

impl EntriesPage {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            entries: object.objects("entries", FileEntry::read)?,
            next_cursor: object.nullable_string("nextCursor")?,
            warnings: object.strings_or_empty("warnings")?,
        })
    }

    /// Parses and validates a page.
    ///
    /// # Errors
    /// [`Malformed`] when a member is wrong or a name could not stand in a directory.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        const WHAT: &str = "the directory page";
        let page = Self::read(&mut Object::parse(WHAT, bytes)?)?;
        if page.entries.len() > ENTRIES_PAGE_MAX {
            return Err(Malformed::new(WHAT, "has more than 512 entries"));
        }
        if !page.entries.iter().all(|entry| is_entry_name(&entry.name)) {
            return Err(Malformed::new(WHAT, "has an entry whose name no file can have"));
        }
        Ok(page)
    }
}

/// `Content-Range: bytes first-last/total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte, inclusive.
    pub last: u64,
    /// Size of the whole file.
    pub total: u64,
}

impl ContentRange {
    /// Parses the header of a 206 reply; `None` when it is not of the form `bytes first-last/total` with
    /// `first ≤ last < total`.
    pub fn parse(header: &str) -> Option<Self> {
        let (range, total) = header.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let range = Self { first: digits(first)?, last: digits(last)?, total: digits(total)? };
        (range.first <= range.last && range.last < range.total).then_some(range)
    }

    /// Number of bytes in the range.
    pub fn len(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Never true: a range holds at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// A decimal integer of at most 2^53 − 1, digits only.
pub fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = plain.then(|| text.parse::<u64>().ok())??;
    (value <= crate::limits::SAFE_INTEGER_MAX).then_some(value)
}
