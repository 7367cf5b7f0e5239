//! Platform-neutral client of a Cells node.
//!
//! A Cells node is one person's machine: its directories, and the sessions of its coding agents, behind HTTP and MCP. This
//! crate holds everything of a client but the platform: implement [`host::Host`], or use the crate `cells-native`, which
//! has one for tokio.
//!
//! Start at [`Client`]; it makes a [`FileClient`] for each export and a [`HarnessClient`] for the agents of a node.
//!
//! * What you ask for happens at most once: a mutation is one HTTP request, ever.
//! * What you see is what the node has: every reply is parsed and checked once; nothing of a wrong one is handed out.
//! * What is unknown is called unknown until it is proven: see [`HarnessClient`].

// The same types on every platform: what is shared between threads natively is shared within one thread on wasm.
#![cfg_attr(target_family = "wasm", allow(clippy::arc_with_non_send_sync))]

pub mod host;

mod body;
mod budget;
mod cancellation;
mod chunk;
mod client;
mod config;
mod credentials;
mod discovery;
mod dispatch;
mod error;
mod files;
mod harness;
mod http_transport;
mod mcp;
mod node;
mod process;
mod run;
mod sources;
mod sse;
mod sync;
mod transport;

pub use cancellation::{CancelHandle, Cancellation, Cancelled, OperationOptions};
pub use client::{Client, DiscoverOptions};
pub use config::{ClientConfig, Connection, FileConnection};
pub use credentials::{CredentialResolver, CredentialRestore, Secret};
pub use error::{Error, Result, Retry};
pub use files::{
    FileClient, FileCommitted, FileContent, FileMutationOptions, FileMutations, FileStorage, ReadOptions, ReadStream,
    SeqClient, StatFuture, Upload,
};
pub use harness::{
    Committed, EventSnapshot, HarnessClient, HistoryOptions, ListOptions, MutationOptions, OutputLoadOptions,
    OutputReadOptions, ReceiptView, Subscription, TopicChange, TopicState,
};
pub use http_transport::{HttpTransport, JsonReply};
pub use process::{ExecOptions, OnOutput, ProcessExit, ProcessSession, ProcessSpec};
pub use run::Run;
pub use sources::{BrowsePage, FileSource, FileStorageAdapter};

pub use cells_machines::process::OutputStream;
pub use cells_protocol::authorization::{AuthorizationSnapshot, GrantRevision};
pub use cells_protocol::capabilities::{Access, Export, Exports, ServerCapabilities};
pub use cells_protocol::commands::{
    Command, CommandCatalog, CommandKind, CommandResult, CommandState, OutputPage, OutputRef,
};
pub use cells_protocol::discovery::{CellsDescriptor, DiscoveryDocument, EventsAnnouncement, ReceiptsAnnouncement};
pub use cells_protocol::error::{ErrorKind, Outcome};
pub use cells_protocol::events::{EventCursor, HarnessEvent, NativeMessage};
pub use cells_protocol::file_receipts::FileReceipt;
pub use cells_protocol::file_recovery::{FileChange, FileRecovery};
pub use cells_protocol::files::{EntriesPage, FileEntry, FileKind, FileStat};
pub use cells_protocol::harness::{
    AttachmentKind, HarnessCapabilities, HistoryPage, Profile, Profiles, Session, SessionInfo, SessionPage, Turn,
    TurnResult, TurnStarted, Workspace,
};
pub use cells_protocol::ids::{
    Alias, CommandName, Epoch, EventEpoch, InvalidId, NativeId, OperationId, PrincipalId, ProfileId, ProjectId,
    RequestId, ServerId, Sha256Hex, WorkspaceId,
};
pub use cells_protocol::limits::PROMPT_MAX_BYTES;
pub use cells_protocol::mutations::ReplaceCondition;
pub use cells_protocol::process::ProcessMount;
pub use cells_protocol::receipts::{Recovery, Scope};
pub use cells_protocol::seq::{SeqChange, SeqEntry, SeqSnapshot};

/// How the types of the wire are read and written, for adapters to JSON.
pub mod json {
    pub use cells_protocol::json::{Json, Malformed, Object, to_exact_vec};
}
