//! How the program ends: exit codes, and the one line that says what went wrong.

use std::io::{self, Write as _};
use std::process::ExitCode;

use cells_native::cells_driver::{Error, ErrorKind, Outcome};
use serde_json::{Value, json};

use crate::remote_path::RemotePath;
use crate::text::one_line;

/// The exit codes of the client verbs. `cells --help` and `docs/cli.md` list them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// It failed.
    Failed = 1,
    /// Wrong usage or configuration; the node was not changed.
    Usage = 2,
    /// Whether it happened, or how it ended, is not known.
    Unknown = 3,
    /// A path, session, profile or receipt does not exist.
    NotFound = 4,
    /// The node does not let this caller in, or not do this.
    AccessDenied = 5,
    /// The user interrupted it.
    Interrupted = 130,
}

impl Exit {
    /// The exit code of two pieces of work. That something is unknown counts most, then that it was interrupted, then what
    /// came first.
    pub(crate) fn and(self, next: Self) -> Self {
        let rank = |exit: Self| match exit {
            Self::Done => 0,
            Self::Failed | Self::Usage | Self::NotFound | Self::AccessDenied => 1,
            Self::Interrupted => 2,
            Self::Unknown => 3,
        };
        if rank(next) > rank(self) { next } else { self }
    }
}

/// The exit codes, for `cells --help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes of the client verbs:
    0  done
    1  failed
    2  wrong usage or configuration
    3  unknown: whether it happened, or how it ended; the line says how to ask again:
       `cells op wait` for a write, `cells receipt` for what an agent was sent
    4  not found
    5  access denied
  130  interrupted";

/// Why a verb did not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Whoever read standard output has gone. Nothing is wrong.
    Closed,
    /// The user interrupted it and knows.
    Interrupted,
    /// Everything else: one line for a person, an object for a program.
    Told(Box<Told>),
}

/// What is told of a failure.
#[derive(Debug)]
pub(crate) struct Told {
    exit: Exit,
    message: String,
    error: Option<Error>,
    ask: Option<String>,
}

impl Failure {
    /// A failure with its exit code and its line.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self::Told(Box::new(Told { exit, message: message.into(), error: None, ask: None }))
    }

    /// The command line or the configuration is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// A failure of the driver, told as `message`.
    pub(crate) fn driver(error: Error, message: String) -> Self {
        Self::Told(Box::new(Told { exit: exit_of(&error), message, error: Some(error), ask: None }))
    }

    /// A failure of the driver about the path `path`.
    pub(crate) fn path(error: Error, path: &RemotePath) -> Self {
        let code = error.kind();
        let message = match (code, error.status()) {
            (_, Some(401)) => return error.into(),
            _ if is_foreign(&error) => return error.into(),
            (ErrorKind::NotFound, _) => format!("{path} does not exist ({code})"),
            (ErrorKind::NotADirectory, _) => format!("{path} is not a directory, or leads through a file ({code})"),
            (ErrorKind::AccessDenied, Some(403)) => {
                format!("{path} may not be read; `cells exports` lists what may ({code})")
            }
            _ => return Self::from(error).about(&path.to_string()),
        };
        Self::driver(error, message)
    }

    /// Standard output cannot be written.
    pub(crate) fn stdout(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::new(Exit::Failed, format!("standard output cannot be written: {error}")),
        }
    }

    /// Whether another file may fare better: the node works, and only this one cannot be copied.
    pub(crate) fn is_of_one_file(&self) -> bool {
        let Self::Told(told) = self else { return false };
        let is_known = !matches!(told.exit, Exit::Unknown | Exit::Interrupted);
        is_known
            && told.error.as_ref().is_none_or(|error| {
                let is_of_node = error.status() == Some(401)
                    || matches!(error.operation(), "connect" | "credential" | "protocol")
                    || matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::TimedOut | ErrorKind::Cancelled);
                !is_of_node
            })
    }

    /// Adds the command that asks again. It stands in the line, too.
    pub(crate) fn with_ask(mut self, ask: String) -> Self {
        if let Self::Told(told) = &mut self {
            told.message = format!("{}; ask again with: {ask}", told.message);
            told.ask = Some(ask);
        }
        self
    }

    /// The same failure with another exit code.
    pub(crate) fn with_exit(mut self, exit: Exit) -> Self {
        if let Self::Told(told) = &mut self {
            told.exit = exit;
        }
        self
    }

    /// The same failure, about `subject`.
    pub(crate) fn about(mut self, subject: &str) -> Self {
        if let Self::Told(told) = &mut self {
            told.message = format!("{subject}: {}", told.message);
        }
        self
    }

    /// How the program ends.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Closed => Exit::Done,
            Self::Interrupted => Exit::Interrupted,
            Self::Told(told) => told.exit,
        }
    }

    /// Tells what happened on standard error: as one line, or with `json` as one JSON object.
    pub(crate) fn tell(&self, json: bool) {
        let Self::Told(told) = self else { return };
        let line = if json { told.to_json().to_string() } else { format!("cells: {}", one_line(&told.message)) };
        // There is nobody left to tell when this fails.
        let _ = writeln!(io::stderr().lock(), "{line}");
    }
}

