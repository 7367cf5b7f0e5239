//! Processes and their live output (`files-http.md` §6).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize, Serializer};

use crate::ids::is_alias;
use crate::json::{Json, Malformed, Object};
use crate::limits::{
    PATH_MAX_BYTES, PROCESS_COMMAND_MAX_BYTES, PROCESS_MOUNTS_MAX, PROCESS_OUTPUT_MAX_BYTES, SAFE_INTEGER_MAX,
};
use crate::paths::{InvalidPath, check_path};

/// Body of `POST /v1/processes`.
///
/// Identifiers are texts here, because a node answers each wrong one with a code of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessStart {
    /// The installation that is meant.
    pub server_id: String,
    /// The node's process epoch, from its capabilities.
    pub epoch: String,
    /// Identity of this process; made by the driver, never reused.
    pub request_id: String,
    /// The program; a name without `/` is looked up in `/usr/local/bin:/usr/bin:/bin`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Virtual path of its working directory, at or below a mount.
    pub cwd: String,
    /// How long it may run, in milliseconds: 1 to 300,000.
    pub timeout_ms: u64,
    /// What it sees of the exports: 1 to 32 mounts.
    pub mounts: Vec<ProcessMount>,
    /// The project it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The revision of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_revision: Option<u64>,
    /// The mounts of the project are read-only for this process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Keep the newest 8 MiB of each stream for the output route; long output then does not end the process. Only for
    /// nodes that announce `process.output` version 1.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_output: bool,
}

/// A directory of an export, and where a process sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessMount {
    /// The export.
    pub alias: String,
    /// Export-relative path of the directory; empty = the whole export.
    pub path: String,
    /// Virtual path, for example `/workspace`.
    pub at: String,
    /// `ro` or `rw`; a node answers `EINVAL` to anything else.
    pub access: String,
}

/// Why a process cannot be started as described. The node refuses the same with `EINVAL`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProcess {
    /// No program.
    #[error("the command is empty")]
    NoCommand,
    /// A NUL in the program or an argument.
    #[error("the command or an argument holds a NUL")]
    ForbiddenCharacter,
    /// More bytes of program and arguments than allowed.
    #[error("the command and its arguments are longer than {PROCESS_COMMAND_MAX_BYTES} bytes")]
    CommandTooLong,
    /// No mount, or more than 32.
    #[error("there are no mounts, or more than {PROCESS_MOUNTS_MAX}")]
    MountCount,
    /// A mount of something that has not the name of an export.
    #[error("the alias of a mount must be one or more characters of A-Z, a-z, 0-9, _ and -")]
    Alias,
    /// An access that does not exist.
    #[error("the access of a mount must be `ro` or `rw`")]
    Access,
    /// A mount of something that no export can have.
    #[error("the source of a mount is not a path of an export: {0}")]
    MountSource(InvalidPath),
    /// A place that is not a virtual path.
    #[error("a virtual path must start with `/`, name something below it, and have no empty, `.` or `..` part")]
    VirtualPath,
    /// A place that belongs to the system.
    #[error("a mount cannot be at or below /usr, /bin, /sbin, /lib, /lib64, /etc, /proc, /dev, /sys or /tmp")]
    SystemPath,
    /// Two mounts at one place.
    #[error("two mounts are at the same place")]
    MountTwice,
    /// A working directory outside of every mount.
    #[error("the working directory is not at or below a mount")]
    WorkingDirectory,
}

/// Checks a program and its arguments.
///
/// # Errors
/// The first rule that they break.
pub fn check_command(command: &str, args: &[String]) -> Result<(), InvalidProcess> {
    if command.is_empty() {
        return Err(InvalidProcess::NoCommand);
    }
    let n_bytes = command.len() + args.iter().map(String::len).sum::<usize>();
    if n_bytes > PROCESS_COMMAND_MAX_BYTES {
        return Err(InvalidProcess::CommandTooLong);
    }
    if command.contains('\0') || args.iter().any(|argument| argument.contains('\0')) {
        return Err(InvalidProcess::ForbiddenCharacter);
    }
    Ok(())
}

