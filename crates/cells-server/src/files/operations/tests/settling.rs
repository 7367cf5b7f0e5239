//! What the directories prove of a write that has no receipt.

use cells_protocol::file_receipts::FileReceipt;
use rustix::fs::Statx;

use super::*;
use crate::files::confine::ExportPath;
use crate::files::operations::intent::{Content, Identity, Intent, OpenPlace, was_placed, was_removed};

impl Stage {
    fn stat(&self, name: &str) -> Statx {
        stat_open(fs::File::open(self.path(name)).unwrap().as_fd()).unwrap()
    }

    fn open_place(&self, path: &str) -> OpenPlace {
        OpenPlace::open(&self.export().root, &ExportPath::parse(path).unwrap()).unwrap()
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// With a description of the new file.
    File,
    Done,
    Undone,
    Unknown,
}

#[tokio::test]
async fn only_what_the_directories_prove_counts() {
    let stage = Stage::start().await;
    fs::write(stage.path("staged"), "new").unwrap();
    fs::write(stage.path("other"), "other").unwrap();
    fs::create_dir(stage.path("gone")).unwrap();
    let (old, staged, other, folder) =
        (stage.stat("old"), stage.stat("staged"), stage.stat("other"), stage.stat("folder"));
    let (old, new, other, folder) = (
        Identity::from(&old),
        (Identity::from(&staged), Content::from(&staged)),
        (Identity::from(&other), Content::from(&other)),
        Identity::from(&folder),
    );
    let place = |path: &str| stage.open_place(path).place().clone();
    let put = |at: &str, hidden: &str, (object, content), old| Intent::Place {
        at: place(at),
        staged: hidden.to_owned(),
        object,
        content: Some(content),
        old,
    };
    let mkdir =
        |at: &str| Intent::Place { at: place(at), staged: "free".to_owned(), object: folder, content: None, old: None };
    let moved = |from: &str, to: &str, object| Intent::Move { from: place(from), to: place(to), object };
    let remove = |at: &str, aside: Option<&str>, object| Intent::Remove {
        at: place(at),
        aside: aside.map(str::to_owned),
        object,
    };
    let in_gone = put("gone/x", "free", new, None);
    fs::remove_dir(stage.path("gone")).unwrap();
    let edited = (new.0, other.1);
    for (what, intent, expected) in [
        ("the new file has the name", put("staged", "free", new, Some(old)), Found::File),
        ("the new file has the name and was edited", put("staged", "free", edited, Some(old)), Found::Done),
        ("the new folder has the name", mkdir("folder"), Found::Done),
        ("the new file is still staged, the old one stands", put("old", "staged", new, Some(old)), Found::Undone),
        ("the new file is still staged, nothing stands", put("free", "staged", new, None), Found::Undone),
        ("the old file stands, the new one is gone", put("old", "free", new, Some(old)), Found::Undone),
        ("a file stands of which nothing was kept, the new one is gone", put("old", "free", new, None), Found::Unknown),
        ("another file stands, the new one is gone", put("other", "free", new, Some(old)), Found::Unknown),
        ("nothing stands, the new one is gone", put("free", "free2", new, None), Found::Unknown),
        ("the directory is gone", in_gone, Found::Unknown),
        ("it is still where it was", moved("old", "free", old), Found::Undone),
        ("it is where it should be", moved("free", "old", old), Found::Done),
        ("it is in neither place", moved("free", "other", old), Found::Unknown),
        ("it is put aside", remove("free", Some("old"), old), Found::Done),
        ("it is put aside, and another file has its name", remove("other", Some("old"), old), Found::Done),
        ("another file is put aside", remove("free", Some("other"), old), Found::Unknown),
        ("a folder is put aside", remove("old", Some("folder"), old), Found::Unknown),
        ("it still has its name", remove("old", Some("free"), old), Found::Undone),
        ("another file has its name", remove("other", Some("free"), old), Found::Unknown),
        ("nothing has its name", remove("free", Some("free2"), other.0), Found::Unknown),
        ("the folder still has its name", remove("folder", None, folder), Found::Undone),
        ("no folder has its name", remove("free", None, folder), Found::Unknown),
    ] {
        let found = match intent.look(&stage.export()) {
            FileReceipt::Committed { result: Some(_) } => Found::File,
            FileReceipt::Committed { result: None } => Found::Done,
            FileReceipt::NotCommitted { .. } => Found::Undone,
            FileReceipt::Unknown { .. } | FileReceipt::Running => Found::Unknown,
        };
        assert_eq!(found, expected, "{what}");
    }
}

#[tokio::test]
async fn what_the_effect_ends_proves_nothing_where_the_time_of_birth_is_not_kept() {
    let stage = Stage::start().await;
    for is_kept in [true, false] {
        let identity = |name: &str| {
            let mut stat = stage.stat(name);
            if !is_kept {
                (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec) = (0, 0);
            }
            Identity::from(&stat)
        };
        let (old, folder, new) = (identity("old"), identity("folder"), identity("table.seq"));
        let proof = is_kept.then_some(false);
        assert_eq!(was_placed(Some(old), None, new, Some(old)), proof, "the old file stands, or another one");
        assert_eq!(was_removed(Some(folder), None, folder), proof, "the folder stands, or another one");
        // These files last until somebody else ends them.
        assert_eq!(was_placed(Some(new), None, new, Some(old)), Some(true));
        assert_eq!(was_placed(Some(old), Some(new), new, Some(old)), Some(false));
        assert_eq!(was_removed(None, Some(Some(old)), old), Some(true));
        assert_eq!(was_removed(Some(old), Some(None), old), Some(false));
    }
}
