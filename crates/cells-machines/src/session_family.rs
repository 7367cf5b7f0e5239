//! Finds the family of a session in a list of sessions: what it was forked from, what was forked from that, and so on.

use std::collections::{BTreeMap, BTreeSet};

use cells_protocol::harness::{Session, SessionPage};
use cells_protocol::ids::NativeId;
use cells_protocol::limits::FAMILY_SESSIONS_MAX;

/// Reads the pages of a list, and then says who belongs to a session.
///
/// Sessions belong together through `parentSessionId`, also when the one that both come from is not in the list.
#[derive(Debug)]
pub struct SessionFamily {
    session: Session,
    listed: Vec<Session>,
    seen_ids: BTreeSet<NativeId>,
    seen_cursors: BTreeSet<String>,
}

/// Why a list is not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FamilyFailure {
    /// A cursor came back.
    #[error("the list of sessions goes round in a circle")]
    Cycle,
    /// There are more sessions, or pages, than are looked at.
    #[error("there are more than {FAMILY_SESSIONS_MAX} sessions")]
    TooMany,
}

impl SessionFamily {
    /// Looks for the family of `session`.
    pub fn new(session: Session) -> Self {
        Self { session, listed: Vec::new(), seen_ids: BTreeSet::new(), seen_cursors: BTreeSet::new() }
    }

    /// Takes a page. Gives the cursor of the page to ask for, or `None` after the last one.
    ///
    /// # Errors
    /// [`FamilyFailure`] when the list does not end.
    pub fn handle_page(&mut self, page: SessionPage) -> Result<Option<String>, FamilyFailure> {
        for session in page.sessions {
            // One that moved to a later page while they were read is listed once.
            if self.seen_ids.insert(session.id.clone()) {
                self.listed.push(session);
            }
        }
        let Some(cursor) = page.next_cursor else {
            self.seen_cursors.clear(); // those of another list are others
            return Ok(None);
        };
        if !self.seen_cursors.insert(cursor.clone()) {
            return Err(FamilyFailure::Cycle);
        }
        if self.listed.len() > FAMILY_SESSIONS_MAX || self.seen_cursors.len() > FAMILY_SESSIONS_MAX {
            return Err(FamilyFailure::TooMany);
        }
        Ok(Some(cursor))
    }

    /// The family, in the order of the list, the session itself included; it comes first when it is not in the list.
    pub fn members(self) -> Vec<Session> {
        let mut sessions = self.listed;
        if !self.seen_ids.contains(&self.session.id) {
            sessions.insert(0, self.session.clone());
        }
        let mut relatives: BTreeMap<&NativeId, Vec<&NativeId>> = BTreeMap::new();
        for session in &sessions {
            if let Some(parent) = &session.parent_session_id {
                relatives.entry(&session.id).or_default().push(parent);
                relatives.entry(parent).or_default().push(&session.id);
            }
        }
        let mut family: BTreeSet<NativeId> = BTreeSet::new();
        let mut to_visit = vec![&self.session.id];
        while let Some(id) = to_visit.pop() {
            if family.insert(id.clone()) {
                to_visit.extend(relatives.get(id).into_iter().flatten());
            }
        }
        sessions.retain(|session| family.contains(&session.id));
        sessions
    }
}

#[cfg(test)]
mod tests {
    use cells_protocol::json::Object;
    use serde_json::json;

    use super::*;

    fn session(id: &str, parent: Option<&str>) -> Session {
        let body = json!({"id": id, "parentSessionId": parent}).to_string();
        Session::read(&mut Object::parse("the session", body.as_bytes()).unwrap()).unwrap()
    }

    fn page(sessions: &[(&str, Option<&str>)], next_cursor: Option<&str>) -> SessionPage {
        let sessions = sessions.iter().map(|(id, parent)| session(id, *parent)).collect();
        SessionPage { sessions, next_cursor: next_cursor.map(str::to_owned) }
    }

    fn check(of: Session, pages: &[SessionPage], family: &[&str]) {
        let mut machine = SessionFamily::new(of);
        for page in pages {
            assert_eq!(machine.handle_page(page.clone()), Ok(page.next_cursor.clone()));
        }
        let members = machine.members();
        assert_eq!(members.iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), family);
    }

    #[test]
    fn a_family_is_found_across_pages() {
        let first = page(&[("niece", Some("sister")), ("stranger", None), ("me", Some("mother"))], Some("1"));
        let second = page(&[("child", Some("me")), ("sister", Some("mother")), ("me", Some("mother"))], Some("2"));
        let third = page(&[("mother", Some("gone")), ("aunt", Some("gone")), ("other", Some("nobody"))], None);
        let pages = [first, second, third];
        for (id, parent) in [("me", Some("mother")), ("aunt", Some("gone")), ("niece", Some("sister"))] {
            check(session(id, parent), &pages, &["niece", "me", "child", "sister", "mother", "aunt"]);
        }
        check(session("stranger", None), &pages, &["stranger"]);
    }

    #[test]
    fn a_session_that_is_not_listed_is_in_its_family() {
        check(session("me", Some("mother")), &[page(&[("mother", None)], None)], &["me", "mother"]);
        check(session("me", None), &[page(&[], None)], &["me"]);
    }

    #[test]
    fn parents_that_go_round_in_a_circle_are_a_family() {
        let pages = [page(&[("a", Some("b")), ("b", Some("a")), ("c", Some("c"))], None)];
        check(session("a", Some("b")), &pages, &["a", "b"]);
        check(session("c", Some("c")), &pages, &["c"]);
    }

    #[test]
    fn a_list_without_end_is_refused() {
        let mut circle = SessionFamily::new(session("a", None));
        circle.handle_page(page(&[], Some("1"))).unwrap();
        circle.handle_page(page(&[], Some("2"))).unwrap();
        assert_eq!(circle.handle_page(page(&[], Some("1"))), Err(FamilyFailure::Cycle));

        let mut endless = SessionFamily::new(session("a", None));
        let mut n_pages = 0;
        let failure = loop {
            n_pages += 1;
            if let Err(failure) = endless.handle_page(page(&[], Some(&n_pages.to_string()))) {
                break failure;
            }
        };
        assert_eq!((failure, n_pages), (FamilyFailure::TooMany, 10_001));
    }
}
