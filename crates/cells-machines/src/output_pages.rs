//! Loads the output of a command page by page and verifies it (`cells-0.4.md` §5.4).

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use cells_protocol::commands::{OutputPage, OutputRef};
use cells_protocol::json::Malformed;
use cells_protocol::limits::{OUTPUT_MAX_BYTES, OUTPUT_PAGE_MAX_BYTES};
use sha2::{Digest, Sha256};

/// Loads one body. Nothing is handed out before all of it is there and its SHA-256 is right.
///
/// Up to `window` pages are asked for at a time; they may arrive in any order and may be shorter than asked.
///
/// ```
/// use cells_machines::output_pages::{OutputAction, OutputEvent, OutputPages};
/// use cells_protocol::commands::{OutputPage, OutputRef};
///
/// let reference: OutputRef = serde_json::from_value(serde_json::json!({
///     "version": 1, "epoch": "0".repeat(64), "requestId": "r1", "bytes": 2, "mimeType": "text/plain",
///     "sha256": "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4",
/// }))?;
/// let mut pages = OutputPages::new(reference, 1024, 1)?;
/// assert_eq!(pages.poll_action(), Some(OutputAction::Fetch { offset: 0, limit: 2 }));
/// pages.handle_page(&OutputPage { offset: 0, data: b"hi".to_vec(), next_offset: None });
/// assert_eq!(pages.poll_event(), Some(OutputEvent::Progress { loaded_bytes: 2, total_bytes: 2 }));
/// assert_eq!(pages.poll_event(), Some(OutputEvent::Complete(b"hi".to_vec())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct OutputPages {
    reference: OutputRef,
    window: usize,
    /// `None` when loading ended, well or badly.
    loading: Option<Loading>,
    events: VecDeque<OutputEvent>,
}

/// Something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputAction {
    /// Read the page at `offset` and give it to [`OutputPages::handle_page`]. An offset is asked for once; it is the
    /// identity of this action.
    Fetch {
        /// Where the page starts, in bytes.
        offset: u64,
        /// Its largest size in bytes, 1 to 65,536.
        limit: u64,
    },
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputEvent {
    /// More of the body is there, without holes from its start.
    Progress {
        /// Bytes without holes from the start.
        loaded_bytes: u64,
        /// Size of the body.
        total_bytes: u64,
    },
    /// The whole body, verified. The last event.
    Complete(Vec<u8>),
    /// The body is not what was promised. The last event.
    Failed(OutputFailure),
}

/// Why a loaded body is not handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutputFailure {
    /// The bytes have another SHA-256 than the reference says.
    #[error("the output does not have the SHA-256 that its reference promises")]
    HashMismatch,
    /// A page was not asked for, or is empty or longer than asked.
    #[error("a page of the output is not the one that was asked for")]
    ForeignPage,
}

/// Why loading did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutputRefused {
    /// The budget is above 32 MiB.
    #[error("at most {OUTPUT_MAX_BYTES} bytes can be allowed; no output is larger")]
    BudgetTooLarge,
    /// The body is larger than the budget.
    #[error("the output has {bytes} bytes, more than the {max_bytes} allowed")]
    TooLarge {
        /// Size of the body.
        bytes: u64,
        /// The budget.
        max_bytes: u64,
    },
    /// The reference breaks a rule.
    #[error(transparent)]
    BadReference(#[from] Malformed),
}

impl OutputPages {
    /// Prepares to load the body of `reference` if it has at most `max_bytes` bytes, with up to `window` pages under way
    /// at a time (at least 1).
    ///
    /// # Errors
    /// [`OutputRefused`], before anything is asked for.
    pub fn new(reference: OutputRef, max_bytes: u64, window: usize) -> Result<Self, OutputRefused> {
        if max_bytes > OUTPUT_MAX_BYTES {
            return Err(OutputRefused::BudgetTooLarge);
        }
        reference.check()?;
        if reference.bytes > max_bytes {
            return Err(OutputRefused::TooLarge { bytes: reference.bytes, max_bytes });
        }
        // Checked above: at most 32 MiB.
        let body = vec![0; reference.bytes as usize];
        let loading = Loading { body, hasher: Sha256::new(), ..Loading::default() };
        Ok(Self { reference, window: window.max(1), loading: Some(loading), events: VecDeque::new() })
    }

