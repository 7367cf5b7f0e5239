//! Output of commands that is kept behind a reference (`cells-0.4.md` §5.4).

use cells_machines::output_pages::{OutputAction, OutputEvent, OutputPages, OutputRefused};
use cells_protocol::commands::{OutputPage, OutputRef};
use cells_protocol::error::ErrorKind;
use cells_protocol::ids::ProfileId;
use cells_protocol::json::{Object, object};
use cells_protocol::limits::{OUTPUT_LOAD_DEFAULT_BYTES, OUTPUT_PAGE_MAX_BYTES};
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::reads::{known_profile, not_offered};
use crate::budget::Budget;
use crate::cancellation::OperationOptions;
use crate::error::{Error, Result};
use crate::host::Progress;
use crate::node::Link;

/// Options of [`HarnessClient::read_command_output`](crate::HarnessClient::read_command_output).
#[derive(Debug, Clone)]
pub struct OutputReadOptions {
    /// Where the page starts. Default 0.
    pub offset: u64,
    /// Its largest size in bytes, 1 to 65,536. Default 65,536.
    pub limit: u64,
    /// Budget and cancellation.
    pub operation: OperationOptions,
}

impl Default for OutputReadOptions {
    fn default() -> Self {
        Self { offset: 0, limit: OUTPUT_PAGE_MAX_BYTES, operation: OperationOptions::default() }
    }
}

/// Options of [`HarnessClient::load_command_output`](crate::HarnessClient::load_command_output).
pub struct OutputLoadOptions {
    /// The largest output that is loaded, in bytes. Default 8 MiB, at most 32 MiB.
    pub max_bytes: u64,
    /// Budget and cancellation. Without a budget each page has 30 s, and all of them any time.
    pub operation: OperationOptions,
    /// Called when more is there: bytes loaded, bytes in all.
    pub on_progress: Option<Progress>,
}

impl Default for OutputLoadOptions {
    fn default() -> Self {
        Self { max_bytes: OUTPUT_LOAD_DEFAULT_BYTES, operation: OperationOptions::default(), on_progress: None }
    }
}

impl std::fmt::Debug for OutputLoadOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutputLoadOptions").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

pub(super) async fn read_page(
    link: &Link,
    profile_id: &ProfileId,
    reference: &OutputRef,
    options: OutputReadOptions,
) -> Result<OutputPage> {
    let OutputReadOptions { offset, limit, operation } = options;
    reference.check().map_err(|error| Error::invalid(OUTPUT, error))?;
    if limit == 0 || limit > OUTPUT_PAGE_MAX_BYTES {
        return Err(Error::invalid(OUTPUT, format!("limit is outside 1 to {OUTPUT_PAGE_MAX_BYTES} bytes")));
    }
    if offset >= reference.bytes {
        let message = format!("offset {offset} is not inside the output, which has {} bytes", reference.bytes);
        return Err(Error::invalid(OUTPUT, message));
    }
    let budget = link.core.budget(&operation);
    check_offered(link, profile_id, &budget).await?;
    fetch(link, profile_id, reference, offset, limit, &budget).await
}

pub(super) async fn load(
    link: &Link,
    profile_id: &ProfileId,
    reference: &OutputRef,
    options: OutputLoadOptions,
) -> Result<Vec<u8>> {
    let OutputLoadOptions { max_bytes, operation, mut on_progress } = options;
    let mut pages = OutputPages::new(reference.clone(), max_bytes, WINDOW).map_err(refused)?;
    let first = link.core.budget(&operation);
    check_offered(link, profile_id, &first).await?;
    // A budget that was given is one for everything; else each page has its own.
    let shared = operation.timeout_ms.is_some().then_some(first);
    let mut under_way = FuturesUnordered::new();
    loop {
        while let Some(OutputAction::Fetch { offset, limit }) = pages.poll_action() {
            let budget = shared.clone().unwrap_or_else(|| link.core.budget(&operation));
            under_way.push(async move { fetch(link, profile_id, reference, offset, limit, &budget).await });
        }
        while let Some(event) = pages.poll_event() {
            match event {
                OutputEvent::Progress { loaded_bytes, total_bytes } => {
                    if let Some(on_progress) = &mut on_progress {
                        on_progress(loaded_bytes, total_bytes);
                    }
                }
                OutputEvent::Complete(body) => return Ok(body),
                OutputEvent::Failed(failure) => {
                    return Err(Error::protocol(OUTPUT, failure).with_source(failure));
                }
            }
        }
        match under_way.next().await {
            Some(page) => pages.handle_page(&page?),
            None => return Err(Error::protocol(OUTPUT, "its pages end before the output is complete")),
        }
    }
}

async fn check_offered(link: &Link, profile_id: &ProfileId, budget: &Budget) -> Result<()> {
    link.check_open(OUTPUT)?;
    let profile = budget.run(OUTPUT, known_profile(link, OUTPUT, profile_id)).await?;
    if profile.capabilities.command_outputs {
        Ok(())
    } else {
        Err(not_offered(OUTPUT, profile_id, "command output by reference"))
    }
}

async fn fetch(
    link: &Link,
    profile_id: &ProfileId,
    reference: &OutputRef,
    offset: u64,
    limit: u64,
    budget: &Budget,
) -> Result<OutputPage> {
    let arguments = object(vec![
        ("profileId", profile_id.as_str().into()),
        ("epoch", reference.epoch.as_str().into()),
        ("requestId", reference.request_id.as_str().into()),
        ("offset", offset.into()),
        ("limit", limit.into()),
    ]);
    let page = |object: &mut Object<'_>| OutputPage::read(object, reference, offset, limit);
    link.read_tool(OUTPUT, arguments, budget, "the output page", page).await
}

fn refused(refused: OutputRefused) -> Error {
    let kind = match refused {
        OutputRefused::TooLarge { .. } => ErrorKind::TooLarge,
        OutputRefused::BudgetTooLarge | OutputRefused::BadReference(_) => ErrorKind::Invalid,
    };
    Error::new(kind, OUTPUT, refused.to_string()).with_source(refused)
}

const OUTPUT: &str = "harness_command_output";

/// Pages under way at a time, so that a page travels while the one before is checked.
const WINDOW: usize = 4;