/// Checks the mounts of a process, one by one and together.
///
/// # Errors
/// The first rule that they break.
pub fn check_mounts(mounts: &[ProcessMount]) -> Result<(), InvalidProcess> {
    if mounts.is_empty() || mounts.len() > PROCESS_MOUNTS_MAX {
        return Err(InvalidProcess::MountCount);
    }
    for (index, mount) in mounts.iter().enumerate() {
        if !is_alias(&mount.alias) {
            return Err(InvalidProcess::Alias);
        }
        if !matches!(mount.access.as_str(), "ro" | "rw") {
            return Err(InvalidProcess::Access);
        }
        check_path(&mount.path).map_err(InvalidProcess::MountSource)?;
        check_virtual_path(&mount.at)?;
        if SYSTEM_PATHS.iter().any(|system| is_at_or_below(&mount.at, system)) {
            return Err(InvalidProcess::SystemPath);
        }
        if mounts[..index].iter().any(|other| other.at == mount.at) {
            return Err(InvalidProcess::MountTwice);
        }
    }
    Ok(())
}

/// Checks that a working directory is at or below a mount.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_working_directory(cwd: &str, mounts: &[ProcessMount]) -> Result<(), InvalidProcess> {
    check_virtual_path(cwd)?;
    if mounts.iter().any(|mount| is_at_or_below(cwd, &mount.at)) {
        Ok(())
    } else {
        Err(InvalidProcess::WorkingDirectory)
    }
}

/// The virtual path that `relative` names for a process that works in `cwd`: joined, or taken as it is when it starts
/// with `/`, without `.`, `..` and needless slashes.
///
/// ```
/// use cells_protocol::process::join_virtual_path;
/// assert_eq!(join_virtual_path("/workspace", "src/./bin/../lib/").as_deref(), Ok("/workspace/src/lib"));
/// assert_eq!(join_virtual_path("/workspace", "/reference").as_deref(), Ok("/reference"));
/// assert!(join_virtual_path("/workspace", "../..").is_err());
/// ```
///
/// # Errors
/// [`InvalidProcess::VirtualPath`] when it leads to the root or above it, or holds what no path can.
pub fn join_virtual_path(cwd: &str, relative: &str) -> Result<String, InvalidProcess> {
    let base = if relative.starts_with('/') { "" } else { cwd };
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(relative.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or(InvalidProcess::VirtualPath)?;
            }
            name => parts.push(name),
        }
    }
    let path: String = parts.iter().flat_map(|part| ["/", part]).collect();
    check_virtual_path(&path)?;
    Ok(path)
}

/// Checks an absolute path in the view of a process: not the root, at most 4,096 bytes, in its shortest form.
///
/// # Errors
/// [`InvalidProcess::VirtualPath`].
pub fn check_virtual_path(path: &str) -> Result<(), InvalidProcess> {
    let has_good_parts =
        path.strip_prefix('/').is_some_and(|parts| parts.split('/').all(|part| !matches!(part, "" | "." | "..")));
    let is_good = has_good_parts && path.len() <= PATH_MAX_BYTES && !path.contains(['\\', '\0']);
    if is_good { Ok(()) } else { Err(InvalidProcess::VirtualPath) }
}

fn is_at_or_below(path: &str, ancestor: &str) -> bool {
    path.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Where a process may see nothing of an export.
const SYSTEM_PATHS: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/dev", "/sys", "/tmp"];

/// What a node says of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessStatus {
    /// Whether and how it ended.
    pub state: ProcessState,
    /// Standard output as text, at most 64 KiB; empty while it runs. Of a process that keeps its output: the newest part.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
    /// Exit code; `None` while it runs and when it was killed.
    pub code: Option<i64>,
    /// `SPAWN_FAILED` or `REAP_FAILED`, with the states `failed` and `unknown`.
    pub error: Option<String>,
    /// A stream had more than is given here.
    pub truncated: bool,
}

impl ProcessStatus {
    /// Parses and validates a status.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        Self::read(&mut Object::parse("the process status", bytes)?)
    }

    /// Reads and validates a status.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            state: object.word("state", ProcessState::WORDS)?,
            stdout: object.string("stdout")?,
            stderr: object.string("stderr")?,
            code: match object.optional("code")? {
                Some(Json::Number(code)) => {
                    let code = code.as_i64().filter(|code| code.unsigned_abs() <= SAFE_INTEGER_MAX);
                    Some(code.ok_or_else(|| object.wrong("code"))?)
                }
                Some(_) => return Err(object.wrong("code")),
                None => None,
            },
            error: object.optional_string("error")?,
            truncated: object.boolean("truncated")?,
        })
    }
}

