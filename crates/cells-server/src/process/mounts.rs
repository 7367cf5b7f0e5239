//! Where a process sees which directories (`files-http.md` §6.1, checks 9 and 10).

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use cells_protocol::capabilities::Access;
use cells_protocol::ids::Alias;
use cells_protocol::limits::PATH_MAX_BYTES;
use cells_protocol::process::ProcessMount;
use rustix::io::Errno;

use crate::auth::Principal;
use crate::files::confine::ExportPath;
use crate::files::{Export, Exports};
use crate::refusal::Refusal;

/// A mount that keeps all rules, with its directory held open.
#[derive(Debug)]
pub(super) struct Mount {
    pub(super) alias: Alias,
    /// Export-relative path.
    pub(super) path: String,
    /// Virtual path.
    pub(super) at: String,
    pub(super) access: Access,
    pub(super) directory: OwnedFd,
}

/// The mounts of one process.
#[derive(Debug)]
pub(super) struct Mounts {
    /// The shortest virtual path first, so that a mount stands before those inside it.
    pub(super) mounts: Vec<Mount>,
    /// The real working directory.
    pub(super) cwd: PathBuf,
}

impl Mounts {
    /// Checks everything in the order of the specification, and opens every source. Blocks.
    pub(super) fn resolve(
        mut requested: Vec<ProcessMount>,
        cwd: &str,
        principal: &Principal,
        exports: &Exports,
    ) -> Result<Self, Refusal> {
        requested.sort_by_key(|mount| mount.at.len());
        let checked = check(&requested, |alias| principal.access(alias))?;
        let export = |alias: &Alias| exports.get(alias).ok_or(Refusal::DENIED);
        for (at, one) in checked.iter().enumerate() {
            // The deepest mount that this one lies in.
            if let Some(parent) = checked[..at].iter().rev().find(|other| below(&one.at, &other.at).is_some()) {
                check_mount_point(one, parent, export(&parent.alias)?)?;
            }
        }
        if checked.iter().any(|one| {
            one.access == Access::Rw && checked.iter().any(|two| two.access == Access::Rw && two.alias != one.alias)
        }) {
            return Err(Refusal::UNSUPPORTED);
        }

        let deepest = checked.iter().rev().find_map(|mount| Some((mount, below(cwd, &mount.at)?)));
        let (mount, rest) = deepest.ok_or(Refusal::INVALID)?;
        let inside = export(&mount.alias)?;
        let path = ExportPath::parse(join(&mount.path, rest)).ok_or(Refusal::INVALID)?;
        inside.root.open_directory(&path)?;
        let cwd = inside.path.join(path.as_str());
        let open = |mount: Checked| {
            let path = ExportPath::parse(mount.path.clone()).ok_or(Refusal::INVALID)?;
            let directory = export(&mount.alias)?.root.open_directory(&path)?;
            Ok(Mount { alias: mount.alias, path: mount.path, at: mount.at, access: mount.access, directory })
        };
        Ok(Self { mounts: checked.into_iter().map(open).collect::<Result<_, Refusal>>()?, cwd })
    }

    /// Whether the machine's own directories already are what the mounts ask for: all of them lie in the first one, at
    /// the places where their sources lie in its source.
    pub(super) fn are_one_directory(&self) -> bool {
        let Some(top) = self.mounts.first() else { return false };
        self.mounts.iter().all(|mount| {
            let inside = below(&mount.at, &top.at);
            mount.alias == top.alias && inside.is_some_and(|rest| mount.path == join(&top.path, rest))
        })
    }
}

/// A mount of which everything is checked that the request alone tells.
#[derive(Debug, Clone)]
struct Checked {
    alias: Alias,
    path: String,
    at: String,
    access: Access,
}

fn check(requested: &[ProcessMount], granted: impl Fn(&Alias) -> Option<Access>) -> Result<Vec<Checked>, Refusal> {
    for (index, mount) in requested.iter().enumerate() {
        let is_reserved = RESERVED.iter().any(|reserved| below(&mount.at, reserved).is_some());
        let is_repeated = requested[..index].iter().any(|other| other.at == mount.at);
        if !is_virtual_path(&mount.at) || is_reserved || is_repeated || parse_access(&mount.access).is_none() {
            return Err(Refusal::INVALID);
        }
    }
    for read_only in requested.iter().filter(|mount| mount.access == "ro") {
        let overlaps = |other: &ProcessMount| {
            other.access == "rw"
                && other.alias == read_only.alias
                && (below(&other.path, &read_only.path).is_some() || below(&read_only.path, &other.path).is_some())
        };
        if requested.iter().any(overlaps) {
            return Err(Refusal::READ_ONLY);
        }
    }
    let admit = |mount: &ProcessMount| {
        let alias = Alias::new(mount.alias.as_str()).map_err(|_| Refusal::DENIED)?;
        let granted = granted(&alias).ok_or(Refusal::DENIED)?;
        let access = parse_access(&mount.access).ok_or(Refusal::INVALID)?;
        if access == Access::Rw && granted == Access::Ro {
            return Err(Refusal::READ_ONLY);
        }
        Ok(Checked { alias, path: mount.path.clone(), at: mount.at.clone(), access })
    };
    requested.iter().map(admit).collect()
}

/// A place inside another mount must be a directory there, or one that can be made there.
fn check_mount_point(mount: &Checked, parent: &Checked, export: &Export) -> Result<(), Refusal> {
    let rest = below(&mount.at, &parent.at).unwrap_or_default();
    let path = ExportPath::parse(join(&parent.path, rest)).ok_or(Refusal::UNSUPPORTED)?;
    match export.root.open_directory(&path) {
        Ok(_) => Ok(()),
        Err(Errno::NOENT) if parent.access == Access::Rw => Ok(()),
        Err(_) => Err(Refusal::UNSUPPORTED),
    }
}

/// Whether this is a path inside a process: absolute, not the root, and plain.
pub(super) fn is_virtual_path(path: &str) -> bool {
    let Some(relative) = path.strip_prefix('/') else { return false };
    path.len() <= PATH_MAX_BYTES
        && !path.contains(['\\', '\0'])
        && relative.split('/').all(|name| !matches!(name, "" | "." | ".."))
}

/// The part of `path` below `base`, which is empty for `base` itself. The empty base contains everything.
fn below<'a>(path: &'a str, base: &str) -> Option<&'a str> {
    if base.is_empty() {
        return Some(path);
    }
    let rest = path.strip_prefix(base)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

fn join(base: &str, rest: &str) -> String {
    match (base, rest) {
        (base, "") => base.to_owned(),
        ("", rest) => rest.to_owned(),
        (base, rest) => format!("{base}/{rest}"),
    }
}

fn parse_access(text: &str) -> Option<Access> {
    match text {
        "ro" => Some(Access::Ro),
        "rw" => Some(Access::Rw),
        _ => None,
    }
}

/// Directories of the system; nothing can be mounted at or below them.
const RESERVED: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/dev", "/sys", "/tmp"];
