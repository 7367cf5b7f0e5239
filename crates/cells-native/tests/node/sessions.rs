//! What is done to whole sessions of a running node, and what is read out of them.

use cells_driver::{
    BranchOptions, DigestOptions, ErrorKind, HarnessAttachment, HarnessClient, HarnessItem, HarnessSearchMode,
    HarnessSearchQuery, HistoryOptions, ItemContent, ListOptions, MutationOptions, NativeEvent, NativeId,
    OperationOptions, Outcome, ProfileId, Turn, TurnOptions, harness_archive_allowed,
};
use cells_testkit::fault_proxy::{Fault, Plan, Rule};
use serde_json::json;

use crate::stage::Stage;

/// A node, and a session in which a turn was run.
struct Scene {
    stage: Stage,
    harness: HarnessClient,
    profile: ProfileId,
    session: NativeId,
}

impl Scene {
    async fn new() -> Self {
        let stage = Stage::new().await;
        let harness = stage.harness();
        let (profile, session) = stage.session(&harness).await;
        let scene = Self { stage, harness, profile, session };
        scene.run("say A badger crossed the river.").await;
        scene
    }

    /// Runs a turn to its end, approving what is asked for, and gives what was told.
    async fn run(&self, prompt: &str) -> Vec<NativeEvent> {
        let Self { harness, profile, session, .. } = self;
        let mut events = harness.subscribe(profile);
        events.ready().await.unwrap();
        let mut cursor = events.snapshot(None).cursor;
        let turn = harness.turn(profile, session, prompt, MutationOptions::default()).await.unwrap().value.turn_id;
        let mut told = Vec::new();
        loop {
            let snapshot = events.snapshot(cursor.as_ref());
            cursor = snapshot.cursor;
            for event in snapshot.events {
                let event = NativeEvent::of(&event.message);
                if let NativeEvent::Requested { request } = &event {
                    let yes = json!({"decision": "accept"});
                    harness.respond(profile, request.id.clone(), yes, MutationOptions::default()).await.unwrap();
                }
                let is_over = matches!(&event, NativeEvent::TurnCompleted { turn_id, .. } if *turn_id == turn);
                told.push(event);
                if is_over {
                    return told;
                }
            }
            events.changed().await.unwrap();
        }
    }
}

#[tokio::test]
async fn items_and_events_of_the_agent_are_read() {
    let scene = Scene::new().await;
    let told = scene.run("think Hm.\nrun echo one\nwrite made.txt two\nsay Done.").await;
    let n_approvals = told.iter().filter(|event| matches!(event, NativeEvent::Requested { .. })).count();
    assert_eq!(n_approvals, 2);
    let kinds = |wanted: fn(&NativeEvent) -> bool| told.iter().any(wanted);
    assert!(kinds(|event| matches!(event, NativeEvent::TurnStarted { .. })));
    assert!(kinds(|event| matches!(event, NativeEvent::TextDelta { .. })));
    assert!(kinds(|event| matches!(event, NativeEvent::RequestResolved { .. })));
    assert!(kinds(|event| matches!(event, NativeEvent::ItemCompleted { .. })));

    let Scene { harness, profile, session, .. } = &scene;
    let history = harness.read(profile, session, HistoryOptions::default()).await.unwrap();
    let items: Vec<_> = history.turns.iter().flat_map(|turn| turn.read_items()).collect();
    assert!(
        items.iter().all(|item| item.id.is_some() && item.turn_id.is_some() && item.content != ItemContent::Unknown)
    );
    let has = |wanted: &dyn Fn(&ItemContent) -> bool| items.iter().any(|item| wanted(&item.content));
    assert!(has(&|item| matches!(item, ItemContent::User { text, .. } if text == "say A badger crossed the river.")));
    assert!(has(&|item| matches!(item, ItemContent::Agent { text } if text == "A badger crossed the river.")));
    assert!(has(&|item| matches!(item, ItemContent::Reasoning { text } if text == "Hm.")));
    assert!(has(&|item| matches!(item, ItemContent::CommandExecution(tool) if tool.command_preview == "echo one")));
    let made = |path: &String| path.ends_with("made.txt");
    assert!(has(&|item| matches!(item, ItemContent::FileChange(tool) if tool.paths.iter().any(made))));
}

