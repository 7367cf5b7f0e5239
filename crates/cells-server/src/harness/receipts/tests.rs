use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use cells_protocol::ids::ServerId;

use super::*;
use crate::harness::plugin::Proof;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A state directory that outlives the stores in it.
struct Disk {
    directory: tempfile::TempDir,
}

impl Disk {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn file(&self) -> PathBuf {
        self.state().join("receipts.sqlite")
    }

    fn try_start(&self, epoch: u8, limits: ReceiptLimits) -> Result<ReceiptStore, OpenError> {
        ReceiptStore::open(&self.state(), &ServerId::new("node-1").unwrap(), Epoch::from_bytes([epoch; 32]), limits)
    }

    /// Starts a node; `epoch` tells its starts apart.
    fn start(&self, epoch: u8) -> ReceiptStore {
        self.try_start(epoch, ReceiptLimits::default()).unwrap()
    }

    fn sql(&self, statement: &str) {
        Connection::open(self.file()).unwrap().execute_batch(statement).unwrap();
    }
}

fn epoch(number: u8) -> String {
    Epoch::from_bytes([number; 32]).as_str().to_owned()
}

fn profile(id: &str) -> ProfileId {
    ProfileId::new(id).unwrap()
}

fn key(request_id: &str) -> ReceiptKey {
    ReceiptKey { principal: PrincipalId::new("owner").unwrap(), request_id: RequestId::new(request_id).unwrap() }
}

fn new(request_id: &str, waits: bool) -> NewReceipt {
    let (key, profile, tool) = (key(request_id), profile("main"), "harness_turn".to_owned());
    NewReceipt { key, profile, tool, identity: [1; 32], waits }
}

fn find(store: &ReceiptStore, request_id: &str, of: u8) -> Result<ReceiptState, ToolError> {
    store.find(&PrincipalId::new("owner").unwrap(), request_id, "main", &epoch(of))
}

fn admitted(store: &ReceiptStore, request_id: &str) -> Result<(), ToolError> {
    store.admit(&new(request_id, false)).map(|admission| assert_eq!(admission, Admission::Admitted))
}

fn committed(result: &str) -> ReceiptState {
    ReceiptState::Committed(result.to_owned())
}

fn not_committed(code: &str) -> ReceiptState {
    ReceiptState::NotCommitted(code.to_owned())
}

fn unknown(code: &str) -> ReceiptState {
    ReceiptState::Unknown(code.to_owned())
}

const STORE: ToolError = ToolError("HARNESS_RECEIPT_STORE");
const REUSED: ToolError = ToolError("HARNESS_REQUEST_REUSED");

#[test]
fn a_restart_settles_what_was_not_finished_and_keeps_the_rest() {
    let disk = Disk::new();
    let first = disk.start(1);
    let large = format!("\"{}\"", "x".repeat(RECEIPT_RESULT_MAX_BYTES));
    let fits = format!("\"{}\"", "x".repeat(RECEIPT_RESULT_MAX_BYTES - 2));
    for (id, waits, started, state, before, after) in [
        ("waits", true, false, None, ReceiptState::Running, not_committed("HARNESS_NOT_STARTED")),
        ("runs", false, false, None, ReceiptState::Running, unknown("HARNESS_RESTARTED")),
        ("waited", true, true, None, ReceiptState::Running, unknown("HARNESS_RESTARTED")),
        ("done", false, false, Some(committed("{}")), committed("{}"), committed("{}")),
        ("large", false, false, Some(committed(&large)), committed(TRUNCATED), committed(TRUNCATED)),
        ("fits", false, false, Some(committed(&fits)), committed(&fits), committed(&fits)),
        ("failed", false, false, Some(not_committed("EBUSY")), not_committed("EBUSY"), not_committed("EBUSY")),
        ("lost", true, true, Some(unknown("EIO")), unknown("EIO"), unknown("EIO")),
        (
            "cancelled",
            true,
            false,
            Some(not_committed("ECANCELLED")),
            not_committed("ECANCELLED"),
            not_committed("ECANCELLED"),
        ),
    ] {
        assert_eq!(first.admit(&new(id, waits)), Ok(Admission::Admitted), "{id}");
        if started {
            first.start(&key(id)).unwrap();
        }
        if let Some(state) = state {
            first.finish(&key(id), state);
        }
        assert_eq!(find(&first, id, 1), Ok(before), "{id}");
        // The file as a killed process leaves it.
        let copy = Disk::new();
        std::fs::create_dir(copy.file().parent().unwrap()).unwrap();
        for suffix in ["", "-wal"] {
            let name = |disk: &Disk| disk.file().with_file_name(format!("receipts.sqlite{suffix}"));
            std::fs::copy(name(&disk), name(&copy)).unwrap();
        }
        assert_eq!(find(&copy.start(2), id, 1), Ok(after), "{id}");
    }
}