    /// The next page to ask for; `None` while the window is full or nothing is left.
    pub fn poll_action(&mut self) -> Option<OutputAction> {
        let loading = self.loading.as_mut()?;
        if loading.asked.len() >= self.window {
            return None;
        }
        let (offset, limit) = match loading.rest_of_short_pages.pop_first() {
            Some(rest) => rest,
            None => {
                let offset = loading.next_offset;
                let limit = OUTPUT_PAGE_MAX_BYTES.min(self.reference.bytes - offset);
                if limit == 0 {
                    return None;
                }
                loading.next_offset += limit;
                (offset, limit)
            }
        };
        loading.asked.insert(offset, limit);
        Some(OutputAction::Fetch { offset, limit })
    }

    /// Takes a page that was checked against the reference.
    pub fn handle_page(&mut self, page: &OutputPage) {
        let Some(loading) = &mut self.loading else { return };
        match loading.take(page) {
            Err(failure) => {
                self.loading = None;
                self.events.push_back(OutputEvent::Failed(failure));
            }
            Ok(None) => {}
            Ok(Some(loaded_bytes)) => {
                self.events.push_back(OutputEvent::Progress { loaded_bytes, total_bytes: self.reference.bytes });
                if loaded_bytes == self.reference.bytes {
                    self.verify();
                }
            }
        }
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<OutputEvent> {
        self.events.pop_front()
    }

    fn verify(&mut self) {
        let Some(loading) = self.loading.take() else { return };
        let digest = loading.hasher.finalize();
        if is_hex_of(self.reference.sha256.as_str(), &digest) {
            self.events.push_back(OutputEvent::Complete(loading.body));
        } else {
            self.events.push_back(OutputEvent::Failed(OutputFailure::HashMismatch));
        }
    }
}

#[derive(Debug, Default)]
struct Loading {
    body: Vec<u8>,
    /// Has taken `body[..n_loaded]`.
    hasher: Sha256,
    /// Bytes without holes from the start.
    n_loaded: u64,
    /// Everything before is loaded, asked for, or in `rest_of_short_pages`.
    next_offset: u64,
    /// Offset and limit of each page under way.
    asked: BTreeMap<u64, u64>,
    /// Offset and length of what a page shorter than asked left open.
    rest_of_short_pages: BTreeMap<u64, u64>,
    /// Start and end of what is loaded behind a hole.
    ahead: BTreeMap<u64, u64>,
}

impl Loading {
    /// Puts the page in its place. Gives the number of bytes without holes, if it grew.
    fn take(&mut self, page: &OutputPage) -> Result<Option<u64>, OutputFailure> {
        let length = page.data.len() as u64;
        let limit = self.asked.remove(&page.offset).ok_or(OutputFailure::ForeignPage)?;
        if length == 0 || length > limit {
            return Err(OutputFailure::ForeignPage);
        }
        let end = page.offset + length;
        if length < limit {
            self.rest_of_short_pages.insert(end, limit - length);
        }
        // The limit was cut to the size of the body, which fits in memory.
        self.body[page.offset as usize..end as usize].copy_from_slice(&page.data);
        self.ahead.insert(page.offset, end);
        let n_loaded_before = self.n_loaded;
        while let Some(end) = self.ahead.remove(&self.n_loaded) {
            self.n_loaded = end;
        }
        self.hasher.update(&self.body[n_loaded_before as usize..self.n_loaded as usize]);
        Ok((self.n_loaded > n_loaded_before).then_some(self.n_loaded))
    }
}

fn is_hex_of(hex: &str, bytes: &[u8]) -> bool {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.map(|digit| HEX_DIGITS[usize::from(digit)]);
    hex.bytes().eq(digits)
}

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";
