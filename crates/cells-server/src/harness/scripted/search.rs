//! Search in titles and in what was said (`harness.md` §6, `cells-0.4.md` §8.2–8.3).

use std::fs::File;
use std::time::{Duration, Instant};

use cells_protocol::harness::{HarnessSearchMode, HarnessSearchQuery, Session as SessionView};
use cells_protocol::limits::SEARCH_MATCHES_MAX;
use serde_json::{Value, json};

use super::driver::{Agent, lock};
use super::lines::LinesBackward;
use super::record::{Item, Record};
use super::store::Store;
use super::texts::Said;
use crate::harness::arguments::{Arguments, text};
use crate::harness::plugin::ToolError;

impl Agent {
    /// Searches, most recently updated sessions and newest messages first.
    ///
    /// # Errors
    /// `EINVAL` for a bad query or mode, `SEARCH_BUSY` while two others search.
    pub(super) async fn search(&self, arguments: &Arguments) -> Result<Value, ToolError> {
        let query = query(arguments)?;
        let permit = std::sync::Arc::clone(&self.searches).try_acquire_owned().map_err(|_| ToolError("SEARCH_BUSY"))?;
        let mut sessions: Vec<(SessionView, u64)> = {
            let sessions = lock(self.sessions().await?);
            let authorized = sessions.values().filter(|session| self.is_authorized(session));
            authorized.map(|session| session.view_and_end()).collect()
        };
        sessions.retain(|(view, _)| view.archived == query.archived);
        sessions.sort_by_key(|(view, _)| (std::cmp::Reverse(view.updated_at), view.id.clone()));
        let store = std::sync::Arc::clone(&self.store);
        let found = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let mut search = Search::new(&query);
            for (view, end) in &sessions {
                if !search.session(view, *end, &store) {
                    break;
                }
            }
            json!({"matches": search.matches, "truncated": search.truncated, "nextCursor": null})
        });
        found.await.map_err(|_| ToolError("EIO"))
    }
}

fn query(arguments: &Arguments) -> Result<HarnessSearchQuery, ToolError> {
    let mode = text(arguments, "mode")?;
    let mode = HarnessSearchMode::WORDS.iter().find(|(word, _)| *word == mode).ok_or(ToolError("EINVAL"))?.1;
    let archived = arguments.get("archived").and_then(Value::as_bool).unwrap_or_default();
    let query = HarnessSearchQuery { query: text(arguments, "query")?.to_owned(), mode, archived };
    query.check().and_then(|()| query.check_keywords()).map_err(|_| ToolError("EINVAL"))?;
    Ok(query)
}

/// A search under way.
struct Search {
    mode: HarnessSearchMode,
    keywords: Vec<String>,
    until: Instant,
    bytes_left: u64,
    matches: Vec<Value>,
    truncated: bool,
}

impl Search {
    fn new(query: &HarnessSearchQuery) -> Self {
        let text = query.query.to_lowercase();
        // A query of several lines is found as it stands.
        let keywords = if query.query.contains(['\n', '\r']) {
            vec![text]
        } else {
            text.split([' ', '\t']).filter(|keyword| !keyword.is_empty()).map(str::to_owned).collect()
        };
        let until = Instant::now() + SEARCH_TIME_MAX;
        Self { mode: query.mode, keywords, until, bytes_left: SEARCH_MAX_BYTES, matches: Vec::new(), truncated: false }
    }

    /// Looks into one session; false when the search is over.
    fn session(&mut self, view: &SessionView, end: u64, store: &Store) -> bool {
        if self.mode == HarnessSearchMode::Title {
            if self.find(&view.title).is_some() {
                self.add(view, &view.title, None);
            }
        // A session that is gone or cannot be read hides no other.
        } else if let Ok(file) = store.open(&view.id) {
            self.history(view, end, &file);
        }
        !self.truncated
    }

