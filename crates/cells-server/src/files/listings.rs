//! The names of directories whose pages are being asked for. A listing is read once and keeps its names for the life of
//! its cursors, so that a page costs the same in a directory of a thousand entries and of a hundred thousand.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use cells_protocol::limits::{CURSOR_LIFETIME_S, LISTINGS_MAX};

/// What one pass over a directory found.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// In byte order.
    pub(super) names: Vec<Box<str>>,
    /// One word for each child that is left out.
    pub(super) warnings: Vec<&'static str>,
}

impl Listing {
    /// The names after `last`; all without one.
    pub(super) fn after(&self, last: Option<&str>) -> &[Box<str>] {
        let start = last.map_or(0, |last| self.names.partition_point(|name| **name <= *last));
        self.names.get(start..).unwrap_or_default()
    }

    /// About what it holds in memory.
    fn bytes(&self) -> usize {
        let names: usize = self.names.iter().map(|name| name.len() + size_of::<Box<str>>()).sum();
        names + self.warnings.len() * size_of::<&str>()
    }
}

/// The listings that are kept: the newest [`LISTINGS_MAX`], of [`LISTINGS_MAX_BYTES`] in all. What is not kept any more is read
/// again when its cursor comes.
#[derive(Debug, Default)]
pub(super) struct Listings {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    next_id: u64,
    /// The oldest first.
    listings: VecDeque<KeptListing>,
}

#[derive(Debug)]
struct KeptListing {
    id: u64,
    listing: Arc<Listing>,
    bytes: usize,
    /// Unix seconds.
    expires: u64,
}

impl Listings {
    /// Keeps a listing and gives its number. `now` is in Unix seconds.
    pub(super) fn keep(&self, listing: Arc<Listing>, now: u64) -> u64 {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let id = kept.next_id;
        kept.next_id += 1;
        let bytes = listing.bytes();
        kept.listings.push_back(KeptListing { id, listing, bytes, expires: now + CURSOR_LIFETIME_S });
        kept.drop_old(now);
        id
    }

    /// The listing of a number, which is then kept for the life of another cursor.
    pub(super) fn find(&self, id: u64, now: u64) -> Option<Arc<Listing>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.drop_old(now);
        let found = kept.listings.iter_mut().find(|kept| kept.id == id)?;
        found.expires = now + CURSOR_LIFETIME_S;
        Some(Arc::clone(&found.listing))
    }
}

impl Kept {
    fn drop_old(&mut self, now: u64) {
        self.listings.retain(|kept| now < kept.expires);
        let mut bytes: usize = self.listings.iter().map(|kept| kept.bytes).sum();
        while self.listings.len() > LISTINGS_MAX || (bytes > LISTINGS_MAX_BYTES && self.listings.len() > 1) {
            bytes -= self.listings.pop_front().map_or(0, |oldest| oldest.bytes);
        }
    }
}

const LISTINGS_MAX_BYTES: usize = 64 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(names: &[&str]) -> Arc<Listing> {
        Arc::new(Listing { names: names.iter().map(|name| Box::from(*name)).collect(), warnings: Vec::new() })
    }

    #[test]
    fn a_page_starts_after_the_last_name_even_if_that_is_gone() {
        let listing = listing(&["a", "c", "é"]);
        for (last, expected) in [
            (None, vec!["a", "c", "é"]),
            (Some(""), vec!["a", "c", "é"]),
            (Some("a"), vec!["c", "é"]),
            (Some("b"), vec!["c", "é"]),
            (Some("z"), vec!["é"]),
            (Some("é"), vec![]),
        ] {
            let names: Vec<&str> = listing.after(last).iter().map(|name| &**name).collect();
            assert_eq!(names, expected, "{last:?}");
        }
    }

    #[test]
    fn a_listing_is_kept_for_the_life_of_its_last_cursor() {
        let listings = Listings::default();
        let id = listings.keep(listing(&["a"]), 1000);
        assert!(listings.find(id, 1299).is_some());
        assert!(listings.find(id, 1598).is_some(), "each page gives a new cursor");
        assert!(listings.find(id, 1898).is_none());
        assert!(listings.find(id, 1000).is_none(), "it was dropped");
    }

    #[test]
    fn the_oldest_listings_make_room_for_new_ones() {
        let listings = Listings::default();
        let ids: Vec<u64> = (0..=LISTINGS_MAX).map(|_| listings.keep(listing(&["a"]), 1000)).collect();
        assert!(listings.find(ids[0], 1000).is_none());
        assert!(ids[1..].iter().all(|id| listings.find(*id, 1000).is_some()));

        let names = Listing { names: vec!["n".repeat(LISTINGS_MAX_BYTES).into()], warnings: Vec::new() };
        let warnings = Listing { names: Vec::new(), warnings: vec!["W"; LISTINGS_MAX_BYTES / size_of::<&str>() + 1] };
        let mut before = ids;
        for large in [names, warnings] {
            let large = listings.keep(Arc::new(large), 1000);
            assert!(before.iter().all(|id| listings.find(*id, 1000).is_none()));
            assert!(listings.find(large, 1000).is_some(), "one listing is always kept");
            before = vec![large];
        }
    }
}
