//! The table of writes: when it fails, when it is full, when it forgets.

use cells_protocol::limits::{OPERATION_RETENTION_MS, OPERATIONS_MAX};

use super::*;
use crate::refusal::Refusal;

/// SQL that makes one statement of a write fail.
const NO_CLAIM: &str =
    "CREATE TEMP TRIGGER broken BEFORE INSERT ON file_operations BEGIN SELECT RAISE(ABORT, 'injected'); END";
const NO_INTENT: &str =
    "CREATE TEMP TRIGGER broken BEFORE UPDATE OF intent ON file_operations BEGIN SELECT RAISE(ABORT, 'injected'); END";
pub(super) const NO_RECEIPT: &str =
    "CREATE TEMP TRIGGER broken BEFORE UPDATE OF receipt ON file_operations BEGIN SELECT RAISE(ABORT, 'injected'); END";
const REPAIRED: &str = "DROP TRIGGER broken";

#[tokio::test]
async fn without_a_claim_or_an_intent_there_is_no_effect() {
    let stage = Stage::start().await;
    let refused = json!({ "code": "EIO" });
    for write in Write::ALL {
        stage.reset();
        let before = stage.tree();
        stage.sql(NO_CLAIM);
        let id = format!("{write:?}");
        assert_eq!(stage.write(&id, write).await, (500, refused.clone()), "{write:?}");
        assert_eq!(stage.cancel(&id).await, (500, refused.clone()), "{write:?}: no fence without a row");
        assert_eq!(stage.tree(), before, "{write:?}");
        stage.sql(REPAIRED);
        assert_eq!(stage.status(&id).await.0, 404, "{write:?}");

        stage.sql(NO_INTENT);
        assert_eq!(stage.write(&id, write).await, (500, not_committed("EIO")), "{write:?}");
        assert_eq!(stage.tree(), before, "{write:?}");
        stage.sql(REPAIRED);
        assert_eq!(stage.status(&id).await, (200, not_committed("EIO")), "{write:?}");
    }
}

