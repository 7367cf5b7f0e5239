//! The branches of a conversation: sessions that were forked from one another.

use cells_machines::session_family::{FamilyFailure, SessionFamily};
use cells_protocol::error::ErrorKind;
use cells_protocol::harness::Session;
use cells_protocol::ids::ProfileId;
use cells_protocol::limits::SESSIONS_PAGE_MAX;

use super::{HarnessClient, ListOptions};
use crate::cancellation::OperationOptions;
use crate::error::{Error, Result};

/// Options of [`HarnessClient::conversation_branches`].
#[derive(Debug, Clone, Default)]
pub struct BranchOptions {
    /// Looks among the archived sessions as well; default: only among the others.
    pub archived: bool,
    /// Budget of each page, and cancellation of all.
    pub operation: OperationOptions,
}

impl HarnessClient {
    /// The family of `session`, itself included, in the order of the list: those it was forked from, those that were forked
    /// from it, and all that come from them. Reads the pages of the list, of at most 10,000 sessions; who is forked from a
    /// session that is no longer listed is found all the same.
    ///
    /// # Errors
    /// As [`list`](Self::list); `EFBIG` when there are more sessions; `EIO` of operation `protocol` when the cursors of the
    /// list go round in a circle.
    pub async fn conversation_branches(
        &self,
        profile_id: &ProfileId,
        session: &Session,
        options: BranchOptions,
    ) -> Result<Vec<Session>> {
        let mut family = SessionFamily::new(session.clone());
        let lists: &[bool] = if options.archived { &[false, true] } else { &[false] };
        for &archived in lists {
            let mut cursor = None;
            loop {
                let operation = options.operation.clone();
                let wanted = ListOptions { cursor, archived, limit: Some(SESSIONS_PAGE_MAX), operation };
                cursor = family.handle_page(self.list(profile_id, wanted).await?).map_err(failed)?;
                if cursor.is_none() {
                    break;
                }
            }
        }
        Ok(family.members())
    }
}

fn failed(failure: FamilyFailure) -> Error {
    match failure {
        FamilyFailure::TooMany => Error::new(ErrorKind::TooLarge, BRANCHES, failure.to_string()).with_source(failure),
        FamilyFailure::Cycle => Error::protocol(BRANCHES, failure).with_source(failure),
    }
}

const BRANCHES: &str = "conversation_branches";
