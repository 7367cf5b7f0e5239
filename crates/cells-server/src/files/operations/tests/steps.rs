//! System calls that fail, and work that panics.

use std::path::Path;
use std::time::Duration;

use super::*;

#[tokio::test]
async fn a_full_disk_leaves_everything_as_it_was() {
    let stage = Stage::start().await;
    for write in Write::ALL {
        for step in write.steps() {
            stage.reset();
            let before = stage.tree();
            stage.plan.set(move |at| if at == *step { Err(Errno::NOSPC) } else { Ok(()) });
            let id = format!("{write:?}-{step:?}");
            let receipt = not_committed("ENOSPC");
            assert_eq!(stage.write(&id, write).await, (507, receipt.clone()), "{id}");
            assert_eq!(stage.tree(), before, "{id}");
            assert_eq!(stage.status(&id).await, (200, receipt), "{id}");
            stage.plan.clear();
            assert_eq!(stage.write(&id, write).await.0, 409, "{id}: the id is used");
            let (status, receipt) = stage.write(&format!("{id}-again"), write).await;
            assert!(status == 200 && committed(write, &receipt), "{id}: {receipt}");
            assert!(stage.is_done(write, &before), "{id}");
        }
    }
}

#[tokio::test]
async fn a_failure_after_the_effect_takes_nothing_back() {
    let stage = Stage::start().await;
    for write in Write::ALL {
        stage.reset();
        let before = stage.tree();
        stage.plan.set(|at| if at == Step::Done { Err(Errno::IO) } else { Ok(()) });
        let id = format!("{write:?}");
        let (status, receipt) = stage.write(&id, write).await;
        assert!(status == 200 && committed(write, &receipt), "{write:?}: {receipt}");
        assert!(stage.is_done(write, &before), "{write:?}");
        assert_eq!(stage.status(&id).await, (200, receipt), "{write:?}");
    }
}

#[tokio::test]
async fn work_that_panics_is_settled_by_looking() {
    let stage = Stage::start().await;
    for write in Write::ALL {
        for step in write.steps().iter().chain(&[Step::Done]) {
            stage.reset();
            let before = stage.tree();
            stage.plan.set(move |at| if at == *step { panic!("a mistake of this program") } else { Ok(()) });
            let id = format!("{write:?}-{step:?}");
            let (status, receipt) = stage.write(&id, write).await;
            let is_done = *step == Step::Done;
            match (is_done, write) {
                (false, _) => assert_eq!((status, &receipt), (500, &not_committed("EIO")), "{id}"),
                // Nothing proves who removed an empty directory.
                (true, Write::RemoveFolder) => assert_eq!((status, &receipt), (500, &unknown()), "{id}"),
                (true, _) => assert!(status == 200 && committed(write, &receipt), "{id}: {status} {receipt}"),
            }
            assert_eq!(stage.is_done(write, &before), is_done, "{id}");
            assert_eq!(stage.status(&id).await, (200, receipt), "{id}");
        }
    }
}

#[tokio::test]
async fn a_disk_that_fails_in_the_effect_itself_is_looked_at() {
    let stage = Stage::start().await;
    for write in Write::ALL {
        stage.reset();
        let before = stage.tree();
        stage.plan.set(|at| if at == Step::Effect { Err(Errno::IO) } else { Ok(()) });
        let id = format!("{write:?}");
        assert_eq!(stage.write(&id, write).await, (500, not_committed("EIO")), "{write:?}");
        assert_eq!(stage.tree(), before, "{write:?}");
    }
    // The call that fails has done its work all the same.
    let files = stage.path("");
    stage.reset();
    let before = stage.tree();
    stage.plan.set(move |at| {
        if at == Step::Effect {
            let staged = fs::read_dir(&files).unwrap().map(|entry| entry.unwrap().path());
            let staged = staged.filter(|path| path.to_string_lossy().contains("/.itookit-upload-")).collect::<Vec<_>>();
            fs::rename(&staged[0], files.join("old")).unwrap();
            return Err(Errno::IO);
        }
        Ok(())
    });
    let (status, receipt) = stage.write("done", Write::PutReplace).await;
    assert!(status == 200 && committed(Write::PutReplace, &receipt), "{receipt}");
    assert_eq!(receipt["result"]["revision"], json!(stage.revision("old")));
    assert!(stage.is_done(Write::PutReplace, &before));
}