#[tokio::test]
async fn a_receipt_that_cannot_be_saved_is_told_and_stops_further_writes() {
    let stage = Stage::start().await;
    for write in Write::ALL {
        stage.reset();
        let before = stage.tree();
        stage.sql(NO_RECEIPT);
        let id = format!("{write:?}");
        let (status, receipt) = stage.write(&id, write).await;
        assert!(status == 200 && committed(write, &receipt), "{write:?}: {receipt}");
        assert_eq!(stage.status(&id).await, (200, receipt.clone()), "{write:?}");
        assert_eq!(stage.cancel(&id).await, (200, receipt.clone()), "{write:?}");
        let next = format!("{write:?}-next");
        assert_eq!(stage.write(&next, Write::Mkdir).await, (500, json!({ "code": "EIO" })), "{write:?}");
        // What proves the effect is kept.
        assert_eq!(stage.hidden().len(), usize::from(write == Write::Remove), "{write:?}");

        stage.sql(REPAIRED);
        assert_eq!(stage.write(&id, Write::Mkdir).await.0, 409, "{write:?}");
        assert!(stage.is_done(write, &before), "{write:?}: nothing is left");
        assert_eq!(stage.status(&id).await, (200, receipt), "{write:?}");
        assert_eq!(stage.status(&next).await.0, 404, "{write:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_unknown_and_never_not_committed() {
    let stage = Stage::start().await;
    let app = Arc::clone(stage.node.app());
    stage.plan.set(move |at| {
        if at == Step::Done {
            let ledger = app.files.operations.lock();
            ledger.store.connection().execute_batch("ALTER TABLE file_operations RENAME TO gone").unwrap();
            drop(ledger);
            panic!("a mistake of this program");
        }
        Ok(())
    });
    let before = stage.tree();
    assert_eq!(stage.write("blind", Write::PutCreate).await, (500, unknown()));
    assert!(stage.is_done(Write::PutCreate, &before));
    stage.sql("ALTER TABLE gone RENAME TO file_operations");
    assert_eq!(stage.status("blind").await, (200, unknown()));
    // Of another version of this program.
    stage.sql("UPDATE file_operations SET receipt = NULL, intent = '{\"kind\":\"swap\"}'");
    let stage = stage.restart().await;
    assert_eq!(stage.status("blind").await, (200, unknown()));
    assert_eq!(stage.write("blind", Write::Mkdir).await.0, 409);
}

#[tokio::test]
async fn a_full_disk_of_the_state_directory_lets_nothing_be_written() {
    let stage = Stage::start().await;
    let before = stage.tree();
    {
        let mut ledger = stage.node.app().files.operations.lock();
        let pages: i64 = ledger.store.connection().query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        ledger.store.connection().pragma_update(None, "max_page_count", pages).unwrap();
        let full = (0..OPERATIONS_MAX).find_map(|at| ledger.store.claim(&key(&format!("filler-{at}"))).err());
        assert_eq!(full, Some(Refusal::DISK_FULL));
    }
    for write in Write::ALL {
        // A short row may still find room, but not with its intent.
        let (status, reply) = stage.write(&format!("{write:?}"), write).await;
        assert_eq!((status, &reply["code"]), (507, &json!("ENOSPC")), "{write:?}");
        assert_eq!(stage.tree(), before, "{write:?}");
    }
    stage.sql("PRAGMA max_page_count = 100000");
    assert_eq!(stage.write("room", Write::Mkdir).await.0, 200);
}

#[tokio::test]
async fn a_node_remembers_so_many_writes_and_no_more() {
    let stage = Stage::start().await;
    let before = stage.tree();
    {
        let mut ledger = stage.node.app().files.operations.lock();
        // One is there from the start.
        for at in 1..OPERATIONS_MAX {
            ledger.store.claim(&key(&format!("id-{at}"))).unwrap();
        }
    }
    assert_eq!(stage.write("one-more", Write::Mkdir).await, (429, json!({ "code": "OPERATION_LIMIT" })));
    assert_eq!(stage.cancel("one-more").await, (404, json!({ "code": "OPERATION_UNKNOWN" })));
    assert_eq!(stage.write("id-7", Write::Mkdir).await.0, 409, "known ids stay known");
    assert_eq!(stage.tree(), before);
    // Those without receipt are never forgotten, however old.
    age(&stage, "id-7", OPERATION_RETENTION_MS + 1);
    assert_eq!(stage.write("one-more", Write::Mkdir).await.0, 429);
    // The others make room when their hour is over.
    age(&stage, "made", OPERATION_RETENTION_MS + 1);
    assert_eq!(stage.write("one-more", Write::Mkdir).await.0, 200);
}

#[tokio::test]
async fn a_receipt_is_kept_for_an_hour() {
    let stage = Stage::start().await;
    assert_eq!(stage.write("mkdir", Write::Mkdir).await.0, 200);
    age(&stage, "mkdir", OPERATION_RETENTION_MS - 60_000);
    assert_eq!(stage.status("mkdir").await.0, 200);
    assert_eq!(stage.write("mkdir", Write::Remove).await.0, 409);
    let stage = stage.restart().await;
    assert_eq!(stage.status("mkdir").await.0, 200);

    age(&stage, "mkdir", 60_001);
    assert_eq!(stage.status("mkdir").await, (404, json!({ "code": "OPERATION_UNKNOWN" })));
    assert_eq!(stage.cancel("mkdir").await, (200, not_committed("ECANCELLED")), "it is an id like any other then");
    assert_eq!(stage.status("mkdir").await, (200, not_committed("ECANCELLED")));
}

/// Makes a write older.
fn age(stage: &Stage, id: &str, ms: u64) {
    stage.sql(&format!("UPDATE file_operations SET createdAt = createdAt - {ms} WHERE operationId = '{id}'"));
}
