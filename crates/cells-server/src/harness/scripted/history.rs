//! Reading a session file: what it says of the session, and its pages from newest to oldest.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use cells_protocol::harness::HarnessUsageEntry;
use cells_protocol::ids::NativeId;
use cells_protocol::limits::{HISTORY_PAGE_MAX_BYTES, HISTORY_PAGE_MAX_ITEMS};

use super::lines::LinesBackward;
use super::record::{Header, Item, Record, TurnEnd, TurnStart};
use super::runtime::Runtime;
use crate::harness::plugin::ToolError;

/// What a file says of its session, without its items.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Summary {
    /// The first line.
    pub(super) header: Header,
    /// Where the second line starts.
    pub(super) items_start: u64,
    /// Where the last whole line ends.
    pub(super) end: u64,
    /// The first prompt, if there is one.
    pub(super) first_prompt: Option<String>,
    /// The last turn.
    pub(super) last_turn: LastTurn,
    /// When the last record was made, in Unix milliseconds.
    pub(super) updated_at: u64,
    /// How many records there are, unless counting them would mean reading too much.
    pub(super) records: Option<u64>,
    /// What the session has used until its last turn that ended.
    pub(super) usage: Vec<HarnessUsageEntry>,
    /// The process that ran an open turn.
    pub(super) runtime: Option<Runtime>,
}

/// The last turn of a history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum LastTurn {
    /// There is no turn.
    #[default]
    None,
    /// It has ended.
    Ended(TurnEnd),
    /// The history says nothing of its end. Unless it runs now, its process died.
    Open(NativeId, Option<TurnStart>),
}

/// A page of history.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Page {
    /// The items, oldest first.
    pub(super) items: Vec<Item>,
    /// How the turns of these items ended, as far as the page reaches.
    pub(super) ends: BTreeMap<String, TurnEnd>,
    /// Where the page starts in the file.
    pub(super) start: u64,
}

impl Summary {
    /// Reads the head and the tail of a session file; `None` when it is not one.
    pub(super) fn read(file: &File) -> io::Result<Option<Self>> {
        let Some((header, items_start, first_prompt)) = read_head(file)? else { return Ok(None) };
        let mut lines = LinesBackward::new(file, file.metadata()?.len())?;
        let end = lines.position();
        let mut updated_at = None;
        let mut last_turn = LastTurn::None;
        // The position of the last record that says its own, and how many records are behind it. Counting ends where that
        // is too far away.
        let (mut known, mut behind) = (Some(0), 0);
        // The message of an open turn, and how many records are behind that.
        let mut open_start: Option<(u64, Option<String>)> = None;
        let (mut usage, mut open_runtime) = (Vec::new(), None);
        loop {
            let line = match lines.previous() {
                Ok(line) if last_turn == LastTurn::None || lines.position() + COUNT_MAX_BYTES >= end => line,
                Err(error) if last_turn == LastTurn::None => return Err(error),
                Ok(_) | Err(_) => {
                    known = None;
                    break;
                }
            };
            let Some(line) = line else { break };
            match Record::from_line(&line.bytes) {
                Record::Item { item, runtime } => {
                    updated_at = updated_at.or_else(|| item.get("timestamp")?.as_u64());
                    let turn = Record::turn_of(&item).and_then(|turn| NativeId::new(turn).ok());
                    if let (LastTurn::None, Some(turn)) = (&last_turn, &turn) {
                        last_turn = LastTurn::Open(turn.clone(), None);
                    }
                    let is_open = matches!((&last_turn, turn), (LastTurn::Open(open, _), Some(turn)) if *open == turn);
                    if is_open && Record::is_user_message(&item) {
                        open_start = Some((behind, Record::prompt_sha256(&item)));
                        open_runtime = runtime;
                    }
                }
                Record::TurnEnd(turn_end) => {
                    updated_at = updated_at.or(Some(turn_end.timestamp));
                    known = Some(turn_end.sequence);
                    if usage.is_empty() {
                        usage.clone_from(&turn_end.usage);
                    }
                    if last_turn == LastTurn::None {
                        last_turn = LastTurn::Ended(turn_end);
                    }
                }
                Record::Session(_) | Record::Unknown => {}
            }
            if known > Some(0) {
                break;
            }
            behind += 1;
        }
        let records = known.map(|known| known + behind);
        if let (LastTurn::Open(_, start), Some((behind, prompt_sha256))) = (&mut last_turn, open_start) {
            *start = records.map(|records| TurnStart { sequence: records - behind, prompt_sha256 });
        }
        let updated_at = updated_at.unwrap_or(header.created_at);
        Ok(Some(Self {
            header,
            items_start,
            end,
            first_prompt,
            last_turn,
            updated_at,
            records,
            usage,
            runtime: open_runtime,
        }))
    }
}

