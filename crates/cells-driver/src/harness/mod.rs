//! The agents of one node: sessions, turns, commands, events (`harness.md` §2–6, `cells-0.4.md` §2–6).

mod branches;
mod commands;
mod digest;
mod feature;
mod models;
mod mutations;
mod output;
mod reads;
mod search;
mod sessions;
mod steer;
mod turns;
mod usage;

use std::sync::Arc;

use cells_machines::event_hub::TopicKey;
use cells_protocol::commands::{CommandCatalog, CommandResult, OutputPage, OutputRef};
use cells_protocol::events::EventCursor;
use cells_protocol::harness::{HistoryPage, Profiles, SessionInfo, SessionPage, TurnStarted};
use cells_protocol::ids::{CommandName, NativeId, ProfileId, WorkspaceId};
use cells_protocol::receipts::Recovery;
use serde_json::Value;

pub use branches::BranchOptions;
pub use commands::CommandOptions;
pub use digest::DigestOptions;
pub use mutations::{Committed, MutationOptions};
pub use output::{OutputLoadOptions, OutputReadOptions};
pub use reads::{HistoryOptions, ListOptions, ReceiptView};
pub use steer::{InterruptOptions, SteerOptions};
pub use turns::TurnOptions;

use crate::cancellation::OperationOptions;
use crate::error::Result;
use crate::events::{EventSnapshot, Subscription};
use crate::node::Link;

/// A client of the agents of one node. Cheap to clone. All subscriptions to a node share one event stream.
///
/// # Mutations
/// Each mutation gets a fresh request id and is sent in one HTTP request, ever. What comes back is either [`Committed`],
/// or an error whose [`outcome`](crate::Error::outcome) says what is known: `not-started`, `not-committed`, `committed`
/// (it happened, only its result cannot be read) or `unknown`. For an unknown outcome, ask with
/// [`operation`](Self::operation) and the error's [`recovery`](crate::Error::recovery); nothing is asked by itself.
///
/// A node answers a mutation after at most 25 s; one that runs longer is reported as `unknown` and goes on. The time
/// budget (default 30 s) and the cancellation bound how long the caller waits. Once it was sent, a mutation is never
/// aborted: when its caller gives up or drops the future, [`Run`](crate::Run) still follows the request to its end.
/// Dropped before it was sent, it is not sent.
///
/// ```no_run
/// use cells_driver::{HarnessClient, MutationOptions, NativeId, OperationOptions, Outcome, ProfileId};
/// # async fn example(harness: HarnessClient, session: NativeId) -> Result<(), Box<dyn std::error::Error>> {
/// let profile = ProfileId::new("scripted")?;
/// match harness.turn(&profile, &session, "Tidy the notes.", MutationOptions::default()).await {
///     Ok(turn) => println!("turn {} started", turn.value.turn_id),
///     Err(error) if error.outcome() == Some(Outcome::Unknown) => {
///         if let Some(recovery) = error.recovery() {
///             let receipt = harness.operation(recovery, OperationOptions::default()).await?;
///             println!("{}", receipt.outcome);
///         }
///     }
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct HarnessClient(Arc<Harness>);

/// What the clones share.
struct Harness {
    link: Link,
    /// Names its subscriptions.
    owner: u64,
    /// What models sessions have.
    catalogs: models::Catalogs,
    /// Which request ids the host has used.
    chosen_ids: steer::ChosenIds,
}

impl HarnessClient {
    pub(crate) fn new(link: Link) -> Self {
        let owner = link.node.events.new_owner();
        let (catalogs, chosen_ids) = Default::default();
        Self(Arc::new(Harness { link, owner, catalogs, chosen_ids }))
    }

    /// The configured agents, and the epoch of the node's harness service. Always asks anew.
    ///
    /// # Errors
    /// As any call: `EACCES`, `EIO` and so on.
    pub async fn profiles(&self, options: OperationOptions) -> Result<Profiles> {
        reads::profiles(&self.0.link, &options).await
    }

    /// Sessions of a profile, most recently updated first. A page may be empty while there is a next one.
    ///
    /// # Errors
    /// `ENOENT` for an unknown profile, `EINVAL` for a bad cursor.
    pub async fn list(&self, profile_id: &ProfileId, options: ListOptions) -> Result<SessionPage> {
        reads::list(&self.0.link, profile_id, options).await
    }

    /// History of a session. The first page is the latest; its `next_cursor` leads to the page before it. Output of tools
    /// is left out (detail `summary`). Reading neither resumes a session nor takes it over.
    ///
    /// # Errors
    /// `ENOENT` for an unknown session, `EINVAL` for a bad cursor, `EFBIG` for a record that is too large.
    pub async fn read(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        options: HistoryOptions,
    ) -> Result<HistoryPage> {
        reads::read(&self.0.link, profile_id, session_id, options).await
    }

    /// One session, without its history.
    ///
    /// # Errors
    /// `ENOENT` for an unknown session.
    pub async fn inspect(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        options: OperationOptions,
    ) -> Result<SessionInfo> {
        reads::inspect(&self.0.link, profile_id, session_id, &options).await
    }

    /// Creates a session in a workspace of the profile.
    ///
    /// # Errors
    /// See [`HarnessClient`].
    pub async fn create(
        &self,
        profile_id: &ProfileId,
        workspace_id: &WorkspaceId,
        options: MutationOptions,
    ) -> Result<Committed<SessionInfo>> {
        mutations::create(&self.0.link, profile_id, workspace_id, options).await
    }

    /// Takes control of a stored session. Starts no turn.
    ///
    /// # Errors
    /// See [`HarnessClient`].
    pub async fn resume(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        options: MutationOptions,
    ) -> Result<Committed<SessionInfo>> {
        mutations::resume(&self.0.link, profile_id, session_id, options).await
    }

