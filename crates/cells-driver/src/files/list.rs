//! One page of a directory.

use cells_protocol::endpoint::push_query;
use cells_protocol::files::EntriesPage;
use cells_protocol::limits::{CURSOR_MAX_BYTES, JSON_REPLY_MAX_BYTES};

use super::{Files, check};
use crate::cancellation::OperationOptions;
use crate::discovery::parsed;
use crate::error::{Error, Result};
use crate::transport::Call;

pub(super) async fn list(
    files: &Files,
    path: &str,
    cursor: Option<&str>,
    options: &OperationOptions,
) -> Result<EntriesPage> {
    files.link.check_open(LIST)?;
    check(LIST, path)?;
    if cursor.is_some_and(|cursor| cursor.len() > CURSOR_MAX_BYTES) {
        return Err(Error::invalid(LIST, format!("the cursor is longer than {CURSOR_MAX_BYTES} bytes")));
    }
    let budget = files.link.budget(options);
    budget
        .run(LIST, async {
            let mut url = files.url_of("entries", path).await?;
            if let Some(cursor) = cursor {
                push_query(&mut url, "cursor", cursor);
            }
            let body = files.link.fetch(&Call::get(LIST, url), JSON_REPLY_MAX_BYTES, &budget).await?;
            parsed(LIST, EntriesPage::parse(&body))
        })
        .await
}

const LIST: &str = "list";