impl Page {
    /// Reads backward from `end`, which must be the start of a line or the end of one, until the page is full.
    /// `reserved_items` and `reserved_bytes` of it are kept free for items that are not in the file yet.
    ///
    /// # Errors
    /// `EINVAL` when `end` is inside a line, `HARNESS_HISTORY_ITEM_TOO_LARGE`, `HARNESS_HISTORY_RECORD_TOO_LARGE`
    /// (`harness.md` §4.1), `EIO`.
    pub(super) fn read(file: &File, end: u64, reserved_items: usize, reserved_bytes: usize) -> Result<Self, ToolError> {
        let mut lines = LinesBackward::new(file, end).map_err(|error| io_error(&error))?;
        if lines.position() != end {
            return Err(ToolError("EINVAL"));
        }
        let mut page = Self { start: end, ..Self::default() };
        let mut bytes = reserved_bytes;
        // The end of a turn stands on the page of the last item of that turn.
        let mut turn_end: Option<TurnEnd> = None;
        while page.items.len() + reserved_items < HISTORY_PAGE_MAX_ITEMS {
            let line = match lines.previous() {
                Ok(Some(line)) => line,
                Ok(None) => {
                    page.start = 0;
                    break;
                }
                // What is newer can be shown; the next page says what is wrong.
                Err(_) if page.has_items(reserved_items) => break,
                Err(error) => return Err(io_error(&error)),
            };
            match Record::from_line(&line.bytes) {
                Record::Item { item, .. } => {
                    if line.bytes.len() > HISTORY_PAGE_MAX_BYTES {
                        if page.has_items(reserved_items) {
                            break;
                        }
                        return Err(ToolError("HARNESS_HISTORY_ITEM_TOO_LARGE"));
                    }
                    bytes += line.bytes.len();
                    if bytes > HISTORY_PAGE_MAX_BYTES {
                        break;
                    }
                    if let Some(ended) = turn_end.take() {
                        page.ends.insert(ended.turn_id.as_str().to_owned(), ended);
                    }
                    page.items.push(item);
                    page.start = line.start;
                }
                Record::TurnEnd(ended) => turn_end = Some(ended),
                Record::Session(_) | Record::Unknown => {}
            }
        }
        page.items.reverse();
        Ok(page)
    }

    fn has_items(&self, reserved_items: usize) -> bool {
        !self.items.is_empty() || reserved_items > 0
    }
}

/// The header, where it ends, and the first prompt, which is looked for among the first records only.
fn read_head(file: &File) -> io::Result<Option<(Header, u64, Option<String>)>> {
    let mut reader = BufReader::new(PositionedReader { file, position: 0 }.take(HEAD_MAX_BYTES));
    let mut line = Vec::new();
    let mut next = |line: &mut Vec<u8>| -> io::Result<bool> {
        line.clear();
        reader.read_until(b'\n', line)?;
        Ok(line.last() == Some(&b'\n'))
    };
    if !next(&mut line)? {
        return Ok(None);
    }
    let Record::Session(header) = Record::from_line(&line) else { return Ok(None) };
    let items_start = line.len() as u64;
    while next(&mut line)? {
        if let Record::Item { item, .. } = Record::from_line(&line)
            && Record::is_user_message(&item)
        {
            let prompt = item.get("content").and_then(|content| content.get(0)?.get("text")?.as_str());
            return Ok(Some((header, items_start, prompt.map(str::to_owned))));
        }
    }
    Ok(Some((header, items_start, None)))
}

/// Reads a shared file from the beginning without moving its cursor.
struct PositionedReader<'a> {
    file: &'a File,
    position: u64,
}

impl Read for PositionedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = std::os::unix::fs::FileExt::read_at(self.file, buffer, self.position)?;
        self.position += size as u64;
        Ok(size)
    }
}

fn io_error(error: &io::Error) -> ToolError {
    match error.kind() {
        io::ErrorKind::FileTooLarge => ToolError("HARNESS_HISTORY_RECORD_TOO_LARGE"),
        _ => ToolError("EIO"),
    }
}

const HEAD_MAX_BYTES: u64 = 1024 * 1024;
/// How far back the position of a record is looked for.
const COUNT_MAX_BYTES: u64 = 16 * 1024 * 1024;
