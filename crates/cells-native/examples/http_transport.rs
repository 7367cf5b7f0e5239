//! Speaks to routes of the node at `CELLS_URL` by their names, with the credential, the budget, the retries and the errors
//! that every call of the driver has.

use cells_native::cells_driver::{
    ClientConfig, Connection, FileMutationOptions, OperationOptions, ReadOptions, Secret,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = cells_native::spawn(ClientConfig::default())?;
    client.set_credential("home", Secret::new(std::env::var("CELLS_API_KEY")?));
    let transport = client.http_transport(&Connection::new(std::env::var("CELLS_URL")?, "home"))?;

    let exports = transport.json("v1/exports", None, OperationOptions::default()).await?;
    let exports: serde_json::Value = serde_json::from_slice(&exports)?;
    for export in exports["exports"].as_array().into_iter().flatten() {
        println!("{} {}", export["alias"], export["access"]);
    }

    // A write gets an operation id and is sent once, as every write.
    let body = serde_json::json!({ "action": "mkdir", "path": "made", "recursive": false }).to_string();
    transport.mutate("v1/fs/scratch/mutate", body.into(), FileMutationOptions::default()).await?;
    let body = serde_json::json!({ "paths": ["made"] }).to_string();
    let stats = transport.json("v1/fs/scratch/stat", Some(body.into()), OperationOptions::default()).await?;
    let stats: serde_json::Value = serde_json::from_slice(&stats)?;
    println!("{}", stats["results"][0]["stat"]["kind"]);
    let body = serde_json::json!({ "action": "remove", "path": "made", "recursive": false }).to_string();
    transport.mutate("v1/fs/scratch/mutate", body.into(), FileMutationOptions::default()).await?;

    let first = ReadOptions { length: Some(1), ..ReadOptions::default() };
    let content = transport.content("v1/fs/docs/content?path=cli.md", first).await?;
    println!("{:?}", content.data);

    // Where a status that fails is an answer too.
    let none = transport.json_reply("v1/nothing", None, OperationOptions::default()).await?;
    println!("status {}", none.status);
    transport.close();
    Ok(())
}
