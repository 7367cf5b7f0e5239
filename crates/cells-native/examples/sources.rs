//! Opens the export `scratch` of the node at `CELLS_URL` as a file system with virtual paths, and keeps a note there.

use cells_native::cells_driver::{
    ClientConfig, Connection, FileConnection, FileMutationOptions, OperationOptions, ReadOptions, ReplaceCondition,
    Secret, Upload,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = cells_native::spawn(ClientConfig::default())?;
    client.set_credential("home", Secret::new(std::env::var("CELLS_API_KEY")?));
    let connection = Connection::new(std::env::var("CELLS_URL")?, "home");

    // What a form asks in which somebody enters a node and chooses a directory.
    client.check(&connection, OperationOptions::default()).await?;
    let page = client.browse(&connection, "/", None, OperationOptions::default()).await?;
    println!("{}", page.paths.join(" "));

    // Whoever opens the same export shares it; each handle is disposed of for itself, and the last one closes it.
    let scratch = FileConnection::new(connection, "scratch");
    let editor = client.open(&scratch, OperationOptions::default()).await?;
    let viewer = client.open(&scratch, OperationOptions::default()).await?;
    println!("{} {:?}", editor.fs().view_id(), editor.fs().access());

    let note = Upload::bytes("Hello\n");
    editor.fs().replace("/hello.txt", note, ReplaceCondition::CreateOnly, FileMutationOptions::default()).await?;
    editor.fs().rename("/hello.txt", "/greeting.txt", FileMutationOptions::default()).await?;
    let read = viewer.fs().read("/greeting.txt", ReadOptions::default()).await?;
    print!("{}", String::from_utf8_lossy(&read.data));
    viewer.dispose();

    for entry in editor.fs().list("/", OperationOptions::default()).await? {
        println!("{} {:?}", entry.name, entry.stat.size);
    }
    editor.fs().delete("/greeting.txt", FileMutationOptions::default()).await?;
    editor.dispose();
    let closed = editor.fs().stat("/", OperationOptions::default()).await;
    println!("{:?}", closed.map_err(|error| error.kind()));
    Ok(())
}