#[tokio::test]
async fn a_list_is_read_in_pages_of_the_size_that_was_asked_for() {
    let scene = Scene::new().await;
    let Scene { harness, profile, .. } = &scene;
    scene.stage.session(harness).await;
    let mut seen = 0;
    let mut cursor = None;
    loop {
        let options = ListOptions { limit: Some(1), cursor, ..ListOptions::default() };
        let page = harness.list(profile, options).await.unwrap();
        assert!(page.sessions.len() <= 1);
        seen += page.sessions.len();
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, 2);
}

#[tokio::test]
async fn sessions_are_named_and_forked() {
    let scene = Scene::new().await;
    let Scene { harness, profile, session, .. } = &scene;
    let options = MutationOptions::default;
    let renamed = harness.rename(profile, session, " River notes ", options()).await.unwrap();
    assert_eq!(renamed.value.session.title, "River notes");
    let fork = harness.fork(profile, session, Some("second try"), options()).await.unwrap().value.session;
    assert_eq!((fork.parent_session_id.as_ref(), fork.owned), (Some(session), Some(true)));
    assert_eq!(fork.branch_name.as_deref(), Some("second try"));
    let family = harness.conversation_branches(profile, &fork, BranchOptions::default()).await.unwrap();
    assert!(family.len() == 2 && family.iter().any(|one| one.id == *session));
    let told = |turns: &[Turn]| turns.iter().flat_map(Turn::read_items).filter(is_said).count();
    let of_fork = harness.read(profile, &fork.id, HistoryOptions::default()).await.unwrap();
    assert_eq!(told(&of_fork.turns), 1, "it has the history of the other");
}

fn is_said(item: &HarnessItem) -> bool {
    matches!(&item.content, ItemContent::Agent { text } if text == "A badger crossed the river.")
}

#[tokio::test]
async fn sessions_are_archived_and_deleted() {
    let scene = Scene::new().await;
    let Scene { harness, profile, session, .. } = &scene;
    let options = MutationOptions::default;
    let before = harness.inspect(profile, session, OperationOptions::default()).await.unwrap().session;
    assert!(harness_archive_allowed(&before));
    let archived = harness.archive(profile, session, true, options()).await.unwrap().value.session;
    assert!(archived.archived && !harness_archive_allowed(&archived));
    for is_archived in [false, true] {
        let options = ListOptions { archived: is_archived, ..ListOptions::default() };
        let listed = harness.list(profile, options).await.unwrap();
        assert_eq!(listed.sessions.iter().any(|one| one.id == *session), is_archived);
    }
    let back = harness.archive(profile, session, false, options()).await.unwrap().value.session;
    assert!(!back.archived);
    harness.archive(profile, session, true, options()).await.unwrap();

    let deleted = harness.delete(profile, session, options()).await.unwrap();
    assert_eq!(deleted.value.deleted_session_ids, std::slice::from_ref(session));
    let gone = harness.inspect(profile, session, OperationOptions::default()).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    let again = harness.delete(profile, session, options()).await.unwrap_err();
    assert_eq!((again.kind(), again.outcome()), (ErrorKind::NotFound, Some(Outcome::NotCommitted)), "{again}");
    let receipt = harness.operation(&deleted.recovery, OperationOptions::default()).await.unwrap();
    assert_eq!(receipt.outcome, Outcome::Committed);
}

#[tokio::test]
async fn sessions_are_searched_and_digested() {
    let scene = Scene::new().await;
    let Scene { harness, profile, session, .. } = &scene;
    for (mode, hits) in [
        (HarnessSearchMode::Content, "river BADGER"),
        (HarnessSearchMode::Title, "badger"),
        (HarnessSearchMode::Prompt, "say river"),
    ] {
        let query = HarnessSearchQuery { query: hits.to_owned(), mode, archived: false };
        let found = harness.search(profile, &query, OperationOptions::default()).await.unwrap();
        assert!(found.matches.iter().any(|found| found.session_id == *session) && !found.literal, "{mode:?} {found:?}");
        let nothing = HarnessSearchQuery { query: "walrus river".to_owned(), mode, archived: false };
        let nothing = harness.search(profile, &nothing, OperationOptions::default()).await.unwrap();
        assert!(nothing.matches.is_empty() && !nothing.truncated, "{mode:?}");
    }
    let digest = harness.load_digest(profile, session, OperationOptions::default()).await.unwrap();
    let said: Vec<&str> = digest.entries.iter().map(|entry| entry.text.as_str()).collect();
    assert_eq!(said, ["say A badger crossed the river.", "A badger crossed the river."]);
    assert!(digest.is_complete());
    let metadata = DigestOptions { metadata_only: true, ..DigestOptions::default() };
    let metadata = harness.digest(profile, session, metadata).await.unwrap();
    assert_eq!((&metadata.revision, metadata.entries.len()), (&digest.revision, 0));

    scene.run("say And back.").await;
    let old = DigestOptions { expected_revision: Some(digest.revision), ..DigestOptions::default() };
    let changed = harness.digest(profile, session, old).await.unwrap_err();
    assert_eq!((changed.kind(), changed.remote_code()), (ErrorKind::Conflict, Some("HARNESS_DIGEST_CHANGED")));
}

