//! Joins the pages of a digest (`cells-0.4.md` §7.3).

use cells_protocol::harness::{DigestEntry, DigestPage};
use cells_protocol::ids::DigestRevision;
use cells_protocol::limits::{DIGEST_MAX_BYTES, DIGEST_MAX_ENTRIES};

/// Collects the pages of one digest, one after the other. All must have one revision, an entry may stand on one page only,
/// and a cursor must not come back.
#[derive(Debug, Default)]
pub struct DigestPages {
    first: Option<DigestPage>,
    entries: Vec<DigestEntry>,
    omitted_unclassified: u64,
    cursors: Vec<String>,
    n_bytes: usize,
}

/// What comes after a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DigestStep {
    /// Ask for the page behind `cursor`, of this revision.
    Fetch {
        /// The cursor.
        cursor: String,
        /// The revision that the page must have.
        revision: DigestRevision,
    },
    /// That was the last page. Here are all of them as one: every entry, and the number of prompts that were left out.
    Complete(Box<DigestPage>),
}

/// Why pages are not one digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DigestFailure {
    /// A page has another revision than the first.
    #[error("a page of the digest has another revision than the first")]
    RevisionChanged,
    /// An entry stands on two pages.
    #[error("an entry stands on two pages of the digest")]
    EntryTwice,
    /// A cursor came back, or there are more than 1,000 pages.
    #[error("the pages of the digest go round in a circle")]
    Cycle,
    /// There are more than 10,000 entries, or 32 MiB of text.
    #[error("the digest has more than {DIGEST_MAX_ENTRIES} entries or {DIGEST_MAX_BYTES} bytes")]
    TooLarge,
}

impl DigestPages {
    /// Takes the page that was asked for, the first one or that of the last [`DigestStep::Fetch`].
    ///
    /// # Errors
    /// [`DigestFailure`]; nothing of the digest is handed out.
    pub fn handle_page(&mut self, mut page: DigestPage) -> Result<DigestStep, DigestFailure> {
        let (entries, next_cursor) = (std::mem::take(&mut page.entries), page.next_cursor.take());
        let head = self.first.get_or_insert_with(|| page.clone());
        if head.revision != page.revision {
            return Err(DigestFailure::RevisionChanged);
        }
        self.omitted_unclassified = self.omitted_unclassified.saturating_add(page.omitted_unclassified.unwrap_or(0));
        for entry in entries {
            self.n_bytes += entry.text.len();
            self.entries.push(entry);
        }
        if self.entries.len() > DIGEST_MAX_ENTRIES || self.n_bytes > DIGEST_MAX_BYTES {
            return Err(DigestFailure::TooLarge);
        }
        let Some(cursor) = next_cursor else {
            let mut ids: Vec<&str> = self.entries.iter().map(|entry| entry.id.as_str()).collect();
            ids.sort_unstable();
            if ids.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(DigestFailure::EntryTwice);
            }
            let entries = std::mem::take(&mut self.entries);
            // Metadata alone has no such number.
            let omitted_unclassified = head.omitted_unclassified.map(|_| self.omitted_unclassified);
            return Ok(DigestStep::Complete(Box::new(DigestPage { entries, omitted_unclassified, ..head.clone() })));
        };
        if self.cursors.contains(&cursor) || self.cursors.len() > DIGEST_PAGES_MAX {
            return Err(DigestFailure::Cycle);
        }
        self.cursors.push(cursor.clone());
        Ok(DigestStep::Fetch { cursor, revision: page.revision })
    }
}

/// Pages may be empty, but not that many of them.
const DIGEST_PAGES_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use cells_protocol::harness::{DigestRequest, DigestRole};
    use cells_protocol::ids::NativeId;
    use cells_protocol::json::Object;

    use super::*;

    fn page(revision: &str, ids: &[&str], next_cursor: Option<&str>) -> DigestPage {
        let entries = ids.iter().map(|id| {
            serde_json::json!({"id": id, "role": "user", "turnId": null, "timestamp": 1, "text": "hello", "truncated": false})
        });
        let body = serde_json::json!({
            "version": 1, "sessionId": "s-1", "revision": revision, "title": "T", "createdAt": null, "updatedAt": null,
            "entries": entries.collect::<Vec<_>>(), "omittedUnclassified": 1, "nextCursor": next_cursor,
        });
        let session_id = NativeId::new("s-1").unwrap();
        let request = DigestRequest { session_id: &session_id, expected_revision: None, metadata_only: false };
        DigestPage::read(&mut Object::parse("the page", body.to_string().as_bytes()).unwrap(), request).unwrap()
    }

    fn fetch(cursor: &str) -> DigestStep {
        DigestStep::Fetch { cursor: cursor.to_owned(), revision: DigestRevision::new("r1").unwrap() }
    }

    #[test]
    fn pages_of_one_revision_are_one_digest() {
        let mut pages = DigestPages::default();
        assert_eq!(pages.handle_page(page("r1", &["a", "b"], Some("1"))), Ok(fetch("1")));
        assert_eq!(pages.handle_page(page("r1", &[], Some("2"))), Ok(fetch("2")));
        let Ok(DigestStep::Complete(whole)) = pages.handle_page(page("r1", &["c"], None)) else {
            panic!("it is not complete")
        };
        assert_eq!(whole.entries.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert!(whole.entries.iter().all(|entry| entry.role == DigestRole::User));
        assert_eq!((whole.omitted_unclassified, whole.is_complete(), &whole.next_cursor), (Some(3), false, &None));
    }

    #[test]
    fn pages_that_do_not_fit_together_are_refused() {
        let cases = [
            (page("r2", &["b"], None), DigestFailure::RevisionChanged),
            (page("r1", &["a"], None), DigestFailure::EntryTwice),
            (page("r1", &["b"], Some("1")), DigestFailure::Cycle),
        ];
        for (second, failure) in cases {
            let mut pages = DigestPages::default();
            pages.handle_page(page("r1", &["a"], Some("1"))).unwrap();
            assert_eq!(pages.handle_page(second), Err(failure));
        }
    }

    #[test]
    fn a_digest_without_end_is_refused() {
        let mut pages = DigestPages::default();
        let mut number = 0;
        let failure = loop {
            let ids: Vec<String> = (0..200).map(|idx| format!("{number}-{idx}")).collect();
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            number += 1;
            match pages.handle_page(page("r1", &ids, Some(&number.to_string()))) {
                Ok(step) => assert_eq!(step, fetch(&number.to_string())),
                Err(failure) => break failure,
            }
        };
        assert_eq!((failure, number), (DigestFailure::TooLarge, 51));
    }
}