impl Told {
    fn to_json(&self) -> Value {
        let mut object = json!({"message": self.message, "exitCode": self.exit as u8});
        let mut add = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                object[name] = value;
            }
        };
        if let Some(error) = &self.error {
            add("code", Some(error.kind().as_str().into()));
            add("operation", Some(error.operation().into()));
            add("outcome", error.outcome().map(|outcome| outcome.as_str().into()));
            add("remoteCode", error.remote_code().map(Into::into));
            add("reason", error.reason().map(Into::into));
            add("status", error.status().map(Into::into));
            add("operationId", error.operation_id().map(|id| id.as_str().into()));
            add("processId", error.process_id().map(|id| id.as_str().into()));
            add("recovery", error.recovery().map(|recovery| json!(recovery)));
        }
        add("ask", self.ask.as_deref().map(Into::into));
        json!({"error": object})
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if is_own_cancellation(&error) {
            return Self::Interrupted;
        }
        if is_foreign(&error) {
            let status = error.status().unwrap_or_default();
            let message = format!(
                "{}: the answer is {status} without a code: this is probably not a Cells node; check --url or CELLS_URL ({})",
                error.operation(),
                error.kind()
            );
            return Self::driver(error, message).with_exit(Exit::Failed);
        }
        let message = match (error.status(), error.operation()) {
            (Some(401), _) => format!(
                "the node refuses the credential, or wants one; check CELLS_API_KEY, --api-key-file and --username ({})",
                error.kind()
            ),
            (_, "connect") if error.outcome() != Some(Outcome::Unknown) => {
                format!("{}; check that the node runs, and --url or CELLS_URL ({})", error.message(), error.kind())
            }
            _ => error.to_string(),
        };
        Self::driver(error, message)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Whether something answered that serves no such address at all. A node says with a code what it does not have.
fn is_foreign(error: &Error) -> bool {
    matches!(error.status(), Some(404 | 405 | 501))
        && error.remote_code().is_none()
        && matches!(error.outcome(), None | Some(Outcome::NotStarted | Outcome::NotCommitted))
}

/// Whether Ctrl-C ended a call that has changed nothing.
fn is_own_cancellation(error: &Error) -> bool {
    error.kind() == ErrorKind::Cancelled
        && error.remote_code().is_none()
        && matches!(error.outcome(), None | Some(Outcome::NotStarted))
}