#[test]
fn nothing_moves_backwards() {
    let disk = Disk::new();
    let store = disk.start(1);
    admitted(&store, "a").unwrap();
    store.finish(&key("a"), committed("1"));
    store.finish(&key("a"), not_committed("EBUSY"));
    assert_eq!(find(&store, "a", 1), Ok(committed("1")));
    assert_eq!(store.start(&key("a")), Err(STORE));
    assert_eq!(find(&store, "a", 1), Ok(committed("1")));
}

#[test]
fn a_lookup_answers_by_epoch_profile_and_principal() {
    let disk = Disk::new();
    admitted(&disk.start(1), "old").unwrap();
    let store = disk.start(2);
    admitted(&store, "current").unwrap();
    let restarted = Ok(unknown("HARNESS_RESTARTED"));
    let never = || Ok(not_committed("HARNESS_NOT_ADMITTED"));
    for (principal, id, profile, of, expected) in [
        ("owner", "current", "main", 2, Ok(ReceiptState::Running)),
        ("owner", "current", "other", 2, Err(REUSED)),
        ("guest", "current", "main", 2, Err(ToolError("ENOENT"))),
        ("owner", "absent", "main", 2, Err(ToolError("ENOENT"))),
        ("owner", "no id!", "main", 2, Err(ToolError("ENOENT"))),
        ("owner", "old", "main", 2, Err(ToolError("ENOENT"))),
        ("owner", "old", "main", 1, restarted),
        ("owner", "old", "other", 1, Err(REUSED)),
        ("owner", "absent", "main", 1, never()),
        ("owner", "current", "main", 1, never()),
        ("guest", "old", "main", 1, never()),
        ("owner", "old", "main", 9, Err(ToolError("HARNESS_EPOCH_CHANGED"))),
    ] {
        let principal = PrincipalId::new(principal).unwrap();
        assert_eq!(store.find(&principal, id, profile, &epoch(of)), expected, "{principal} {id} {profile} {of}");
    }
}

#[test]
fn an_id_is_used_once_across_epochs_profiles_and_tools() {
    let disk = Disk::new();
    let first = disk.start(1);
    admitted(&first, "a").unwrap();
    assert_eq!(first.admit(&new("a", true)), Ok(Admission::Known(ReceiptState::Running)));
    first.finish(&key("a"), committed("1"));
    assert_eq!(first.admit(&new("a", false)), Ok(Admission::Known(committed("1"))));
    let other = NewReceipt { identity: [2; 32], profile: profile("other"), ..new("a", false) };
    assert_eq!(first.admit(&other), Err(REUSED));
    let guest = ReceiptKey { principal: PrincipalId::new("guest").unwrap(), ..key("a") };
    assert_eq!(first.admit(&NewReceipt { key: guest, ..new("a", false) }), Ok(Admission::Admitted));
    drop(first);
    assert_eq!(disk.start(2).admit(&other), Err(REUSED));
}

