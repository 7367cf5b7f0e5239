//! Platform-neutral client of a Cells node.
//!
//! A Cells node is one person's machine: its directories, and the sessions of its coding agents, behind HTTP and MCP. This
//! crate holds everything of a client but the platform: implement [`host::Host`], or use the crate `cells-native`, which
//! has one for tokio.
//!
//! A [`Client`] works with any number of nodes. It is driven by a [`Run`] future, which the caller spawns, and it makes all
//! other clients:
//!
//! | for | made by | gives |
//! |---|---|---|
//! | what a node is and offers | [`Client::discover`], [`Client::capabilities`], [`Client::exports`] | [`CellsDescriptor`], [`ServerCapabilities`], [`Exports`] |
//! | reading an export | [`Client::files`] | [`FileClient`]: `stat` in batches, listings, ranges, streams of any size |
//! | writing in an export | [`Client::file_storage`] | [`FileStorage`], with [`FileMutations`]: content, directories, names |
//! | tables in an export | [`FileStorage::seq`] | [`SeqClient`]: entries of a SeqFile, changed all at once |
//! | an export as a shared file system | [`Client::open`] | [`FileSource`], with a [`FileStorageAdapter`] of virtual paths |
//! | choosing a node and a directory | [`Client::check`], [`Client::check_draft`], [`Client::browse`] | [`BrowsePage`] |
//! | commands | [`Client::process`] | [`ProcessSession`]: output while they run, and proof that they are over |
//! | agents | [`Client::harness`] | [`HarnessClient`]: sessions, turns, approvals, slash commands, live events |
//! | any other route of a node | [`Client::http_transport`] | [`HttpTransport`] |
//!
//! All of them are cheap to clone, ask nothing when they are made unless their maker is `async`, and take
//! [`OperationOptions`] with each call: a time budget (30 s by default) and a [`Cancellation`].
//!
//! ```no_run
//! use cells_driver::{
//!     Client, ClientConfig, Connection, Error, FileConnection, FileMutationOptions, OperationOptions, ReadOptions,
//!     ReplaceCondition, Secret, Upload,
//! };
//!
//! # async fn example(host: impl cells_driver::host::Host, spawn: impl Fn(cells_driver::Run)) -> Result<(), Error> {
//! let (client, run) = Client::new(host, ClientConfig::default()); // with cells-native: cells_native::spawn(config)
//! spawn(run);
//! client.set_credential("home", Secret::new("the API key that `cells serve` printed"));
//! let notes = FileConnection::new(Connection::new("http://127.0.0.1:4477", "home"), "notes");
//!
//! let storage = client.file_storage(&notes, OperationOptions::default()).await?;
//! for entry in storage.files().list("", None, OperationOptions::default()).await?.entries {
//!     println!("{} {:?}", entry.name, entry.stat.size);
//! }
//! let before = storage.files().read("todo.md", ReadOptions::default()).await?;
//! if let (Some(writes), Some(revision)) = (storage.mutations(), before.revision) {
//!     let content = Upload::bytes([&before.data[..], b"- bread\n"].concat());
//!     let unchanged = ReplaceCondition::Match(revision);
//!     writes.replace("todo.md", content, unchanged, FileMutationOptions::default()).await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What all of them promise:
//!
//! * What you ask for happens at most once: a mutation is one HTTP request, ever.
//! * What you see is what the node has: every reply is parsed and checked once; nothing of a wrong one is handed out.
//! * What is unknown is called unknown until it is proven. [`Error::outcome`] says what is known of a mutation that failed;
//!   [`FileStorage::settle`], [`HarnessClient::operation`] and [`ProcessSession::release`] find out the rest.

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
mod events;
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
pub use events::{EventSnapshot, Subscription, TopicChange, TopicState};
pub use files::{
    FileClient, FileCommitted, FileContent, FileMutationOptions, FileMutations, FileStorage, ReadOptions, ReadStream,
    SeqClient, StatFuture, Upload,
};
pub use harness::{
    BranchOptions, CommandOptions, Committed, DigestOptions, HarnessClient, HistoryOptions, InterruptOptions,
    ListOptions, MutationOptions, OutputLoadOptions, OutputReadOptions, ReceiptView, SteerOptions, TurnOptions,
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
    AttachmentKind, CommandItem, ContextMetrics, CostMetrics, CreditMetrics, DigestEntry, DigestPage, DigestRole,
    HarnessAttachment, HarnessCapabilities, HarnessExecutionRecovery, HarnessItem, HarnessMetrics, HarnessModel,
    HarnessModelCatalog, HarnessModelSelection, HarnessQuestion, HarnessRequest, HarnessSearchMatch, HarnessSearchMode,
    HarnessSearchQuery, HarnessSearchResult, HarnessUsage, HarnessUsageEntry, HarnessUsageTotals, HistoryPage,
    ItemContent, LockState, NativeEvent, Profile, Profiles, QuestionOption, QuotaMetrics, ReasoningEffort, RequestKind,
    RuntimeState, Session, SessionInfo, SessionPage, SessionsDeleted, SubmissionEvidence, TokenCounts, ToolOperation,
    ToolSummary, Turn, TurnResult, TurnStarted, TurnSteered, Workspace, check_attachments, harness_archive_allowed,
};
pub use cells_protocol::ids::{
    Alias, CommandName, DigestRevision, Epoch, EventEpoch, InvalidId, NativeId, OperationId, PrincipalId, ProfileId,
    ProjectId, RequestId, ServerId, Sha256Hex, WorkspaceId,
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
