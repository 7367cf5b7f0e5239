//! The local Cells node: the directories and agents of one machine, for one person, over HTTP and MCP.
//!
//! [`ServeConfig`] says what is served, [`Node::bind`] checks it and takes the port, [`Node::run`] answers. The node
//! runs on Linux. It never depends on the driver, so that a mistake in one is not mirrored in the other.

#[cfg(not(target_os = "linux"))]
compile_error!("cells-server confines paths with Linux system calls and runs only there");

mod config;
mod error;
mod secret;
mod serve;

mod app;
mod auth;
mod credential;
mod deadline;
mod extract;
mod headers;
mod log;
mod origins;
mod principals;
mod process_group;
mod profiles;
mod prompt;
mod random;
mod receipt_file;
mod refusal;
mod state_dir;
mod tls;

pub mod harness;

mod events;
mod files;
mod mcp;
mod process;

#[cfg(test)]
mod testing;

pub use self::config::{
    Credential, DEFAULT_LISTEN, Execution, ExportConfig, FaultPoint, HarnessConfig, LogLevel, PrincipalConfig,
    ServeConfig, TlsFiles,
};
pub use self::error::ServeError;
pub use self::secret::Secret;
pub use self::serve::Node;
pub use self::state_dir::purge_receipts;
