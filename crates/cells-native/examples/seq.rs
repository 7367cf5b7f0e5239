//! Keeps a table of keys and values in the export `scratch` of the node at `CELLS_URL`, without losing what others change.

use cells_native::cells_driver::{
    ClientConfig, Connection, ErrorKind, FileConnection, FileMutationOptions, OperationOptions, Secret, SeqChange,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = cells_native::spawn(ClientConfig::default())?;
    client.set_credential("home", Secret::new(std::env::var("CELLS_API_KEY")?));
    let scratch = FileConnection::new(Connection::new(std::env::var("CELLS_URL")?, "home"), "scratch");
    let storage = client.file_storage(&scratch, OperationOptions::default()).await?;
    let seq = storage.seq();
    let set = |key: &str, value: &str| SeqChange::Set { key: key.to_owned(), value: value.into() };

    // A table that is not there yet is empty and has no revision.
    let empty = seq.snapshot("plan.seq", OperationOptions::default()).await?;
    let changes = [set("title", "Garden"), set("state", "draft")];
    seq.transaction("plan.seq", empty.revision.as_deref(), &changes, FileMutationOptions::default()).await?;

    // All changes of a transaction are made, or none: also when somebody else was faster.
    let changes = [SeqChange::Delete { key: "title".to_owned() }, set("state", "final")];
    let mut revision = empty.revision;
    loop {
        let transaction = seq.transaction("plan.seq", revision.as_deref(), &changes, FileMutationOptions::default());
        match transaction.await {
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::Conflict => {
                println!("somebody was faster; look again");
                revision = seq.snapshot("plan.seq", OperationOptions::default()).await?.revision;
            }
            Err(error) => return Err(error.into()),
        }
    }
    for entry in seq.snapshot("plan.seq", OperationOptions::default()).await?.entries {
        println!("{} = {}", entry.key, entry.value);
    }

    // A SeqFile is a file.
    let writes = storage.mutations().ok_or("the export is read-only for this key")?;
    writes.remove("plan.seq", FileMutationOptions::default()).await?;
    Ok(())
}
