//! Follows one command from its start to its end.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::execution::Model;
use super::record::{End, Record, Stream};
use super::request::Plan;
use super::spawner::Spawner;
use crate::process_group::ProcessGroup;

/// Runs the command until it ends, is cancelled, takes too long or writes too much. When this returns, nothing of it runs
/// any more, or the end says so.
pub(super) async fn run(model: &Model, spawner: &Spawner, plan: Plan, record: &Record) -> End {
    let limit = plan.limit;
    let Ok((launch, tree)) = model.launch(plan) else { return End::NotStarted };
    let Ok(mut child) = spawner.start(launch).await else { return End::NotStarted };
    let group = ProcessGroup::of(&child);
    let mut stdout = Output::new(Stream::Stdout, child.stdout.take());
    let mut stderr = Output::new(Stream::Stderr, child.stderr.take());

    let killed = match group {
        Err(_) => Some(End::NotStarted),
        Ok(mut group) => {
            let killed = follow(&mut group, &mut stdout, &mut stderr, limit, record).await;
            // The leader is not reaped yet, so the group id still belongs to this command.
            group.kill();
            killed
        }
    };
    let Ok(Ok(status)) = timeout(super::REAP_LIMIT, child.wait()).await else { return End::NotReaped };
    let is_gone = tree.end().await;

    let deadline = Instant::now() + super::PIPE_LIMIT;
    tokio::join!(stdout.drain(record, deadline), stderr.drain(record, deadline));
    match (is_gone, killed) {
        (false, _) => End::NotReaped,
        (true, Some(end)) => end,
        (true, None) => End::Exited(code(status)),
    }
}

/// None: the command ended by itself.
async fn follow(
    group: &mut ProcessGroup,
    stdout: &mut Output<impl AsyncRead + Unpin>,
    stderr: &mut Output<impl AsyncRead + Unpin>,
    limit: Duration,
    record: &Record,
) -> Option<End> {
    let timed_out = sleep(limit);
    tokio::pin!(timed_out);
    loop {
        let goes_on = tokio::select! {
            biased;
            () = record.cancel.cancelled() => return Some(End::Cancelled),
            () = &mut timed_out => return Some(End::TimedOut),
            () = group.leader_end() => return None,
            goes_on = stdout.read(record), if stdout.is_open() => goes_on,
            goes_on = stderr.read(record), if stderr.is_open() => goes_on,
        };
        if !goes_on {
            return Some(End::Cancelled);
        }
    }
}

/// One output stream of the command.
struct Output<R> {
    stream: Stream,
    reader: Option<R>,
    buffer: Box<[u8]>,
}

impl<R: AsyncRead + Unpin> Output<R> {
    fn new(stream: Stream, reader: Option<R>) -> Self {
        Self { stream, reader, buffer: vec![0; 64 * 1024].into() }
    }

    fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    /// Takes what is there next; false = that is too much. May be dropped and called again.
    async fn read(&mut self, record: &Record) -> bool {
        let Some(reader) = &mut self.reader else { return true };
        match reader.read(&mut self.buffer).await {
            Ok(size) if size > 0 => record.push(self.stream, &self.buffer[..size]),
            Ok(_) | Err(_) => {
                self.reader = None;
                true
            }
        }
    }

    /// Takes the rest, up to the deadline.
    async fn drain(&mut self, record: &Record, deadline: Instant) {
        let rest = async {
            while self.is_open() {
                self.read(record).await;
            }
        };
        if timeout_at(deadline, rest).await.is_err() {
            record.abandon(self.stream);
        }
    }
}

fn code(status: ExitStatus) -> Option<i32> {
    match status.signal() {
        Some(_) => None,
        None => status.code(),
    }
}
