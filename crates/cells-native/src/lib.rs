//! Cells driver for Rust programs on tokio: the platform of `cells-driver` on reqwest.
//!
//! ```no_run
//! use cells_native::cells_driver::{Connection, FileConnection, OperationOptions, Secret};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = cells_native::spawn(Default::default())?;
//! client.set_credential("office", Secret::new(std::env::var("CELLS_API_KEY")?));
//! let connection = Connection::new("http://127.0.0.1:4477", "office");
//! let files = client.files(&FileConnection::new(connection, "notes"))?;
//! for entry in files.list("", None, OperationOptions::default()).await?.entries {
//!     println!("{}", entry.name);
//! }
//! # Ok(())
//! # }
//! ```

mod host;
mod upload;

use cells_driver::{Client, ClientConfig, Result, Run};

/// The client itself, its options and its errors.
pub use cells_driver;
pub use host::NativeHost;
pub use upload::upload_file;

/// A client, and the future that drives it. Spawn that future on the runtime that uses the client.
///
/// # Errors
/// `EIO` when the platform can make no HTTP client.
pub fn client(config: ClientConfig) -> Result<(Client, Run)> {
    Ok(Client::new(NativeHost::new()?, config))
}

/// A client that is driven by a task of the current tokio runtime. The task ends with the last handle to the client, or
/// with [`Client::dispose`].
///
/// # Errors
/// As [`client`].
///
/// # Panics
/// Outside of a tokio runtime.
pub fn spawn(config: ClientConfig) -> Result<Client> {
    let (client, run) = client(config)?;
    tokio::spawn(run);
    Ok(client)
}
