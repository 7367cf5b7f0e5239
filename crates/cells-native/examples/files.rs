//! Copies the file that is named on the command line into the export `scratch` of the node at `CELLS_URL`, changes a note
//! there, and finds out how a write ended whose reply did not come.

use std::io::Write as _;

use cells_native::cells_driver::{
    ClientConfig, Connection, FileConnection, FileMutationOptions, FileReceipt, OperationOptions, Outcome, ReadOptions,
    ReplaceCondition, Secret, Upload,
};
use futures::stream;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let local = std::env::args().nth(1).ok_or("name a file to copy")?;
    let client = cells_native::spawn(ClientConfig::default())?;
    client.set_credential("home", Secret::new(std::env::var("CELLS_API_KEY")?));
    let scratch = FileConnection::new(Connection::new(std::env::var("CELLS_URL")?, "home"), "scratch");
    let storage = client.file_storage(&scratch, OperationOptions::default()).await?;
    let writes = storage.mutations().ok_or("the export is read-only for this key")?;

    // A file of any size up to 256 MiB, of which at most 1 MiB is in memory.
    writes.mkdir("files", FileMutationOptions::default()).await?;
    let with_progress = FileMutationOptions {
        progress: Some(Box::new(|done, all| {
            print!("\r{done} of {all} bytes");
            let _ = std::io::stdout().flush();
        })),
        ..FileMutationOptions::default()
    };
    let content = cells_native::upload_file(&local).await?;
    writes.replace("files/copy", content, ReplaceCondition::CreateOnly, with_progress).await?;
    println!();

    // Read, change, write: only if nobody else has changed it meanwhile.
    let new = ReplaceCondition::CreateOnly;
    writes.replace("files/todo.md", Upload::bytes("- bread\n"), new, FileMutationOptions::default()).await?;
    let before = storage.files().read("files/todo.md", ReadOptions::default()).await?;
    let same = ReplaceCondition::Match(before.revision.ok_or("the node gives no revisions")?);
    let longer = Upload::bytes([&before.data[..], b"- milk\n"].concat());
    writes.replace("files/todo.md", longer, same.clone(), FileMutationOptions::default()).await?;
    let late = writes.replace("files/todo.md", Upload::bytes(""), same, FileMutationOptions::default()).await;
    if let Err(error) = late {
        println!("{}, {:?}", error.kind(), error.outcome());
    }

    // Content that does not come in time: the budget ends before the reply.
    let short = OperationOptions { timeout_ms: Some(2_000), ..OperationOptions::default() };
    let options = FileMutationOptions { operation: short, ..FileMutationOptions::default() };
    let content = Upload::stream(None, stream::pending());
    match writes.replace("files/slow", content, ReplaceCondition::CreateOnly, options).await {
        Err(error) if error.outcome() == Some(Outcome::Unknown) => {
            // Plain JSON that can be stored: another process can settle it as well.
            let recovery = error.file_recovery().ok_or("nothing to ask for")?;
            println!("{} {}: unknown", error.kind(), recovery.alias);
            match storage.settle(recovery, OperationOptions::default()).await? {
                FileReceipt::Committed { .. } => println!("it was written"),
                FileReceipt::NotCommitted { .. } => println!("nothing was written"),
                FileReceipt::Unknown { .. } | FileReceipt::Running => println!("still unknown; ask again later"),
            }
        }
        other => return Err(format!("not what was expected: {other:?}").into()),
    }

    for path in ["files/copy", "files/todo.md", "files"] {
        writes.remove(path, FileMutationOptions::default()).await?;
    }
    Ok(())
}
