//! Works with the agent of the node at `CELLS_URL`: lists sessions, sends a message with a note, approves what the agent asks
//! for, downloads the output of a slash command, and forks and searches where the agent can do that.

use cells_native::cells_driver::{
    ClientConfig, CommandName, Connection, ErrorKind, HarnessAttachment, HarnessClient, HarnessSearchMode,
    HarnessSearchQuery, HistoryOptions, ItemContent, ListOptions, MutationOptions, NativeEvent, NativeId,
    OperationOptions, OutputLoadOptions, ProfileId, RequestKind, Secret, TurnOptions, WorkspaceId,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = cells_native::spawn(ClientConfig::default())?;
    client.set_credential("home", Secret::new(std::env::var("CELLS_API_KEY")?));
    let harness = client.harness(&Connection::new(std::env::var("CELLS_URL")?, "home"))?;
    let profiles = harness.profiles(OperationOptions::default()).await?.profiles;
    let profile = profiles.first().ok_or("the node has no agent")?;
    let can = &profile.capabilities;

    let created = harness.create(&profile.id, &WorkspaceId::new("scratch")?, MutationOptions::default()).await?;
    let session = created.value.session.id;
    let page = harness.list(&profile.id, ListOptions { limit: Some(50), ..ListOptions::default() }).await?;
    println!("listed: {}", page.sessions.iter().any(|listed| listed.id == session));

    // What the profile does not take is refused before anything is sent.
    let note = HarnessAttachment::text("note.md", "Be brief.\n");
    let attachments = if can.attachments.is_empty() { Vec::new() } else { vec![note] };
    approve_everything(&harness, &profile.id, &session, "run echo done by the agent", attachments).await?;

    let history = harness.read(&profile.id, &session, HistoryOptions::default()).await?;
    for item in history.turns.iter().flat_map(|turn| turn.read_items()) {
        match item.content {
            ItemContent::CommandExecution(command) => println!("ran: {}", command.command_preview),
            ItemContent::Agent { text } => println!("said: {}", text.lines().next().unwrap_or_default()),
            _ => {}
        }
    }

    let command = CommandName::new("output")?;
    let result = harness.command(&profile.id, &session, &command, "200000", MutationOptions::default()).await?;
    if let Some(reference) = result.value.output_ref {
        // Nothing is handed out before its length and its SHA-256 are right.
        let output = harness.load_command_output(&profile.id, &reference, OutputLoadOptions::default()).await?;
        println!("downloaded: {} bytes", output.len());
    }

    match harness.fork(&profile.id, &session, Some("second try"), MutationOptions::default()).await {
        Ok(fork) => {
            let family = harness.conversation_branches(&profile.id, &fork.value.session, Default::default()).await?;
            println!("forked: {} branches", family.len());
        }
        Err(error) if error.kind() == ErrorKind::Unsupported => println!("this agent does not fork"),
        Err(error) => return Err(error.into()),
    }
    let query =
        HarnessSearchQuery { query: "done agent".to_owned(), mode: HarnessSearchMode::Content, archived: false };
    match harness.search(&profile.id, &query, OperationOptions::default()).await {
        Ok(found) => println!("found: {}", found.matches.iter().any(|found| found.session_id == session)),
        Err(error) if error.kind() == ErrorKind::Unsupported => println!("this agent does not search"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Sends `text` and says yes to what the agent asks, until the turn is over.
async fn approve_everything(
    harness: &HarnessClient,
    profile: &ProfileId,
    session: &NativeId,
    text: &str,
    attachments: Vec<HarnessAttachment>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut events = harness.subscribe(profile);
    events.ready().await?;
    let mut cursor = events.snapshot(None).cursor;
    let options = TurnOptions { attachments, ..TurnOptions::default() };
    let turn = harness.turn(profile, session, text, options).await?.value.turn_id;
    loop {
        let snapshot = events.snapshot(cursor.as_ref());
        cursor = snapshot.cursor;
        for event in snapshot.events {
            match NativeEvent::of(&event.message) {
                NativeEvent::Requested { request } if request.session_id.as_ref() == Some(session) => {
                    println!("asks: {}", request.detail);
                    if request.kind == RequestKind::Approval {
                        let yes = serde_json::json!({"decision": "accept"});
                        harness.respond(profile, request.id, yes, MutationOptions::default()).await?;
                    }
                }
                NativeEvent::TurnCompleted { turn_id, .. } if turn_id == turn => return Ok(()),
                _ => {}
            }
        }
        events.changed().await;
    }
}