    fn history(&mut self, view: &SessionView, end: u64, file: &File) {
        let Ok(mut lines) = LinesBackward::new(file, end) else { return };
        let mut items = 0;
        while let Ok(Some(line)) = lines.previous() {
            let read = line.bytes.len() as u64;
            if read > self.bytes_left || Instant::now() >= self.until || items == SEARCH_ITEMS_MAX {
                self.truncated = true;
                return;
            }
            self.bytes_left -= read;
            let Record::Item { item, .. } = Record::from_line(&line.bytes) else { continue };
            items += 1;
            let said = Said::of(&item).filter(|said| match self.mode {
                HarnessSearchMode::Prompt => matches!(said, Said::Prompt(_)),
                HarnessSearchMode::Content | HarnessSearchMode::Title => true,
            });
            let found = said.and_then(|said| self.find(said.text()).map(|at| excerpt(said.text(), at)));
            if let Some(summary) = found {
                self.add(view, &summary, Some(&item));
                if self.truncated {
                    return;
                }
            }
        }
    }

    /// Where the first keyword stands in `text`, as a number of characters, if all keywords do.
    fn find(&self, text: &str) -> Option<usize> {
        let text = text.to_lowercase();
        let mut places = self.keywords.iter().map(|keyword| text.find(keyword));
        let first = places.next().flatten()?;
        places.all(|place| place.is_some()).then(|| text.get(..first).map_or(0, |before| before.chars().count()))
    }

    fn add(&mut self, view: &SessionView, summary: &str, item: Option<&Item>) {
        if self.matches.len() == SEARCH_MATCHES_MAX {
            self.truncated = true;
            return;
        }
        let mut found =
            json!({"sessionId": view.id, "title": view.title, "updatedAt": view.updated_at, "summary": summary});
        if let Some(item) = item {
            found["turnId"] = json!(item.get("turnId"));
            found["itemId"] = json!(item.get("id"));
        }
        self.matches.push(found);
    }
}

/// At most 500 characters, beginning at most 80 before the hit.
fn excerpt(text: &str, hit: usize) -> String {
    text.chars().skip(hit.saturating_sub(EXCERPT_BEFORE)).take(EXCERPT_MAX_CHARS).collect()
}

const EXCERPT_BEFORE: usize = 80;
const EXCERPT_MAX_CHARS: usize = 500;
/// Of one session: 64 pages of 100.
const SEARCH_ITEMS_MAX: usize = 6_400;
/// Of all sessions.
const SEARCH_MAX_BYTES: u64 = 16 * 1024 * 1024;
const SEARCH_TIME_MAX: Duration = Duration::from_secs(15);
/// How many searches run at once.
pub(super) const SEARCHES_MAX: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn search(query: &str) -> Search {
        Search::new(&HarnessSearchQuery { query: query.to_owned(), mode: HarnessSearchMode::Content, archived: false })
    }

    #[test]
    fn all_keywords_must_stand_in_a_text_in_any_order_and_case() {
        for (query, text, expected) in [
            ("fix", "please Fix it", Some(7)),
            ("IT fix", "please fix it", Some(11)),
            ("  fix \t it ", "fix it", Some(0)),
            ("fix that", "fix it", None),
            ("ÄRGER", "viel ärger", Some(5)),
            ("a.b", "axb", None),
            ("one\ntwo", "one two", None),
            ("one\ntwo", "x One\nTwo", Some(2)),
            ("two one\n", "one\ntwo one\n", Some(4)),
        ] {
            assert_eq!(search(query).find(text), expected, "{query:?} in {text:?}");
        }
    }

    #[test]
    fn an_excerpt_begins_before_the_hit_and_is_bounded() {
        let text = format!("{}hit{}", "ä".repeat(200), "ö".repeat(600));
        let excerpt = excerpt(&text, 200);
        assert_eq!(excerpt.chars().count(), 500);
        assert!(excerpt.starts_with(&format!("{}hit", "ä".repeat(80))));
    }
}