/// State of a process (`files-http.md` §6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessState {
    /// Accepted, not yet ended.
    Running,
    /// Ended by itself.
    Exited,
    /// Ended by a cancel, by too much output or by the stop of the node; or cancelled before it started.
    Cancelled,
    /// Killed at its time limit.
    TimedOut,
    /// It could not be started.
    Failed,
    /// The node could not make sure that it ended.
    Unknown,
}

impl ProcessState {
    /// The string form, for example `timed-out`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed-out",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }

    /// The state of this string form; `None` for a word that no state has.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(word, _)| *word == name).map(|(_, state)| *state)
    }

    /// Whether the node proved that the process is over.
    pub const fn is_over(self) -> bool {
        match self {
            Self::Exited | Self::Cancelled | Self::TimedOut | Self::Failed => true,
            Self::Running | Self::Unknown => false,
        }
    }

    const WORDS: &'static [(&'static str, Self)] = &[
        ("running", Self::Running),
        ("exited", Self::Exited),
        ("cancelled", Self::Cancelled),
        ("timed-out", Self::TimedOut),
        ("failed", Self::Failed),
        ("unknown", Self::Unknown),
    ];
}

/// Reply of `GET /v1/processes/{epoch}/{requestId}/output?stdout=N&stderr=N`.
///
/// When the state is not `running`, a stream whose chunk has fewer than 65,536 bytes ends with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessOutput {
    /// Standard output from the offset that was asked for.
    pub stdout: ProcessOutputChunk,
    /// Standard error, likewise.
    pub stderr: ProcessOutputChunk,
    /// State of the process when the chunks were taken.
    pub state: ProcessState,
}

/// A piece of one output stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessOutputChunk {
    /// Where the data starts, in bytes from the begin of the stream. The next chunk starts at `offset` + length of `data`.
    pub offset: u64,
    /// At most 65,536 bytes; on the wire base64 with padding. A chunk may begin or end inside a character.
    #[serde(serialize_with = "base64_text")]
    pub data: Vec<u8>,
    /// Bytes between the offset that was asked for and `offset` are not kept any more.
    pub truncated: bool,
}

impl ProcessOutput {
    /// Parses the output that was asked for at these offsets.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong, or a chunk is larger than 65,536 bytes or does not start where it must:
    /// at the offset that was asked for, or behind it if it says `truncated`.
    pub fn parse(bytes: &[u8], stdout_offset: u64, stderr_offset: u64) -> Result<Self, Malformed> {
        let mut object = Object::parse("the process output", bytes)?;
        Ok(Self {
            stdout: ProcessOutputChunk::read(&mut object, "stdout", stdout_offset)?,
            stderr: ProcessOutputChunk::read(&mut object, "stderr", stderr_offset)?,
            state: object.word("state", ProcessState::WORDS)?,
        })
    }
}

impl ProcessOutputChunk {
    fn read(output: &mut Object<'_>, stream: &'static str, asked: u64) -> Result<Self, Malformed> {
        let mut object = output.object(stream)?;
        let (offset, truncated) = (object.integer("offset")?, object.boolean("truncated")?);
        let data = STANDARD.decode(object.text("data")?.as_bytes()).map_err(|_| object.wrong("data"))?;
        if data.len() > PROCESS_OUTPUT_MAX_BYTES {
            return Err(object.wrong("data"));
        }
        let starts_well = if truncated { offset > asked } else { offset == asked };
        if starts_well { Ok(Self { offset, data, truncated }) } else { Err(object.wrong("offset")) }
    }
}

