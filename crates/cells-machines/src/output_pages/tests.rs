use proptest::prelude::*;

use super::*;

const PAGE: u64 = OUTPUT_PAGE_MAX_BYTES;

fn reference_of(body: &[u8]) -> OutputRef {
    let sha256: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
    serde_json::from_value(serde_json::json!({
        "version": 1, "epoch": "a".repeat(64), "requestId": "r1", "bytes": body.len(), "sha256": sha256,
        "mimeType": "text/plain",
    }))
    .unwrap()
}

fn body(n_bytes: usize) -> Vec<u8> {
    (0..n_bytes).map(|at| (at * 31 % 251) as u8).collect()
}

fn page_of(body: &[u8], offset: u64, length: u64) -> OutputPage {
    let end = offset + length;
    let next_offset = (end < body.len() as u64).then_some(end);
    OutputPage { offset, data: body[offset as usize..end as usize].to_vec(), next_offset }
}

fn fetches(pages: &mut OutputPages) -> Vec<(u64, u64)> {
    std::iter::from_fn(|| pages.poll_action()).map(|OutputAction::Fetch { offset, limit }| (offset, limit)).collect()
}

#[test]
fn the_budget_is_checked_before_anything_is_asked() {
    let mut too_long = reference_of(&body(100));
    too_long.bytes = OUTPUT_MAX_BYTES + 1;
    for (reference, max_bytes, expected) in [
        (reference_of(&body(100)), 100, None),
        (reference_of(&body(100)), OUTPUT_MAX_BYTES, None),
        (
            reference_of(&body(100)),
            OUTPUT_MAX_BYTES + 1,
            Some("at most 33554432 bytes can be allowed; no output is larger"),
        ),
        (reference_of(&body(100)), 99, Some("the output has 100 bytes, more than the 99 allowed")),
        (reference_of(&body(100)), 0, Some("the output has 100 bytes, more than the 0 allowed")),
        (reference_of(&body(0)), 100, Some("the output reference: has a size outside 1 to 33554432 bytes")),
        (too_long, 100, Some("the output reference: has a size outside 1 to 33554432 bytes")),
    ] {
        let refused = OutputPages::new(reference, max_bytes, 1).err().map(|error| error.to_string());
        assert_eq!(refused.as_deref(), expected);
    }
}

#[test]
fn pages_are_asked_in_order_and_never_more_than_the_window() {
    let body = body(200_000);
    for (window, expected) in [
        (0, vec![(0, PAGE)]),
        (1, vec![(0, PAGE)]),
        (3, vec![(0, PAGE), (PAGE, PAGE), (2 * PAGE, PAGE)]),
        (9, vec![(0, PAGE), (PAGE, PAGE), (2 * PAGE, PAGE), (3 * PAGE, 200_000 - 3 * PAGE)]),
    ] {
        let mut pages = OutputPages::new(reference_of(&body), 200_000, window).unwrap();
        assert_eq!(fetches(&mut pages), expected, "{window}");
        pages.handle_page(&page_of(&body, 0, PAGE));
        let next = window.max(1) as u64 * PAGE;
        let expected: Vec<_> = (next < 200_000).then(|| (next, PAGE.min(200_000 - next))).into_iter().collect();
        assert_eq!(fetches(&mut pages), expected, "{window}");
    }
}

#[test]
fn progress_grows_only_without_holes() {
    let body = body(150_000);
    let mut pages = OutputPages::new(reference_of(&body), 150_000, 3).unwrap();
    fetches(&mut pages);
    pages.handle_page(&page_of(&body, 2 * PAGE, 150_000 - 2 * PAGE));
    pages.handle_page(&page_of(&body, PAGE, PAGE));
    assert_eq!(pages.poll_event(), None);
    pages.handle_page(&page_of(&body, 0, PAGE));
    assert_eq!(pages.poll_event(), Some(OutputEvent::Progress { loaded_bytes: 150_000, total_bytes: 150_000 }));
    assert_eq!(pages.poll_event(), Some(OutputEvent::Complete(body)));
    assert_eq!((pages.poll_event(), pages.poll_action()), (None, None));
}

