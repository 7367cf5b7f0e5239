//! What a start may ask for (`files-http.md` §6.1).

use std::path::PathBuf;

use serde::Deserialize;

use crate::old_node::{Node, error::Code, paths};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(in crate::old_node) struct StartRequest {
    pub(super) server_id: String,
    pub(super) epoch: String,
    pub(super) request_id: String,
    pub(super) command: String,
    pub(super) args: Vec<String>,
    cwd: String,
    pub(super) timeout_ms: u64,
    mounts: Vec<Mount>,
    #[serde(default)]
    project_id: Option<String>,
    #[serde(default)]
    #[expect(dead_code, reason = "accepted on the wire; means something only with a project")]
    project_revision: Option<u64>,
    #[serde(default)]
    #[expect(dead_code, reason = "accepted on the wire; means something only with a project")]
    read_only: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mount {
    alias: String,
    path: String,
    at: String,
    access: String,
}

impl Mount {
    fn writes(&self) -> bool {
        self.access == "rw"
    }
}

impl StartRequest {
    /// Checks everything in the order of the document; gives the real directory to start in.
    pub(super) fn check(&self, node: &Node) -> Result<PathBuf, Code> {
        let text_bytes = self.command.len() + self.args.iter().map(String::len).sum::<usize>();
        let shape_is_wrong = !is_virtual(&self.cwd)
            || !(1..=MOUNTS_MAX).contains(&self.mounts.len())
            || self.command.is_empty()
            || self.command.contains('\0')
            || self.args.iter().any(|argument| argument.contains('\0'))
            || text_bytes > COMMAND_MAX_BYTES
            || !(1..=TIMEOUT_MAX_MS).contains(&self.timeout_ms);
        if shape_is_wrong {
            return Err(Code("EINVAL"));
        }
        let mut mounts: Vec<&Mount> = self.mounts.iter().collect();
        mounts.sort_by_key(|mount| mount.at.len());
        self.check_mounts(node, &mounts)?;
        let mut deepest = mounts.iter().rev().filter_map(|mount| Some((*mount, below(&self.cwd, &mount.at)?)));
        let (mount, rest) = deepest.next().ok_or(Code("EINVAL"))?;
        let directory = directory(node, mount, rest)?;
        if self.project_id.is_some() { Err(Code("ECAPABILITY")) } else { Ok(directory) }
    }

    /// `mounts`: the shortest place first.
    fn check_mounts(&self, node: &Node, mounts: &[&Mount]) -> Result<(), Code> {
        for (index, mount) in mounts.iter().enumerate() {
            let taken = mounts[..index].iter().any(|other| other.at == mount.at);
            let reserved = SYSTEM.iter().any(|system| below(&mount.at, system).is_some());
            if !is_virtual(&mount.at) || !["ro", "rw"].contains(&mount.access.as_str()) || reserved || taken {
                return Err(Code("EINVAL"));
            }
        }
        let overlaps = |a: &Mount, b: &Mount| {
            a.alias == b.alias && (inside(&a.path, &b.path).is_some() || inside(&b.path, &a.path).is_some())
        };
        let (writing, reading): (Vec<&Mount>, Vec<&Mount>) = mounts.iter().partition(|mount| mount.writes());
        if reading.iter().any(|ro| writing.iter().any(|rw| overlaps(ro, rw))) {
            return Err(Code("EROFS"));
        }
        for (index, mount) in mounts.iter().enumerate() {
            let export = node.exports.get(&mount.alias).ok_or(Code("EACCES"))?;
            if mount.writes() && !export.writable {
                return Err(Code("EROFS"));
            }
            directory(node, mount, "")?;
            let parents =
                mounts[..index].iter().rev().filter_map(|parent| Some((*parent, below(&mount.at, &parent.at)?)));
            if let Some((parent, rest)) = parents.into_iter().next()
                && !parent.writes()
                && directory(node, parent, rest).is_err()
            {
                return Err(Code("ECAPABILITY"));
            }
        }
        if writing.iter().any(|mount| mount.alias != writing[0].alias) { Err(Code("ECAPABILITY")) } else { Ok(()) }
    }
}

/// The real directory of a place below a mount.
fn directory(node: &Node, mount: &Mount, rest: &str) -> Result<PathBuf, Code> {
    let export = node.exports.get(&mount.alias).ok_or(Code("EACCES"))?;
    let path = match (mount.path.as_str(), rest) {
        (path, "") => path.to_owned(),
        ("", rest) => rest.to_owned(),
        (path, rest) => format!("{path}/{rest}"),
    };
    paths::resolve_directory(&export.root, &path)
}

/// Absolute, clean, not the root.
fn is_virtual(path: &str) -> bool {
    path.len() <= VIRTUAL_MAX_BYTES
        && !path.contains(['\\', '\0'])
        && path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(|part| !matches!(part, "" | "." | "..")))
}

/// What is left of a virtual path at or below `top`.
fn below<'a>(path: &'a str, top: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(top)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// [`below`] for paths of an export, whose root is the empty path.
fn inside<'a>(path: &'a str, top: &str) -> Option<&'a str> {
    if top.is_empty() { Some(path) } else { below(path, top) }
}

const MOUNTS_MAX: usize = 32;
const COMMAND_MAX_BYTES: usize = 32_768;
const TIMEOUT_MAX_MS: u64 = 300_000;
const VIRTUAL_MAX_BYTES: usize = 4_096;
const SYSTEM: [&str; 10] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/dev", "/sys", "/tmp"];