#[test]
fn a_sealed_id_never_runs_and_an_admitted_one_keeps_its_receipt() {
    let disk = Disk::new();
    let store = disk.start(1);
    let main = profile("main");
    let cancelled = Ok(not_committed("ECANCELLED"));
    assert_eq!(store.seal(&key("sealed"), &main), cancelled);
    assert_eq!(store.seal(&key("sealed"), &main), cancelled);
    assert_eq!(store.admit(&new("sealed", false)), Err(REUSED));
    assert_eq!(find(&store, "sealed", 1), cancelled);

    admitted(&store, "runs").unwrap();
    assert_eq!(store.seal(&key("runs"), &main), Ok(ReceiptState::Running));
    store.finish(&key("runs"), committed("1"));
    assert_eq!(store.seal(&key("runs"), &main), Ok(committed("1")));
    assert_eq!(store.seal(&key("runs"), &profile("other")), Err(REUSED));
    drop(store);
    let next = disk.start(2);
    assert_eq!(next.seal(&key("runs"), &main), Err(REUSED));
    assert_eq!(find(&next, "sealed", 1), cancelled);
}

#[test]
fn seal_and_admission_race_and_exactly_one_wins() {
    let disk = Disk::new();
    let store = disk.start(1);
    for round in 0..50 {
        let id = format!("r{round}");
        let (admission, sealed) = std::thread::scope(|scope| {
            let admission = scope.spawn(|| store.admit(&new(&id, false)));
            let sealed = scope.spawn(|| store.seal(&key(&id), &profile("main")));
            (admission.join().unwrap(), sealed.join().unwrap().unwrap())
        });
        match admission {
            Ok(admission) => assert_eq!((admission, sealed), (Admission::Admitted, ReceiptState::Running)),
            Err(error) => assert_eq!((error, sealed), (REUSED, not_committed("ECANCELLED"))),
        }
    }
}

#[test]
fn limits_refuse_new_ids_and_still_answer_for_known_ones() {
    let disk = Disk::new();
    let limits = ReceiptLimits { per_instance: 2, per_store: 3, epochs: 4096 };
    let first = disk.try_start(1, limits).unwrap();
    admitted(&first, "a").unwrap();
    assert_eq!(first.seal(&key("b"), &profile("main")), Ok(not_committed("ECANCELLED")));
    assert_eq!(admitted(&first, "c"), Err(ToolError("HARNESS_OPERATION_LIMIT")));
    assert_eq!(first.seal(&key("c"), &profile("main")), Err(ToolError("HARNESS_OPERATION_LIMIT")));
    assert_eq!(first.admit(&new("a", false)), Ok(Admission::Known(ReceiptState::Running)));
    assert_eq!(first.admit(&NewReceipt { profile: profile("other"), ..new("d", false) }), Ok(Admission::Admitted));
    drop(first);
    let second = disk.try_start(2, limits).unwrap();
    assert_eq!(admitted(&second, "e"), Err(ToolError("HARNESS_RECEIPT_LIMIT")));
    assert_eq!(find(&second, "a", 1), Ok(unknown("HARNESS_RESTARTED")));
}

#[test]
fn a_full_instance_restarts_with_all_its_receipts() {
    let disk = Disk::new();
    let first = disk.start(1);
    // Speed only: this test does not cut the power.
    first.execute("PRAGMA synchronous = OFF").unwrap();
    for number in 0..RECEIPTS_PER_INSTANCE {
        let id = format!("r{number}");
        admitted(&first, &id).unwrap();
        if number % 2 == 0 {
            first.finish(&key(&id), committed("{}"));
        }
    }
    assert_eq!(admitted(&first, "one-more"), Err(ToolError("HARNESS_OPERATION_LIMIT")));
    drop(first);
    let second = disk.start(2);
    for number in 0..RECEIPTS_PER_INSTANCE {
        let expected = if number % 2 == 0 { committed("{}") } else { unknown("HARNESS_RESTARTED") };
        assert_eq!(find(&second, &format!("r{number}"), 1), Ok(expected));
    }
    admitted(&second, "one-more").unwrap();
}

