//! Runs a command in the export `scratch` of the node at `CELLS_URL`, shows its output while it runs, and stops another one.

use std::io::Write as _;

use cells_native::cells_driver::{
    Cancellation, ClientConfig, Connection, ExecOptions, OperationOptions, ProcessMount, ProcessSpec, Secret,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = cells_native::spawn(ClientConfig::default())?;
    client.set_credential("home", Secret::new(std::env::var("CELLS_API_KEY")?));
    let connection = Connection::new(std::env::var("CELLS_URL")?, "home");

    let capabilities = client.capabilities(&connection, OperationOptions::default()).await?;
    let mount = ProcessMount {
        alias: "scratch".to_owned(),
        path: String::new(),
        at: "/workspace".to_owned(),
        access: "rw".to_owned(),
    };
    let session = client.process(&connection, ProcessSpec::on(&capabilities, "/workspace", vec![mount])?)?;
    let sh = |script: &str| ["-c".to_owned(), script.to_owned()];

    let show = ExecOptions {
        on_output: Some(Box::new(|_, piece| {
            let _ = std::io::stdout().write_all(&piece);
        })),
        ..ExecOptions::default()
    };
    let exit = session.exec("sh", &sh("echo working; sleep 0.1; echo done; exit 3"), show).await?;
    println!("exit code {:?}, {} bytes", exit.code, exit.stdout.len());

    // This one stops itself as soon as it has said something. What it did stays done.
    let (stop, token) = Cancellation::new();
    let cancelled = ExecOptions {
        cancel: Some(token),
        on_output: Some(Box::new(move |_, _| stop.cancel())),
        ..ExecOptions::default()
    };
    if let Err(error) = session.exec("sh", &sh("echo started; exec sleep 60"), cancelled).await {
        println!("{}, {:?}", error.kind(), error.outcome());
    }

    // Proves that nothing runs any more; may be called again when it fails.
    session.release(OperationOptions::default()).await?;
    Ok(())
}
