//! Texts that arrive from a node, or from a user, in any form.

use cells_protocol::endpoint::{Endpoint, push_query};
use cells_protocol::files::ContentRange;
use cells_protocol::paths::check_path;
use cells_protocol::text::{is_text, prefix};
use proptest::prelude::*;

/// References that are nearly right, and any text.
fn reference() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("http://"),
        Just("https://"),
        Just("//"),
        Just("node:1"),
        Just("evil"),
        Just("/"),
        Just(".."),
        Just("."),
        Just("@"),
        Just("?"),
        Just("#"),
        Just("\\"),
        Just("%2e"),
        Just(":"),
        Just("[::1]"),
        Just("v1"),
        Just("\t"),
        Just("ü"),
        Just("NODE:1"),
        Just("mcp"),
    ];
    prop_oneof![proptest::collection::vec(part, 0..8).prop_map(|parts| parts.concat()), any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_reference_never_leads_to_another_origin(reference in reference()) {
        let base = Endpoint::parse("http://node:1/cells/mcp").unwrap();
        if let Ok(endpoint) = base.resolve(&reference) {
            prop_assert_eq!(endpoint.origin(), "http://node:1");
            prop_assert!(endpoint.path().starts_with('/'));
            prop_assert!(!endpoint.path().split('/').any(|segment| matches!(segment, "." | "..")));
            prop_assert_eq!(Endpoint::parse(endpoint.as_str()), Ok(endpoint));
        }
    }

    #[test]
    fn an_endpoint_reads_its_own_text(text in reference()) {
        if let Ok(endpoint) = Endpoint::parse(&text) {
            // An `@` is legal in a path.
            prop_assert!(!endpoint.origin().contains('@'));
            prop_assert!(!endpoint.as_str().contains(['?', '#', '\\', ' ']));
            prop_assert_eq!(Endpoint::parse(endpoint.as_str()), Ok(endpoint.clone()));
            prop_assert_eq!(endpoint.directory().directory(), endpoint.directory());
        }
    }

    #[test]
    fn a_content_range_lies_in_its_file(header in "bytes [0-9]{0,17}-[0-9]{0,17}/[0-9*]{0,17}|\\PC{0,30}") {
        if let Some(range) = ContentRange::parse(&header) {
            prop_assert!(range.first <= range.last && range.last < range.total);
        }
    }

    #[test]
    fn a_query_holds_its_value_and_nothing_else(value in any::<String>()) {
        let mut query = "entries".to_owned();
        push_query(&mut query, "path", &value);
        let encoded = query.strip_prefix("entries?path=").unwrap();
        prop_assert!(encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte)));
        let mut decoded = Vec::new();
        let mut rest = encoded.bytes();
        while let Some(byte) = rest.next() {
            let is_escape = byte == b'%';
            let hex: String = if is_escape { rest.by_ref().take(2).map(char::from).collect() } else { String::new() };
            decoded.push(if is_escape { u8::from_str_radix(&hex, 16).unwrap() } else { byte });
        }
        prop_assert_eq!(decoded, value.into_bytes());
    }

    #[test]
    fn an_accepted_path_stays_below_its_export(path in "[a./\\\\:C\u{0}ü-]{0,12}") {
        if check_path(&path).is_ok() {
            let joined = std::path::Path::new("/export").join(&path);
            let climbs = joined.components().any(|part| matches!(part, std::path::Component::ParentDir));
            prop_assert!(joined.starts_with("/export") && !climbs && !path.contains('\0'));
        }
    }

    #[test]
    fn a_prefix_fits_and_is_a_prefix(text in any::<String>(), max_bytes in 0..40_usize) {
        let cut = prefix(&text, max_bytes);
        prop_assert!(text.starts_with(cut) && cut.len() <= max_bytes);
        prop_assert!(cut.len() == text.len() || cut.len() + 4 > max_bytes);
        prop_assert!(text.contains('\0') || is_text(cut, max_bytes));
    }
}