#[test]
fn epochs_without_receipts_make_room_and_others_do_not() {
    let disk = Disk::new();
    let limits = ReceiptLimits { epochs: 3, ..ReceiptLimits::default() };
    admitted(&disk.try_start(1, limits).unwrap(), "a").unwrap();
    disk.try_start(2, limits).unwrap();
    admitted(&disk.try_start(3, limits).unwrap(), "c").unwrap();
    let fourth = disk.try_start(4, limits).unwrap();
    assert_eq!(find(&fourth, "a", 2), Err(ToolError("HARNESS_EPOCH_CHANGED")));
    assert_eq!(find(&fourth, "x", 1), Ok(not_committed("HARNESS_NOT_ADMITTED")));
    admitted(&fourth, "d").unwrap();
    drop(fourth);
    assert!(matches!(disk.try_start(5, limits), Err(OpenError::TooManyEpochs)));
    assert_eq!(purge_before(&disk.state(), now_ms() + 1).unwrap(), 3);
    disk.try_start(5, limits).unwrap();
    assert_eq!(purge_before(&disk.directory.path().join("no-node"), 0).unwrap(), 0);
    assert!(!disk.directory.path().join("no-node").exists());
}

#[test]
fn an_epoch_goes_with_all_its_receipts_or_not_at_all() {
    let disk = Disk::new();
    admitted(&disk.start(1), "a").unwrap();
    let second = disk.start(2);
    admitted(&second, "b").unwrap();
    second.finish(&key("b"), committed("1"));
    drop(second);
    let old = now_ms() - 31 * DAY_MS;
    // One receipt of the first epoch is young: it keeps the epoch. Nothing of the second is.
    disk.sql(&format!(
        "UPDATE epochs SET startedAt = {old}; UPDATE receipts SET updatedAt = {old} WHERE requestId = 'b'"
    ));
    let third = disk.start(3);
    assert_eq!(find(&third, "a", 1), Ok(unknown("HARNESS_RESTARTED")));
    assert_eq!(find(&third, "x", 1), Ok(not_committed("HARNESS_NOT_ADMITTED")));
    for id in ["b", "x"] {
        assert_eq!(find(&third, id, 2), Err(ToolError("HARNESS_EPOCH_CHANGED")), "{id}");
    }
    // The current epoch stays, however old it is.
    third.execute(&format!("UPDATE epochs SET startedAt = {old}")).unwrap();
    assert_eq!(third.purge_old().unwrap(), 0);
    third.execute(&format!("UPDATE receipts SET updatedAt = {old}")).unwrap();
    assert_eq!(third.purge_old().unwrap(), 1);
    assert_eq!(find(&third, "a", 1), Err(ToolError("HARNESS_EPOCH_CHANGED")));
    admitted(&third, "c").unwrap();
    assert_eq!(find(&third, "c", 3), Ok(ReceiptState::Running));
}