fn exit_of(error: &Error) -> Exit {
    match (error.outcome(), error.kind()) {
        (Some(Outcome::Unknown), _) => Exit::Unknown,
        (_, ErrorKind::Cancelled) if error.remote_code().is_none() => Exit::Interrupted,
        (_, ErrorKind::NotFound) => Exit::NotFound,
        (_, ErrorKind::AccessDenied | ErrorKind::ReadOnly) => Exit::AccessDenied,
        // What the node has not seen is wrong on the command line.
        (_, ErrorKind::Invalid) if error.status().is_none() && error.remote_code().is_none() => Exit::Usage,
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_follows_the_kind() {
        for (kind, expected) in [
            (ErrorKind::Io, Exit::Failed),
            (ErrorKind::TimedOut, Exit::Failed),
            (ErrorKind::Busy, Exit::Failed),
            (ErrorKind::Invalid, Exit::Usage),
            (ErrorKind::NotFound, Exit::NotFound),
            (ErrorKind::AccessDenied, Exit::AccessDenied),
            (ErrorKind::ReadOnly, Exit::AccessDenied),
        ] {
            assert_eq!(Failure::from(Error::new(kind, "stat", "no")).exit(), expected, "{kind}");
        }
    }

    #[test]
    fn the_exit_code_of_more_work_is_the_one_that_counts_most() {
        use Exit::{AccessDenied, Done, Failed, Interrupted, Unknown};
        for (exits, expected) in [
            (&[][..], Done),
            (&[Done, Failed, AccessDenied], Failed),
            (&[AccessDenied, Failed], AccessDenied),
            (&[Failed, Interrupted, Failed], Interrupted),
            (&[Unknown, Interrupted], Unknown),
            (&[Interrupted, Unknown, Done], Unknown),
        ] {
            assert_eq!(exits.iter().fold(Done, |exit, next| exit.and(*next)), expected, "{exits:?}");
        }
    }

    #[test]
    fn only_what_is_wrong_with_one_file_lets_others_go_on() {
        let error = |kind, operation: &'static str| Failure::from(Error::new(kind, operation, "no"));
        for (failure, expected) in [
            (Failure::new(Exit::Failed, "notes/a exists with other content"), true),
            (error(ErrorKind::NotFound, "replace"), true),
            (error(ErrorKind::AccessDenied, "replace"), true),
            (error(ErrorKind::NoSpace, "replace"), false),
            (error(ErrorKind::TimedOut, "stat"), false),
            (error(ErrorKind::Io, "connect"), false),
            (error(ErrorKind::AccessDenied, "credential"), false),
            (Failure::new(Exit::Unknown, "notes/a: whether it happened is unknown"), false),
            (Failure::Interrupted, false),
            (Failure::Closed, false),
        ] {
            assert_eq!(failure.is_of_one_file(), expected, "{failure:?}");
        }
    }

    #[test]
    fn the_help_names_every_exit_code() {
        use Exit::{AccessDenied, Done, Failed, Interrupted, NotFound, Unknown, Usage};
        let manual = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md")).unwrap();
        for exit in [Done, Failed, Usage, Unknown, NotFound, AccessDenied, Interrupted] {
            assert!(EXIT_CODES.contains(&format!("\n{:>5}  ", exit as u8)), "{exit:?}");
            assert!(manual.contains(&format!("| {} |", exit as u8)), "{exit:?}");
        }
    }

    #[test]
    fn the_object_has_what_is_known_and_nothing_else() {
        let error = Error::new(ErrorKind::AccessDenied, "credential", "no secret is set for `x`");
        let path = "notes/a".parse::<RemotePath>().unwrap();
        let failure = Failure::path(error, &path).with_ask("cells receipt".to_owned());
        let Failure::Told(told) = failure else { panic!("nothing is told") };
        assert_eq!(
            told.to_json(),
            json!({"error": {
                "message": "notes/a: credential: no secret is set for `x` (EACCES); ask again with: cells receipt",
                "exitCode": 5, "code": "EACCES", "operation": "credential", "ask": "cells receipt",
            }})
        );
    }
}
