//! Digests of sessions (`cells-0.4.md` §7.3).

use cells_machines::digest_pages::{DigestFailure, DigestPages, DigestStep};
use cells_protocol::error::ErrorKind;
use cells_protocol::harness::{DigestPage, DigestRequest};
use cells_protocol::ids::{DigestRevision, NativeId, ProfileId};
use cells_protocol::json::{Object, object};

use super::HarnessClient;
use super::feature::Feature;
use crate::budget::Budget;
use crate::cancellation::OperationOptions;
use crate::error::{Error, Result};

/// Options of [`HarnessClient::digest`].
#[derive(Debug, Clone, Default)]
pub struct DigestOptions {
    /// `next_cursor` of the page before. Needs `expected_revision`.
    pub cursor: Option<String>,
    /// The `revision` of the pages before: when the session has changed, the call fails.
    pub expected_revision: Option<DigestRevision>,
    /// Only revision, title and times; no history is read.
    pub metadata_only: bool,
    /// Budget and cancellation.
    pub operation: OperationOptions,
}

impl HarnessClient {
    /// One page of what users and agent said in a session, oldest first, without reasoning, tools and what was added by
    /// itself. No model is asked, nothing is consumed.
    ///
    /// # Errors
    /// `ECAPABILITY`, without a request, when the profile gives no digests; `EINVAL`, before anything is sent, for a cursor
    /// without a revision or with `metadata_only`; `ECONFLICT` with `HARNESS_DIGEST_CHANGED` when the session has another
    /// revision than expected; `EIO` of operation `protocol` for a page that breaks a rule of [`DigestPage`].
    pub async fn digest(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        options: DigestOptions,
    ) -> Result<DigestPage> {
        self.0.link.check_open(DIGEST)?;
        if options.cursor.is_some() && (options.expected_revision.is_none() || options.metadata_only) {
            let message = "a cursor needs the revision of its page, and asks for more than metadata";
            return Err(Error::invalid(DIGEST, message));
        }
        let budget = self.0.link.core.budget(&options.operation);
        DIGESTS.check(&self.0.link, DIGEST, profile_id, &budget).await?;
        self.digest_page(profile_id, session_id, options, &budget).await
    }

    /// The whole digest of a session as one page: all pages of one revision, at most 10,000 entries of 32 MiB of text. See
    /// [`DigestPage::is_complete`].
    ///
    /// # Errors
    /// As [`digest`](Self::digest); `EFBIG` when there is more; `EIO` of operation `protocol` when pages do not fit together.
    pub async fn load_digest(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        options: OperationOptions,
    ) -> Result<DigestPage> {
        self.0.link.check_open(DIGEST)?;
        let first = self.0.link.core.budget(&options);
        DIGESTS.check(&self.0.link, DIGEST, profile_id, &first).await?;
        // A budget that was given is one for everything; else each page has its own.
        let shared = options.timeout_ms.is_some().then_some(first);
        let mut pages = DigestPages::default();
        let mut wanted = DigestOptions::default();
        loop {
            let budget = shared.clone().unwrap_or_else(|| self.0.link.core.budget(&options));
            let page = self.digest_page(profile_id, session_id, wanted, &budget).await?;
            match pages.handle_page(page).map_err(failed)? {
                DigestStep::Complete(whole) => return Ok(*whole),
                DigestStep::Fetch { cursor, revision } => {
                    wanted = DigestOptions {
                        cursor: Some(cursor),
                        expected_revision: Some(revision),
                        ..DigestOptions::default()
                    };
                }
            }
        }
    }

    async fn digest_page(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        options: DigestOptions,
        budget: &Budget,
    ) -> Result<DigestPage> {
        let DigestOptions { cursor, expected_revision, metadata_only, .. } = options;
        let mut arguments =
            object(vec![("profileId", profile_id.as_str().into()), ("sessionId", session_id.as_str().into())]);
        if let Some(cursor) = cursor {
            arguments["cursor"] = cursor.into();
        }
        if let Some(revision) = &expected_revision {
            arguments["expectedRevision"] = revision.as_str().into();
        }
        if metadata_only {
            arguments["metadataOnly"] = true.into();
        }
        let request = DigestRequest { session_id, expected_revision: expected_revision.as_ref(), metadata_only };
        let read = |object: &mut Object<'_>| DigestPage::read(object, request);
        self.0.link.read_tool(DIGEST, arguments, budget, "the digest page", read).await
    }
}

fn failed(failure: DigestFailure) -> Error {
    match failure {
        DigestFailure::TooLarge => Error::new(ErrorKind::TooLarge, DIGEST, failure.to_string()).with_source(failure),
        DigestFailure::RevisionChanged | DigestFailure::EntryTwice | DigestFailure::Cycle => {
            Error::protocol(DIGEST, failure).with_source(failure)
        }
    }
}

const DIGEST: &str = "harness_session_digest";

const DIGESTS: Feature = Feature { name: "digests", is_offered: |can| can.session_digest };