fn base64_text<S: Serializer>(data: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn mount(path: &str, at: &str) -> ProcessMount {
        ProcessMount { alias: "notes".into(), path: path.into(), at: at.into(), access: "rw".into() }
    }

    #[test]
    fn rules_of_virtual_paths() {
        for (path, is_good) in [
            ("/w", true),
            ("/workspace/a b/ü", true),
            ("", false),
            ("/", false),
            ("w", false),
            ("/w/", false),
            ("/w//x", false),
            ("/w/./x", false),
            ("/..", false),
            ("/a\\b", false),
            ("/a\0", false),
            (&format!("/{}", "x".repeat(4096)), false),
        ] {
            assert_eq!(check_virtual_path(path).is_ok(), is_good, "{path:.20}");
        }
        for (relative, expected) in [
            ("", Some("/base/a")),
            (".", Some("/base/a")),
            ("b", Some("/base/a/b")),
            ("../b//c/", Some("/base/b/c")),
            ("/other/./x", Some("/other/x")),
            ("../..", None),
            ("../../..", None),
            ("/", None),
            ("a\0", None),
        ] {
            assert_eq!(join_virtual_path("/base/a", relative).ok().as_deref(), expected, "{relative:?}");
        }
    }

    #[test]
    fn rules_of_mounts_and_commands() {
        let many = |n: usize| (0..n).map(|n| mount("", &format!("/m{n}"))).collect::<Vec<_>>();
        for (mounts, expected) in [
            (vec![], Err(InvalidProcess::MountCount)),
            (many(32), Ok(())),
            (many(33), Err(InvalidProcess::MountCount)),
            (vec![ProcessMount { alias: "a/b".into(), ..mount("", "/w") }], Err(InvalidProcess::Alias)),
            (vec![ProcessMount { access: "wr".into(), ..mount("", "/w") }], Err(InvalidProcess::Access)),
            (vec![mount("../x", "/w")], Err(InvalidProcess::MountSource(InvalidPath::DotSegment))),
            (vec![mount("", "w")], Err(InvalidProcess::VirtualPath)),
            (vec![mount("", "/usr/local")], Err(InvalidProcess::SystemPath)),
            (vec![mount("", "/usrx")], Ok(())),
            (vec![mount("a", "/w"), mount("b", "/w")], Err(InvalidProcess::MountTwice)),
        ] {
            assert_eq!(check_mounts(&mounts), expected);
        }
        let mounts = [mount("", "/w")];
        assert_eq!(check_working_directory("/w/x", &mounts), Ok(()));
        assert_eq!(check_working_directory("/wx", &mounts), Err(InvalidProcess::WorkingDirectory));
        for (command, argument, expected) in [
            ("ls", "-l".to_owned(), Ok(())),
            ("", String::new(), Err(InvalidProcess::NoCommand)),
            ("ls", "\0".to_owned(), Err(InvalidProcess::ForbiddenCharacter)),
            ("ls", "x".repeat(PROCESS_COMMAND_MAX_BYTES - 2), Ok(())),
            ("ls", "x".repeat(PROCESS_COMMAND_MAX_BYTES - 1), Err(InvalidProcess::CommandTooLong)),
        ] {
            assert_eq!(check_command(command, &[argument]), expected);
        }
    }

    #[test]
    fn starts_are_read_and_written_alike() {
        let start = ProcessStart {
            server_id: "desk".into(),
            epoch: "e".into(),
            request_id: "r".into(),
            command: "make".into(),
            args: vec!["test".into()],
            cwd: "/workspace".into(),
            timeout_ms: 1000,
            mounts: vec![ProcessMount {
                alias: "notes".into(),
                path: String::new(),
                at: "/workspace".into(),
                access: "rw".into(),
            }],
            project_id: None,
            project_revision: None,
            read_only: false,
            keep_output: true,
        };
        let text = concat!(
            r#"{"serverId":"desk","epoch":"e","requestId":"r","command":"make","args":["test"],"cwd":"/workspace","#,
            r#""timeoutMs":1000,"mounts":[{"alias":"notes","path":"","at":"/workspace","access":"rw"}],"keepOutput":true}"#
        );
        assert_eq!(json::to_vec(&start), text.as_bytes());
        assert_eq!(json::parse("the body", text.as_bytes()), Ok(start));
        let unknown = text.replace("keepOutput", "keepoutput");
        assert!(json::parse::<ProcessStart>("the body", unknown.as_bytes()).is_err());
    }

    #[test]
    fn states_are_the_words_of_the_protocol() {
        for name in ["running", "exited", "cancelled", "timed-out", "failed", "unknown"] {
            let state = ProcessState::from_name(name).unwrap();
            assert_eq!(json::to_vec(&state), format!("\"{name}\"").into_bytes());
        }
        assert_eq!(ProcessState::from_name("TimedOut"), None);
    }
}
