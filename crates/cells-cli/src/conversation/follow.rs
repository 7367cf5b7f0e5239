//! Follows one turn to its end: shows its events, answers what the agent asks, interrupts it.

mod asks;
mod events;

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use cells_native::cells_driver::{
    CommandResult, Committed, Error, EventCursor, HarnessClient, NativeId, ProfileId, Subscription,
};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value;
use tokio::time::Instant;

use super::dialogue::Dialogue;
use super::request::Request;
use super::terminal::{Hidden, Terminal};
use super::{Conversation, Printer};
use crate::dispatch::Dispatch;
use crate::failure::{Exit, Failure};
use crate::interrupts::Interrupts;
use crate::node::Node;

/// What a turn is followed with.
pub(crate) struct Follow<'a> {
    pub(crate) node: &'a Node,
    pub(crate) harness: &'a HarnessClient,
    pub(crate) profile_id: &'a ProfileId,
    pub(crate) session_id: &'a NativeId,
    /// Approvals are answered so, without asking.
    pub(crate) approve: Option<bool>,
    /// How long a lost node is waited for.
    pub(crate) patience: Duration,
    pub(crate) printer: Printer,
    /// The mutation that starts it.
    pub(crate) dispatch: Dispatch,
}

/// What the receipt says.
pub(crate) struct Started {
    /// The turn; none for a slash command that needs no turn.
    pub(crate) turn_id: Option<NativeId>,
    /// The result of a slash command.
    pub(crate) command: Option<CommandResult>,
}

impl Follow<'_> {
    /// Follows what `started` starts, with the events that `subscription` gives from now on.
    ///
    /// # Errors
    /// When it was not started, failed or was interrupted, or when how it ended cannot be known.
    pub(crate) async fn run(
        &self,
        subscription: Subscription,
        started: impl Future<Output = Result<Started, Failure>>,
        interrupts: &mut Interrupts,
    ) -> Result<Exit, Failure> {
        let before = subscription.snapshot(None);
        let mut state = State {
            with: self,
            conversation: Conversation::new(self.session_id.clone()),
            subscription,
            cursor: before.cursor.clone(),
            start: before.cursor,
            terminal: Terminal::open(),
            foreign_requests: before.requests.into_iter().filter_map(|request| request.id).collect(),
            seen_requests: Vec::new(),
            waiting: VecDeque::new(),
            dialogue: None,
            hidden: None,
            sent: FuturesUnordered::new(),
            interrupt: Interrupt::No,
            by_user: false,
            refusal: None,
            offline_since: None,
            unread_since: None,
            missed: false,
            outcome: None,
            receipt: Receipt::Awaited,
            command: None,
        };
        let mut started = pin!(started);
        loop {
            state.pull().await?;
            state.send_interrupt()?;
            let is_certain = state.receipt == Receipt::Settled || state.conversation.is_proven();
            if state.outcome.is_some() && is_certain {
                return state.finish();
            }
            let tick = state.next_tick();
            tokio::select! {
                result = &mut started, if state.receipt == Receipt::Awaited => state.settle(result)?,
                change = state.subscription.changed() => {
                    if change.is_none() {
                        return Err(Failure::new(Exit::Unknown, "the event stream was closed"));
                    }
                }
                line = next_line(&mut state.terminal), if state.dialogue.is_some() => state.take_line(line.as_deref())?,
                Some(sent) = state.sent.next(), if !state.sent.is_empty() => state.sent(sent)?,
                () = interrupts.first(), if state.interrupt == Interrupt::No => {
                    state.by_user = true;
                    state.want_interrupt();
                    self.printer.notice("interrupting; press Ctrl-C again to leave at once")?;
                }
                () = tokio::time::sleep_until(tick) => {}
            }
        }
    }
}

struct State<'a> {
    with: &'a Follow<'a>,
    conversation: Conversation,
    subscription: Subscription,
    /// Events up to here were shown.
    cursor: Option<EventCursor>,
    /// Where events were when nothing had been sent.
    start: Option<EventCursor>,
    terminal: Option<Terminal>,
    /// Ids of the requests that waited when nothing had been sent.
    foreign_requests: Vec<Value>,
    /// Ids of all requests of the turn so far.
    seen_requests: Vec<Value>,
    /// Requests that the person has not been asked yet.
    waiting: VecDeque<Request>,
    dialogue: Option<Dialogue>,
    hidden: Option<Hidden>,
    /// Answers and interrupts under way.
    sent: FuturesUnordered<BoxFuture<'a, Sent>>,
    interrupt: Interrupt,
    /// The person interrupted it.
    by_user: bool,
    /// Why the turn was interrupted by this program.
    refusal: Option<Failure>,
    offline_since: Option<Instant>,
    /// Since when history is wanted and cannot be read.
    unread_since: Option<Instant>,
    /// Events were missed before it was known which turn it is: its history says what they told.
    missed: bool,
    outcome: Option<Result<(), Failure>>,
    receipt: Receipt,
    /// What an event said of the slash command before its receipt did.
    command: Option<Box<CommandResult>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receipt {
    Awaited,
    Settled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupt {
    No,
    Wanted,
    Sent,
}

/// How an answer or an interrupt went.
struct Sent {
    what: &'static str,
    result: Result<Committed<()>, Error>,
}

impl State<'_> {
    fn next_tick(&self) -> Instant {
        let is_restless = self.offline_since.is_some() || self.unread_since.is_some();
        Instant::now() + if is_restless { RETRY } else { QUIET }
    }

    fn finish(self) -> Result<Exit, Failure> {
        match (self.refusal, self.outcome) {
            (Some(refusal), _) => Err(refusal),
            (None, Some(outcome)) => outcome.map(|()| Exit::Done),
            (None, None) => Ok(Exit::Done),
        }
    }
}

async fn next_line(terminal: &mut Option<Terminal>) -> Option<String> {
    match terminal {
        Some(terminal) => terminal.line().await,
        None => std::future::pending().await,
    }
}

/// How long until the connection is looked at again, or history is read again.
const RETRY: Duration = Duration::from_millis(500);
/// The same while there is nothing to look at.
const QUIET: Duration = Duration::from_secs(3600);
