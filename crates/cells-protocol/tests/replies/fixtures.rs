//! Every parser of replies, on golden messages and on broken copies of them.

use std::collections::BTreeSet;
use std::path::Path;

use cells_testkit::fixtures::{check_fixtures, check_mutations, fixtures};

#[test]
fn golden_messages_are_read_as_the_index_says() {
    assert!(check_fixtures().unwrap() > 100);
}

#[test]
fn broken_messages_are_refused_or_whole_and_errors_quote_nothing() {
    let counts = check_mutations(0x0C11_5000, 120).unwrap();
    assert!(counts.accepted > 1_000 && counts.refused > 8_000, "{counts:?}");
}

#[test]
fn every_file_is_in_the_index() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut on_disk = BTreeSet::new();
    for folder in std::fs::read_dir(&root).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir()) {
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let file = file.unwrap().path();
            on_disk.insert(file.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/"));
        }
    }
    let files = fixtures().unwrap().into_iter().flat_map(|fixture| {
        [Some(fixture.file), fixture.reads.map(|reads| reads.file)].into_iter().flatten().collect::<Vec<_>>()
    });
    let indexed: Vec<String> = files.collect();
    assert_eq!(indexed.iter().collect::<BTreeSet<_>>().len(), indexed.len(), "a file twice");
    assert_eq!(indexed.into_iter().collect::<BTreeSet<_>>(), on_disk);
}
