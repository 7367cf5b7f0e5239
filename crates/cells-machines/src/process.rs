//! One process of a node, from its only start to the proof that it is over (`files-http.md` §6.4, §9.7).

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use cells_protocol::limits::{
    PROCESS_CANCEL_MS, PROCESS_OUTPUT_MAX_BYTES, PROCESS_QUERY_FIRST_MS, PROCESS_QUERY_MAX_MS, PROCESS_RELEASE_MS,
    PROCESS_TOPIC_PATIENCE_MS,
};
use cells_protocol::process::{ProcessOutput, ProcessState, ProcessStatus};

/// One process. It is started at most once, and it ends with a proof, or with the news that there is none. `E` is the
/// caller's error.
///
/// * [`ProcessRun::new`], then [`start`](Self::start_process): the start. Its status is asked for after 100 ms, then at
///   doubling intervals of at most 1 s. With live output, that is asked for instead, and the status at its end. With
///   [`ProcessRun::with_topic`] the process topic tells the end; the status is asked for only while that has been down for
///   5 s, and then every 5 s.
/// * Any failure, and [`start_cancel`](Self::start_cancel), cancels the process by its identity, and waits 5 s for its end.
/// * [`ProcessRun::confirm`]: a process whose end was not proven in an earlier run. It is cancelled again; the wait is 10 s.
///
/// One request is under way at a time. When [`start_cancel`](Self::start_cancel) is called, the caller gives that one up.
///
/// ```
/// use cells_machines::process::{ProcessAction, ProcessAnswer, ProcessEnd, ProcessEvent, ProcessRun};
/// use cells_protocol::process::ProcessStatus;
///
/// let mut run: ProcessRun<&str> = ProcessRun::new(false);
/// run.start_process();
/// assert_eq!(run.poll_action(), Some(ProcessAction::Start));
///
/// run.handle_status(0, ProcessAnswer::Failed("connection reset"));
/// assert_eq!(run.poll_action(), Some(ProcessAction::Cancel));
///
/// let body = br#"{"state":"cancelled","stdout":"","stderr":"","code":null,"error":null,"truncated":false}"#;
/// let status = ProcessStatus::parse(body)?;
/// run.handle_status(10, ProcessAnswer::Status(status.clone()));
/// let end = ProcessEnd::Stopped { cause: "connection reset", status };
/// assert_eq!(run.poll_event(), Some(ProcessEvent::Ended(end)));
/// # Ok::<(), cells_protocol::json::Malformed>(())
/// ```
#[derive(Debug)]
pub struct ProcessRun<E> {
    state: State<E>,
    /// Where the live output goes on; `None` without live output, and when it was read to its end.
    offsets: Option<Offsets>,
    /// The process topic, where that tells the end.
    topic: Option<Topic>,
    actions: VecDeque<ProcessAction>,
    events: VecDeque<ProcessEvent<E>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offsets {
    stdout: u64,
    stderr: u64,
}

/// Where the process topic stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Topic {
    /// It is subscribed to when the process runs.
    Wanted,
    /// Its stream is not there, or not yet.
    Down,
    /// It tells when the process ends.
    Up,
}

/// Something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessAction {
    /// Start the process, in one request, and give the answer to [`ProcessRun::handle_status`]. Occurs at most once.
    Start,
    /// Subscribe to the process topic, and give what it tells to [`ProcessRun::handle_topic`] and
    /// [`ProcessRun::handle_topic_end`]. Occurs at most once.
    Subscribe,
    /// Ask for the status, and give the answer to [`ProcessRun::handle_status`].
    Query,
    /// Ask for live output at these offsets, and give the answer to [`ProcessRun::handle_output`].
    Output {
        /// Offset in the output stream.
        stdout: u64,
        /// Offset in the error stream.
        stderr: u64,
    },
    /// Cancel the process, and give the answer to [`ProcessRun::handle_status`]. It must come within the time of
    /// [`ProcessRun::deadline_ms`].
    Cancel,
}

