//! What the agent asks, what it is answered, and how it is interrupted.

use cells_native::cells_driver::{ErrorKind, MutationOptions, NativeId, NativeMessage, Outcome};
use serde_json::Value;

use super::{Interrupt, Sent, State};
use crate::conversation::dialogue::{Decision, Dialogue, Step};
use crate::conversation::request::{Kind, Request};
use crate::conversation::terminal::Terminal;
use crate::failure::{Exit, Failure};

impl State<'_> {
    /// Does not ask any longer what is not in the complete set of what agents of the profile ask.
    pub(super) fn withdraw(&mut self, requests: &[NativeMessage]) -> Result<(), Failure> {
        let is_open = |request: &Request| requests.iter().any(|message| message.id.as_ref() == Some(&request.id));
        let asked = self.dialogue.as_ref().map(Dialogue::request);
        let gone: Vec<Value> =
            self.waiting.iter().chain(asked).filter(|one| !is_open(one)).map(|one| one.id.clone()).collect();
        // What comes back is asked again.
        self.seen_requests.retain(|id| !gone.contains(id));
        self.waiting.retain(is_open);
        if asked.is_none_or(is_open) {
            return Ok(());
        }
        self.end_dialogue();
        match self.interrupt {
            Interrupt::No => self.with.printer.notice("it was answered elsewhere, or is not asked any longer"),
            Interrupt::Wanted | Interrupt::Sent => Ok(()),
        }
    }

    /// Asks what is new in that set and belongs to the turn.
    pub(super) fn offer(&mut self, requests: &[NativeMessage]) -> Result<(), Failure> {
        if self.outcome.is_some() {
            return Ok(());
        }
        let own: Vec<&NativeMessage> = requests
            .iter()
            .filter(|message| message.id.as_ref().is_some_and(|id| !self.foreign_requests.contains(id)))
            .filter(|message| self.conversation.takes_request(message))
            .collect();
        for message in own {
            let note = |item_id: &str| self.conversation.note_of(item_id).map(str::to_owned);
            let Some(request) = Request::of(message, note) else { continue };
            if !self.seen_requests.contains(&request.id) {
                self.seen_requests.push(request.id.clone());
                self.with.printer.asked(message)?;
                self.consider(request)?;
            }
        }
        self.start_dialogue()
    }

    fn consider(&mut self, request: Request) -> Result<(), Failure> {
        match (&request.kind, self.with.approve) {
            (Kind::Approval { .. }, Some(allow)) => {
                let (answer, decision) = if allow { ("yes", Decision::Accept) } else { ("no", Decision::Decline) };
                self.with.printer.notice(&format!("{}; answered {answer} by --approve", request.title()))?;
                self.respond(request.id, decision.response())
            }
            (Kind::Approval { .. } | Kind::Questions(_), _) if self.terminal.is_some() => {
                self.waiting.push_back(request);
                Ok(())
            }
            (Kind::Other { .. }, _) if self.terminal.is_some() => self.with.printer.notice(&request.title()),
            (Kind::Approval { .. }, None) => {
                self.refuse(&request, "; use --approve yes or --approve no");
                self.respond(request.id, Decision::Cancel.response())
            }
            (Kind::Questions(_) | Kind::Other { .. }, _) => {
                self.refuse(&request, "");
                self.want_interrupt();
                Ok(())
            }
        }
    }

    /// Nobody can be asked: the turn must not wait for ever.
    fn refuse(&mut self, request: &Request, advice: &str) {
        let message =
            format!("{}; there is no terminal to ask on, so the turn was interrupted{advice}", request.title());
        self.refusal.get_or_insert(Failure::new(Exit::Failed, message));
    }

    fn start_dialogue(&mut self) -> Result<(), Failure> {
        if self.dialogue.is_some() {
            return Ok(());
        }
        let (Some(request), Some(terminal)) = (self.waiting.pop_front(), &mut self.terminal) else { return Ok(()) };
        terminal.discard();
        let dialogue = Dialogue::new(request);
        self.with.printer.prompt(&dialogue.introduction())?;
        self.prompt(dialogue)
    }

    fn prompt(&mut self, dialogue: Dialogue) -> Result<(), Failure> {
        self.with.printer.prompt(&dialogue.prompt())?;
        self.hidden = self.terminal.as_ref().filter(|_| dialogue.is_secret()).and_then(Terminal::hide);
        self.dialogue = Some(dialogue);
        Ok(())
    }

    fn end_dialogue(&mut self) -> Option<Dialogue> {
        self.hidden = None;
        self.dialogue.take()
    }

    pub(super) fn take_line(&mut self, line: Option<&str>) -> Result<(), Failure> {
        self.with.printer.typed(line.is_none() || self.hidden.is_some())?;
        let Some(mut dialogue) = self.end_dialogue() else { return Ok(()) };
        match dialogue.handle_line(line) {
            Step::Ask => self.prompt(dialogue),
            Step::Answer(response) => {
                self.respond(dialogue.request().id.clone(), response)?;
                self.start_dialogue()
            }
            Step::Cancel => {
                self.by_user = true;
                match &dialogue.request().kind {
                    Kind::Approval { .. } => self.respond(dialogue.request().id.clone(), Decision::Cancel.response()),
                    Kind::Questions(_) | Kind::Other { .. } => {
                        self.want_interrupt();
                        Ok(())
                    }
                }
            }
        }
    }

    fn respond(&mut self, id: Value, response: Value) -> Result<(), Failure> {
        self.with.printer.answered(&id, &response)?;
        let (harness, profile_id, options) = (self.with.harness, self.with.profile_id, self.options());
        self.sent.push(Box::pin(async move {
            Sent { what: "the answer", result: harness.respond(profile_id, id, response, options).await }
        }));
        Ok(())
    }

    pub(super) fn want_interrupt(&mut self) {
        if self.interrupt == Interrupt::No {
            self.interrupt = Interrupt::Wanted;
        }
    }

    pub(super) fn send_interrupt(&mut self) -> Result<(), Failure> {
        let turn_id = self.conversation.turn_id().and_then(|turn_id| NativeId::new(turn_id).ok());
        let Some(turn_id) = turn_id.filter(|_| self.interrupt == Interrupt::Wanted && self.outcome.is_none()) else {
            return Ok(());
        };
        self.interrupt = Interrupt::Sent;
        let (harness, profile_id, session_id) = (self.with.harness, self.with.profile_id, self.with.session_id);
        let options = self.options();
        self.sent.push(Box::pin(async move {
            let result = harness.interrupt(profile_id, session_id, &turn_id, options).await;
            Sent { what: "the interrupt", result }
        }));
        Ok(())
    }

    /// Takes how an answer or an interrupt went. One that comes too late is no failure.
    pub(super) fn sent(&mut self, sent: Sent) -> Result<(), Failure> {
        let Err(error) = sent.result else { return Ok(()) };
        let is_late = self.outcome.is_some()
            || error.kind() == ErrorKind::NotFound
            || error.remote_code() == Some("HARNESS_TURN_NOT_ACTIVE");
        match (is_late, error.outcome(), error.recovery()) {
            (true, _, _) => Ok(()),
            (false, Some(Outcome::Unknown), Some(recovery)) => {
                let command = self.with.node.receipt_command(recovery);
                self.with.printer.notice(&format!("{} may not have arrived: {error}; ask with: {command}", sent.what))
            }
            (false, _, _) => Err(Failure::from(error).about(sent.what)),
        }
    }

    fn options(&self) -> MutationOptions {
        MutationOptions { operation: self.with.node.options(), on_dispatch: None }
    }
}
