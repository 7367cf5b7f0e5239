//! Content of a file in one buffer.

use bytes::Bytes;
use cells_protocol::error::ErrorKind;

use super::content::{self, Content, Range};
use super::{Files, check};
use crate::cancellation::OperationOptions;
use crate::error::{Error, Result};
use crate::host::HostFuture;
use crate::node::Link;
use crate::transport::{Gather, cut_off, host_error};

/// Options of [`FileClient::read`](crate::FileClient::read) and [`FileClient::read_stream`](crate::FileClient::read_stream).
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The first byte. Default 0.
    pub offset: u64,
    /// At most this many bytes; there are fewer where the file ends before. Default: up to the end. 0 = none, without
    /// asking the node.
    pub length: Option<u64>,
    /// The revision that the file must have, quotes included, as `stat` and an earlier read gave it.
    pub if_revision: Option<String>,
    /// Budget and cancellation. The budget of a stream holds for opening it, and then for each of its pieces.
    pub operation: OperationOptions,
}

/// Content of a file, or of a range of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// The bytes.
    pub data: Bytes,
    /// The revision that they belong to, on exports that have revisions.
    pub revision: Option<String>,
}

pub(super) async fn read(files: &Files, path: &str, options: &ReadOptions) -> Result<FileContent> {
    check(READ, path)?;
    read_from(&files.link, Box::pin(files.url_of("content", path)), options).await
}

/// The content at the address that `url` gives.
pub(crate) async fn read_from(
    link: &Link,
    url: HostFuture<'_, Result<String>>,
    options: &ReadOptions,
) -> Result<FileContent> {
    link.check_open(READ)?;
    let range = Range::new(READ, options.offset, options.length)?;
    if range.length == Some(0) {
        return Ok(FileContent { data: Bytes::new(), revision: None });
    }
    let budget = link.budget(&options.operation);
    budget
        .run(READ, async {
            let if_revision = options.if_revision.as_deref();
            let mut content = content::open(link, READ, url.await?, range, if_revision, true, &budget).await?;
            let max_bytes = link.core.read_max_bytes;
            if content.size > max_bytes {
                let message = format!(
                    "there are {} bytes, more than the {max_bytes} of one read; read a range or a stream",
                    content.size
                );
                return Err(Error::new(ErrorKind::TooLarge, READ, message));
            }
            let data = collect(&mut content).await?;
            Ok(FileContent { data, revision: content.revision })
        })
        .await
}

/// The bytes that were asked for, all of them.
async fn collect(content: &mut Content) -> Result<Bytes> {
    let Some(body) = &mut content.body else { return Ok(Bytes::new()) };
    let failed = |error| host_error(READ, error);
    if content.is_exact
        && let Some(all) = body.take_all()
    {
        let data = all.await.map_err(failed)?;
        let received = data.len() as u64;
        return if received == content.size { Ok(data) } else { Err(cut_off(READ, received, content.size)) };
    }
    let mut gathered = Gather::default();
    let mut skip = content.skip;
    while (gathered.len() as u64) < content.size {
        let Some(mut chunk) = body.next_chunk().await.map_err(failed)? else {
            return Err(cut_off(READ, gathered.len() as u64, content.size));
        };
        // Both are at most the length of the chunk.
        let skipped = skip.min(chunk.len() as u64);
        let _ = chunk.split_to(skipped as usize);
        skip -= skipped;
        let wanted = (content.size - gathered.len() as u64).min(chunk.len() as u64);
        chunk.truncate(wanted as usize);
        if !chunk.is_empty() {
            gathered.push(chunk);
        }
    }
    Ok(gathered.finish())
}

const READ: &str = "read";