#[test]
fn a_short_page_leaves_a_rest_that_is_asked_first() {
    let body = body(150_000);
    let mut pages = OutputPages::new(reference_of(&body), 150_000, 2).unwrap();
    assert_eq!(fetches(&mut pages), [(0, PAGE), (PAGE, PAGE)]);
    pages.handle_page(&page_of(&body, 0, 10));
    assert_eq!(fetches(&mut pages), [(10, PAGE - 10)]);
}

#[test]
fn what_is_wrong_ends_the_load_without_a_body() {
    let body = body(100_000);
    let last = (PAGE, 100_000 - PAGE);
    let mut corrupt = page_of(&body, last.0, last.1);
    corrupt.data[7] ^= 1;
    let empty = OutputPage { offset: 0, data: Vec::new(), next_offset: Some(0) };
    let long = OutputPage { offset: 0, data: vec![0; PAGE as usize + 1], next_offset: Some(PAGE + 1) };
    for (name, given, expected) in [
        ("corrupt", vec![page_of(&body, 0, PAGE), corrupt], OutputFailure::HashMismatch),
        ("not asked", vec![page_of(&body, last.0, last.1)], OutputFailure::ForeignPage),
        ("beyond the end", vec![OutputPage { offset: u64::MAX, ..empty.clone() }], OutputFailure::ForeignPage),
        ("twice", vec![page_of(&body, 0, PAGE), page_of(&body, 0, PAGE)], OutputFailure::ForeignPage),
        ("empty", vec![empty], OutputFailure::ForeignPage),
        ("longer than asked", vec![long], OutputFailure::ForeignPage),
    ] {
        let mut pages = OutputPages::new(reference_of(&body), 100_000, 1).unwrap();
        for page in given {
            pages.poll_action();
            pages.handle_page(&page);
        }
        let events: Vec<_> = std::iter::from_fn(|| pages.poll_event())
            .filter(|event| !matches!(event, OutputEvent::Progress { .. }))
            .collect();
        assert_eq!(events, [OutputEvent::Failed(expected)], "{name}");
        pages.handle_page(&page_of(&body, 0, 10));
        assert_eq!((pages.poll_event(), pages.poll_action()), (None, None), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_order_and_any_page_size_give_the_same_body(
        n_bytes in 1..400_000_usize,
        window in 1..9_usize,
        choices in proptest::collection::vec((any::<usize>(), 1..=PAGE), 1..20),
    ) {
        let body = body(n_bytes);
        let mut pages = OutputPages::new(reference_of(&body), n_bytes as u64, window).unwrap();
        let mut under_way = Vec::new();
        let mut loaded_before = 0;
        let mut complete = None;
        for step in 0.. {
            under_way.extend(fetches(&mut pages));
            prop_assert!(under_way.len() <= window);
            if under_way.is_empty() {
                break;
            }
            let (pick, size) = choices[step % choices.len()];
            let (offset, limit) = under_way.swap_remove(pick % under_way.len());
            // Small pages only for a while, so that the case ends.
            let length = if step < 200 { size.min(limit) } else { limit };
            pages.handle_page(&page_of(&body, offset, length));
            while let Some(event) = pages.poll_event() {
                match event {
                    OutputEvent::Progress { loaded_bytes, total_bytes } => {
                        prop_assert!(loaded_before < loaded_bytes && loaded_bytes <= total_bytes);
                        loaded_before = loaded_bytes;
                    }
                    OutputEvent::Complete(loaded) => complete = Some(loaded),
                    OutputEvent::Failed(failure) => prop_assert!(false, "{failure}"),
                }
            }
        }
        prop_assert!(complete.as_deref() == Some(body.as_slice()));
    }
}