    /// Starts a turn with the prompt `text`, 1 to 131,072 bytes. What the agent does with it comes as events. `options` are
    /// [`TurnOptions`], or [`MutationOptions`] for a turn that carries nothing else.
    ///
    /// # Errors
    /// See [`HarnessClient`]; `EINVAL`, `not-started`, for a prompt or attachments out of bounds; `ECAPABILITY`,
    /// `not-started`, for attachments that the profile does not take.
    pub async fn turn(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        text: &str,
        options: impl Into<TurnOptions>,
    ) -> Result<Committed<TurnStarted>> {
        turns::turn((&self.0.link, &self.0.catalogs), profile_id, session_id, text, options.into()).await
    }

    /// Answers an approval or a question of an agent. `native_request_id` is the `id` of the request exactly as it came, a
    /// string or an integer; `response` is an object, for example `{"decision":"accept"}`. Does not wait behind other
    /// mutations, so that it can be sent while the turn that asked has no receipt yet.
    ///
    /// # Errors
    /// See [`HarnessClient`]; `EINVAL`, `not-started`, for another id or response; `ENOENT` when it was answered before.
    pub async fn respond(
        &self,
        profile_id: &ProfileId,
        native_request_id: Value,
        response: Value,
        options: MutationOptions,
    ) -> Result<Committed<()>> {
        mutations::respond(&self.0.link, profile_id, native_request_id, response, options).await
    }

    /// The slash commands of a session.
    ///
    /// # Errors
    /// `ECAPABILITY`, without a request, when the profile has no slash commands.
    pub async fn commands(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        options: OperationOptions,
    ) -> Result<CommandCatalog> {
        commands::commands(&self.0.link, profile_id, session_id, &options).await
    }

    /// Runs the slash command `name`. `args` is the text after its name, at most 131,072 bytes, without NUL. Its output
    /// comes by reference where the profile offers that, else in full.
    ///
    /// # Errors
    /// See [`HarnessClient`]; `ECAPABILITY`, `not-started`, when the profile has no slash commands; `ENOENT` with
    /// `HARNESS_COMMAND_UNKNOWN` for a name that is not in the catalog.
    pub async fn command(
        &self,
        profile_id: &ProfileId,
        session_id: &NativeId,
        name: &CommandName,
        args: &str,
        options: impl Into<CommandOptions>,
    ) -> Result<Committed<CommandResult>> {
        let link = (&self.0.link, &self.0.catalogs);
        commands::command(link, profile_id, session_id, name, args, options.into()).await
    }

    /// Asks how a mutation ended. Sends the epoch, the id and the scope of `recovery`, which may come from another process
    /// or from before a restart of the node. Repeats nothing.
    ///
    /// # Errors
    /// An error leaves the outcome as it was, `unknown`: `ENOENT` when the node has no receipt (the mutation may still
    /// arrive), `ECONFLICT` with `HARNESS_EPOCH_CHANGED` when it has no receipts of that epoch any more, or any failure of
    /// the call.
    pub async fn operation(&self, recovery: &Recovery, options: OperationOptions) -> Result<ReceiptView> {
        reads::operation(&self.0.link, recovery, &options).await
    }

    /// One page of the output behind `reference`, checked against it.
    ///
    /// # Errors
    /// `EINVAL` when offset or limit are out of bounds; `ENOENT` or `ECONFLICT` when the node does not have the output any
    /// more; `ECAPABILITY` when the profile keeps no output.
    pub async fn read_command_output(
        &self,
        profile_id: &ProfileId,
        reference: &OutputRef,
        options: OutputReadOptions,
    ) -> Result<OutputPage> {
        output::read_page(&self.0.link, profile_id, reference, options).await
    }

    /// All of the output behind `reference`, verified: every page is checked against the reference, and the whole against
    /// its size and SHA-256. Nothing is handed out before that.
    ///
    /// # Errors
    /// `EINVAL` when `max_bytes` is above 32 MiB; `EFBIG` when there is more than `max_bytes` allow, before anything is
    /// read; `EIO` of operation `protocol` when the pages are not what the reference promises; else as
    /// [`read_command_output`](Self::read_command_output).
    pub async fn load_command_output(
        &self,
        profile_id: &ProfileId,
        reference: &OutputRef,
        options: OutputLoadOptions,
    ) -> Result<Vec<u8>> {
        output::load(&self.0.link, profile_id, reference, options).await
    }

    /// Follows the events of a profile, from now on. All subscriptions to one node under one identity, whoever made them,
    /// share one event stream, of at most 128 profiles; it ends with the last of them (`cells-0.4.md` §2). A failure shows
    /// in [`ready`](Subscription::ready).
    pub fn subscribe(&self, profile_id: &ProfileId) -> Subscription {
        Subscription::new(&self.0.link, topic_key(profile_id), self.0.owner)
    }

    /// What is known of the events of a profile here and now, with those after `cursor`. Never asks the node. Without
    /// `cursor` there are no events, only the current position.
    pub fn event_snapshot(&self, profile_id: &ProfileId, cursor: Option<&EventCursor>) -> EventSnapshot {
        self.0.link.node.events.snapshot(&topic_key(profile_id), cursor)
    }

    /// Ends the subscriptions of this client and its clones. Turns go on, and so do calls that were made.
    pub fn close(&self) {
        let Link { core, node, .. } = &self.0.link;
        node.events.close(core.host.now_ms(), self.0.owner);
    }
}

impl std::fmt::Debug for HarnessClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HarnessClient({})", self.0.link.node.binding.endpoint)
    }
}

fn topic_key(profile_id: &ProfileId) -> TopicKey {
    TopicKey::Harness { profile_id: profile_id.clone(), scope: None }
}
