//! Lists a folder of the node at `CELLS_URL` and talks to its agent.

use cells_native::cells_driver::{
    ClientConfig, Connection, FileConnection, MutationOptions, OperationOptions, Secret, WorkspaceId,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = cells_native::spawn(ClientConfig::default())?;
    client.set_credential("home", Secret::new(std::env::var("CELLS_API_KEY")?));
    let connection = Connection::new(std::env::var("CELLS_URL")?, "home");

    let files = client.files(&FileConnection::new(connection.clone(), "docs"))?;
    for entry in files.list("", None, OperationOptions::default()).await?.entries {
        println!("{} {:?}", entry.name, entry.stat.size);
    }

    let harness = client.harness(&connection)?;
    let profiles = harness.profiles(OperationOptions::default()).await?.profiles;
    let profile = profiles.first().ok_or("the node has no agent")?.id.clone();
    let created = harness.create(&profile, &WorkspaceId::new("scratch")?, MutationOptions::default()).await?;
    let mut events = harness.subscribe(&profile);
    events.ready().await?;
    let mut cursor = events.snapshot(None).cursor;
    let session = created.value.session.id;
    harness.turn(&profile, &session, "say Hello from the agent.", MutationOptions::default()).await?;
    loop {
        let snapshot = events.snapshot(cursor.as_ref());
        cursor = snapshot.cursor;
        for event in snapshot.events {
            match event.message.method.as_str() {
                "item/agentMessage/delta" => print!("{}", event.message.params["delta"].as_str().unwrap_or_default()),
                "turn/completed" => {
                    println!();
                    return Ok(());
                }
                _ => {}
            }
        }
        events.changed().await;
    }
}
