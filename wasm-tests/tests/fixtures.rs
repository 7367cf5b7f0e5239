//! The parsers of replies, on golden messages and on broken copies of them. The native run of the same checks is in
//! `crates/cells-protocol/tests/replies/fixtures.rs`.
#![cfg(target_family = "wasm")]
#![allow(clippy::unwrap_used, reason = "clippy knows only `#[test]`")]

use cells_testkit::fixtures::{check_fixtures, check_mutations};
use wasm_bindgen_test::wasm_bindgen_test;

#[wasm_bindgen_test]
fn golden_messages_are_read_as_the_index_says() {
    assert!(check_fixtures().unwrap() > 100);
}

#[wasm_bindgen_test]
fn broken_messages_are_refused_or_whole_and_errors_quote_nothing() {
    let counts = check_mutations(0x3A53, 60).unwrap();
    assert!(counts.accepted > 300 && counts.refused > 3_000, "{counts:?}");
}
