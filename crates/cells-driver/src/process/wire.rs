//! The requests of one process.

use std::future::pending;
use std::pin::pin;

use bytes::Bytes;
use cells_machines::event_hub::TopicKey;
use cells_machines::process::{ProcessAction, ProcessAnswer, ProcessEnd, ProcessEvent, ProcessRun};
use cells_protocol::error::Outcome;
use cells_protocol::ids::RequestId;
use cells_protocol::limits::JSON_REPLY_MAX_BYTES;
use cells_protocol::process::{ProcessOutput, ProcessStatus};
use futures::future::select;

use super::{EXEC, Session};
use crate::budget::Budget;
use crate::cancellation::OperationOptions;
use crate::discovery::parsed;
use crate::error::{Error, Result};
use crate::events::{Subscription, TopicNews};
use crate::host::{HttpRequest, HttpResponse};
use crate::transport::{Call, JSON, is_success, read_all, was_not_sent};

/// One process at the node.
pub(super) struct Process<'a> {
    pub(super) session: &'a Session,
    /// Address of the processes.
    pub(super) url: String,
    pub(super) id: RequestId,
    /// The start, until it is sent.
    pub(super) start: Option<HttpRequest>,
    /// The process topic, once it is wanted.
    pub(super) topic: Option<Subscription>,
}

impl Process<'_> {
    /// Does what `run` wants until it ends. `budget` holds until the process is cancelled. What it writes goes to
    /// `on_output`.
    pub(super) async fn drive(
        &mut self,
        run: &mut ProcessRun<Error>,
        budget: &Budget,
        on_output: &mut (impl FnMut(ProcessEvent<Error>) + ?Sized),
    ) -> ProcessEnd<Error> {
        let core = &self.session.link.core;
        let mut closing: Option<Budget> = None;
        loop {
            while let Some(event) = run.poll_event() {
                match event {
                    ProcessEvent::Ended(end) => return end,
                    output @ ProcessEvent::Output { .. } => on_output(output),
                }
            }
            let now_ms = core.host.now_ms();
            let budget = match run.deadline_ms() {
                None => budget,
                Some(deadline_ms) => closing.get_or_insert_with(|| {
                    let timeout_ms = Some(deadline_ms.saturating_sub(now_ms));
                    core.budget(&OperationOptions { timeout_ms, cancel: None })
                }),
            };
            let step = self.step(run, budget, now_ms).await;
            let now_ms = core.host.now_ms();
            match (step, run.deadline_ms()) {
                (Ok(Step::Status(answer)), _) => run.handle_status(now_ms, answer),
                (Ok(Step::Output(answer)), _) => run.handle_output(now_ms, answer),
                (Ok(Step::Topic(news)), _) => match news {
                    TopicNews::Ended(status) => run.handle_topic_end(now_ms, status),
                    TopicNews::Online => run.handle_topic(now_ms, true),
                    TopicNews::Down => run.handle_topic(now_ms, false),
                },
                // A timer may be early by less than the clock shows.
                (Ok(Step::Waited(at_ms)), _) => run.handle_timeout(now_ms.max(at_ms)),
                (Err(error), None) => run.start_cancel(now_ms, error),
                (Err(_), Some(deadline_ms)) => run.handle_timeout(now_ms.max(deadline_ms)),
            }
        }
    }

    /// The next request, or the wait for its time. An error is the end of the budget.
    async fn step(&mut self, run: &mut ProcessRun<Error>, budget: &Budget, now_ms: u64) -> Result<Step> {
        let host = &self.session.link.core.host;
        let Some(action) = run.poll_action() else {
            // A run that wants nothing waits for its time, or for its topic.
            let at_ms = run.poll_timeout();
            let time = async {
                match at_ms {
                    Some(at_ms) => {
                        host.sleep(at_ms.saturating_sub(now_ms)).await;
                        Step::Waited(at_ms)
                    }
                    None => pending().await,
                }
            };
            let topic = &mut self.topic;
            let news = async {
                let Some(subscription) = topic else { return pending().await };
                let has_ended = subscription.changed().await.is_none();
                let news = subscription.process_news();
                if has_ended {
                    *topic = None;
                }
                Step::Topic(news)
            };
            let step = async { Ok(select(pin!(time), pin!(news)).await.factor_first().0) };
            return budget.run(EXEC, step).await;
        };
        budget.run(EXEC, async { Ok(self.perform(action, budget).await) }).await
    }

    async fn perform(&mut self, action: ProcessAction, budget: &Budget) -> Step {
        let address = format!("{}/{}/{}", self.url, self.session.spec.epoch, self.id);
        match action {
            ProcessAction::Start => Step::Status(self.send_start().await),
            ProcessAction::Subscribe => {
                let (epoch, request_id) = (self.session.spec.epoch.clone(), self.id.as_str().to_owned());
                let link = &self.session.link;
                let key = TopicKey::Process { epoch, request_id };
                let subscription = Subscription::new(link, key, link.node.events.new_owner());
                let news = subscription.process_news();
                self.topic = Some(subscription);
                Step::Topic(news)
            }
            ProcessAction::Query => Step::Status(answer(self.ask(Call::get(EXEC, address), budget).await)),
            ProcessAction::Cancel => {
                let call = Call::post(EXEC, format!("{address}/cancel"), JSON, Vec::new());
                Step::Status(answer(self.ask(call, budget).await))
            }
            ProcessAction::Output { stdout, stderr } => {
                let call = Call::get(EXEC, format!("{address}/output?stdout={stdout}&stderr={stderr}"));
                let reply = self.ask(call, budget).await;
                Step::Output(reply.and_then(|reply| parsed(EXEC, ProcessOutput::parse(&reply, stdout, stderr))))
            }
        }
    }

    async fn ask(&mut self, call: Call, budget: &Budget) -> Result<Bytes> {
        self.session.link.check_open(EXEC)?;
        self.session.link.fetch(&call, JSON_REPLY_MAX_BYTES, budget).await
    }

    /// Sends the start, once.
    async fn send_start(&mut self) -> ProcessAnswer<Error> {
        let link = &self.session.link;
        let Some(request) = self.start.take() else {
            return ProcessAnswer::Failed(Error::invalid(EXEC, "a process is started once"));
        };
        match link.send(EXEC, request).await {
            Ok(response) if is_success(response.status) => answer(read_all(EXEC, response, JSON_REPLY_MAX_BYTES).await),
            Ok(response) => {
                let is_refusal = is_refusal(&response);
                let error = link.failure(EXEC, response).await;
                if is_refusal {
                    ProcessAnswer::Refused(error.with_outcome(Outcome::NotCommitted))
                } else {
                    ProcessAnswer::Failed(error)
                }
            }
            Err(error) if was_not_sent(&error) => ProcessAnswer::Refused(error.with_outcome(Outcome::NotStarted)),
            Err(error) => ProcessAnswer::Failed(error),
        }
    }
}

enum Step {
    Status(ProcessAnswer<Error>),
    Output(Result<ProcessOutput>),
    Topic(TopicNews),
    Waited(u64),
}

fn answer(reply: Result<Bytes>) -> ProcessAnswer<Error> {
    match reply.and_then(|reply| parsed(EXEC, ProcessStatus::parse(&reply))) {
        Ok(status) => ProcessAnswer::Status(status),
        Err(error) => ProcessAnswer::Failed(error),
    }
}

/// Whether a failing answer proves that the process was not started. A proxy that gives up on a node answers 408 or 5xx.
fn is_refusal(response: &HttpResponse) -> bool {
    matches!(response.status, 400..=407 | 409..=499)
}