#[test]
fn a_file_that_cannot_be_trusted_ends_the_start() {
    type Case = (&'static str, fn(&Disk), fn(&OpenError) -> bool);
    let spoils: [Case; 6] = [
        (
            "another server",
            |disk| disk.sql("UPDATE meta SET value = 'x' WHERE key = 'serverId'"),
            |e| matches!(e, OpenError::OtherServer),
        ),
        (
            "a newer schema",
            |disk| disk.sql("UPDATE meta SET value = '2' WHERE key = 'schema'"),
            |e| matches!(e, OpenError::UnknownSchema),
        ),
        ("no schema", |disk| disk.sql("DELETE FROM meta"), |e| matches!(e, OpenError::UnknownSchema)),
        (
            "a foreign database",
            |disk| disk.sql("DROP TABLE receipts; DROP TABLE epochs; DROP TABLE meta; CREATE TABLE t(x)"),
            |e| matches!(e, OpenError::UnknownSchema),
        ),
        (
            "no database",
            |disk| std::fs::write(disk.file(), "receipts".repeat(1000)).unwrap(),
            |e| matches!(e, OpenError::Damaged),
        ),
        (
            "damaged pages",
            |disk| {
                disk.sql("PRAGMA wal_checkpoint(TRUNCATE)");
                let mut bytes = std::fs::read(disk.file()).unwrap();
                bytes[4096..].fill(0xff);
                std::fs::write(disk.file(), bytes).unwrap();
            },
            |e| matches!(e, OpenError::Damaged),
        ),
    ];
    for (name, spoil, expected) in spoils {
        let disk = Disk::new();
        admitted(&disk.start(1), "a").unwrap();
        spoil(&disk);
        let error = disk.try_start(2, ReceiptLimits::default()).map(|_| ()).unwrap_err();
        assert!(expected(&error), "{name}: {error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

#[test]
fn one_process_at_a_time_has_the_file() {
    let disk = Disk::new();
    let first = disk.start(1);
    assert!(matches!(disk.try_start(2, ReceiptLimits::default()), Err(OpenError::InUse)));
    assert!(matches!(purge_before(&disk.state(), 0), Err(OpenError::InUse)));
    admitted(&first, "a").unwrap();
    drop(first);
    disk.start(2);
}

#[test]
fn the_file_is_private() {
    let disk = Disk::new();
    let _store = disk.start(1);
    let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(disk.file()), 0o600);
    assert_eq!(mode(disk.file().with_file_name("receipts.sqlite-wal")), 0o600);
    assert_eq!(mode(disk.file().parent().unwrap().to_owned()), 0o700);
}

/// How a write can be made to fail, and to work again.
const FAULTS: [(&str, &str, &str); 2] = [
    ("read-only", "PRAGMA query_only = 1", "PRAGMA query_only = 0"),
    ("disk full", "PRAGMA max_page_count = 1; CREATE TEMP TABLE t(x)", "PRAGMA max_page_count = 1073741823"),
];

#[test]
fn a_failed_reservation_admits_nothing_until_a_write_works() {
    for (fault, breaks, heals) in FAULTS {
        let disk = Disk::new();
        let store = disk.start(1);
        // Needs new pages, wherever the last row ended.
        let large = |id: &str| NewReceipt { tool: "x".repeat(20_000), ..new(id, false) };
        store.execute(breaks).unwrap();
        for id in ["a", "b"] {
            assert_eq!(store.admit(&large(id)), Err(STORE), "{fault}");
            assert_eq!(find(&store, id, 1), Err(ToolError("ENOENT")), "{fault}");
        }
        store.execute(heals).unwrap();
        assert_eq!(store.admit(&large("a")), Ok(Admission::Admitted), "{fault}");
        assert_eq!(find(&store, "a", 1), Ok(ReceiptState::Running), "{fault}");
    }
}

#[test]
fn a_failed_seal_seals_nothing() {
    let disk = Disk::new();
    let store = disk.start(1);
    let (_, breaks, heals) = FAULTS[0];
    store.execute(breaks).unwrap();
    assert_eq!(store.seal(&key("a"), &profile("main")), Err(STORE));
    store.execute(heals).unwrap();
    admitted(&store, "a").unwrap();
}

#[test]
fn a_failed_start_mark_leaves_a_mutation_that_never_ran() {
    for (fault, breaks, heals) in &FAULTS[..1] {
        let disk = Disk::new();
        let store = disk.start(1);
        store.admit(&new("a", true)).unwrap();
        store.execute(breaks).unwrap();
        assert_eq!(store.start(&key("a")), Err(STORE), "{fault}");
        store.finish(&key("a"), not_committed(STORE.0));
        assert_eq!(find(&store, "a", 1), Ok(not_committed(STORE.0)), "{fault}");
        store.execute(heals).unwrap();
        drop(store);
        assert_eq!(find(&disk.start(2), "a", 1), Ok(not_committed("HARNESS_NOT_STARTED")), "{fault}");
    }
}

#[test]
fn an_outcome_that_cannot_be_written_is_told_and_written_later() {
    for (fault, breaks, heals) in FAULTS {
        for heal in [false, true] {
            let disk = Disk::new();
            let store = disk.start(1);
            let result = format!("\"{}\"", "x".repeat(40_000));
            admitted(&store, "a").unwrap();
            store.execute(breaks).unwrap();
            store.finish(&key("a"), committed(&result));
            assert_eq!(find(&store, "a", 1), Ok(committed(&result)), "{fault}");
            assert_eq!(admitted(&store, "b"), Err(STORE), "{fault}");
            if heal {
                store.execute(heals).unwrap();
                admitted(&store, "b").unwrap();
            }
            drop(store);
            let expected = if heal { committed(&result) } else { unknown("HARNESS_RESTARTED") };
            assert_eq!(find(&disk.start(2), "a", 1), Ok(expected), "{fault} {heal}");
        }
    }
}

#[test]
fn evidence_of_exactly_the_mutation_turns_unknown_into_committed_for_good() {
    use crate::harness::arguments::identity;
    use serde_json::json;

    let arguments = |session: &str, prompt: &str| {
        let value = json!({"sessionId": session, "prompt": prompt});
        value.as_object().unwrap().clone()
    };
    let sent = |id: &str| {
        let mut all = arguments("s", "go");
        for (name, value) in [("profileId", "main"), ("epoch", &epoch(1)), ("requestId", id)] {
            all.insert(name.to_owned(), value.into());
        }
        NewReceipt { identity: identity("harness_turn", &all), ..new(id, false) }
    };
    let proof = |id: &str, session: &str, prompt: &str| Proof {
        request_id: RequestId::new(id).unwrap(),
        tool: "harness_turn",
        arguments: arguments(session, prompt),
        result: json!({"turnId": id}),
    };
    let disk = Disk::new();
    let first = disk.start(1);
    for id in ["proved", "other", "failed", "waited", "twice"] {
        first.admit(&NewReceipt { waits: id == "waited", ..sent(id) }).unwrap();
    }
    let guest = ReceiptKey { principal: PrincipalId::new("guest").unwrap(), ..key("twice") };
    first.admit(&NewReceipt { key: guest, ..sent("twice") }).unwrap();
    first.finish(&key("failed"), not_committed("EBUSY"));
    // What runs now is settled by its own outcome.
    first.prove(&profile("main"), &proof("proved", "s", "go")).unwrap();
    assert_eq!(find(&first, "proved", 1), Ok(ReceiptState::Running));
    drop(first);

    let restarted = || Ok(unknown("HARNESS_RESTARTED"));
    let second = disk.start(2);
    for (id, of, session, prompt, expected) in [
        ("other", "main", "another-session", "go", restarted()),
        ("other", "main", "s", "another prompt", restarted()),
        ("other", "plain", "s", "go", restarted()),
        ("failed", "main", "s", "go", Ok(not_committed("EBUSY"))),
        ("waited", "main", "s", "go", Ok(not_committed("HARNESS_NOT_STARTED"))),
        ("twice", "main", "s", "go", restarted()),
        ("absent", "main", "s", "go", Ok(not_committed("HARNESS_NOT_ADMITTED"))),
        ("proved", "main", "s", "go", Ok(committed(r#"{"turnId":"proved"}"#))),
        ("proved", "main", "s", "go", Ok(committed(r#"{"turnId":"proved"}"#))),
    ] {
        second.prove(&profile(of), &proof(id, session, prompt)).unwrap();
        assert_eq!(find(&second, id, 1), expected, "{id} {of} {session} {prompt}");
    }
    drop(second);
    let third = disk.start(3);
    assert_eq!(find(&third, "proved", 1), Ok(committed(r#"{"turnId":"proved"}"#)));
    third.execute(FAULTS[0].1).unwrap();
    assert_eq!(third.prove(&profile("main"), &proof("other", "s", "go")), Err(STORE));
    assert_eq!(find(&third, "other", 1), restarted());
    third.execute(FAULTS[0].2).unwrap();
    third.prove(&profile("main"), &proof("other", "s", "go")).unwrap();
    assert_eq!(find(&third, "other", 1), Ok(committed(r#"{"turnId":"other"}"#)));
}
