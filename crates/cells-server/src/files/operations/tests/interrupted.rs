//! Writes that somebody stops, or that the end of the node interrupts.

use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::receipts::NO_RECEIPT;
use super::*;

/// Holds the writes at one step.
struct Hold {
    reached: UnboundedReceiver<()>,
    release: mpsc::Sender<()>,
}

impl Hold {
    fn at(stage: &Stage, step: Step) -> Self {
        let (reaches, reached) = unbounded_channel();
        let (release, released) = mpsc::channel();
        stage.plan.set(move |at| {
            if at == step {
                reaches.send(()).unwrap();
                released.recv().unwrap();
            }
            Ok(())
        });
        Self { reached, release }
    }
}

fn running() -> Value {
    json!({ "outcome": "unknown", "state": "running" })
}

#[tokio::test]
async fn a_cancel_before_the_effect_stops_a_write_and_one_after_it_does_not() {
    let stage = Stage::start().await;
    for write in Write::ALL {
        for step in write.steps().iter().chain(&[Step::Done]) {
            if matches!(write, Write::PutCreate | Write::PutReplace) && *step == Step::Write {
                continue; // a body that is still received is given up at once
            }
            stage.reset();
            let before = stage.tree();
            let mut hold = Hold::at(&stage, *step);
            let id = format!("{write:?}-{step:?}");
            let (answer, ()) = tokio::join!(stage.write(&id, write), async {
                hold.reached.recv().await.unwrap();
                assert_eq!(stage.status(&id).await, (200, running()), "{id}");
                assert_eq!(stage.cancel(&id).await, (200, running()), "{id}");
                assert_eq!(stage.cancel(&id).await, (200, running()), "{id}");
                hold.release.send(()).unwrap();
            });
            // The last look at the cancel is just before the effect.
            let is_late = matches!(step, Step::Effect | Step::Done);
            if is_late {
                assert!(answer.0 == 200 && committed(write, &answer.1), "{id}: {answer:?}");
            } else {
                assert_eq!(answer, (408, not_committed("ECANCELLED")), "{id}");
            }
            assert_eq!(stage.is_done(write, &before), is_late, "{id}");
            assert_eq!(stage.cancel(&id).await, (200, answer.1.clone()), "{id}: it stays as it is");
            assert_eq!(stage.status(&id).await, (200, answer.1), "{id}");
        }
    }
}

#[tokio::test]
async fn a_deadline_that_comes_after_the_effect_leaves_a_receipt() {
    let stage = Stage::start().await;
    for write in [Write::PutReplace, Write::Remove, Write::SeqCreate] {
        stage.reset();
        let before = stage.tree();
        let hold = Hold::at(&stage, Step::Done);
        let id = format!("{write:?}");
        let answer = reply(stage.request(&id, write).header("x-timeout-ms", "1500")).await;
        assert_eq!(answer, (504, json!({ "outcome": "unknown", "code": "ETIMEDOUT" })), "{write:?}");
        assert_eq!(stage.status(&id).await, (200, running()), "{write:?}");
        hold.release.send(()).unwrap();
        let (_, receipt) = stage.settled(&id).await;
        // The receipt can be read a moment before what is not needed any more is gone.
        while !stage.hidden().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(committed(write, &receipt), "{write:?}: {receipt}");
        assert!(stage.is_done(write, &before), "{write:?}");
    }
}

#[tokio::test]
async fn the_next_start_finds_out_what_became_of_a_write_without_receipt() {
    let mut stage = Stage::start().await;
    for write in Write::ALL {
        for is_done in [true, false] {
            stage.reset();
            let before = stage.tree();
            stage.sql(NO_RECEIPT);
            if !is_done {
                stage.plan.set(|at| if at == Step::Effect { Err(Errno::NOSPC) } else { Ok(()) });
            }
            let id = format!("{write:?}-{is_done}");
            let expected = if is_done { 200 } else { 507 };
            assert_eq!(stage.write(&id, write).await.0, expected, "{id}");
            stage = stage.restart().await;
            let (status, receipt) = stage.status(&id).await;
            assert_eq!(status, 200, "{id}");
            match (is_done, write) {
                (false, _) => assert_eq!(receipt, not_committed("ECANCELLED"), "{id}"),
                (true, Write::RemoveFolder) => assert_eq!(receipt, unknown(), "{id}"),
                (true, _) => assert!(committed(write, &receipt), "{id}: {receipt}"),
            }
            if write.makes_file() && is_done {
                assert_eq!(receipt["result"]["revision"], json!(stage.revision(write.names()[0])), "{id}");
            }
            let tasks = stage.node.app().files.operations.tasks();
            tasks.close();
            tasks.wait().await; // for the sweep
            assert_eq!(stage.is_done(write, &before), is_done, "{id}");
            assert_eq!(stage.write(&id, Write::Mkdir).await.0, 409, "{id}");
        }
    }
}

impl Stage {
    /// The receipt of a write that nobody waits for.
    async fn settled(&self, id: &str) -> (u16, Value) {
        loop {
            let found = self.status(id).await;
            if found.1 != running() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
