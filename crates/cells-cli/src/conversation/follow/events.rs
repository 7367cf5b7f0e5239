//! What happens to the turn: events, gaps, the receipt, the connection.

use cells_native::cells_driver::{
    CommandResult, CommandState, Error, ErrorKind, EventCursor, EventSnapshot, HistoryOptions, HistoryPage, TopicState,
};
use serde_json::Value;
use tokio::time::Instant;

use super::{Receipt, Started, State};
use crate::conversation::{Shown, TurnEnd, text};
use crate::failure::{Exit, Failure};

impl State<'_> {
    /// Shows what happened since the last time.
    pub(super) async fn pull(&mut self) -> Result<(), Failure> {
        if let Some(recovery) = self.with.dispatch.get() {
            self.conversation.dispatched(recovery.request_id);
        }
        loop {
            let snapshot = self.subscription.snapshot(self.cursor.as_ref());
            self.observe(&snapshot)?;
            self.withdraw(&snapshot.requests)?;
            let is_told = !self.missed || self.conversation.turn_id().is_none();
            if !snapshot.gap && is_told {
                for event in &snapshot.events {
                    let shown = self.conversation.handle_event(&event.message);
                    self.show(shown)?;
                }
                self.cursor = snapshot.cursor.or(self.cursor.take());
                return self.offer(&snapshot.requests);
            }
            if !self.catch_up(snapshot.cursor).await? {
                return Ok(());
            }
        }
    }

    /// Watches the connection.
    fn observe(&mut self, snapshot: &EventSnapshot) -> Result<(), Failure> {
        match snapshot.state {
            TopicState::Online => {
                if self.offline_since.take().is_some() {
                    self.with.printer.notice("connected again")?;
                }
                Ok(())
            }
            TopicState::Failed => {
                let error = snapshot.error.clone();
                Err(error.map_or_else(|| Failure::new(Exit::Failed, "the node refused the events"), Failure::from))
            }
            TopicState::Connecting | TopicState::Offline | TopicState::Closed => match self.offline_since {
                Some(since) if since.elapsed() >= self.with.patience => Err(self.lost()),
                Some(_) => Ok(()),
                None => {
                    self.offline_since = Some(Instant::now());
                    self.with.printer.notice("the connection to the node is lost; trying again")
                }
            },
        }
    }

    /// Takes what was missed from the history. False if the node cannot be asked now.
    async fn catch_up(&mut self, newest: Option<EventCursor>) -> Result<bool, Failure> {
        match self.history().await {
            Ok((items, page)) => {
                let shown = self.conversation.handle_history(&items, &page);
                self.unread_since = None;
                self.missed = self.conversation.turn_id().is_none();
                self.cursor = page.event_cursor.or(newest);
                self.show(shown)?;
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::TimedOut | ErrorKind::Busy) => {
                let since = *self.unread_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= self.with.patience { Err(self.lost()) } else { Ok(false) }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The items of the turn, in order, and the newest page of the history.
    async fn history(&self) -> Result<(Vec<Value>, HistoryPage), Error> {
        let mut newest: Option<HistoryPage> = None;
        let mut items: Vec<Value> = Vec::new();
        let mut cursor = None;
        for _ in 0..HISTORY_PAGES_MAX {
            let options = HistoryOptions { cursor, operation: self.with.node.options() };
            let page = self.with.harness.read(self.with.profile_id, self.with.session_id, options).await?;
            let mut on_page: Vec<Value> = page.turns.iter().flat_map(|turn| turn.items.iter().cloned()).collect();
            let reaches_start = on_page.iter().any(|item| {
                text(item, "type") == Some("userMessage") && text(item, "turnId") == self.conversation.turn_id()
            });
            on_page.append(&mut items);
            items = on_page;
            cursor = page.next_cursor.clone();
            newest.get_or_insert(page);
            if reaches_start || cursor.is_none() || self.conversation.turn_id().is_none() {
                break;
            }
        }
        match newest {
            Some(page) => Ok((items, page)),
            None => Err(Error::new(ErrorKind::Io, "harness_session_read", "no page was read")),
        }
    }

    fn show(&mut self, shown: Vec<Shown>) -> Result<(), Failure> {
        for shown in shown {
            if self.outcome.is_some() {
                return Ok(());
            }
            if let (Receipt::Awaited, Shown::Command(result)) = (self.receipt, &shown) {
                // The receipt says more than the event, and names the output.
                self.command = Some(result.clone());
                continue;
            }
            self.with.printer.show(&shown)?;
            match shown {
                Shown::Ended(end) => self.outcome = Some(self.judge(end)),
                Shown::Command(result) => self.outcome = Some(self.judge_command(&result)),
                Shown::Text { .. } | Shown::Message { .. } | Shown::Item { .. } => {}
            }
        }
        Ok(())
    }

    fn judge(&mut self, end: TurnEnd) -> Result<(), Failure> {
        let failed = |message: String| Err(Failure::new(Exit::Failed, message));
        match end {
            TurnEnd::Completed => Ok(()),
            TurnEnd::Failed(message) => failed(format!("the turn failed: {message}")),
            TurnEnd::Cancelled if self.by_user => Err(Failure::Interrupted),
            TurnEnd::Cancelled => failed("the turn was interrupted".to_owned()),
            TurnEnd::AgentDied => failed("the process of the agent has ended, and the turn with it".to_owned()),
            TurnEnd::Untold => Err(Failure::new(Exit::Unknown, "the turn has ended, and the node does not say how")),
        }
    }

    fn judge_command(&self, result: &CommandResult) -> Result<(), Failure> {
        let whole = match (&result.output_ref, &result.output_error) {
            (Some(reference), _) if result.truncated == Some(true) => {
                let command = self.with.node.output_command(reference, self.with.profile_id);
                Some(format!("this is the beginning of {} bytes; get all with: {command}", reference.bytes))
            }
            (_, Some(code)) => {
                Some(format!("this is the beginning of the output; the node did not keep the rest: {code}"))
            }
            (Some(_) | None, None) => None,
        };
        if let Some(notice) = whole {
            self.with.printer.notice(&notice)?;
        }
        if result.state != CommandState::Failed {
            return Ok(());
        }
        let code = result.error.as_ref().map_or("the node gives no code", |error| error.code.as_str());
        Err(Failure::new(Exit::Failed, format!("the command {} failed: {code}", result.name)))
    }

    /// Takes what the receipt says.
    pub(super) fn settle(&mut self, result: Result<Started, Failure>) -> Result<(), Failure> {
        self.receipt = Receipt::Settled;
        let started = match result {
            Ok(started) => started,
            Err(failure)
                if failure.exit() == Exit::Unknown && (self.conversation.is_proven() || self.command.is_some()) =>
            {
                // The events prove that it happened.
                Started { turn_id: None, command: None }
            }
            Err(failure) => return Err(failure),
        };
        if let Some(turn_id) = &started.turn_id {
            if self.conversation.prove(turn_id) {
                self.cursor = self.start.clone();
                self.outcome = None;
            }
            return Ok(());
        }
        let ended = started.command.filter(|result| result.state != CommandState::Running).map(Box::new);
        match ended.or(self.command.take()) {
            Some(result) => self.show(vec![Shown::Command(result)]),
            None => Ok(()),
        }
    }

    /// The node is gone for too long.
    fn lost(&self) -> Failure {
        let seconds = self.with.patience.as_secs();
        let message = format!("the node did not answer for {seconds} s; how the turn ends is not known");
        let failure = Failure::new(Exit::Unknown, message);
        match self.with.dispatch.get() {
            Some(recovery) => failure.with_ask(self.with.node.receipt_command(&recovery)),
            None => failure,
        }
    }
}

/// Pages that are read at most to find the start of a turn.
const HISTORY_PAGES_MAX: usize = 100;
