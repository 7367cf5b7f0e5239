use super::*;

fn never() -> Result<(), Refusal> {
    Ok(())
}

fn entries(pairs: &[(&str, &str)]) -> Entries {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), serde_json::from_str(value).unwrap())).collect()
}

fn texts(entries: &Entries) -> Vec<(&str, &str)> {
    entries.iter().map(|(key, value)| (key.as_str(), value.get())).collect()
}

/// A database made by these statements.
fn database(statements: &str) -> Vec<u8> {
    let mut database = Connection::open_in_memory().unwrap();
    database.execute_batch(statements).unwrap();
    database.serialize("main").unwrap().to_vec()
}

#[test]
fn what_is_written_is_read_and_ordered_by_bytes() {
    let long = format!("\"{}\"", "x".repeat(100_000));
    for pairs in [
        vec![],
        vec![("B", "1"), ("a", "null"), ("z", "{\"n\":1.50}"), ("\u{e9}", "[12345678901234567890123]")],
        vec![("long", long.as_str())],
    ] {
        let bytes = write(&entries(&pairs)).unwrap();
        assert_eq!(texts(&read(&bytes, never).unwrap()), pairs);
    }
    let many: Vec<(String, String)> = (0..10_000).map(|n| (format!("{n:05}"), n.to_string())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(texts(&read(&write(&entries(&many)).unwrap(), never).unwrap()), many);
}

#[test]
fn only_the_one_plain_table_is_a_seq_file() {
    let plain = "CREATE TABLE entries (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;";
    let with = |more: &str| format!("{plain}{more}");
    for (statements, accepted) in [
        (plain.to_owned(), true),
        (with("INSERT INTO entries VALUES ('a', '1')"), true),
        ("CREATE TABLE entries (key text PRIMARY KEY, value text CHECK (value != 'x')) WITHOUT ROWID".to_owned(), true),
        ("CREATE TABLE other (a)".to_owned(), false),
        ("CREATE TABLE entries (key TEXT PRIMARY KEY, value TEXT)".to_owned(), false),
        ("CREATE TABLE entries (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID".to_owned(), false),
        ("CREATE TABLE entries (key TEXT PRIMARY KEY, value TEXT, more TEXT) WITHOUT ROWID".to_owned(), false),
        ("CREATE TABLE entries (key TEXT PRIMARY KEY, value TEXT AS (key)) WITHOUT ROWID".to_owned(), false),
        ("CREATE TABLE t (a); CREATE VIEW entries AS SELECT a AS key, a AS value FROM t".to_owned(), false),
        (with("CREATE TABLE more (a)"), false),
        (with("CREATE VIEW v AS SELECT * FROM entries"), false),
        (with("CREATE INDEX i ON entries (value)"), false),
        (with("CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END"), false),
        (with("INSERT INTO entries VALUES ('a', 'not JSON')"), false),
        (with("INSERT INTO entries VALUES ('a', NULL)"), false),
        (with("INSERT INTO entries VALUES ('a', x'31')"), false),
        (with("INSERT INTO entries VALUES ('', '1')"), false),
        (with("INSERT INTO entries VALUES (x'61', '1')"), false),
        (with("INSERT INTO entries VALUES (hex(zeroblob(600)), '1')"), false),
        (with("INSERT INTO entries VALUES ('a', CAST(x'22ff22' AS TEXT))"), false),
        ("CREATE VIRTUAL TABLE entries USING fts5(key, value)".to_owned(), false),
    ] {
        let bytes = database(&statements);
        assert_eq!(read(&bytes, never).is_ok(), accepted, "{statements}");
    }
}

#[test]
fn bytes_that_are_no_database_are_refused() {
    let good = write(&entries(&[("a", "1")])).unwrap();
    let mut flipped = good.clone();
    flipped[5] ^= 1;
    for (what, bytes) in [
        ("nothing", Vec::new()),
        ("text", b"hello".to_vec()),
        ("only a header", good[..100].to_vec()),
        ("another magic", flipped),
        ("half", good[..good.len() / 2].to_vec()),
        ("zeros", vec![0; 8192]),
    ] {
        assert_eq!(read(&bytes, never).err(), Some(Refusal::IO), "{what}");
    }
}

#[test]
fn damage_anywhere_is_refused_or_harmless() {
    let pairs: Vec<(String, String)> =
        (0..400).map(|n| (format!("key-{n:04}"), format!("\"{}\"", "v".repeat(n)))).collect();
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let good = write(&entries(&pairs)).unwrap();
    let mut refused = 0;
    for at in (0..good.len()).step_by(211) {
        for damage in [0x00, 0xFF, 0x7F] {
            let mut bytes = good.clone();
            bytes[at] = damage;
            match read(&bytes, never) {
                Ok(entries) => assert!(entries.len() <= pairs.len()),
                Err(refusal) => {
                    assert_eq!(refusal, Refusal::IO);
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn work_that_takes_too_long_ends_with_the_reason() {
    let pairs: Vec<(String, String)> = (0..50_000).map(|n| (format!("{n:06}"), "1".to_owned())).collect();
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let bytes = write(&entries(&pairs)).unwrap();
    assert_eq!(read(&bytes, || Err(Refusal::TIMED_OUT)).err(), Some(Refusal::TIMED_OUT));
}
