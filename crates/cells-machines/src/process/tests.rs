use cells_protocol::process::ProcessOutputChunk;
use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use OutputStream::Stderr;
use ProcessState::{Cancelled, Exited, Running, Unknown};

enum Step {
    Status(ProcessState),
    Refused(&'static str),
    Failed(&'static str),
    Output(ProcessState, &'static str, &'static str),
    OutputFailed(&'static str),
    Cancel(&'static str),
    Time(u64),
    Topic(bool),
    TopicEnd(ProcessState),
}
use Step::{Cancel, Failed, Output, OutputFailed, Refused, Status, Time, Topic, TopicEnd};

fn status(state: ProcessState) -> ProcessStatus {
    let (stdout, stderr) = (String::new(), String::new());
    ProcessStatus { state, stdout, stderr, code: None, error: None, truncated: false }
}

fn output(state: ProcessState, at: [u64; 2], stdout: &[u8], stderr: &[u8]) -> ProcessOutput {
    let chunk = |offset, data: &[u8]| ProcessOutputChunk { offset, data: data.to_vec(), truncated: false };
    ProcessOutput { stdout: chunk(at[0], stdout), stderr: chunk(at[1], stderr), state }
}

/// Runs the steps and writes down what comes out of each.
fn trace(mut run: ProcessRun<&str>, steps: &[Step]) -> String {
    let (mut now_ms, mut at) = (0, [0, 0]);
    let mut lines = Vec::new();
    run.start_process();
    write_down(&mut run, &mut at, &mut lines);
    for step in steps {
        match step {
            Status(state) => run.handle_status(now_ms, ProcessAnswer::Status(status(*state))),
            Refused(error) => run.handle_status(now_ms, ProcessAnswer::Refused(error)),
            Failed(error) => run.handle_status(now_ms, ProcessAnswer::Failed(error)),
            Output(state, out, err) => {
                run.handle_output(now_ms, Ok(output(*state, at, out.as_bytes(), err.as_bytes())));
            }
            OutputFailed(error) => run.handle_output(now_ms, Err(error)),
            Cancel(cause) => run.start_cancel(now_ms, cause),
            Topic(is_online) => run.handle_topic(now_ms, *is_online),
            TopicEnd(state) => run.handle_topic_end(now_ms, status(*state)),
            Time(time_ms) => {
                now_ms = *time_ms;
                run.handle_timeout(now_ms);
            }
        }
        write_down(&mut run, &mut at, &mut lines);
    }
    lines.join("\n")
}

fn write_down(run: &mut ProcessRun<&str>, at: &mut [u64; 2], lines: &mut Vec<String>) {
    while let Some(action) = run.poll_action() {
        if let ProcessAction::Output { stdout, stderr } = action {
            *at = [stdout, stderr];
        }
        lines.push(format!("{action:?}"));
    }
    while let Some(event) = run.poll_event() {
        lines.push(match event {
            ProcessEvent::Output { stream, data, .. } => format!("{stream:?}: {}", String::from_utf8_lossy(&data)),
            ProcessEvent::Ended(ProcessEnd::Over(status)) => format!("over: {:?}", status.state),
            ProcessEvent::Ended(ProcessEnd::Stopped { cause, status }) => {
                format!("stopped because of {cause}: {:?}", status.state)
            }
            ProcessEvent::Ended(end) => format!("{end:?}"),
        });
    }
    if let Some(at_ms) = run.poll_timeout() {
        lines.push(format!("  at {at_ms}"));
    }
}

#[test]
fn the_status_is_asked_for_at_growing_intervals() {
    assert_snapshot!(trace(ProcessRun::new(false), &[
        Status(Running),
        Time(99),
        Time(100),
        Status(Running),
        Time(300),
        Status(Running),
        Time(700),
        Status(Running),
        Time(1_500),
        Status(Running),
        Time(2_500),
        Status(Exited),
        Status(Unknown),
    ]), @"
    Start
      at 100
      at 100
    Query
      at 300
    Query
      at 700
    Query
      at 1500
    Query
      at 2500
    Query
    over: Exited
    ");
}

#[test]
fn a_topic_tells_the_end_without_queries() {
    assert_snapshot!(trace(ProcessRun::with_topic(), &[
        Status(Running),
        Time(100),
        Topic(true),
        Time(60_000),
        TopicEnd(Exited),
        Topic(false),
        TopicEnd(Exited),
    ]), @"
    Start
    Subscribe
      at 5000
      at 5000
    over: Exited
    ");
}

#[test]
fn a_topic_that_is_down_for_long_is_replaced_by_queries() {
    assert_snapshot!(trace(ProcessRun::with_topic(), &[
        Status(Running),
        Time(4_999),
        Time(5_000),
        Status(Running),
        Topic(true),
        Time(20_000),
        Topic(false),
        Time(24_999),
        Time(25_000),
        Topic(true),
        Status(Running),
        Time(60_000),
        Topic(false),
        Time(65_000),
        Status(Exited),
    ]), @"
    Start
    Subscribe
      at 5000
      at 5000
    Query
      at 10000
      at 25000
      at 25000
    Query
      at 65000
    Query
    over: Exited
    ");
}

#[test]
fn a_process_that_ends_at_once_needs_no_topic_and_a_cancelled_one_may_end_by_it() {
    assert_snapshot!(trace(ProcessRun::with_topic(), &[Status(Exited)]), @"
    Start
    over: Exited
    ");
    assert_snapshot!(trace(ProcessRun::with_topic(), &[
        Status(Running),
        Topic(true),
        Cancel("enough"),
        Status(Running),
        TopicEnd(Cancelled),
    ]), @"
    Start
    Subscribe
      at 5000
    Cancel
      at 100
    stopped because of enough: Cancelled
    ");
}

#[test]
fn a_refused_start_is_not_cancelled() {
    assert_snapshot!(trace(ProcessRun::new(false), &[Refused("busy"), Cancel("late"), Time(9_999)]), @r#"
    Start
    NotStarted("busy")
    "#);
}

#[test]
fn a_lost_answer_cancels_and_an_answer_that_says_exited_is_the_result() {
    assert_snapshot!(trace(ProcessRun::new(false), &[Failed("reset"), Status(Exited)]), @"
    Start
    Cancel
    over: Exited
    ");
    assert_snapshot!(trace(ProcessRun::new(false), &[Failed("reset"), Status(Cancelled)]), @"
    Start
    Cancel
    stopped because of reset: Cancelled
    ");
    assert_snapshot!(trace(ProcessRun::new(false), &[Status(Running), Time(100), Refused("gone"), Status(Cancelled)]), @"
    Start
      at 100
    Query
    Cancel
    stopped because of gone: Cancelled
    ");
}

#[test]
fn a_caller_that_cancels_is_told_when_the_process_is_over() {
    assert_snapshot!(trace(ProcessRun::new(false), &[
        Status(Running),
        Cancel("cancelled"),
        Cancel("again"),
        Status(Running),
        Time(100),
        Status(Running),
        Time(300),
        Status(Exited),
    ]), @"
    Start
      at 100
    Cancel
      at 100
    Query
      at 300
    Query
    stopped because of cancelled: Exited
    ");
}

#[test]
fn without_proof_the_end_is_unconfirmed() {
    assert_snapshot!(trace(ProcessRun::new(false), &[Failed("reset"), Failed("refused")]), @r#"
    Start
    Cancel
    Unconfirmed { cause: Some("reset"), doubt: NoAnswer("refused") }
    "#);
    assert_snapshot!(trace(ProcessRun::new(false), &[Status(Running), Time(100), Status(Unknown)]), @"
    Start
      at 100
    Query
    Unconfirmed { cause: None, doubt: NodeDoesNotKnow }
    ");
    assert_snapshot!(trace(ProcessRun::new(false), &[Cancel("timeout"), Status(Running), Time(100), Status(Running), Time(5_000)]), @r#"
    Start
    Cancel
      at 100
    Query
      at 300
    Unconfirmed { cause: Some("timeout"), doubt: StillRunning }
    "#);
}

#[test]
fn a_confirmation_cancels_and_waits_ten_seconds() {
    assert_snapshot!(trace(ProcessRun::confirm(0), &[Status(Running), Time(100), Status(Cancelled)]), @"
    Cancel
      at 100
    Query
    over: Cancelled
    ");
    assert_snapshot!(trace(ProcessRun::confirm(0), &[Status(Running), Time(9_999), Status(Running), Time(10_000)]), @"
    Cancel
      at 100
    Query
      at 10000
    Unconfirmed { cause: None, doubt: StillRunning }
    ");
}

#[test]
fn live_output_is_read_to_its_end_and_then_the_status() {
    assert_snapshot!(trace(ProcessRun::new(true), &[
        Status(Running),
        Output(Running, "one", ""),
        Output(Running, "", ""),
        Time(100),
        Output(Running, "two", "err"),
        Output(Exited, "three", ""),
        Status(Exited),
    ]), @"
    Start
    Output { stdout: 0, stderr: 0 }
    Output { stdout: 3, stderr: 0 }
    Stdout: one
      at 100
    Output { stdout: 3, stderr: 0 }
    Output { stdout: 6, stderr: 3 }
    Stdout: two
    Stderr: err
    Query
    Stdout: three
    over: Exited
    ");
}

#[test]
fn live_output_that_fails_cancels_the_process() {
    assert_snapshot!(trace(ProcessRun::new(true), &[Status(Running), OutputFailed("reset"), Status(Exited)]), @"
    Start
    Output { stdout: 0, stderr: 0 }
    Cancel
    stopped because of reset: Exited
    ");
}

#[test]
fn a_full_chunk_after_the_end_is_not_the_last_one() {
    let mut run: ProcessRun<&str> = ProcessRun::new(true);
    run.start_process();
    run.handle_status(0, ProcessAnswer::Status(status(Exited)));
    run.handle_output(0, Ok(output(Exited, [0, 0], &vec![b'x'; PROCESS_OUTPUT_MAX_BYTES], b"e")));
    let actions: Vec<_> = std::iter::from_fn(|| run.poll_action()).collect();
    let next = ProcessAction::Output { stdout: PROCESS_OUTPUT_MAX_BYTES as u64, stderr: 1 };
    assert_eq!(actions, [ProcessAction::Start, ProcessAction::Output { stdout: 0, stderr: 0 }, next]);
    run.handle_output(0, Ok(output(Exited, [65_536, 1], b"", b"")));
    assert_eq!(run.poll_action(), Some(ProcessAction::Query));
}

/// A node with one process, whose answers may get lost.
struct Node {
    state: Option<ProcessState>,
    n_starts: u32,
    ends_at_ms: u64,
    written: [Vec<u8>; 2],
}

impl Node {
    fn tick(&mut self, now_ms: u64) {
        if self.state == Some(Running) && now_ms >= self.ends_at_ms {
            self.state = Some(Exited);
        }
        if self.state == Some(Running) {
            self.written[0].push(b'o');
            self.written[1].push(b'e');
        }
    }

    fn perform(&mut self, action: ProcessAction) -> Option<ProcessState> {
        match action {
            ProcessAction::Start => {
                self.n_starts += 1;
                self.state.get_or_insert(Running);
            }
            ProcessAction::Cancel => match self.state {
                None | Some(Running) => self.state = Some(Cancelled),
                Some(_) => {}
            },
            ProcessAction::Query | ProcessAction::Output { .. } | ProcessAction::Subscribe => {}
        }
        self.state
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Refuse,
    LoseRequest,
    LoseAnswer,
    Cancel,
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        8 => Just(Fault::None),
        1 => Just(Fault::Refuse),
        1 => Just(Fault::LoseRequest),
        1 => Just(Fault::LoseAnswer),
        1 => Just(Fault::Cancel),
    ]
}

proptest! {
    #[test]
    fn a_process_starts_once_and_is_over_only_when_the_node_says_so(
        faults in prop::collection::vec(fault(), 30),
        watch in 0..3_u8,
        ends_at_ms in 0..4_000_u64,
    ) {
        let has_live_output = watch == 1;
        let mut run: ProcessRun<&str> =
            if watch == 2 { ProcessRun::with_topic() } else { ProcessRun::new(has_live_output) };
        let mut is_subscribed = false;
        let mut node = Node { state: None, n_starts: 0, ends_at_ms, written: Default::default() };
        let mut read: [Vec<u8>; 2] = Default::default();
        let (mut now_ms, mut faults) = (0, faults.into_iter());
        let mut end = None;
        run.start_process();
        for _ in 0..200 {
            while let Some(event) = run.poll_event() {
                match event {
                    ProcessEvent::Output { stream, data, .. } => read[usize::from(stream == Stderr)].extend(data),
                    ProcessEvent::Ended(ended) => {
                        prop_assert!(end.is_none(), "ended twice");
                        end = Some(ended);
                    }
                }
            }
            node.tick(now_ms);
            let Some(action) = run.poll_action() else {
                if is_subscribed && end.is_none() {
                    // The stream comes and goes; while it is there it tells the end.
                    let is_online = faults.next() != Some(Fault::LoseRequest);
                    run.handle_topic(now_ms, is_online);
                    match node.state {
                        Some(state) if is_online && state != Running => run.handle_topic_end(now_ms, status(state)),
                        _ => now_ms += 100,
                    }
                    run.handle_timeout(now_ms);
                    continue;
                }
                let Some(at_ms) = run.poll_timeout() else { break };
                now_ms = now_ms.max(at_ms);
                run.handle_timeout(now_ms);
                continue;
            };
            if action == ProcessAction::Subscribe {
                is_subscribed = true;
                continue;
            }
            now_ms += 7;
            let is_output = matches!(action, ProcessAction::Output { .. });
            let fault = faults.next().unwrap_or(Fault::None);
            let answer = match fault {
                Fault::Cancel if run.deadline_ms().is_none() => {
                    // The request may have arrived when the caller cancels.
                    node.perform(action);
                    run.start_cancel(now_ms, "cancelled");
                    continue;
                }
                Fault::Refuse => Err(ProcessAnswer::Refused("refused")),
                Fault::LoseRequest => Err(ProcessAnswer::Failed("lost")),
                Fault::LoseAnswer => {
                    node.perform(action);
                    Err(ProcessAnswer::Failed("lost"))
                }
                Fault::None | Fault::Cancel => node.perform(action).ok_or(ProcessAnswer::Refused("unknown")),
            };
            match (action, answer) {
                (ProcessAction::Output { stdout, stderr }, Ok(state)) => {
                    let [out, err] = [(&node.written[0], stdout), (&node.written[1], stderr)]
                        .map(|(written, from)| written[from as usize..].to_vec());
                    run.handle_output(now_ms, Ok(output(state, [stdout, stderr], &out, &err)));
                }
                (_, Err(ProcessAnswer::Refused(error) | ProcessAnswer::Failed(error))) if is_output => {
                    run.handle_output(now_ms, Err(error));
                }
                (_, Ok(state)) => run.handle_status(now_ms, ProcessAnswer::Status(status(state))),
                (_, Err(answer)) => run.handle_status(now_ms, answer),
            }
        }
        prop_assert!(node.n_starts <= 1);
        match &end {
            Some(ProcessEnd::Over(status) | ProcessEnd::Stopped { status, .. }) => {
                prop_assert_eq!(Some(status.state), node.state);
                prop_assert!(status.state.is_over());
                if has_live_output && status.state == Exited && matches!(end, Some(ProcessEnd::Over(_))) {
                    prop_assert_eq!(&read, &node.written, "all of the output, once");
                }
            }
            Some(ProcessEnd::NotStarted(_)) => prop_assert_eq!(node.state, None),
            Some(ProcessEnd::Unconfirmed { .. }) => {
                // A later confirmation ends it.
                let mut confirm: ProcessRun<&str> = ProcessRun::confirm(now_ms);
                let state = confirm.poll_action().and_then(|action| node.perform(action)).unwrap();
                confirm.handle_status(now_ms, ProcessAnswer::Status(status(state)));
                let over = matches!(confirm.poll_event(), Some(ProcessEvent::Ended(ProcessEnd::Over(_))));
                prop_assert!(over && node.state.is_some_and(ProcessState::is_over));
            }
            None => prop_assert!(false, "the run does not end"),
        }
        for (read, written) in read.iter().zip(&node.written) {
            prop_assert!(written.starts_with(read));
        }
    }
}
