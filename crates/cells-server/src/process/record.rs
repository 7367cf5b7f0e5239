//! What the node knows of one process.

use cells_protocol::process::{ProcessOutput, ProcessState, ProcessStatus};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::output::{Keep, Kept};

/// A process that was started, or cancelled before it was.
#[derive(Debug)]
pub(crate) struct Record {
    /// Asks the process to end.
    pub(super) cancel: CancellationToken,
    progress: watch::Sender<Progress>,
}

/// One of the two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// By itself; no code when a signal killed it.
    Exited(Option<i32>),
    Cancelled,
    TimedOut,
    NotStarted,
    /// Something of it may still run.
    NotReaped,
}

#[derive(Debug)]
struct Progress {
    end: Option<End>,
    stdout: Kept,
    stderr: Kept,
}

impl Record {
    /// A process that runs until it ends or `cancel` says so.
    pub(super) fn running(cancel: CancellationToken, keep_output: bool) -> Self {
        let keep = if keep_output { Keep::Newest } else { Keep::Oldest };
        Self::new(cancel, keep, None)
    }

    /// A process that will never start.
    pub(super) fn cancelled() -> Self {
        Self::new(CancellationToken::new(), Keep::Oldest, Some(End::Cancelled))
    }

    fn new(cancel: CancellationToken, keep: Keep, end: Option<End>) -> Self {
        let progress = Progress { end, stdout: Kept::new(keep), stderr: Kept::new(keep) };
        Self { cancel, progress: watch::Sender::new(progress) }
    }

    pub(crate) fn status(&self) -> ProcessStatus {
        let progress = self.progress.borrow();
        let (code, error) = match progress.end {
            Some(End::Exited(code)) => (code.map(i64::from), None),
            Some(End::NotStarted) => (None, Some("SPAWN_FAILED".to_owned())),
            Some(End::NotReaped) => (None, Some("REAP_FAILED".to_owned())),
            Some(End::Cancelled | End::TimedOut) | None => (None, None),
        };
        let ((stdout, stdout_cut), (stderr, stderr_cut)) = match progress.end {
            None => Default::default(),
            Some(_) => (progress.stdout.text(), progress.stderr.text()),
        };
        ProcessStatus { state: progress.state(), stdout, stderr, code, error, truncated: stdout_cut || stderr_cut }
    }

    /// Whether it is over.
    pub(crate) fn has_ended(&self) -> bool {
        self.progress.borrow().end.is_some()
    }

    /// Waits until it is over.
    pub(crate) async fn ended(&self) {
        // Fails only when the sender is gone, which `self` holds.
        let _ = self.progress.subscribe().wait_for(|progress| progress.end.is_some()).await;
    }

    /// The output from these offsets, now or as soon as there is any or there never will be. None: an offset lies beyond
    /// the end.
    pub(super) async fn output(&self, stdout: u64, stderr: u64) -> Option<ProcessOutput> {
        let mut changes = self.progress.subscribe();
        let has_news = |progress: &Progress| {
            progress.end.is_some() || progress.stdout.end() != stdout || progress.stderr.end() != stderr
        };
        // Fails only when the sender is gone, which `self` holds.
        let _ = changes.wait_for(has_news).await;
        self.output_now(stdout, stderr)
    }

    /// The output from these offsets that is there.
    pub(super) fn output_now(&self, stdout: u64, stderr: u64) -> Option<ProcessOutput> {
        let progress = self.progress.borrow();
        let (stdout, stderr) = (progress.stdout.chunk(stdout)?, progress.stderr.chunk(stderr)?);
        Some(ProcessOutput { stdout, stderr, state: progress.state() })
    }

    /// Adds output; false = it is too much, and the process shall end.
    pub(super) fn push(&self, stream: Stream, bytes: &[u8]) -> bool {
        let mut goes_on = true;
        self.progress.send_modify(|progress| goes_on = progress.stream(stream).push(bytes));
        goes_on
    }

    /// The stream did not end with its process.
    pub(super) fn abandon(&self, stream: Stream) {
        self.progress.send_modify(|progress| progress.stream(stream).abandon());
    }

    /// The process has ended, with all its output.
    pub(super) fn finish(&self, end: End) {
        self.progress.send_modify(|progress| {
            progress.stdout.finish();
            progress.stderr.finish();
            progress.end = Some(end);
        });
    }

    pub(super) fn kept_bytes(&self) -> usize {
        let progress = self.progress.borrow();
        progress.stdout.len() + progress.stderr.len()
    }

    /// Leaves at most `limit` bytes of each stream.
    pub(super) fn shrink(&self, limit: usize) {
        self.progress.send_modify(|progress| {
            for kept in [&mut progress.stdout, &mut progress.stderr] {
                kept.shrink(limit);
                kept.finish();
            }
        });
    }
}

impl Progress {
    fn state(&self) -> ProcessState {
        match self.end {
            None => ProcessState::Running,
            Some(End::Exited(_)) => ProcessState::Exited,
            Some(End::Cancelled) => ProcessState::Cancelled,
            Some(End::TimedOut) => ProcessState::TimedOut,
            Some(End::NotStarted) => ProcessState::Failed,
            Some(End::NotReaped) => ProcessState::Unknown,
        }
    }

    fn stream(&mut self, stream: Stream) -> &mut Kept {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}