#[tokio::test]
async fn what_another_program_did_meanwhile_is_not_undone() {
    let stage = Stage::start().await;
    // The name belongs to something else when the turn of the write comes.
    for write in [Write::PutCreate, Write::PutReplace, Write::Mkdir, Write::SeqCreate, Write::SeqReplace] {
        stage.reset();
        let path = stage.path(write.names()[0]);
        let swapped = path.clone();
        stage.plan.set(move |at| {
            if at == Step::Effect {
                fs::write(&swapped, "somebody else's").unwrap();
            }
            Ok(())
        });
        let (expected, code) = if write == Write::Mkdir { (409, "EEXIST") } else { (412, "ECONFLICT") };
        assert_eq!(stage.write(&format!("{write:?}"), write).await, (expected, not_committed(code)), "{write:?}");
        assert_eq!(fs::read(&path).unwrap(), b"somebody else's", "{write:?}");
        assert_eq!(stage.hidden(), Vec::<String>::new(), "{write:?}");
    }
}

#[tokio::test]
async fn a_name_that_belongs_to_something_else_by_now_is_left_alone() {
    let stage = Stage::start().await;
    for write in [Write::Rename, Write::Remove, Write::RemoveFolder] {
        stage.reset();
        let (path, other) = (stage.path(write.names()[0]), stage.path("other"));
        let swap = {
            let path = path.clone();
            move || match write {
                Write::RemoveFolder => {
                    fs::create_dir(&other).unwrap();
                    fs::rename(&other, &path).unwrap();
                }
                _ => {
                    fs::write(&other, "somebody else's").unwrap();
                    fs::rename(&other, &path).unwrap();
                }
            }
        };
        let id = format!("{write:?}");
        let (held, holds) = tokio::sync::oneshot::channel();
        let (app, export, key) = (Arc::clone(stage.node.app()), stage.export(), key(&id));
        let holder = std::thread::spawn(move || {
            let _turn = export.turn();
            held.send(()).unwrap();
            // Until the write has recorded its intent, and waits for its turn.
            while !matches!(app.files.operations.lock().store.intent(&key), Ok(Some(_))) {
                std::thread::sleep(Duration::from_millis(1));
            }
            swap();
        });
        holds.await.unwrap();
        assert_eq!(stage.write(&id, write).await, (412, not_committed("ECONFLICT")), "{write:?}");
        holder.join().unwrap();
        let stands = fs::read(&path).is_ok_and(|content| content == b"somebody else's");
        assert!(stands || (write == Write::RemoveFolder && path.is_dir()), "{write:?}");
        assert_eq!(stage.hidden(), Vec::<String>::new(), "{write:?}");
    }
}

#[tokio::test]
async fn a_folder_that_comes_in_the_place_of_a_removed_file_is_given_back() {
    let stage = Stage::start().await;
    let old = stage.path("old");
    let swap = |old: &Path| {
        fs::remove_file(old).unwrap();
        fs::create_dir(old).unwrap();
    };
    let swapped = old.clone();
    stage.plan.set(move |at| {
        if at == Step::Effect {
            swap(&swapped);
        }
        Ok(())
    });
    assert_eq!(stage.write("back", Write::Remove).await, (409, not_committed("EISDIR")));
    assert!(old.is_dir());
    assert_eq!(stage.hidden(), Vec::<String>::new());

    // It cannot be given back: then nobody can say what happened, and nothing is thrown away.
    stage.reset();
    stage.plan.set(move |at| {
        match at {
            Step::Effect => swap(&old),
            Step::GiveBack => fs::write(&old, "one more").unwrap(),
            _ => {}
        }
        Ok(())
    });
    assert_eq!(stage.write("taken", Write::Remove).await, (500, unknown()));
    let [hidden] = stage.hidden().try_into().unwrap();
    assert!(stage.path(&hidden).is_dir());
    let stage = stage.restart().await;
    let tasks = stage.node.app().files.operations.tasks();
    tasks.close();
    tasks.wait().await; // for the sweep
    assert_eq!(stage.hidden(), [hidden], "the folder of somebody else stays, though it is empty");
    assert_eq!(stage.status("taken").await, (200, unknown()));
}
