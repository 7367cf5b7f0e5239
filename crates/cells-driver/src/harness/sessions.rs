//! What is done to whole sessions: forks, names, archive, deletion (`harness.md` §6).

use cells_protocol::harness::{SessionInfo, SessionsDeleted};
use cells_protocol::ids::{NativeId, ProfileId};
use cells_protocol::json::{Json, object};
use cells_protocol::limits::{FORK_NAME_MAX_CHARS, SESSION_NAME_MAX_BYTES};
use cells_protocol::receipts::Recovery;
use cells_protocol::text::is_label;
use serde_json::Value;

use super::HarnessClient;
use super::feature::Feature;
use super::mutations::{Committed, MutationOptions, mutate_offered, session};
use crate::error::{Error, Result};

impl HarnessClient {
    /// Makes a session with the history of another one, controlled by this node. `name` is that of the branch, 1 to 256
    /// characters without control characters; a fork whose naming fails is a fork all the same.
    ///
    /// # Errors
    /// See [`HarnessClient`]; `ECAPABILITY`, `not-started`, when the profile forks nothing; `EINVAL`, `not-started`, for a
    /// name out of bounds; `EBUSY` while a turn runs there.
    pub async fn fork(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        name: Option<&str>,
        options: MutationOptions,
    ) -> Result<Committed<SessionInfo>> {
        const FORK: &str = "harness_fork";
        let mut arguments = of_session(session_id);
        let is_name = |name: &str| is_label(name, usize::MAX) && name.trim().chars().count() <= FORK_NAME_MAX_CHARS;
        let arguments = match name {
            Some(name) if is_name(name) => {
                arguments["name"] = name.trim().into();
                Ok(arguments)
            }
            Some(_) => Err(Error::invalid(
                FORK,
                format!("the name is blank, longer than {FORK_NAME_MAX_CHARS} characters or holds a control character"),
            )),
            None => Ok(arguments),
        };
        mutate_offered(&self.0.link, FORK, profile_id, FORKS, arguments, options).await?.decode(FORK, session)
    }

    /// Names a session: 1 to 512 bytes without control characters, spaces around it not counted. Needs no control of it.
    ///
    /// # Errors
    /// See [`HarnessClient`]; `ECAPABILITY`, `not-started`, when the profile renames nothing; `EINVAL`, `not-started`, for a
    /// name out of bounds.
    pub async fn rename(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        name: &str,
        options: MutationOptions,
    ) -> Result<Committed<SessionInfo>> {
        const RENAME: &str = "harness_rename";
        let mut arguments = of_session(session_id);
        let name = name.trim();
        let arguments = if is_label(name, SESSION_NAME_MAX_BYTES) {
            arguments["name"] = name.into();
            Ok(arguments)
        } else {
            let message =
                format!("the name is blank, longer than {SESSION_NAME_MAX_BYTES} bytes or holds a control character");
            Err(Error::invalid(RENAME, message))
        };
        mutate_offered(&self.0.link, RENAME, profile_id, RENAMES, arguments, options).await?.decode(RENAME, session)
    }

    /// Puts a session into the archive, which releases it, or takes it out again, which neither resumes it nor sends
    /// anything. See [`harness_archive_allowed`](crate::harness_archive_allowed).
    ///
    /// # Errors
    /// See [`HarnessClient`]; `ECAPABILITY`, `not-started`, when the profile has no archive; `EBUSY` in another state than
    /// `idle` or `notLoaded`; `EACCES` for an `idle` session that this node does not control.
    pub async fn archive(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        archived: bool,
        options: MutationOptions,
    ) -> Result<Committed<SessionInfo>> {
        let (tool, feature) = if archived { ("harness_archive", ARCHIVES) } else { ("harness_unarchive", UNARCHIVES) };
        let arguments = Ok(of_session(session_id));
        mutate_offered(&self.0.link, tool, profile_id, feature, arguments, options).await?.decode(tool, session)
    }

    /// Deletes a session and what descends from it, for good. The files it worked on stay.
    ///
    /// # Errors
    /// See [`HarnessClient`]; `ECAPABILITY`, `not-started`, when the profile deletes nothing; `EBUSY` unless the session and
    /// all that descend from it are archived, or idle and controlled by this node.
    pub async fn delete(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        options: MutationOptions,
    ) -> Result<Committed<SessionsDeleted>> {
        const DELETE: &str = "harness_delete";
        let arguments = Ok(of_session(session_id));
        let deleted = |result: &Value, _: &Recovery| {
            SessionsDeleted::read(&mut Json::of(result).object("the result of the deletion")?, session_id)
        };
        mutate_offered(&self.0.link, DELETE, profile_id, DELETES, arguments, options).await?.decode(DELETE, deleted)
    }
}

fn of_session(session_id: &NativeId) -> Value {
    object(vec![("sessionId", session_id.as_str().into())])
}

const FORKS: Feature = Feature { name: "forks", is_offered: |can| can.fork };
const RENAMES: Feature = Feature { name: "names for sessions", is_offered: |can| can.rename };
const ARCHIVES: Feature = Feature { name: "an archive", is_offered: |can| can.archive };
const UNARCHIVES: Feature = Feature { name: "a way out of the archive", is_offered: |can| can.unarchive };
const DELETES: Feature = Feature { name: "deletion", is_offered: |can| can.delete };
