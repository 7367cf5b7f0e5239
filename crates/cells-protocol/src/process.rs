//! Processes and their live output (`files-http.md` §6).

use serde::{Deserialize, Serialize};

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

/// State of a process.
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

    /// The state of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Running, Self::Exited, Self::Cancelled, Self::TimedOut, Self::Failed, Self::Unknown]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
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
    /// Base64 with padding, of at most 65,536 bytes. A chunk may begin or end inside a character.
    pub data: String,
    /// Bytes between the offset that was asked for and `offset` are not kept any more.
    pub truncated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

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