/// What came of a request for a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessAnswer<E> {
    /// A status.
    Status(ProcessStatus),
    /// The node refused, so that the request had no effect.
    Refused(E),
    /// There is no usable answer; the request may have had its effect.
    Failed(E),
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEvent<E> {
    /// Live output, in the order of each stream; not empty.
    Output {
        /// Which stream.
        stream: OutputStream,
        /// Bytes. They may begin or end inside of a character.
        data: Vec<u8>,
        /// Bytes before these are lost: the node keeps the newest 8 MiB.
        truncated: bool,
    },
    /// The last event.
    Ended(ProcessEnd<E>),
}

/// Which output of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutputStream {
    /// Its output.
    Stdout,
    /// Its error output.
    Stderr,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEnd<E> {
    /// The process is over, and nobody here had a part in it.
    Over(ProcessStatus),
    /// The node refused to start it.
    NotStarted(E),
    /// The process is over, after it was cancelled because of this.
    Stopped {
        /// Why it was cancelled.
        cause: E,
        /// How it ended.
        status: ProcessStatus,
    },
    /// It is not proven that the process is over.
    Unconfirmed {
        /// Why it was cancelled; `None` when the node itself does not know, and when only a confirmation was wanted.
        cause: Option<E>,
        /// Why there is no proof.
        doubt: Doubt<E>,
    },
}

/// Why it is not proven that a process is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt<E> {
    /// The node says that it does not know.
    NodeDoesNotKnow,
    /// It still ran when the time was up.
    StillRunning,
    /// The node gave no usable answer.
    NoAnswer(E),
}

#[derive(Debug)]
enum State<E> {
    Prepared,
    /// The start, a query or a request for output is under way, or waits for its time.
    Watching {
        next: Next,
    },
    Cancelling {
        cause: Option<Cause<E>>,
        deadline_ms: u64,
        next: Next,
    },
    Ended,
}

#[derive(Debug)]
enum Cause<E> {
    /// The caller does not want the process any more.
    Caller(E),
    /// Something went wrong.
    Failure(E),
}

/// What comes next.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// The answer to the start.
    Start,
    /// The answer to another request, which was sent after this wait.
    Answer { wait_ms: u64 },
    /// The next request.
    Ask { at_ms: u64, wait_ms: u64 },
    /// The end, which the topic tells.
    Topic,
}

impl<E> ProcessRun<E> {
    /// A process that is about to be started. `has_live_output`: the start asks for it, and the node has announced it.
    pub fn new(has_live_output: bool) -> Self {
        let offsets = has_live_output.then_some(Offsets { stdout: 0, stderr: 0 });
        Self { state: State::Prepared, offsets, topic: None, actions: VecDeque::new(), events: VecDeque::new() }
    }

    /// A process that is about to be started on a node whose event stream tells its end.
    pub fn with_topic() -> Self {
        Self { topic: Some(Topic::Wanted), ..Self::new(false) }
    }

    /// The process topic is there, or is not any more.
    pub fn handle_topic(&mut self, now_ms: u64, is_online: bool) {
        self.topic = Some(if is_online { Topic::Up } else { Topic::Down });
        if let State::Watching { next } = &mut self.state {
            *next = match *next {
                Next::Ask { .. } if is_online => Next::Topic,
                Next::Topic if !is_online => Next::after_patience(now_ms),
                same => same,
            };
        }
    }

    /// The process topic tells how the process ended.
    pub fn handle_topic_end(&mut self, now_ms: u64, status: ProcessStatus) {
        match &self.state {
            State::Watching { .. } | State::Cancelling { .. } => {
                self.actions.clear();
                self.handle_status(now_ms, ProcessAnswer::Status(status));
            }
            State::Prepared | State::Ended => {}
        }
    }

    /// A process that may still run: cancels it, and waits 10 s for its end.
    pub fn confirm(now_ms: u64) -> Self {
        let mut run = Self::new(false);
        run.cancel(now_ms, None, PROCESS_RELEASE_MS);
        run
    }

    /// Starts the process. Only the first time; later calls of this function do nothing.
    pub fn start_process(&mut self) {
        if matches!(self.state, State::Prepared) {
            self.state = State::Watching { next: Next::Start };
            self.actions.push_back(ProcessAction::Start);
        }
    }

    /// The caller does not want the process any more, because of `cause`. The request that is under way is given up.
    pub fn start_cancel(&mut self, now_ms: u64, cause: E) {
        if matches!(self.state, State::Watching { .. }) {
            self.cancel(now_ms, Some(Cause::Caller(cause)), PROCESS_CANCEL_MS);
        }
    }