#[tokio::test]
async fn attachments_are_sent_where_the_agent_takes_them() {
    let scene = Scene::new().await;
    let Scene { harness, profile, session, .. } = &scene;
    let note = HarnessAttachment::text("notes.md", "# A walrus\n");
    let image = HarnessAttachment::image("dot.png", "image/png", b"\x89PNG\r\n\x1a\n");
    let options = TurnOptions { attachments: vec![note.clone(), image], ..TurnOptions::default() };
    let turn = harness.turn(profile, session, "say Thanks.", options).await.unwrap().value.turn_id;
    let history = harness.read(profile, session, HistoryOptions::default()).await.unwrap();
    let items = history.turns.iter().flat_map(Turn::read_items).filter(|item| item.turn_id.as_ref() == Some(&turn));
    let users = items.filter_map(|item| match item.content {
        ItemContent::User { content_parts, content_part_kinds, .. } => Some((content_parts, content_part_kinds)),
        _ => None,
    });
    let users: Vec<_> = users.collect();
    let [(parts, Some(kinds))] = &users[..] else { panic!("one message: {users:?}") };
    assert_eq!((parts[0].as_str(), kinds[0].as_str()), ("say Thanks.", "prompt"));
    let named = |name: &str| parts.iter().zip(kinds).any(|(part, kind)| part.contains(name) && kind == "attachment");
    assert!(named("notes.md") && named("# A walrus") && named("dot.png"), "{parts:?} {kinds:?}");
    let n_before = scene.stage.proxy.counts().tools["harness_turn"];
    let options = TurnOptions { attachments: vec![note; 6], ..TurnOptions::default() };
    let error = harness.turn(profile, session, "say Thanks.", options).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Some(Outcome::NotStarted)));
    assert_eq!(scene.stage.proxy.counts().tools["harness_turn"], n_before);
}

#[tokio::test]
async fn a_lost_reply_is_settled_by_its_receipt_and_nothing_happens_twice() {
    let scene = Scene::new().await;
    let Scene { harness, profile, session, stage } = &scene;
    let options = MutationOptions::default;
    let rename = async || harness.rename(profile, session, "Burrow", options()).await.map(drop);
    let fork = async || harness.fork(profile, session, Some("lost"), options()).await.map(drop);
    let archive = async || harness.archive(profile, session, true, options()).await.map(drop);
    let unarchive = async || harness.archive(profile, session, false, options()).await.map(drop);
    let delete = async || harness.delete(profile, session, options()).await.map(drop);
    for tool in
        ["harness_rename", "harness_fork", "harness_archive", "harness_unarchive", "harness_archive", "harness_delete"]
    {
        stage.proxy.reset_counts();
        stage.proxy.set_plan(Plan::new([Rule::tool(tool, Fault::ResetAfter).nth(1)]));
        let error = match tool {
            "harness_rename" => rename().await,
            "harness_fork" => fork().await,
            "harness_archive" => archive().await,
            "harness_unarchive" => unarchive().await,
            _ => delete().await,
        };
        let error = error.unwrap_err();
        assert_eq!(error.outcome(), Some(Outcome::Unknown), "{tool}: {error}");
        let recovery = error.recovery().unwrap();
        let mut receipt = harness.operation(recovery, OperationOptions::default()).await.unwrap();
        while receipt.outcome == Outcome::Unknown {
            receipt = harness.operation(recovery, OperationOptions::default()).await.unwrap();
        }
        assert_eq!(receipt.outcome, Outcome::Committed, "{tool}: {receipt:?}");
        assert_eq!(stage.proxy.counts().tools[tool], 1, "{tool} is sent once");
    }
    let live = harness.list(profile, ListOptions::default()).await.unwrap().sessions;
    assert_eq!(live.iter().filter(|one| one.parent_session_id.as_ref() == Some(session)).count(), 1, "one fork");
    assert!(!live.iter().any(|one| one.id == *session));
}