    /// When the wait for the end of a cancelled process is over; `None` while the process is not cancelled.
    pub fn deadline_ms(&self) -> Option<u64> {
        match &self.state {
            State::Cancelling { deadline_ms, .. } => Some(*deadline_ms),
            State::Prepared | State::Watching { .. } | State::Ended => None,
        }
    }

    /// The answer to a start, a query or a cancel.
    pub fn handle_status(&mut self, now_ms: u64, answer: ProcessAnswer<E>) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Watching { next } => self.handle_watched(now_ms, next, answer),
            State::Cancelling { cause, deadline_ms, next } => match answer {
                ProcessAnswer::Status(status) => match status.state {
                    ProcessState::Running => {
                        let next = next.after_running(now_ms);
                        self.state = State::Cancelling { cause, deadline_ms, next };
                    }
                    ProcessState::Unknown => self.leave(cause, Doubt::NodeDoesNotKnow),
                    ProcessState::Exited | ProcessState::Cancelled | ProcessState::TimedOut | ProcessState::Failed => {
                        self.stop(cause, status);
                    }
                },
                ProcessAnswer::Refused(error) | ProcessAnswer::Failed(error) => {
                    self.leave(cause, Doubt::NoAnswer(error));
                }
            },
            other @ (State::Prepared | State::Ended) => self.state = other,
        }
    }

    /// The answer to a request for live output, asked for at the offsets of the action.
    pub fn handle_output(&mut self, now_ms: u64, answer: Result<ProcessOutput, E>) {
        if !matches!(self.state, State::Watching { .. }) {
            return;
        }
        let output = match answer {
            Ok(output) => output,
            Err(error) => return self.cancel(now_ms, Some(Cause::Failure(error)), PROCESS_CANCEL_MS),
        };
        let is_full = [&output.stdout, &output.stderr].iter().any(|chunk| chunk.data.len() >= PROCESS_OUTPUT_MAX_BYTES);
        let is_empty = output.stdout.data.is_empty() && output.stderr.data.is_empty();
        let end_of = |chunk: &cells_protocol::process::ProcessOutputChunk| chunk.offset + chunk.data.len() as u64;
        let offsets = Offsets { stdout: end_of(&output.stdout), stderr: end_of(&output.stderr) };
        for (stream, chunk) in [(OutputStream::Stdout, output.stdout), (OutputStream::Stderr, output.stderr)] {
            if !chunk.data.is_empty() {
                let event = ProcessEvent::Output { stream, data: chunk.data, truncated: chunk.truncated };
                self.events.push_back(event);
            }
        }
        let goes_on = output.state == ProcessState::Running || is_full;
        self.offsets = goes_on.then_some(offsets);
        // A node that does not wait is not asked without end.
        let wait_ms = if is_empty && goes_on { PROCESS_QUERY_FIRST_MS } else { 0 };
        self.ask_at(now_ms.saturating_add(wait_ms), PROCESS_QUERY_FIRST_MS);
        self.handle_timeout(now_ms);
    }

    /// When something is to be asked, or the wait for the end of the process is over.
    pub fn poll_timeout(&self) -> Option<u64> {
        match &self.state {
            State::Watching { next } => next.at_ms(),
            State::Cancelling { deadline_ms, next, .. } => next.at_ms().map(|at_ms| at_ms.min(*deadline_ms)),
            State::Prepared | State::Ended => None,
        }
    }

    /// Asks, if it is time.
    pub fn handle_timeout(&mut self, now_ms: u64) {
        if self.deadline_ms().is_some_and(|deadline_ms| deadline_ms <= now_ms) {
            if let State::Cancelling { cause, .. } = std::mem::replace(&mut self.state, State::Ended) {
                self.leave(cause, Doubt::StillRunning);
            }
            return;
        }
        let (next, action) = match (&mut self.state, self.offsets) {
            (State::Watching { next }, Some(Offsets { stdout, stderr })) => {
                (next, ProcessAction::Output { stdout, stderr })
            }
            (State::Watching { next } | State::Cancelling { next, .. }, _) => (next, ProcessAction::Query),
            (State::Prepared | State::Ended, _) => return,
        };
        if let Next::Ask { at_ms, wait_ms } = *next
            && at_ms <= now_ms
        {
            *next = Next::Answer { wait_ms };
            self.actions.push_back(action);
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<ProcessAction> {
        self.actions.pop_front()
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<ProcessEvent<E>> {
        self.events.pop_front()
    }

    fn handle_watched(&mut self, now_ms: u64, next: Next, answer: ProcessAnswer<E>) {
        match answer {
            ProcessAnswer::Status(status) => match status.state {
                ProcessState::Unknown => self.leave(None, Doubt::NodeDoesNotKnow),
                // Its output is still to be read.
                _ if self.offsets.is_some() => {
                    self.ask_at(now_ms, PROCESS_QUERY_FIRST_MS);
                    self.handle_timeout(now_ms);
                }
                ProcessState::Running => {
                    let next = match self.topic {
                        None => next.after_running(now_ms),
                        Some(Topic::Up) => Next::Topic,
                        Some(Topic::Down) => Next::after_patience(now_ms),
                        Some(Topic::Wanted) => {
                            self.topic = Some(Topic::Down);
                            self.actions.push_back(ProcessAction::Subscribe);
                            Next::after_patience(now_ms)
                        }
                    };
                    self.state = State::Watching { next };
                }
                ProcessState::Exited | ProcessState::Cancelled | ProcessState::TimedOut | ProcessState::Failed => {
                    self.end(ProcessEnd::Over(status));
                }
            },
            ProcessAnswer::Refused(error) if matches!(next, Next::Start) => self.end(ProcessEnd::NotStarted(error)),
            ProcessAnswer::Refused(error) | ProcessAnswer::Failed(error) => {
                self.cancel(now_ms, Some(Cause::Failure(error)), PROCESS_CANCEL_MS);
            }
        }
    }

    fn ask_at(&mut self, at_ms: u64, wait_ms: u64) {
        self.state = State::Watching { next: Next::Ask { at_ms, wait_ms } };
    }

    fn cancel(&mut self, now_ms: u64, cause: Option<Cause<E>>, budget_ms: u64) {
        let next = Next::Answer { wait_ms: PROCESS_QUERY_FIRST_MS };
        self.state = State::Cancelling { cause, deadline_ms: now_ms.saturating_add(budget_ms), next };
        self.actions.clear();
        self.actions.push_back(ProcessAction::Cancel);
    }

    /// The process is over, after it was cancelled.
    fn stop(&mut self, cause: Option<Cause<E>>, status: ProcessStatus) {
        let is_complete = status.state == ProcessState::Exited && self.offsets.is_none();
        self.end(match cause {
            // Only an answer was lost, and here it is.
            Some(Cause::Failure(_)) if is_complete => ProcessEnd::Over(status),
            Some(Cause::Failure(cause) | Cause::Caller(cause)) => ProcessEnd::Stopped { cause, status },
            None => ProcessEnd::Over(status),
        });
    }

    fn leave(&mut self, cause: Option<Cause<E>>, doubt: Doubt<E>) {
        let cause = cause.map(|(Cause::Caller(cause) | Cause::Failure(cause))| cause);
        self.end(ProcessEnd::Unconfirmed { cause, doubt });
    }

    fn end(&mut self, end: ProcessEnd<E>) {
        self.state = State::Ended;
        self.events.push_back(ProcessEvent::Ended(end));
    }
}

impl Next {
    fn at_ms(self) -> Option<u64> {
        match self {
            Self::Ask { at_ms, .. } => Some(at_ms),
            Self::Start | Self::Answer { .. } | Self::Topic => None,
        }
    }

    /// The next query while the topic is down.
    fn after_patience(now_ms: u64) -> Self {
        let wait_ms = PROCESS_TOPIC_PATIENCE_MS;
        Self::Ask { at_ms: now_ms.saturating_add(wait_ms), wait_ms }
    }

    /// The next query, after an answer that says that the process runs.
    fn after_running(self, now_ms: u64) -> Self {
        let wait_ms = match self {
            Self::Start | Self::Topic => PROCESS_QUERY_FIRST_MS,
            Self::Answer { wait_ms } | Self::Ask { wait_ms, .. } => wait_ms,
        };
        Self::Ask { at_ms: now_ms.saturating_add(wait_ms), wait_ms: (wait_ms * 2).min(PROCESS_QUERY_MAX_MS) }
    }
}
